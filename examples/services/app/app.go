// SPDX-License-Identifier: MIT OR Apache-2.0

// app PORT HOST:PORT: the one in the middle of three services: it answers the front, and calls the store for each request, as a part of its own with a span of its own.
package main

import (
	"encoding/binary"
	"io"
	"log"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"perftax/tag"
)

// As in wire.h.
const (
	size       = 32
	appBlocked = 4
	appOnCPU   = 5
)

// What the thread has run for: what others take of its CPU meanwhile is not the delay that is planted. A system call, so it is asked seldom.
func ran() (d time.Duration) {
	const threadCPU = 3
	var now syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, threadCPU, uintptr(unsafe.Pointer(&now)), 0)
	return time.Duration(now.Nano())
}

//go:noinline
func compute(d time.Duration) (x uint64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for until := ran() + d; ran() < until; {
		for i := 0; i < 500_000; i++ {
			x = x*6364136223846793005 + 1442695040888963407
		}
	}
	return x
}

func bytes8(word uint64) (all [8]byte) {
	binary.BigEndian.PutUint64(all[:], word)
	return all
}

func serve(front net.Conn, store string) {
	defer front.Close()
	back, err := net.Dial("tcp", store)
	if err != nil {
		log.Fatal(err)
	}
	defer back.Close()
	frame, answer := make([]byte, size), make([]byte, size)
	for {
		if _, err := io.ReadFull(front, frame); err != nil {
			return
		}
		var trace [16]byte
		binary.BigEndian.PutUint64(trace[:8], binary.LittleEndian.Uint64(frame))
		binary.BigEndian.PutUint64(trace[8:], binary.LittleEndian.Uint64(frame[8:]))
		span := binary.LittleEndian.Uint64(frame[16:])
		where, delay := binary.LittleEndian.Uint32(frame[24:]), time.Duration(binary.LittleEndian.Uint32(frame[28:]))*time.Microsecond

		id := tag.NewID()
		tag.Begin(id)
		tag.Name(id, "look up")
		tag.Identity(id, trace, bytes8(span))
		tag.Receive(id)
		switch where {
		case appBlocked:
			rest := syscall.NsecToTimespec(delay.Nanoseconds())
			syscall.Nanosleep(&rest, nil)
		case appOnCPU:
			compute(delay)
		}
		call := tag.NewID()
		tag.Begin(call)
		tag.Child(call, id)
		tag.Name(call, "ask the store")
		tag.Identity(call, trace, bytes8(span+1))
		binary.LittleEndian.PutUint64(frame[16:], span+1)
		tag.Send(call)
		if _, err := back.Write(frame); err != nil {
			return
		}
		if _, err := io.ReadFull(back, answer); err != nil {
			return
		}
		tag.Receive(call)
		tag.End(call)
		tag.Send(id)
		tag.End(id)
		if _, err := front.Write(answer); err != nil {
			return
		}
	}
}

func main() {
	listening, err := net.Listen("tcp", ":"+os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	for {
		front, err := listening.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go serve(front, os.Args[2])
	}
}
