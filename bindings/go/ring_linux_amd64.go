// SPDX-License-Identifier: MIT OR Apache-2.0

package tag

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// mark_amd64.s.
func stateAddress() *uint32
func folderAddress() *[256]byte
func currentG() uintptr
func counter() uint64
func markIn(word uint64) bool
func sayIn(places *[2]uint64, count int) bool

var (
	statePointer = stateAddress()
	// Offsets in the runtime's m and g of what the kernel calls the thread, and of the goroutine's number.
	procidAt, goidAt uintptr
	layoutError      error
)

func state() uint32 { return atomic.LoadUint32(statePointer) }

// Err says why nothing is marked on this machine, by this build; nil: everything is.
func Err() error { return layoutError }

// The file of a thread's ring (struct perftax_mark_ring).
type ring struct {
	magic    uint64
	pid, tid uint32
	capacity uint64
	began    uint64
	carrier  uint64
	_        [24]byte
	head     uint64
	dropped  uint64
	listener uint64
	_        [40]byte
	tail     uint64
}

const (
	ringMagic       = 0x324b52414d585450
	ringHeader      = 4096
	usualCapacity   = 65536
	largestCapacity = 1 << 26
)

// slots has each thread's ring by its m; mark_amd64.s looks in it. What is entered stays: an m that the runtime uses again has another thread, which its ring tells.
const slotCount = 4096

type slot struct {
	ring unsafe.Pointer
	m    uintptr
}

var (
	slots   [slotCount]slot
	entered int
	joining sync.Mutex
	// The listener that could not be given a ring.
	refused atomic.Uint32
)

func init() {
	if layoutError = findLayout(); layoutError != nil {
		atomic.StoreUint32(statePointer, nobody)
		return
	}
	wanted := uint32(nobody)
	if folder := os.Getenv("PERFTAX_MARKS"); folder != "" && len(folder) < len(folderAddress()) {
		copy(folderAddress()[:], folder)
		wanted = 2
	}
	// Somebody may have come already.
	atomic.CompareAndSwapUint32(statePointer, 0, wanted)
	if layoutError == nil {
		followCarriers()
	}
}

func mark(word uint64) {
	if !markIn(word) {
		join(func() { markIn(word) })
	}
}

// say writes something of several places: one for what it is, `pairs` of two words, and the text.
func say(what uint64, words [4]uint64, pairs int, text string) {
	var places [3 + longestName/16][2]uint64
	more := pairs + (len(text)+15)/16
	places[0][1] = uint64(len(text))<<16 | uint64(more)<<8 | what<<2
	for i := 0; i < pairs; i++ {
		places[1+i] = [2]uint64{words[2*i], words[2*i+1]}
	}
	if len(text) > 0 {
		room := unsafe.Slice((*byte)(unsafe.Pointer(&places[1+pairs])), (len(places)-1-pairs)*16)
		copy(room, text)
	}
	if !sayIn(&places[0], 1+more) {
		join(func() { sayIn(&places[0], 1+more) })
	}
}

// join gives the thread a ring, and says what was to be said; where it cannot, nothing more is said to this listener.
func join(then func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	listener := state()
	if listener <= nobody || layoutError != nil || refused.Load() == listener {
		return
	}
	joining.Lock()
	made, err := newRing(listener)
	if err == nil {
		err = enter(made)
	}
	joining.Unlock()
	if err != nil {
		refused.Store(listener)
		// Without a folder there is no listener.
		if errors.Is(err, os.ErrNotExist) {
			atomic.CompareAndSwapUint32(statePointer, listener, nobody)
		}
		return
	}
	then()
}

// enter notes the thread's ring; the one that it had goes.
func enter(made *ring) error {
	m := currentM()
	for i, looked := int(uint64(m)*0x9e3779b97f4a7c15>>52), 0; looked < slotCount; i, looked = (i+1)%slotCount, looked+1 {
		switch atomic.LoadUintptr(&slots[i].m) {
		case m:
			if old := (*ring)(atomic.SwapPointer(&slots[i].ring, unsafe.Pointer(made))); old != nil {
				unmap(old)
			}
			return nil
		case 0:
			// Some stay free, so that every look ends.
			if entered >= slotCount*3/4 {
				unmap(made)
				return fmt.Errorf("more than %d threads have marked something", entered)
			}
			entered++
			atomic.StorePointer(&slots[i].ring, unsafe.Pointer(made))
			atomic.StoreUintptr(&slots[i].m, m)
			return nil
		}
	}
	unmap(made)
	return errors.New("no room for another thread")
}

func ringBytes(capacity uint64) uintptr { return ringHeader + uintptr(capacity)*16 }

func unmap(old *ring) {
	syscall.Syscall(syscall.SYS_MUNMAP, uintptr(unsafe.Pointer(old)), ringBytes(old.capacity), 0)
}

