// SPDX-License-Identifier: GPL-2.0
/* One measurement on all CPUs: what it needs, its start and its end. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/smp.h>
#include <asm/nmi.h>

#include "perftax.h"

/* The largest buffer and the largest ring of a CPU. */
#define BUFFER_BYTES_MAX	SZ_1G
#define RING_BYTES_MAX		SZ_64M
/* The largest buffer that is copied in one interrupt. */
#define COPIED_BYTES_MAX	SZ_16M

/*
 * Events of the kernel's between two interrupts, at least: an interrupt's own way in
 * and out is kernel mode, too, and where it alone makes the next one nothing else runs.
 */
#define KERNEL_EVENTS_MIN	10000

#define EVENT_FLAGS	(PERFTAX_EVENT_USER | PERFTAX_EVENT_KERNEL | PERFTAX_EVENT_PEBS)
#define START_FLAGS	(PERFTAX_START_COPY | PERFTAX_START_SMALL | \
			 PERFTAX_START_HUGE | PERFTAX_START_RIDE)

struct perftax_session perftax_session;
/* CPUs of the session that runs or that ran last. */
static struct cpumask cores;
static bool started;

static bool is_sane_event(const struct perftax_event *event, unsigned int counter)
{
	bool samples = event->flags & PERFTAX_EVENT_PEBS;

	return !event->reserved && !(event->flags & ~EVENT_FLAGS) &&
	       event->flags & (PERFTAX_EVENT_USER | PERFTAX_EVENT_KERNEL) &&
	       samples == !!event->period && !(samples && counter >= perftax_pmu.sampling) &&
	       event->period < BIT_ULL(perftax_pmu.counter_bits - 1);
}

static bool is_sane_ring(const struct perftax_start *start)
{
	if (!(start->flags & PERFTAX_START_COPY))
		return !start->ring_bytes;
	return PAGE_ALIGNED(start->ring_bytes) && start->ring_bytes &&
	       start->ring_bytes <= RING_BYTES_MAX && start->buffer_bytes <= COPIED_BYTES_MAX &&
	       start->ring_bytes >= perftax_pmu_record_bytes(start->groups);
}

static bool is_sane_ride(const struct perftax_start *start)
{
	return start->flags == PERFTAX_START_RIDE && start->threshold &&
	       start->threshold <= BUFFER_BYTES_MAX && !start->events && !start->buffer_bytes &&
	       !start->ring_bytes && !start->groups;
}

static bool is_sane(const struct perftax_start *start)
{
	u32 pages = start->flags & (PERFTAX_START_SMALL | PERFTAX_START_HUGE);
	unsigned int i;

	if (start->flags & ~START_FLAGS || start->reserved)
		return false;
	if (start->flags & PERFTAX_START_RIDE)
		return is_sane_ride(start);
	if (!start->events || start->events > perftax_pmu.general || !start->buffer_bytes ||
	    start->buffer_bytes > BUFFER_BYTES_MAX ||
	    pages == (PERFTAX_START_SMALL | PERFTAX_START_HUGE) ||
	    !perftax_pmu_knows_groups(start->groups) || !is_sane_ring(start))
		return false;
	for (i = 0; i < start->events; i++)
		if (!is_sane_event(&start->event[i], i))
			return false;
	return true;
}

bool perftax_session_is_cpu(unsigned int cpu)
{
	return cpu < nr_cpu_ids && cpumask_test_cpu(cpu, &cores);
}

void perftax_session_free(void)
{
	int cpu;

	for_each_cpu(cpu, &cores) {
		struct perftax_core *core = &per_cpu(perftax_cores, cpu);

		perftax_buffer_free(&core->buffer);
		perftax_ring_free(&core->out);
	}
	cpumask_clear(&cores);
}

static int allocate(int cpu, const struct file *owner)
{
	struct perftax_core *core = &per_cpu(perftax_cores, cpu);
	const struct perftax_start *start = &perftax_session.start;
	int error;

	cpumask_set_cpu(cpu, &cores);
	core->read = (struct perftax_read) {
		.version = PERFTAX_VERSION,
		.cpu = cpu,
		.record_bytes = perftax_session.record_bytes,
		.capacity = perftax_session.capacity,
	};
	if (start->flags & PERFTAX_START_RIDE)
		return 0;
	error = perftax_buffer_alloc(&core->buffer, cpu,
				     perftax_session.room * perftax_session.record_bytes,
				     start->flags);
	if (error)
		return error;
	core->read.page_bytes = core->buffer.page_bytes;
	if (start->flags & PERFTAX_START_COPY)
		error = perftax_ring_alloc(&core->out, owner, start->ring_bytes,
					   perftax_session.record_bytes);
	return error;
}

