// SPDX-License-Identifier: MIT OR Apache-2.0

// Rings by their threads: ring and m, each a word; a thread's first place by its m (ring_linux_amd64.go has the same).
#define SLOTS 4096
#define MULTIPLIER $0x9e3779b97f4a7c15
// Of a ring (struct perftax_mark_ring).
#define RING_TID 12
#define RING_CAPACITY 16
#define RING_CARRIER 32
#define RING_HEAD 64
#define RING_DROPPED 72
#define RING_LISTENER 80
#define RING_TAIL 128
#define RING_MARKS 4096
// PERFTAX_SAYS_CARRIER << 2 | 1 << 8
#define SAYS_CARRIER $0x118
// g.m (runtime/runtime2.go; the same since Go 1.5).
#define G_M 48

// Finds the ring of the thread of m in R9, into R8; 0 where it has none that is its own and this listener's. Uses R10 to R13.
#define FIND_RING(again, found, none) \
	MOVQ MULTIPLIER, R10; \
	IMULQ R9, R10; \
	SHRQ $52, R10; \
	MOVQ $·slots(SB), R11; \
again: \
	MOVQ R10, R12; \
	SHLQ $4, R12; \
	MOVQ 8(R11)(R12*1), R13; \
	CMPQ R13, R9; \
	JEQ found; \
	INCQ R10; \
	ANDQ $(SLOTS-1), R10; \
	TESTQ R13, R13; \
	JNE again; \
	JMP none; \
found: \
	MOVQ (R11)(R12*1), R8; \
	TESTQ R8, R8; \
	JEQ none; \
	MOVL perftax_tag_state(SB), R12; \
	CMPQ RING_LISTENER(R8), R12; \
	JNE none; \
	MOVQ ·procidAt(SB), R12; \
	MOVL (R9)(R12*1), R12; \
	CMPL RING_TID(R8), R12; \
	JNE none

// The counter, into AX. Uses DX.
#define COUNTER \
	RDTSC; \
	SHLQ $32, DX; \
	ORQ DX, AX

// Where place R10 lies, of a ring whose capacity less one is in R11, into R12.
#define PLACE \
	MOVQ R10, R12; \
	ANDQ R11, R12; \
	SHLQ $4, R12

// Says that the ring in R8 goes on with the goroutine in DI: two places, from R10 on.
#define SAY_CARRIER \
	MOVQ DI, RING_CARRIER(R8); \
	PLACE; \
	COUNTER; \
	MOVQ AX, RING_MARKS(R8)(R12*1); \
	MOVQ SAYS_CARRIER, RING_MARKS+8(R8)(R12*1); \
	INCQ R10; \
	PLACE; \
	MOVQ DI, RING_MARKS(R8)(R12*1); \
	MOVQ $0, RING_MARKS+8(R8)(R12*1); \
	INCQ R10
