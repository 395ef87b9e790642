// SPDX-License-Identifier: MIT OR Apache-2.0

// The same as mark.c, in Go.
package main

import (
	"fmt"
	"os"
	"time"

	"perftax/tag"
)

const marks, blocks, warm = 100000, 20, 10

var sink uint64

func main() {
	if err := tag.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for block := -warm; block < blocks; block++ {
		from := time.Now()
		for i := uint64(1); i <= marks; i++ {
			sink = i
		}
		between := time.Now()
		for i := uint64(1); i <= marks; i++ {
			sink = i
			tag.Begin(i)
		}
		to := time.Now()
		if block >= 0 {
			fmt.Printf("%.3f\n", float64(to.Sub(between)-between.Sub(from))/marks)
		}
	}
}
