// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build perftax

#include "textflag.h"
#include "ring_amd64.h"

// func setHook()
TEXT ·setHook(SB), NOSPLIT, $0-0
	MOVQ $·onCarrier(SB), AX
	MOVQ AX, perftax_carrier_hook(SB)
	RET

// func onCarrier(), of the runtime with the overlay: the thread goes on with the goroutine in DI (0: with none). On the thread's own stack; keeps all registers but AX, CX, DX, DI, R8 to R13.
TEXT ·onCarrier(SB), NOSPLIT|NOFRAME, $0-0
	CMPL perftax_tag_state(SB), $1
	JEQ none
	MOVQ (TLS), R9
	MOVQ G_M(R9), R9
	FIND_RING(again, found, none)
	CMPQ RING_CARRIER(R8), DI
	JEQ none
	MOVQ RING_CAPACITY(R8), R11
	MOVQ RING_HEAD(R8), R10
	LEAQ 2(R10), R12
	SUBQ RING_TAIL(R8), R12
	CMPQ R12, R11
	JHI full
	DECQ R11
	SAY_CARRIER
	MOVQ R10, RING_HEAD(R8)
none:
	RET
full:
	INCQ RING_DROPPED(R8)
	RET