/* Whether interrupts leave the CPU time for something else; after plan(). */
static bool leaves_time(const struct perftax_start *start)
{
	u64 period = div64_u64(KERNEL_EVENTS_MIN * start->events, perftax_session.capacity);
	unsigned int i;

	for (i = 0; i < start->events; i++) {
		const struct perftax_event *event = &start->event[i];

		if (event->flags & PERFTAX_EVENT_PEBS && event->flags & PERFTAX_EVENT_KERNEL &&
		    event->period < period)
			return false;
	}
	return true;
}

/* Whether at least as much memory is left as all buffers take; after plan(). */
static bool leaves_memory(const struct perftax_start *start)
{
	u64 bytes = perftax_session.room * perftax_session.record_bytes + start->ring_bytes;

	return bytes * num_online_cpus() >> PAGE_SHIFT <= si_mem_available() / 2;
}

static void plan(const struct perftax_start *start)
{
	u64 records;

	perftax_session.start = *start;
	if (start->flags & PERFTAX_START_RIDE) {
		/* perf chooses. */
		perftax_session.record_bytes = 0;
		perftax_session.room = 0;
		perftax_session.capacity = start->threshold;
		return;
	}
	perftax_session.record_bytes = perftax_pmu_record_bytes(start->groups);
	records = max(div_u64(start->buffer_bytes, perftax_session.record_bytes), 1ull);
	perftax_session.capacity = start->threshold ? min(start->threshold, records) : records;
	/* One more: a record may come before the interrupt is served. */
	perftax_session.room = records + 1;
}

static int take_counters(bool rides)
{
	int error;

	if (rides)
		return perftax_ride_start();
	error = perftax_pmu_reserve();
	if (error)
		return error;
	error = register_nmi_handler(NMI_LOCAL, perftax_core_interrupt, 0, "perftax");
	if (error)
		perftax_pmu_release();
	return error;
}

static void release_counters(bool rides)
{
	if (rides) {
		perftax_ride_stop();
	} else {
		unregister_nmi_handler(NMI_LOCAL, "perftax");
		perftax_pmu_release();
	}
}

static int can_own_buffer(void)
{
	if (perftax_pmu_own_buffer() == PERFTAX_OWN_POSSIBLE)
		return 0;
	pr_err("page-table isolation is on, and user mode does not map a buffer of one's own: boot with nopti\n");
	return -EOPNOTSUPP;
}

int perftax_session_start(const struct perftax_start *start, const struct file *owner)
{
	bool rides = start->flags & PERFTAX_START_RIDE;
	int error = rides ? 0 : can_own_buffer(), cpu;

	if (error)
		return error;
	if (!is_sane(start))
		return -EINVAL;
	if (started)
		return -EBUSY;
	perftax_session_free();
	plan(start);
	if (!leaves_time(start))
		return -EINVAL;
	if (!leaves_memory(start))
		return -ENOMEM;
	/* Not while the CPUs are held: registering a probe holds them, under a lock of its own. */
	error = take_counters(rides);
	if (error)
		return error;
	cpus_read_lock();
	for_each_online_cpu(cpu) {
		error = allocate(cpu, owner);
		if (error)
			break;
	}
	if (!error) {
		on_each_cpu_mask(&cores, rides ? perftax_ride_core_start : perftax_core_start,
				 NULL, true);
		started = true;
	}
	cpus_read_unlock();
	if (error) {
		release_counters(rides);
		perftax_session_free();
	}
	return error;
}

static void stop_core(void *why)
{
	struct perftax_core *core = this_cpu_ptr(&perftax_cores);

	if (core->state == PERFTAX_RUNNING)
		core->read.flags |= *(u32 *)why;
	if (perftax_session.start.flags & PERFTAX_START_RIDE)
		perftax_ride_core_stop(NULL);
	else
		perftax_core_stop(NULL);
}

/* Why: PERFTAX_READ_..., 0 where it was asked for. */
void perftax_session_stop(u32 why)
{
	if (!started)
		return;
	cpus_read_lock();
	on_each_cpu_mask(&cores, stop_core, &why, true);
	cpus_read_unlock();
	release_counters(perftax_session.start.flags & PERFTAX_START_RIDE);
	started = false;
}

/* This CPU goes offline: its share ends, what it counted stays. Interrupts off. */
void perftax_session_cpu_down(void)
{
	u32 why = PERFTAX_READ_OFFLINE;

	stop_core(&why);
}

int perftax_session_read(struct perftax_read *read)
{
	if (!perftax_session_is_cpu(read->cpu))
		return -ENXIO;
	*read = per_cpu(perftax_cores, read->cpu).read;
	return 0;
}
