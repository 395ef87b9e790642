// SPDX-License-Identifier: GPL-2.0
/* One measurement on all CPUs: what it needs, its start and its end. */
#include <linux/cpu.h>
#include <linux/smp.h>
#include <asm/cpufeature.h>
#include <asm/intel-family.h>
#include <asm/nmi.h>
#include <asm/perf_event.h>

#include "compat.h"
#include "perftax.h"

/* The largest buffer of a CPU. */
#define BUFFER_BYTES_MAX	(1ull << 30)

struct perftax_pmu perftax_pmu;
struct perftax_start perftax_wanted;
/* CPUs that have buffers, of the session that runs or that ran last. */
static struct cpumask cores;
static bool started;

/* Bytes of a PEBS record by its format; 0 where it is not known. */
static unsigned int record_bytes(u64 capabilities)
{
	static const unsigned int of_format[] = { 144, 176, 192, 200 };
	unsigned int format = (capabilities >> 8) & 0xf;

	/* Adaptive records: the basic group alone. */
	return format < ARRAY_SIZE(of_format) ? of_format[format] : 32;
}

/* Whether this CPU and this kernel can do it; says in the log why not. */
int perftax_session_probe(void)
{
	u64 capabilities, misc;
	u32 eax, ebx, ecx, edx;

	if (boot_cpu_data.x86_vendor != X86_VENDOR_INTEL || !boot_cpu_has(X86_FEATURE_DTES64) ||
	    !boot_cpu_has(X86_FEATURE_PDCM)) {
		pr_err("perftax: CPUID shows no debug store of 64 bits (an Intel CPU's DTES64 and PDCM): no PEBS here\n");
		return -ENODEV;
	}
	if (boot_cpu_has(X86_FEATURE_PTI)) {
		pr_err("perftax: page-table isolation is on, and user mode does not map a buffer of one's own: boot with nopti\n");
		return -EPERM;
	}
	rdmsrl(MSR_IA32_MISC_ENABLE, misc);
	if (misc & MSR_IA32_MISC_ENABLE_PEBS_UNAVAIL) {
		pr_err("perftax: IA32_MISC_ENABLE says that PEBS is unavailable (%#llx)\n", misc);
		return -ENODEV;
	}
	if (!perftax_can_unmask()) {
		pr_err("perftax: this kernel needs x2APIC for it\n");
		return -ENODEV;
	}
	cpuid(10, &eax, &ebx, &ecx, &edx);
	rdmsrl(MSR_IA32_PERF_CAPABILITIES, capabilities);
	perftax_pmu.general = min_t(unsigned int, (eax >> 8) & 0xff, PERFTAX_EVENTS_MAX);
	perftax_pmu.counter_bits = (eax >> 16) & 0xff;
	perftax_pmu.full_width = capabilities & BIT_ULL(13);
	perftax_pmu.adaptive = capabilities & BIT_ULL(14);
	perftax_pmu.record_bytes = record_bytes(capabilities);
	if (!(eax & 0xff) || !perftax_pmu.general || perftax_pmu.counter_bits < 32) {
		pr_err("perftax: CPUID leaf 10 shows no counters (%#x)\n", eax);
		return -ENODEV;
	}
	return 0;
}

static bool is_sane(const struct perftax_start *start)
{
	u64 most = BIT_ULL(perftax_pmu.counter_bits - 1);
	unsigned int i;

	if (!start->events || start->events > perftax_pmu.general || start->flags || start->reserved ||
	    !start->buffer_bytes || start->buffer_bytes > BUFFER_BYTES_MAX)
		return false;
	for (i = 0; i < start->events; i++) {
		const struct perftax_event *event = &start->event[i];
		bool samples = event->flags & PERFTAX_EVENT_PEBS;

		if (event->reserved || event->flags & ~(PERFTAX_EVENT_USER | PERFTAX_EVENT_KERNEL | PERFTAX_EVENT_PEBS) ||
		    !(event->flags & (PERFTAX_EVENT_USER | PERFTAX_EVENT_KERNEL)) ||
		    samples != !!event->period || event->period >= most)
			return false;
	}
	return true;
}

static void release_counters(unsigned int count)
{
	while (count--) {
		release_evntsel_nmi(MSR_ARCH_PERFMON_EVENTSEL0 + count);
		release_perfctr_nmi(MSR_ARCH_PERFMON_PERFCTR0 + count);
	}
}

/* perf takes the same reservations with its first hardware event. */
static int reserve_counters(void)
{
	unsigned int i;

	for (i = 0; i < perftax_pmu.general; i++) {
		if (!reserve_perfctr_nmi(MSR_ARCH_PERFMON_PERFCTR0 + i))
			break;
		if (!reserve_evntsel_nmi(MSR_ARCH_PERFMON_EVENTSEL0 + i)) {
			release_perfctr_nmi(MSR_ARCH_PERFMON_PERFCTR0 + i);
			break;
		}
	}
	if (i == perftax_pmu.general)
		return 0;
	release_counters(i);
	return -EBUSY;
}

void perftax_session_free(void)
{
	int cpu;

	for_each_cpu(cpu, &cores)
		perftax_buffer_free(&per_cpu(perftax_cores, cpu).buffer);
	cpumask_clear(&cores);
}

int perftax_session_start(const struct perftax_start *start)
{
	int error, cpu;

	if (start->version != PERFTAX_VERSION)
		return -EPROTO;
	if (!is_sane(start))
		return -EINVAL;
	if (started)
		return -EBUSY;
	error = reserve_counters();
	if (error)
		return error;
	perftax_session_free();
	perftax_wanted = *start;
	/* At least one record, and room for one that comes before the interrupt. */
	perftax_wanted.buffer_bytes = max_t(u64, start->buffer_bytes, perftax_pmu.record_bytes);
	cpus_read_lock();
	for_each_online_cpu(cpu) {
		error = perftax_buffer_alloc(&per_cpu(perftax_cores, cpu).buffer, cpu,
					     perftax_wanted.buffer_bytes + perftax_pmu.record_bytes);
		if (error)
			goto free;
		cpumask_set_cpu(cpu, &cores);
	}
	error = register_nmi_handler(NMI_LOCAL, perftax_core_interrupt, 0, "perftax");
	if (error)
		goto free;
	on_each_cpu_mask(&cores, perftax_core_start, NULL, true);
	started = true;
	cpus_read_unlock();
	return 0;

free:
	cpus_read_unlock();
	perftax_session_free();
	release_counters(perftax_pmu.general);
	return error;
}

void perftax_session_stop(void)
{
	if (!started)
		return;
	cpus_read_lock();
	on_each_cpu_mask(&cores, perftax_core_stop, NULL, true);
	cpus_read_unlock();
	unregister_nmi_handler(NMI_LOCAL, "perftax");
	release_counters(perftax_pmu.general);
	started = false;
}

int perftax_session_read(struct perftax_read *read)
{
	if (read->version != PERFTAX_VERSION)
		return -EPROTO;
	if (read->cpu >= nr_cpu_ids || !cpumask_test_cpu(read->cpu, &cores))
		return -ENXIO;
	*read = per_cpu(perftax_cores, read->cpu).read;
	return 0;
}
