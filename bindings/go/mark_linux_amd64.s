// SPDX-License-Identifier: MIT OR Apache-2.0

#include "textflag.h"
#include "ring_amd64.h"

// Where a listener finds them by name (perftax_tag.h).
DATA perftax_tag_state(SB)/4, $0
GLOBL perftax_tag_state(SB), NOPTR, $4
GLOBL perftax_tag_folder(SB), NOPTR, $256

// func stateAddress() *uint32
TEXT ·stateAddress(SB), NOSPLIT, $0-8
	MOVQ $perftax_tag_state(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// func folderAddress() *[256]byte
TEXT ·folderAddress(SB), NOSPLIT, $0-8
	MOVQ $perftax_tag_folder(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// func currentG() uintptr
TEXT ·currentG(SB), NOSPLIT, $0-8
	MOVQ (TLS), AX
	MOVQ AX, ret+0(FP)
	RET

// func markIn(word uint64) bool
// A mark; false where the thread has no ring. Not preempted: the runtime stops no assembly (runtime/preempt.go, isAsyncSafePoint), and it calls nothing.
TEXT ·markIn(SB), NOSPLIT|NOFRAME, $0-9
	MOVQ (TLS), DI
	MOVQ G_M(DI), R9
	FIND_RING(again, found, none)
	MOVQ ·goidAt(SB), R12
	MOVQ (DI)(R12*1), DI
	MOVQ RING_CAPACITY(R8), R11
	MOVQ RING_HEAD(R8), R10
	// Room for a carrier's two places and the mark.
	LEAQ 3(R10), R12
	SUBQ RING_TAIL(R8), R12
	CMPQ R12, R11
	JHI full
	DECQ R11
	CMPQ RING_CARRIER(R8), DI
	JNE carrier
marked:
	PLACE
	COUNTER
	MOVQ AX, RING_MARKS(R8)(R12*1)
	MOVQ word+0(FP), AX
	MOVQ AX, RING_MARKS+8(R8)(R12*1)
	INCQ R10
	MOVQ R10, RING_HEAD(R8)
	MOVB $1, ret+8(FP)
	RET
carrier:
	// Another goroutine spoke on this thread before.
	SAY_CARRIER
	JMP marked
full:
	INCQ RING_DROPPED(R8)
	MOVB $1, ret+8(FP)
	RET
none:
	MOVB $0, ret+8(FP)
	RET

// func sayIn(places *[2]uint64, count int) bool
// So many places of two words, the first of which gets the counter; false where the thread has no ring. None where there is no room for all.
TEXT ·sayIn(SB), NOSPLIT|NOFRAME, $0-17
	MOVQ (TLS), DI
	MOVQ G_M(DI), R9
	FIND_RING(again, found, none)
	MOVQ places+0(FP), SI
	MOVQ count+8(FP), CX
	MOVQ RING_CAPACITY(R8), R11
	MOVQ RING_HEAD(R8), R10
	LEAQ (R10)(CX*1), R12
	SUBQ RING_TAIL(R8), R12
	CMPQ R12, R11
	JHI full
	DECQ R11
	COUNTER
	MOVQ AX, (SI)
next:
	PLACE
	MOVQ (SI), AX
	MOVQ AX, RING_MARKS(R8)(R12*1)
	MOVQ 8(SI), AX
	MOVQ AX, RING_MARKS+8(R8)(R12*1)
	ADDQ $16, SI
	INCQ R10
	DECQ CX
	JNE next
	MOVQ R10, RING_HEAD(R8)
	MOVB $1, ret+16(FP)
	RET
full:
	INCQ RING_DROPPED(R8)
	MOVB $1, ret+16(FP)
	RET
none:
	MOVB $0, ret+16(FP)
	RET

// func counter() uint64
TEXT ·counter(SB), NOSPLIT, $0-8
	COUNTER
	MOVQ AX, ret+0(FP)
	RET
