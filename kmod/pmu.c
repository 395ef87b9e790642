// SPDX-License-Identifier: GPL-2.0
/*
 * What this CPU's PEBS can do, and whose its counters are.
 * SDM volume 3, chapter 20 (CPUID leaf 10, IA32_PERF_CAPABILITIES).
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/printk.h>
#include <asm/cpufeature.h>
#include <asm/nmi.h>
#include <asm/perf_event.h>
#include <asm/processor.h>

#include "compat.h"
#include "perftax.h"

#define CAP_FORMAT(capabilities)	(((capabilities) >> 8) & 0xf)
#define CAP_FULL_WIDTH			BIT_ULL(13)
#define CAP_ADAPTIVE			BIT_ULL(14)
/* Adaptive records: 4, and 5 with an extended layout that looks the same. */
#define FORMAT_NEWEST			5

/* Groups of adaptive records (MSR_PEBS_DATA_CFG) and what they take. */
#define GROUP_MEMORY			BIT_ULL(0)
#define GROUP_GPRS			BIT_ULL(1)
#define GROUP_XMMS			BIT_ULL(2)
#define GROUP_BRANCHES			BIT_ULL(3)
#define GROUP_BRANCHES_LAST(groups)	(((groups) >> 24) & 0xff)
#define BASIC_BYTES			32
#define MEMORY_BYTES			32
#define GPRS_BYTES			144
#define XMMS_BYTES			256
#define BRANCH_BYTES			24
/* Records are of the first counters, until they became adaptive. */
#define FIXED_RECORD_COUNTERS		4u

struct perftax_pmu perftax_pmu;

/* Whether this CPU can do it; says in the log why not. */
int perftax_pmu_probe(void)
{
	u64 capabilities, misc;
	u32 eax, ebx, ecx, edx;

	if (boot_cpu_data.x86_vendor != X86_VENDOR_INTEL ||
	    !boot_cpu_has(X86_FEATURE_DTES64) || !boot_cpu_has(X86_FEATURE_PDCM)) {
		pr_err("CPUID shows no debug store of 64 bits (an Intel CPU's DTES64 and PDCM): no PEBS here\n");
		return -ENODEV;
	}
	if (boot_cpu_has(X86_FEATURE_HYBRID_CPU)) {
		pr_err("this CPU has cores of several kinds, whose records differ\n");
		return -ENODEV;
	}
	rdmsrq(MSR_IA32_MISC_ENABLE, misc);
	if (misc & MSR_IA32_MISC_ENABLE_PEBS_UNAVAIL) {
		pr_err("IA32_MISC_ENABLE says that PEBS is unavailable (%#llx)\n", misc);
		return -ENODEV;
	}
	cpuid(10, &eax, &ebx, &ecx, &edx);
	rdmsrq(MSR_IA32_PERF_CAPABILITIES, capabilities);
	perftax_pmu.general = min_t(unsigned int, (eax >> 8) & 0xff, PERFTAX_EVENTS_MAX);
	perftax_pmu.counter_bits = (eax >> 16) & 0xff;
	perftax_pmu.format = CAP_FORMAT(capabilities);
	perftax_pmu.full_width = capabilities & CAP_FULL_WIDTH;
	perftax_pmu.adaptive = capabilities & CAP_ADAPTIVE;
	perftax_pmu.sampling = perftax_pmu.adaptive ? perftax_pmu.general :
			       min(perftax_pmu.general, FIXED_RECORD_COUNTERS);
	if ((eax & 0xff) < 2 || !perftax_pmu.general || perftax_pmu.counter_bits < 32) {
		pr_err("CPUID leaf 10 shows no counters (%#x)\n", eax);
		return -ENODEV;
	}
	if (perftax_pmu.format > FORMAT_NEWEST) {
		pr_err("IA32_PERF_CAPABILITIES names records of format %u, which came after this module\n",
		       perftax_pmu.format);
		return -ENODEV;
	}
	return 0;
}

/* Whether a buffer can be one's own: PERFTAX_OWN_... */
u32 perftax_pmu_own_buffer(void)
{
	if (boot_cpu_has(X86_FEATURE_PTI))
		return PERFTAX_OWN_PTI;
	return PERFTAX_OWN_POSSIBLE;
}

bool perftax_pmu_knows_groups(u64 groups)
{
	/* Not branches: their records must be switched on, and perf does that. */
	u64 known = GROUP_MEMORY | GROUP_GPRS | GROUP_XMMS;

	return !(groups & ~(perftax_pmu.adaptive ? known : 0));
}

/* Bytes of a record by its format. */
unsigned int perftax_pmu_record_bytes(u64 groups)
{
	static const unsigned int of_format[] = { 144, 176, 192, 200 };
	unsigned int bytes = BASIC_BYTES;

	if (perftax_pmu.format < ARRAY_SIZE(of_format))
		return of_format[perftax_pmu.format];
	if (groups & GROUP_MEMORY)
		bytes += MEMORY_BYTES;
	if (groups & GROUP_GPRS)
		bytes += GPRS_BYTES;
	if (groups & GROUP_XMMS)
		bytes += XMMS_BYTES;
	if (groups & GROUP_BRANCHES)
		bytes += (GROUP_BRANCHES_LAST(groups) + 1) * BRANCH_BYTES;
	return bytes;
}

static void release(unsigned int count)
{
	while (count--) {
		release_evntsel_nmi(MSR_ARCH_PERFMON_EVENTSEL0 + count);
		release_perfctr_nmi(MSR_ARCH_PERFMON_PERFCTR0 + count);
	}
}

/* perf takes the same reservations with its first hardware event. */
int perftax_pmu_reserve(void)
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
	release(i);
	return -EBUSY;
}

void perftax_pmu_release(void)
{
	release(perftax_pmu.general);
}
