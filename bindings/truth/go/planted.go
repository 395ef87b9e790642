// SPDX-License-Identifier: MIT OR Apache-2.0

// planted EACH SEED FILE HOG: as planted.py, in Go: goroutines, some at once; `block` waits for a timer, `gc` is the world stopped by another goroutine.
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"perftax/tag"
)

const (
	ordinary = 8
	page     = 4096
)

var (
	ways      = []string{"spin", "faults", "preempt", "block", "gc"}
	pages     []byte
	at        int
	toHog     int
	fromHog   int
	stop      = make(chan struct{})
	isStopped atomic.Bool
)

func work(x uint64, steps int) uint64 {
	for ; steps > 0; steps-- {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

//go:noinline
func spinFor(d time.Duration) (x uint64) {
	for until := time.Now().Add(d); time.Now().Before(until); {
		x = work(x, 100)
	}
	return x
}

//go:noinline
func touchNewPages(d time.Duration) {
	for until := time.Now().Add(d); time.Now().Before(until); {
		for i := 0; i < 32; i++ {
			pages[at] = 1
			at += page
		}
	}
}

// onCPU keeps the thread on these CPUs.
func onCPU(mask uint64) {
	all := [16]uint64{mask}
	syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(all), uintptr(unsafe.Pointer(&all)))
}

const allCPUs = 1<<64 - 1

func bePreempted(d time.Duration) {
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], uint64(d))
	// By the kernel alone: what the runtime does with its threads meanwhile is another matter.
	syscall.RawSyscall(syscall.SYS_WRITE, uintptr(toHog), uintptr(unsafe.Pointer(&word[0])), 8)
	syscall.RawSyscall(syscall.SYS_READ, uintptr(fromHog), uintptr(unsafe.Pointer(&word[0])), 1)
}

// stopper stops the world for as long as a look at all goroutines' stacks takes; there are many.
func stopper() {
	room := make([]byte, 1<<20)
	for range stop {
		runtime.Stack(room, true)
		isStopped.Store(false)
	}
}

func handle(id uint64, way string, d time.Duration) (took, own time.Duration) {
	if way == "preempt" {
		runtime.LockOSThread()
		onCPU(1)
		defer runtime.UnlockOSThread()
		defer onCPU(allCPUs)
	}
	began := time.Now()
	tag.Begin(id)
	tag.Name(id, "task "+way)
	x := work(1, 20000)
	from := time.Now()
	switch way {
	case "spin":
		x += spinFor(d)
	case "faults":
		touchNewPages(d)
	case "preempt":
		bePreempted(d)
	case "block":
		time.Sleep(d)
	case "gc":
		isStopped.Store(true)
		last := time.Now()
		stop <- struct{}{}
		// Steps that take long: it was stopped.
		for over := false; !over; {
			over = !isStopped.Load()
			now := time.Now()
			if pause := now.Sub(last); pause > 50*time.Microsecond {
				own += pause
			}
			last = now
		}
	}
	if way != "gc" {
		own = time.Since(from)
	}
	sink = x
	tag.End(id)
	return time.Since(began), own
}

var sink uint64

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "planted:", err)
		os.Exit(1)
	}
}

func startHog(path string) {
	var there, back [2]int
	check(syscall.Pipe2(there[:], syscall.O_CLOEXEC))
	check(syscall.Pipe2(back[:], syscall.O_CLOEXEC))
	child := exec.Command(path)
	child.Stdin, child.Stdout, child.Stderr = os.NewFile(uintptr(there[0]), "there"), os.NewFile(uintptr(back[1]), "back"), os.Stderr
	check(child.Start())
	toHog, fromHog = there[1], back[0]
}

func main() {
	check(tag.Err())
	each, err := strconv.Atoi(os.Args[1])
	check(err)
	seed, err := strconv.ParseInt(os.Args[2], 10, 64)
	check(err)
	random := rand.New(rand.NewSource(seed))
	startHog(os.Args[4])
	pages, err = syscall.Mmap(-1, 0, 4<<30, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	check(err)
	check(syscall.Madvise(pages, syscall.MADV_NOHUGEPAGE))
	type delay struct {
		way string
		d   time.Duration
	}
	var delayed []delay
	for _, way := range ways {
		for i := 0; i < each; i++ {
			delayed = append(delayed, delay{way, time.Duration(200000 * math.Pow(10, random.Float64()))})
		}
	}
	random.Shuffle(len(delayed), func(i, j int) { delayed[i], delayed[j] = delayed[j], delayed[i] })
	// What the stopper has to look at.
	for i := 0; i < 1500; i++ {
		go func() { select {} }()
	}
	go stopper()
	var lines strings.Builder
	for _, delayed := range delayed {
		for i := 0; i < ordinary; i++ {
			handle(tag.NewID(), "", 0)
		}
		// Each in a goroutine of its own, another one beside it.
		var over sync.WaitGroup
		over.Add(2)
		id, took, own := tag.NewID(), time.Duration(0), time.Duration(0)
		go func() {
			defer over.Done()
			took, own = handle(id, delayed.way, delayed.d)
		}()
		go func() {
			defer over.Done()
			handle(tag.NewID(), "", 0)
		}()
		over.Wait()
		fmt.Fprintf(&lines, "%d,%s,%d,%d,%d\n", id, delayed.way, delayed.d.Nanoseconds(), took.Nanoseconds(), own.Nanoseconds())
	}
	file, err := os.Create(os.Args[3])
	check(err)
	_, err = io.WriteString(file, lines.String())
	check(err)
	check(file.Close())
}
