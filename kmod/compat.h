/* SPDX-License-Identifier: GPL-2.0 */
/* What differs between kernels, in one place. */
#ifndef PERFTAX_COMPAT_H
#define PERFTAX_COMPAT_H

#include <linux/version.h>
#include <asm/apic.h>
#include <asm/msr.h>

/* Renamed in 6.16. */
#ifndef rdmsrq
#define rdmsrq(msr, value)	rdmsrl(msr, value)
#define wrmsrq(msr, value)	wrmsrl(msr, value)
#endif

/*
 * Accepts the next performance interrupt. From 6.9 on apic_write() is a static
 * call whose trampoline is not exported; the register is reached by its number.
 */
static inline void perftax_unmask_interrupt(void)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 9, 0)
	apic_write(APIC_LVTPC, APIC_DM_NMI);
#else
	wrmsrq(APIC_BASE_MSR + (APIC_LVTPC >> 4), APIC_DM_NMI);
#endif
}

/* Whether that works here. */
static inline bool perftax_can_unmask(void)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 9, 0)
	return true;
#else
	u64 base;

	rdmsrq(MSR_IA32_APICBASE, base);
	return base & X2APIC_ENABLE;
#endif
}

#endif
