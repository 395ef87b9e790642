// Package tag says which message (request, packet, task) a goroutine works on, for perftax trace record.
//
//	id := tag.NewID()
//	tag.Begin(id) // the goroutine starts to work on message id
//	tag.End(id)   // it is done
//
// Where nobody listens a mark is a load and a branch. Where somebody does, it is a time stamp and sixteen bytes in a ring of the thread's own (perftax_tag.h): no
// system call, no cgo, no allocation; a full ring drops marks and counts them.
//
// Goroutines carry their messages: which goroutine speaks is written, too, whenever another one spoke on the thread before. What the runtime does with goroutines in between is
// seen where the program is built with the overlay (cmd/perftax-overlay, -tags perftax): then a message is on no thread while its goroutine waits. Without it
// a thread is taken to be at the message of the goroutine that marked last on it.
//
// Linux on x86-64, Go 1.21 and later, with cgo or without. Elsewhere, and where the runtime is not laid out as it is known, nothing is marked: Err says why.
package tag

import (
	"os"
	"sync/atomic"
)

// What a mark says (PERFTAX_BEGIN … of perftax_tag.h).
const (
	markBegin  = 1
	markEnd    = 2
	markSwitch = 3
)

// What is said beyond that (PERFTAX_SAYS_CHILD …).
const (
	saysChild    = 1
	saysSend     = 2
	saysReceive  = 3
	saysIdentity = 4
	saysName     = 5
)

// longestName is how many bytes of a name are kept (PERFTAX_NAME_LONGEST).
const longestName = 1024

// nobody: nobody listens (perftax_tag_state).
const nobody = 1

var lastID atomic.Uint64

var pid = uint64(os.Getpid())

// NewID gives a number that no other process of this PID namespace gives a message while it and this process run, and that a double holds.
func NewID() uint64 {
	return pid&0x3fffff<<31 | lastID.Add(1)&0x7fffffff
}

// IsListened says whether somebody listens.
func IsListened() bool { return state() != nobody }

// Begin: the goroutine starts to work on message id, a number below 2^62 but 0, unique among the messages under way.
func Begin(id uint64) {
	if state() != nobody {
		mark(id<<2 | markBegin)
	}
}

// End: message id is done.
func End(id uint64) {
	if state() != nobody {
		mark(id<<2 | markEnd)
	}
}

// Switch: the goroutine goes on with message id, which has begun already; 0: with none.
func Switch(id uint64) {
	if state() != nobody {
		mark(id<<2 | markSwitch)
	}
}

// Child: message id is part of message parent, of whatever process.
func Child(id, parent uint64) {
	if state() != nobody {
		say(saysChild, [4]uint64{id, parent}, 1, "")
	}
}

// Name: what message id is called; 1024 bytes of it are kept.
func Name(id uint64, name string) {
	if state() != nobody {
		say(saysName, [4]uint64{id}, 1, name[:min(len(name), longestName)])
	}
}

// Identity: what others call message id, a W3C trace of 128 bits and a span of 64.
func Identity(id uint64, trace [16]byte, span [8]byte) {
	if state() != nobody {
		say(saysIdentity, [4]uint64{id, bigEndian(span[:]), bigEndian(trace[:8]), bigEndian(trace[8:])}, 2, "")
	}
}

// Send: message id goes to another process.
func Send(id uint64) {
	if state() != nobody {
		say(saysSend, [4]uint64{id}, 1, "")
	}
}

// Receive: message id has come from another process.
func Receive(id uint64) {
	if state() != nobody {
		say(saysReceive, [4]uint64{id}, 1, "")
	}
}

func bigEndian(bytes []byte) (word uint64) {
	for _, b := range bytes {
		word = word<<8 | uint64(b)
	}
	return word
}
