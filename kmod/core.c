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
	wrmsrl((perftax_pmu.full_width ? MSR_IA32_PMC0 : MSR_ARCH_PERFMON_PERFCTR0) + i, value);
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

/* Takes the records out of the buffer: counts them. */
static u64 drain(struct perftax_core *core)
{
	struct debug_store *store = core->buffer.store;
	u64 records = (READ_ONCE(store->pebs_index) - store->pebs_buffer_base) / perftax_pmu.record_bytes;

	WRITE_ONCE(store->pebs_index, store->pebs_buffer_base);
	core->read.records += records;
	return records;
}

void perftax_core_start(void *unused)
{
	struct perftax_core *core = this_cpu_ptr(&perftax_cores);
	struct debug_store *store = core->buffer.store;
	u64 capacity = core->buffer.bytes, enable = 0, pebs = 0, status;
	unsigned int i;

	capacity = min_t(u64, perftax_wanted.buffer_bytes, capacity) / perftax_pmu.record_bytes;
	if (perftax_wanted.threshold)
		capacity = min(capacity, perftax_wanted.threshold);
	store->pebs_buffer_base = (unsigned long)core->buffer.records;
	store->pebs_index = store->pebs_buffer_base;
	/* One more than asked: a record may come before the interrupt does. */
	store->pebs_absolute_maximum = store->pebs_buffer_base + (capacity + 1) * perftax_pmu.record_bytes;
	store->pebs_interrupt_threshold = store->pebs_buffer_base + capacity * perftax_pmu.record_bytes;
	core->read = (struct perftax_read) {
		.version = PERFTAX_VERSION,
		.cpu = smp_processor_id(),
		.record_bytes = perftax_pmu.record_bytes,
		.capacity = capacity,
	};

	rdmsrl(MSR_CORE_PERF_GLOBAL_CTRL, core->saved_control);
	wrmsrl(MSR_CORE_PERF_GLOBAL_CTRL, 0);
	rdmsrl(MSR_IA32_DS_AREA, core->saved_store);
	wrmsrl(MSR_IA32_DS_AREA, (unsigned long)store);
	for (i = 0; i < perftax_wanted.events; i++) {
		const struct perftax_event *event = &perftax_wanted.event[i];
		u64 start = event->period ? -event->period & counter_mask() : 0;

		if (event->flags & PERFTAX_EVENT_PEBS) {
			store->pebs_event_reset[i] = start;
			pebs |= BIT_ULL(i);
		}
		wrmsrl(MSR_ARCH_PERFMON_EVENTSEL0 + i, selector(event));
		write_counter(i, start);
		enable |= BIT_ULL(i);
	}
	if (perftax_pmu.adaptive) {
		rdmsrl(MSR_PEBS_DATA_CFG, core->saved_groups);
		wrmsrl(MSR_PEBS_DATA_CFG, 0);
	}
	rdmsrl(MSR_CORE_PERF_GLOBAL_STATUS, status);
	wrmsrl(MSR_CORE_PERF_GLOBAL_OVF_CTRL, status);
	wrmsrl(MSR_IA32_PEBS_ENABLE, pebs);
	perftax_unmask_interrupt();
	core->running = true;
	wrmsrl(MSR_CORE_PERF_GLOBAL_CTRL, enable);
}

void perftax_core_stop(void *unused)
{
	struct perftax_core *core = this_cpu_ptr(&perftax_cores);
	unsigned int i;
	u64 status;

	if (!core->running)
		return;
	wrmsrl(MSR_CORE_PERF_GLOBAL_CTRL, 0);
	wrmsrl(MSR_IA32_PEBS_ENABLE, 0);
	core->running = false;
	drain(core);
	for (i = 0; i < perftax_wanted.events; i++) {
		if (!(perftax_wanted.event[i].flags & PERFTAX_EVENT_PEBS))
			rdmsrl(MSR_ARCH_PERFMON_PERFCTR0 + i, core->read.count[i]);
		wrmsrl(MSR_ARCH_PERFMON_EVENTSEL0 + i, 0);
		write_counter(i, 0);
	}
	rdmsrl(MSR_CORE_PERF_GLOBAL_STATUS, status);
	wrmsrl(MSR_CORE_PERF_GLOBAL_OVF_CTRL, status);
	if (perftax_pmu.adaptive)
		wrmsrl(MSR_PEBS_DATA_CFG, core->saved_groups);
	wrmsrl(MSR_IA32_DS_AREA, core->saved_store);
	wrmsrl(MSR_CORE_PERF_GLOBAL_CTRL, core->saved_control);
}

int perftax_core_interrupt(unsigned int type, struct pt_regs *regs)
{
	struct perftax_core *core = this_cpu_ptr(&perftax_cores);
	u64 began = rdtsc(), control, status;

	if (!core->running)
		return NMI_DONE;
	rdmsrl(MSR_CORE_PERF_GLOBAL_STATUS, status);
	if (!status) {
		core->read.spurious++;
		return NMI_DONE;
	}
	rdmsrl(MSR_CORE_PERF_GLOBAL_CTRL, control);
	wrmsrl(MSR_CORE_PERF_GLOBAL_CTRL, 0);
	if (READ_ONCE(core->buffer.store->pebs_index) >= core->buffer.store->pebs_absolute_maximum)
		core->read.overruns++;
	drain(core);
	core->read.interrupts++;
	wrmsrl(MSR_CORE_PERF_GLOBAL_OVF_CTRL, status);
	perftax_unmask_interrupt();
	core->read.handler_tsc += rdtsc() - began;
	wrmsrl(MSR_CORE_PERF_GLOBAL_CTRL, control);
	return NMI_HANDLED;
}
