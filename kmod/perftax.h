/* SPDX-License-Identifier: GPL-2.0 */
#ifndef PERFTAX_H
#define PERFTAX_H

#include <linux/cpumask.h>
#include <linux/percpu.h>
#include <asm/intel_ds.h>

#include "perftax_ioctl.h"

/* What the CPU's PEBS is like (session.c). */
struct perftax_pmu {
	unsigned int general;		/* counters */
	unsigned int counter_bits;
	unsigned int record_bytes;
	bool full_width;		/* counters can be written as a whole */
	bool adaptive;
};

/* A buffer that PEBS writes, and the debug store that points to it (buffer.c). */
struct perftax_buffer {
	struct debug_store *store;
	void *records;
	size_t bytes;
};

/* One CPU's share of a session (core.c). */
struct perftax_core {
	struct perftax_buffer buffer;
	struct perftax_read read;
	u64 saved_store;
	u64 saved_control;
	u64 saved_groups;		/* of adaptive records; perf keeps a copy and does not look */
	bool running;
};

extern struct perftax_pmu perftax_pmu;
extern struct perftax_start perftax_wanted;
DECLARE_PER_CPU(struct perftax_core, perftax_cores);

int perftax_buffer_alloc(struct perftax_buffer *buffer, int cpu, size_t bytes);
void perftax_buffer_free(struct perftax_buffer *buffer);

/* On the CPU itself, interrupts off. */
void perftax_core_start(void *unused);
void perftax_core_stop(void *unused);
int perftax_core_interrupt(unsigned int type, struct pt_regs *regs);

int perftax_session_probe(void);
int perftax_session_start(const struct perftax_start *start);
void perftax_session_stop(void);
void perftax_session_free(void);
int perftax_session_read(struct perftax_read *read);

#endif
