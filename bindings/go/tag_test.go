// SPDX-License-Identifier: MIT OR Apache-2.0

package tag

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Programs that mark are processes of their own: whether somebody listens is asked once.
var programs = map[string]func(){
	"says": func() {
		runtime.LockOSThread()
		Begin(7)
		Name(7, "GET /ü")
		Name(7, strings.Repeat("x", 2000))
		Child(7, 1<<61)
		Identity(7, [16]byte{0x4b, 0xf9, 15: 0x36}, [8]byte{0xff, 7: 0xfe})
		Send(7)
		Receive(7)
		Switch(0)
		Switch(7)
		End(7)
	},
	"many": func() {
		runtime.LockOSThread()
		for id := uint64(1); id <= 1000; id++ {
			Begin(id)
		}
		Name(1, strings.Repeat("x", 100))
	},
	"threads": func() {
		// More threads than processors, each of which ends: what comes later may have another one's m.
		for round := 0; round < 3; round++ {
			var over sync.WaitGroup
			for i := 0; i < 8; i++ {
				over.Add(1)
				go func(id uint64) {
					defer over.Done()
					runtime.LockOSThread()
					Begin(id)
					time.Sleep(20 * time.Millisecond)
					End(id)
				}(uint64(1 + 8*round + i))
			}
			over.Wait()
		}
	},
	"goroutines": func() {
		runtime.GOMAXPROCS(1)
		var over sync.WaitGroup
		for id := uint64(1); id <= 2; id++ {
			over.Add(1)
			go func(id uint64) {
				defer over.Done()
				Begin(id)
				time.Sleep(20 * time.Millisecond)
				End(id)
			}(id)
		}
		over.Wait()
	},
	"nothing": func() { fmt.Print(IsListened()) },
}

func TestMain(m *testing.M) {
	if program, ok := programs[os.Getenv("PERFTAX_TAG_PROGRAM")]; ok {
		program()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// said is what a ring holds.
type said struct {
	pid, tid uint32
	dropped  uint64
	words    []string
}

func readRing(t *testing.T, path string) (ring said) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	word := func(at uint64) uint64 { return binary.LittleEndian.Uint64(data[at:]) }
	capacity, head := word(16), word(64)
	if string(data[:8]) != "PTXMARK2" || uint64(len(data)) != 4096+16*capacity || head > capacity {
		t.Fatalf("%s: %q, %d of %d in %d bytes", path, data[:8], head, capacity, len(data))
	}
	ring.pid, ring.tid, ring.dropped = uint32(word(8)), uint32(word(8)>>32), word(72)
	before := uint64(0)
	for at := uint64(4096); at < 4096+16*head; {
		counter, what := word(at), word(at+8)
		if counter < before {
			t.Fatalf("%s: the counter goes back", path)
		}
		before = counter
		at += 16
		if kind := what & 3; kind != 0 {
			ring.words = append(ring.words, fmt.Sprintf("%s %d", []string{"", "begin", "end", "switch"}[kind], what>>2))
			continue
		}
		more := what >> 8 & 0xff
		switch kind := what >> 2 & 0x3f; kind {
		case saysName:
			ring.words = append(ring.words, fmt.Sprintf("name %d %s", word(at), data[at+16:at+16+what>>16]))
		case saysIdentity:
			ring.words = append(ring.words, fmt.Sprintf("identity %d %016x%016x %016x", word(at), word(at+16), word(at+24), word(at+8)))
		default:
			ring.words = append(ring.words, fmt.Sprintf("%s %d %d", []string{1: "child", 2: "send", 3: "receive", 6: "carrier"}[kind], word(at), word(at+8)))
		}
		at += 16 * more
	}
	return ring
}

func run(t *testing.T, program, folder string, capacity int) ([]said, string) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "PERFTAX_TAG_PROGRAM="+program, "PERFTAX_MARKS="+folder, fmt.Sprint("PERFTAX_MARKS_CAPACITY=", capacity))
	command.Stderr = os.Stderr
	printed, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	paths, _ := filepath.Glob(filepath.Join(folder, "*.marks"))
	var rings []said
	for _, path := range paths {
		rings = append(rings, readRing(t, path))
	}
	return rings, string(printed)
}

func without(words []string, left string) (kept []string) {
	for _, word := range words {
		if !strings.HasPrefix(word, left) {
			kept = append(kept, word)
		}
	}
	return kept
}

