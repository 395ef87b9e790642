// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build perftax

package tag

// setHook has the runtime of the overlay call onCarrier (carriers_linux_amd64.s).
func setHook()

// followCarriers has the runtime say which goroutine comes to a thread and leaves it.
func followCarriers() { setHook() }

const isFollowed = true
