// SPDX-License-Identifier: GPL-2.0
/*
 * Riding on perf: its buffer, which user mode maps whatever isolates page
 * tables, with the interrupt after as many records as are asked for.
 *
 * perf computes the threshold when an event comes or goes (newer kernels: when
 * one starts), and enables PEBS afterwards in intel_pmu_pebs_enable_all(): a
 * probe there lowers it again.
 */
#include <linux/kprobes.h>
#include <linux/smp.h>
#include <asm/nmi.h>
#include <asm/perf_event.h>
#include <asm/tsc.h>

#include "compat.h"
#include "perftax.h"

static struct debug_store *perfs_store(void)
{
	u64 address;

	rdmsrq(MSR_IA32_DS_AREA, address);
	return (struct debug_store *)address;
}

static unsigned int perfs_record_bytes(void)
{
	u64 groups = 0;

	if (perftax_pmu.adaptive)
		rdmsrq(MSR_PEBS_DATA_CFG, groups);
	return perftax_pmu_record_bytes(groups);
}

/* Never higher than perf wants it, which may want every record at once. */
static void lower(struct perftax_core *core)
{
	struct debug_store *store = perfs_store();
	u64 wanted, found;

	if (!store || !store->pebs_buffer_base)
		return;
	core->read.record_bytes = perfs_record_bytes();
	wanted = store->pebs_buffer_base +
		 perftax_session.start.threshold * core->read.record_bytes;
	found = READ_ONCE(store->pebs_interrupt_threshold);
	if (found <= wanted)
		return;
	core->perf_threshold = found;
	core->own_threshold = wanted;
	WRITE_ONCE(store->pebs_interrupt_threshold, wanted);
	core->read.lowered++;
}

static int before_enable(struct kprobe *probe, struct pt_regs *regs)
{
	struct perftax_core *core = this_cpu_ptr(&perftax_cores);

	if (core->state == PERFTAX_RUNNING)
		lower(core);
	return 0;
}

static struct kprobe probe = {
	.symbol_name = "intel_pmu_pebs_enable_all",
	.pre_handler = before_enable,
};

/* Looks, before perf does, at what perf is going to find. */
static int look(unsigned int type, struct pt_regs *regs)
{
	struct perftax_core *core = this_cpu_ptr(&perftax_cores);
	u64 began = rdtsc(), status, bytes;
	struct debug_store *store;

	if (core->state != PERFTAX_RUNNING || !core->read.record_bytes)
		return NMI_DONE;
	store = perfs_store();
	rdmsrq(MSR_CORE_PERF_GLOBAL_STATUS, status);
	if (!store || !(status & GLOBAL_STATUS_BUFFER_OVF))
		return NMI_DONE;
	bytes = READ_ONCE(store->pebs_index) - store->pebs_buffer_base;
	core->read.records += bytes / core->read.record_bytes;
	core->read.interrupts++;
	core->read.handler_tsc += rdtsc() - began;
	return NMI_DONE;
}

void perftax_ride_core_start(void *unused)
{
	struct perftax_core *core = this_cpu_ptr(&perftax_cores);

	core->own_threshold = 0;
	core->state = PERFTAX_RUNNING;
	lower(core);
}

void perftax_ride_core_stop(void *unused)
{
	struct perftax_core *core = this_cpu_ptr(&perftax_cores);
	struct debug_store *store = perfs_store();

	if (core->state != PERFTAX_RUNNING)
		return;
	core->state = PERFTAX_IDLE;
	if (store && core->own_threshold && store->pebs_interrupt_threshold == core->own_threshold)
		WRITE_ONCE(store->pebs_interrupt_threshold, core->perf_threshold);
}

int perftax_ride_start(void)
{
	int error;

	error = register_nmi_handler(NMI_LOCAL, look, NMI_FLAG_FIRST, "perftax_ride");
	if (error)
		return error;
	probe.addr = NULL;
	probe.flags = 0;
	error = register_kprobe(&probe);
	if (error)
		unregister_nmi_handler(NMI_LOCAL, "perftax_ride");
	return error;
}

void perftax_ride_stop(void)
{
	unregister_kprobe(&probe);
	unregister_nmi_handler(NMI_LOCAL, "perftax_ride");
}
