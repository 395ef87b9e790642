// SPDX-License-Identifier: GPL-2.0
/*
 * One CPU's counters: programming them, and what their interrupts find.
 * SDM volume 3, chapter 20 (counters, PEBS, the debug store).
 */
#include <linux/smp.h>
#include <asm/nmi.h>
#include <asm/perf_event.h>
#include <asm/tsc.h>

#include "compat.h"
#include "perftax.h"

#define EVENTSEL_ADAPTIVE	BIT_ULL(34)
#define SELECT_MASK		(ARCH_PERFMON_EVENTSEL_EVENT | ARCH_PERFMON_EVENTSEL_UMASK | \
				 ARCH_PERFMON_EVENTSEL_EDGE | ARCH_PERFMON_EVENTSEL_INV | \
				 ARCH_PERFMON_EVENTSEL_CMASK)

DEFINE_PER_CPU(struct perftax_core, perftax_cores);

static u64 counter_mask(void)
{
	return GENMASK_ULL(perftax_pmu.counter_bits - 1, 0);
}

static void write_counter(unsigned int i, u64 value)
{
	wrmsrq((perftax_pmu.full_width ? MSR_IA32_PMC0 : MSR_ARCH_PERFMON_PERFCTR0) + i, value);
}

static u64 selector(const struct perftax_event *event)
{
	u64 select = (event->select & SELECT_MASK) | ARCH_PERFMON_EVENTSEL_ENABLE;

	if (event->flags & PERFTAX_EVENT_USER)
		select |= ARCH_PERFMON_EVENTSEL_USR;
	if (event->flags & PERFTAX_EVENT_KERNEL)
		select |= ARCH_PERFMON_EVENTSEL_OS;
	if (event->flags & PERFTAX_EVENT_PEBS && perftax_pmu.adaptive)
		select |= EVENTSEL_ADAPTIVE;
	return select;
}

/* Takes the records out of the buffer: counts them, and hands them over where asked. */
static void drain(struct perftax_core *core)
{
	struct debug_store *store = core->buffer.store;
	u64 bytes = READ_ONCE(store->pebs_index) - store->pebs_buffer_base;
	u64 records = bytes / perftax_session.record_bytes;

	core->read.records += records;
	if (core->out.shared && records)
		core->read.lost += perftax_ring_write(&core->out, core->buffer.records, records,
						      perftax_session.record_bytes);
	WRITE_ONCE(store->pebs_index, store->pebs_buffer_base);
}

static void prepare_store(struct perftax_core *core)
{
	struct debug_store *store = core->buffer.store;
	u64 base = (unsigned long)core->buffer.records;

	store->pebs_buffer_base = base;
	store->pebs_index = base;
	store->pebs_absolute_maximum = base + perftax_session.room * perftax_session.record_bytes;
	store->pebs_interrupt_threshold =
		base + perftax_session.capacity * perftax_session.record_bytes;
}

static void clear_status(void)
{
	u64 status;

	rdmsrq(MSR_CORE_PERF_GLOBAL_STATUS, status);
	wrmsrq(MSR_CORE_PERF_GLOBAL_OVF_CTRL, status);
}

void perftax_core_start(void *unused)
{
	struct perftax_core *core = this_cpu_ptr(&perftax_cores);
	const struct perftax_start *start = &perftax_session.start;
	u64 enable = 0, pebs = 0;
	unsigned int i;

	prepare_store(core);
	rdmsrq(MSR_CORE_PERF_GLOBAL_CTRL, core->saved_control);
	wrmsrq(MSR_CORE_PERF_GLOBAL_CTRL, 0);
	rdmsrq(MSR_IA32_DS_AREA, core->saved_store);
	wrmsrq(MSR_IA32_DS_AREA, (unsigned long)core->buffer.store);
	for (i = 0; i < start->events; i++) {
		const struct perftax_event *event = &start->event[i];
		u64 first = event->period ? -event->period & counter_mask() : 0;

		if (event->flags & PERFTAX_EVENT_PEBS) {
			core->buffer.store->pebs_event_reset[i] = first;
			pebs |= BIT_ULL(i);
		}
		wrmsrq(MSR_ARCH_PERFMON_EVENTSEL0 + i, selector(event));
		write_counter(i, first);
		enable |= BIT_ULL(i);
	}
	if (perftax_pmu.adaptive) {
		rdmsrq(MSR_PEBS_DATA_CFG, core->saved_groups);
		wrmsrq(MSR_PEBS_DATA_CFG, start->groups);
	}
	clear_status();
	wrmsrq(MSR_IA32_PEBS_ENABLE, pebs);
	perftax_unmask_interrupt();
	core->state = PERFTAX_RUNNING;
	wrmsrq(MSR_CORE_PERF_GLOBAL_CTRL, enable);
}

void perftax_core_stop(void *unused)
{
	struct perftax_core *core = this_cpu_ptr(&perftax_cores);
	const struct perftax_start *start = &perftax_session.start;
	unsigned int i;

	if (core->state != PERFTAX_RUNNING)
		return;
	/* From here on an interrupt only finds that it comes too late. */
	WRITE_ONCE(core->state, PERFTAX_STOPPING);
	wrmsrq(MSR_CORE_PERF_GLOBAL_CTRL, 0);
	wrmsrq(MSR_IA32_PEBS_ENABLE, 0);
	drain(core);
	for (i = 0; i < start->events; i++) {
		if (!(start->event[i].flags & PERFTAX_EVENT_PEBS))
			rdmsrq(MSR_ARCH_PERFMON_PERFCTR0 + i, core->read.count[i]);
		wrmsrq(MSR_ARCH_PERFMON_EVENTSEL0 + i, 0);
		write_counter(i, 0);
	}
	clear_status();
	if (perftax_pmu.adaptive)
		wrmsrq(MSR_PEBS_DATA_CFG, core->saved_groups);
	wrmsrq(MSR_IA32_DS_AREA, core->saved_store);
	wrmsrq(MSR_CORE_PERF_GLOBAL_CTRL, core->saved_control);
	WRITE_ONCE(core->state, PERFTAX_IDLE);
}

int perftax_core_interrupt(unsigned int type, struct pt_regs *regs)
{
	struct perftax_core *core = this_cpu_ptr(&perftax_cores);
	u64 began = rdtsc(), control, status;

	switch (READ_ONCE(core->state)) {
	case PERFTAX_IDLE:
		return NMI_DONE;
	case PERFTAX_STOPPING:
		perftax_unmask_interrupt();
		return NMI_HANDLED;
	case PERFTAX_RUNNING:
		break;
	}
	rdmsrq(MSR_CORE_PERF_GLOBAL_STATUS, status);
	if (!status) {
		core->read.spurious++;
		return NMI_DONE;
	}
	rdmsrq(MSR_CORE_PERF_GLOBAL_CTRL, control);
	wrmsrq(MSR_CORE_PERF_GLOBAL_CTRL, 0);
	if (core->buffer.store->pebs_index >= core->buffer.store->pebs_absolute_maximum)
		core->read.overruns++;
	drain(core);
	core->read.interrupts++;
	wrmsrq(MSR_CORE_PERF_GLOBAL_OVF_CTRL, status);
	perftax_unmask_interrupt();
	core->read.handler_tsc += rdtsc() - began;
	wrmsrq(MSR_CORE_PERF_GLOBAL_CTRL, control);
	return NMI_HANDLED;
}
