/* SPDX-License-Identifier: GPL-2.0 */
/* What differs between kernels, in one place. */
#ifndef PERFTAX_COMPAT_H
#define PERFTAX_COMPAT_H

#include <asm/apic.h>
#include <asm/msr.h>

/*
 * 6.16 renamed them, and has a header for cpuid(), which asm/processor.h no
 * longer includes in 7.x.
 */
#ifdef rdmsrq
#include <asm/cpuid/api.h>
#else
#define rdmsrq(msr, value)	rdmsrl(msr, value)
#define wrmsrq(msr, value)	wrmsrl(msr, value)
#endif

/*
 * Accepts the next performance interrupt. Not apic_write(), which in newer kernels
 * is a static call whose trampoline is not exported; the driver itself is.
 */
static inline void perftax_unmask_interrupt(void)
{
	apic->write(APIC_LVTPC, APIC_DM_NMI);
}

#endif
