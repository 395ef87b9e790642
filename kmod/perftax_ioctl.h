/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * perftax: PEBS with a buffer and periods of one's own.
 *
 * A file descriptor of /dev/perftax owns one session: START programs the
 * counters of every online CPU, STOP reads what is left in the buffers, and
 * closing the descriptor stops, too. Only one session runs at a time, and none
 * while perf holds the counters.
 *
 * With PERFTAX_START_RIDE the counters and the buffer are perf's, and the
 * session makes the interrupt of every buffer come after .threshold records.
 *
 * Every structure begins with its version. Where it is not the module's,
 * the call fails with EPROTO; INFO answers any version, with the module's.
 */
#ifndef PERFTAX_IOCTL_H
#define PERFTAX_IOCTL_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define PERFTAX_VERSION		2
#define PERFTAX_EVENTS_MAX	8

/* Why there can be no buffer of one's own; riding on perf's is possible still. */
#define PERFTAX_OWN_POSSIBLE	0
#define PERFTAX_OWN_PTI		1	/* page-table isolation is on: boot with nopti */

struct perftax_info {
	__u32 version;		/* of the module */
	__u32 own_buffer;	/* PERFTAX_OWN_... */
	__u32 counters;		/* of general purpose, at most PERFTAX_EVENTS_MAX */
	__u32 counter_bits;
	__u32 record_format;	/* IA32_PERF_CAPABILITIES[11:8] */
	__u32 record_bytes;	/* without groups */
	__u32 adaptive;		/* whether records have groups (IA32_PERF_CAPABILITIES[14]) */
	__u32 sampling;		/* the first of the counters, which PEBS can sample */
};

#define PERFTAX_EVENT_USER	0x1	/* count user mode */
#define PERFTAX_EVENT_KERNEL	0x2	/* count the kernel */
#define PERFTAX_EVENT_PEBS	0x4	/* sample, else only count */

struct perftax_event {
	__u64 select;		/* event, umask, cmask, inv, edge, as in IA32_PERFEVTSELx */
	__u64 period;		/* events to a record; 0 where it only counts */
	__u32 flags;
	__u32 reserved;
};

#define PERFTAX_START_COPY	0x1	/* hand records over in rings; else count them */
#define PERFTAX_START_SMALL	0x2	/* a buffer of pages of 4 KiB */
#define PERFTAX_START_HUGE	0x4	/* a buffer of pages of 2 MiB or more, or ENOMEM */
#define PERFTAX_START_RIDE	0x8	/* lower the threshold of perf's buffers */

struct perftax_start {
	__u32 version;		/* PERFTAX_VERSION */
	__u32 events;		/* how many of .event are meant; 0 to ride */
	__u64 buffer_bytes;	/* of each CPU; rounded down to whole records, at least one */
	__u64 threshold;	/* records to an interrupt; 0: as many as the buffer holds */
	__u64 groups;		/* adaptive records only: MSR_PEBS_DATA_CFG, without branches */
	__u64 ring_bytes;	/* of each CPU's ring with PERFTAX_START_COPY: whole pages */
	__u32 flags;
	__u32 reserved;
	struct perftax_event event[PERFTAX_EVENTS_MAX];
};

#define PERFTAX_READ_OFFLINE	0x1	/* ended early: the CPU went offline */
#define PERFTAX_READ_SUSPENDED	0x2	/* ended early: the machine was suspended */

/* What one CPU has done since START; all of it once the session is stopped. */
struct perftax_read {
	__u32 version;
	__u32 cpu;
	__u32 flags;		/* PERFTAX_READ_... */
	__u32 record_bytes;
	__u64 records;		/* written by PEBS, those of the tail included (not when riding) */
	__u64 interrupts;	/* that found records or a full buffer */
	__u64 spurious;		/* for which there was no reason */
	__u64 overruns;		/* buffer full before the interrupt was served */
	__u64 lost;		/* records that did not fit into the ring */
	__u64 lowered;		/* times that perf's threshold was lowered (riding) */
	__u64 handler_tsc;	/* cycles of the time stamp counter in the handler */
	__u64 capacity;		/* records to an interrupt */
	__u64 page_bytes;	/* smallest page of the buffer */
	__u64 count[PERFTAX_EVENTS_MAX];	/* of events that only count */
};

/*
 * A CPU's ring, mapped at offset PERFTAX_RING(cpu): this page, then .data_bytes
 * of records. Record n is at data + n % .capacity * .record_bytes; those from
 * .tail to .head are there to be read. The user moves .tail.
 */
struct perftax_ring {
	__u32 version;
	__u32 record_bytes;
	__u64 data_bytes;
	__u64 capacity;		/* records */
	__u64 head;		/* records written */
	__u64 tail;		/* records read */
};

#define PERFTAX_RING(cpu)	((__u64)(cpu) << 32)

/* Work whose locked operations are known, in the kernel. */
struct perftax_work {
	__u32 version;
	__u32 reserved;
	__u64 operations;	/* asked for; then: done (fewer after a signal) */
	__u64 elapsed_ns;
};

/* Locked operations and instructions of a turn of that work's loop. */
#define PERFTAX_WORK_LOCKED		1
#define PERFTAX_WORK_INSTRUCTIONS	3

#define PERFTAX_IOC_MAGIC	0xb7
#define PERFTAX_IOC_START	_IOW(PERFTAX_IOC_MAGIC, 1, struct perftax_start)
#define PERFTAX_IOC_STOP	_IO(PERFTAX_IOC_MAGIC, 2)
#define PERFTAX_IOC_READ	_IOWR(PERFTAX_IOC_MAGIC, 3, struct perftax_read)
#define PERFTAX_IOC_INFO	_IOR(PERFTAX_IOC_MAGIC, 4, struct perftax_info)
#define PERFTAX_IOC_WORK	_IOWR(PERFTAX_IOC_MAGIC, 5, struct perftax_work)

#endif
