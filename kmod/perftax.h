/* SPDX-License-Identifier: GPL-2.0 */
#ifndef PERFTAX_H
#define PERFTAX_H

#include <linux/irq_work.h>
#include <linux/percpu.h>
#include <linux/wait.h>
#include <asm/intel_ds.h>

#include "perftax_ioctl.h"

struct file;
struct vm_area_struct;

/* What the CPU's PEBS is like (pmu.c). */
struct perftax_pmu {
	unsigned int general;		/* counters */
	unsigned int sampling;		/* those of them that PEBS can sample */
	unsigned int counter_bits;
	unsigned int format;
	bool full_width;		/* counters can be written as a whole */
	bool adaptive;
};

/* A buffer that PEBS writes, and the debug store that points to it (buffer.c). */
struct perftax_buffer {
	struct debug_store *store;
	void *records;
	size_t bytes;
	size_t page_bytes;		/* of the smallest page that maps it */
};

/* A ring that user space reads (ring.c). */
struct perftax_out {
	struct perftax_ring *shared;
	u64 capacity;			/* these two are not the user's to change */
	u64 head;
	size_t bytes;
	const struct file *owner;	/* who may map it */
	struct irq_work wake;
};

enum perftax_state {
	PERFTAX_IDLE,
	PERFTAX_RUNNING,
	PERFTAX_STOPPING,		/* late interrupts are ours still */
};

/* One CPU's share of a session (core.c, ride.c). */
struct perftax_core {
	struct perftax_buffer buffer;
	struct perftax_out out;
	struct perftax_read read;
	u64 saved_store;
	u64 saved_control;
	u64 saved_groups;		/* of adaptive records: perf trusts its copy of them */
	u64 perf_threshold;		/* what stood where ours stands (riding) */
	u64 own_threshold;
	enum perftax_state state;
};

/* What runs, or ran last (session.c). */
struct perftax_session {
	struct perftax_start start;
	unsigned int record_bytes;
	u64 room;			/* records that fit into a buffer */
	u64 capacity;			/* records to an interrupt */
};

extern struct perftax_pmu perftax_pmu;
extern struct perftax_session perftax_session;
extern wait_queue_head_t perftax_readers;
DECLARE_PER_CPU(struct perftax_core, perftax_cores);

int perftax_pmu_probe(void);
u32 perftax_pmu_own_buffer(void);
unsigned int perftax_pmu_record_bytes(u64 groups);
bool perftax_pmu_knows_groups(u64 groups);
int perftax_pmu_reserve(void);
void perftax_pmu_release(void);

int perftax_buffer_alloc(struct perftax_buffer *buffer, int cpu, size_t bytes, u32 flags);
void perftax_buffer_free(struct perftax_buffer *buffer);

int perftax_ring_alloc(struct perftax_out *out, const struct file *owner, size_t bytes,
		       unsigned int record_bytes);
void perftax_ring_free(struct perftax_out *out);
u64 perftax_ring_write(struct perftax_out *out, const void *records, u64 count,
		       unsigned int record_bytes);
int perftax_ring_map(struct perftax_out *out, const struct file *file, struct vm_area_struct *vma);
bool perftax_ring_waits(const struct perftax_out *out);

/* On the CPU itself, interrupts off. */
void perftax_core_start(void *unused);
void perftax_core_stop(void *unused);
int perftax_core_interrupt(unsigned int type, struct pt_regs *regs);

/* On the CPU itself, interrupts off. */
void perftax_ride_core_start(void *unused);
void perftax_ride_core_stop(void *unused);
int perftax_ride_start(void);
void perftax_ride_stop(void);

bool perftax_session_is_cpu(unsigned int cpu);
int perftax_session_start(const struct perftax_start *start, const struct file *owner);
void perftax_session_stop(u32 why);
void perftax_session_cpu_down(void);
void perftax_session_free(void);
int perftax_session_read(struct perftax_read *read);

int perftax_work(struct perftax_work *work);

#endif