func TestTheRuntimeIsKnown(t *testing.T) {
	if err := Err(); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsSaidIsInTheRing(t *testing.T) {
	rings, _ := run(t, "says", t.TempDir(), 0)
	expected := []string{
		"begin 7", "name 7 GET /ü", "name 7 " + strings.Repeat("x", 1024), "child 7 2305843009213693952",
		"identity 7 4bf90000000000000000000000000036 ff000000000000fe", "send 7 0", "receive 7 0", "switch 0", "switch 7", "end 7",
	}
	if len(rings) != 1 || !strings.HasPrefix(rings[0].words[0], "carrier ") {
		t.Fatal(rings)
	}
	if got := without(rings[0].words, "carrier "); !reflect.DeepEqual(got, expected) {
		t.Fatal(got)
	}
}

func TestAFullRingDropsAndCounts(t *testing.T) {
	rings, _ := run(t, "many", t.TempDir(), 128)
	if len(rings) != 1 {
		t.Fatal(rings)
	}
	// The carrier takes two places, and a mark needs room for three.
	marks := without(rings[0].words, "carrier ")
	if rings[0].dropped != uint64(1001-len(marks)) || len(marks) < 120 || len(marks) > 126 {
		t.Fatal(rings[0].dropped, len(marks))
	}
	for at, mark := range marks {
		if mark != fmt.Sprint("begin ", at+1) {
			t.Fatal(at, mark)
		}
	}
}

func TestEachThreadHasARingOfItsOwn(t *testing.T) {
	rings, _ := run(t, "threads", t.TempDir(), 0)
	tids := map[uint32]bool{}
	var all []string
	for _, ring := range rings {
		if tids[ring.tid] {
			t.Fatalf("thread %d has two", ring.tid)
		}
		tids[ring.tid] = true
		marks := without(ring.words, "carrier ")
		if len(marks)%2 != 0 {
			t.Fatal(marks)
		}
		for at := 0; at < len(marks); at += 2 {
			if strings.Replace(marks[at], "begin", "end", 1) != marks[at+1] {
				t.Fatal(marks)
			}
		}
		all = append(all, marks...)
	}
	if len(all) != 2*24 {
		t.Fatal(all)
	}
}

func TestGoroutinesAreToldApart(t *testing.T) {
	rings, _ := run(t, "goroutines", t.TempDir(), 0)
	of := map[string]string{}
	marks := 0
	for _, ring := range rings {
		carrier := ""
		for _, word := range ring.words {
			if strings.HasPrefix(word, "carrier ") {
				carrier = word
				continue
			}
			marks++
			id := strings.Fields(word)[1]
			if before, ok := of[id]; ok && before != carrier {
				t.Fatalf("message %s of %s and of %s", id, before, carrier)
			}
			of[id] = carrier
		}
	}
	if marks != 4 || of["1"] == of["2"] || of["1"] == "carrier 0 0" {
		t.Fatal(marks, of)
	}
}

// With the overlay: a goroutine that waits is on no thread.
func TestTheRuntimeSaysWhoComesAndLeaves(t *testing.T) {
	if !isFollowed {
		t.Skip("built without -tags perftax -overlay")
	}
	rings, _ := run(t, "goroutines", t.TempDir(), 0)
	for _, ring := range rings {
		for at, word := range ring.words {
			if strings.HasPrefix(word, "begin ") && (at+1 == len(ring.words) || ring.words[at+1] != "carrier 0 0") {
				t.Fatalf("%s is followed by %v", word, ring.words[at+1:])
			}
		}
	}
}

func TestNothingIsWrittenWhereNobodyListens(t *testing.T) {
	for _, folder := range []string{"", "/nonexistent"} {
		if rings, printed := run(t, "nothing", folder, 0); len(rings) != 0 || (folder == "" && printed != "false") {
			t.Fatal(rings, printed)
		}
	}
	if rings, _ := run(t, "says", "/nonexistent", 0); len(rings) != 0 {
		t.Fatal(rings)
	}
}

func TestNewNumbersAreTheProcessesOwn(t *testing.T) {
	a, b := NewID(), NewID()
	if b != a+1 || a>>31 != uint64(os.Getpid())&0x3fffff || a>>53 != 0 {
		t.Fatal(a, b)
	}
}
