/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * perftax: PEBS with a buffer and periods of one's own.
 *
 * A file descriptor of /dev/perftax owns one session: START programs the
 * counters of every online CPU, STOP reads what is left in the buffers, and
 * closing the descriptor stops, too. Only one session runs at a time, and none
 * while perf holds the counters.
 */
#ifndef PERFTAX_IOCTL_H
#define PERFTAX_IOCTL_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define PERFTAX_VERSION		1
#define PERFTAX_EVENTS_MAX	8

#define PERFTAX_EVENT_USER	(1u << 0)	/* count user mode */
#define PERFTAX_EVENT_KERNEL	(1u << 1)	/* count the kernel */
#define PERFTAX_EVENT_PEBS	(1u << 2)	/* sample, else only count */

struct perftax_event {
	__u64 select;		/* event, umask, cmask, inv, edge, as in IA32_PERFEVTSELx */
	__u64 period;		/* events to a record; 0 where it only counts */
	__u32 flags;
	__u32 reserved;
};

struct perftax_start {
	__u32 version;		/* PERFTAX_VERSION */
	__u32 events;		/* how many of .event are meant */
	__u64 buffer_bytes;	/* of each CPU; rounded down to whole records, at least one */
	__u64 threshold;	/* records to an interrupt; 0: as many as the buffer holds */
	__u32 flags;		/* 0 */
	__u32 reserved;
	struct perftax_event event[PERFTAX_EVENTS_MAX];
};

/* What one CPU has done since START; all of it once the session is stopped. */
struct perftax_read {
	__u32 version;
	__u32 cpu;
	__u64 records;		/* written by PEBS, those of the tail included */
	__u64 interrupts;	/* that found records or a full buffer */
	__u64 spurious;		/* for which there was no reason */
	__u64 overruns;		/* buffer full before the interrupt was served */
	__u64 handler_tsc;	/* cycles of the time stamp counter in the handler */
	__u64 record_bytes;
	__u64 capacity;		/* records to an interrupt */
	__u64 count[PERFTAX_EVENTS_MAX];	/* of events that only count */
};

#define PERFTAX_IOC_MAGIC	0xb7
#define PERFTAX_IOC_START	_IOW(PERFTAX_IOC_MAGIC, 1, struct perftax_start)
#define PERFTAX_IOC_STOP	_IO(PERFTAX_IOC_MAGIC, 2)
#define PERFTAX_IOC_READ	_IOWR(PERFTAX_IOC_MAGIC, 3, struct perftax_read)

#endif