func newRing(listener uint32) (*ring, error) {
	capacity, _ := strconv.ParseUint(os.Getenv("PERFTAX_MARKS_CAPACITY"), 10, 64)
	if capacity < 64 || capacity > largestCapacity || capacity&(capacity-1) != 0 {
		capacity = usualCapacity
	}
	folder := folderAddress()[:]
	if end := bytes.IndexByte(folder, 0); end >= 0 {
		folder = folder[:end]
	}
	tid := syscall.Gettid()
	path := fmt.Sprintf("%s/%d.%d.%x.marks", folder, os.Getpid(), tid, counter())
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	bytes := ringBytes(capacity)
	// Room is made now: a full disk must not be a signal later.
	if err := syscall.Fallocate(int(file.Fd()), 0, 0, int64(bytes)); err != nil {
		os.Remove(path)
		return nil, err
	}
	const how = syscall.MAP_SHARED | syscall.MAP_POPULATE
	at, _, errno := syscall.Syscall6(syscall.SYS_MMAP, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, how, file.Fd(), 0)
	if errno != 0 {
		os.Remove(path)
		return nil, errno
	}
	// No memory of Go's: the collector leaves it alone.
	made := *(**ring)(unsafe.Pointer(&at))
	made.pid, made.tid = uint32(os.Getpid()), uint32(tid)
	made.capacity, made.began, made.listener = capacity, counter(), uint64(listener)
	made.carrier = ^uint64(0)
	atomic.StoreUint64(&made.magic, ringMagic)
	return made, nil
}

// Where g has its m (runtime/runtime2.go, "offset known to arm liblink").
const mAt = 48

func currentM() uintptr { return wordAt(currentG(), mAt) }

func wordAt(base, offset uintptr) uintptr {
	at := base + offset
	return **(**uintptr)(unsafe.Pointer(&at))
}

// findLayout finds where the runtime keeps its thread's and its goroutine's number: the places that hold them in several threads and goroutines.
func findLayout() error {
	threads, goroutines := map[uintptr]int{}, map[uintptr]int{}
	const looks = 4
	failed := make(chan error, looks)
	var noting sync.Mutex
	var there sync.WaitGroup
	there.Add(looks)
	for i := 0; i < looks; i++ {
		go func() {
			// Threads of their own: none looks before all are there.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			there.Done()
			there.Wait()
			noting.Lock()
			defer noting.Unlock()
			failed <- look(threads, goroutines)
		}()
	}
	var err error
	for i := 0; i < looks; i++ {
		err = errors.Join(err, <-failed)
	}
	if err != nil {
		return err
	}
	at := func(places map[uintptr]int) (uintptr, bool) {
		found, count := uintptr(0), 0
		for place, times := range places {
			if times == looks {
				found, count = place, count+1
			}
		}
		return found, count == 1
	}
	var isThread, isGoroutine bool
	procidAt, isThread = at(threads)
	goidAt, isGoroutine = at(goroutines)
	if !isThread || !isGoroutine {
		return fmt.Errorf("perftax/tag: %s keeps its threads' and goroutines' numbers where they were not found", runtime.Version())
	}
	return nil
}

func look(threads, goroutines map[uintptr]int) error {
	const mBytes, gBytes = 320, 512
	var gWords [gBytes / 8]uintptr
	var mWords [mBytes / 8]uintptr
	g := currentG()
	if err := read(g, unsafe.Slice((*byte)(unsafe.Pointer(&gWords)), gBytes)); err != nil {
		return err
	}
	m := gWords[mAt/8]
	if err := read(m, unsafe.Slice((*byte)(unsafe.Pointer(&mWords)), mBytes)); err != nil {
		return fmt.Errorf("perftax/tag: %s has no m at byte %d of g: %w", runtime.Version(), mAt, err)
	}
	// "goroutine 18 [running]:"
	var text [64]byte
	number, err := strconv.ParseUint(string(bytes.Fields(text[:runtime.Stack(text[:], false)])[1]), 10, 64)
	if err != nil {
		return fmt.Errorf("perftax/tag: a goroutine's number: %w", err)
	}
	note := func(words []uintptr, number uintptr, places map[uintptr]int) {
		for i, word := range words {
			if word == number {
				places[uintptr(i)*8]++
			}
		}
	}
	note(mWords[:], uintptr(syscall.Gettid()), threads)
	note(gWords[:], uintptr(number), goroutines)
	return nil
}

// read reads memory that may not be there.
func read(from uintptr, into []byte) error {
	type vector struct{ base, bytes uintptr }
	local := vector{uintptr(unsafe.Pointer(&into[0])), uintptr(len(into))}
	remote := vector{from, uintptr(len(into))}
	const processVMReadv = 310
	got, _, errno := syscall.Syscall6(processVMReadv, uintptr(os.Getpid()),
		uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
	runtime.KeepAlive(into)
	if errno != 0 {
		return errno
	}
	if int(got) != len(into) {
		return syscall.EFAULT
	}
	return nil
}
