// SPDX-License-Identifier: MIT OR Apache-2.0

// truth MESSAGES DELAYED SEED FILE: a goroutine handles so many messages of some microseconds each, all on CPU 0; so many of them, chosen by the seed, are delayed by 20 us to 2 ms, in
// turn by
//
//	spin      computing
//	faults    touching pages that are not there yet
//	preempt   another process, which is woken for it and has a real-time priority on the same CPU
//	sleep     waiting in a system call
//	lock      waiting for a lock that another goroutine holds, which sleeps meanwhile for a message of its own
//
// Messages are numbered as they begin. FILE gets a line for each delay: number, way, nanoseconds asked for (of a lock: that it was waited for), nanoseconds that it took, and the number of the message that held the lock or 0.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	page     = 4096
	newPages = 16384
)

var wayNames = []string{"spin", "faults", "preempt", "sleep", "lock"}

var (
	lock           sync.Mutex
	last           uint64
	toHog, fromHog int
	x              uint64
	waited         time.Duration
)

func step(x uint64) uint64 {
	x ^= x << 13
	x ^= x >> 7
	return x ^ x<<17
}

func work(x uint64, steps int) uint64 {
	for ; steps > 0; steps-- {
		x = step(x)
	}
	return x
}

//go:noinline
func spinFor(ns int64) {
	for until := time.Now().Add(time.Duration(ns)); time.Now().Before(until); {
		x = work(x, 400)
	}
}

//go:noinline
func touchNewPages(pages []byte, ns int64) {
	until := time.Now().Add(time.Duration(ns))
	for at := 0; time.Now().Before(until) && at < len(pages); at += page {
		pages[at] = 1
	}
}

// Waits in the kernel, as code in C does: the goroutine keeps its thread.
func sleepFor(ns int64) {
	pause := syscall.NsecToTimespec(ns)
	syscall.Syscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0)
}

func bePreempted(ns int64) {
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], uint64(ns))
	check(syscall.Write(toHog, word[:]))
	check(syscall.Read(fromHog, word[:]))
}

//go:noinline
func handle(way int, ns int64, pages []byte) uint64 {
	last++
	number := last
	x = work(x, 1500)
	switch way {
	case 0:
		spinFor(ns)
	case 1:
		touchNewPages(pages, ns)
	case 2:
		bePreempted(ns)
	case 3:
		sleepFor(ns)
	case 4:
		// Whoever comes late to it waits for less than it is held.
		from := time.Now()
		lock.Lock()
		lock.Unlock()
		waited = time.Since(from)
	case holds:
		lock.Lock()
		held <- number
		time.Sleep(time.Duration(ns))
		lock.Unlock()
	}
	return number
}

const holds = 5

var held = make(chan uint64)

func check(_ int, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "truth:", err)
		os.Exit(1)
	}
}

func onCPU0(priority bool) {
	runtime.LockOSThread()
	mask := [16]uint64{1}
	_, _, failed := syscall.Syscall(syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
	if priority && failed == 0 {
		name := []byte("hog\x00")
		syscall.Syscall(syscall.SYS_PRCTL, syscall.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0)
		asked := int32(1)
		_, _, failed = syscall.Syscall(syscall.SYS_SCHED_SETSCHEDULER, 0, 1, uintptr(unsafe.Pointer(&asked)))
	}
	if failed != 0 {
		check(0, failed)
	}
}

// It answers before it works: nobody waits for it, it takes the CPU.
func hog() {
	onCPU0(true)
	var word [8]byte
	for {
		if n, err := syscall.Read(3, word[:]); n != 8 || err != nil {
			return
		}
		check(syscall.Write(4, word[:]))
		spinFor(int64(binary.LittleEndian.Uint64(word[:])))
	}
}

func startHog() {
	var there, back [2]int
	check(0, syscall.Pipe2(there[:], syscall.O_CLOEXEC))
	check(0, syscall.Pipe2(back[:], syscall.O_CLOEXEC))
	child := exec.Command("/proc/self/exe", "hog")
	child.ExtraFiles = []*os.File{os.NewFile(uintptr(there[0]), "there"), os.NewFile(uintptr(back[1]), "back")}
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	child.Stderr = os.Stderr
	check(0, child.Start())
	toHog, fromHog = there[1], back[0]
}

func main() {
	x = 88172645463325252
	if len(os.Args) == 2 {
		hog()
		return
	}
	if os.Getenv("TRUTH_ON_CPU_0") == "" {
		// All threads are to be there: those of the runtime have been started by now.
		onCPU0(false)
		os.Setenv("TRUTH_ON_CPU_0", "1")
		check(0, syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
	}
	var numbers [3]uint64
	for at := range numbers {
		numbers[at], _ = strconv.ParseUint(os.Args[1+at], 10, 64)
	}
	messages, delayed, seed := numbers[0], numbers[1], numbers[2]
	file, err := os.Create(os.Args[4])
	check(0, err)
	lines := bufio.NewWriter(file)
	startHog()
	type delay struct {
		way int
		ns  int64
	}
	delays := map[uint64]delay{}
	random := seed*2654435761 + 88172645463325252
	for i := uint64(0); i < delayed; {
		random = step(random)
		at := 1 + random%messages
		if _, taken := delays[at]; taken || at < messages/100 {
			continue
		}
		random = step(random)
		// Evenly over the logarithm.
		delays[at] = delay{int(i) % len(wayNames), int64(20000 * math.Pow(100, float64(random%1000)/1000))}
		i++
	}
	for at := uint64(1); at <= messages; at++ {
		delay, isDelayed := delays[at]
		if !isDelayed {
			handle(-1, 0, nil)
			continue
		}
		var pages []byte
		var holder uint64
		var over sync.WaitGroup
		switch delay.way {
		case 1:
			pages, err = syscall.Mmap(-1, 0, newPages*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
			check(0, err)
			syscall.Madvise(pages, syscall.MADV_NOHUGEPAGE)
		case 4:
			over.Add(1)
			go func() {
				defer over.Done()
				handle(holds, delay.ns, nil)
			}()
			holder = <-held
		}
		from := time.Now()
		number := handle(delay.way, delay.ns, pages)
		took := time.Since(from)
		over.Wait()
		if pages != nil {
			syscall.Munmap(pages)
		}
		if delay.way == 4 {
			delay.ns = waited.Nanoseconds()
		}
		fmt.Fprintf(lines, "%d,%s,%d,%d,%d\n", number, wayNames[delay.way], delay.ns, took.Nanoseconds(), holder)
	}
	check(0, lines.Flush())
}
