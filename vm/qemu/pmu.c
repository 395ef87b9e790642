/*
 * A PMU for TCG, Intel's or AMD's, as a part of its machine: what it is made
 * of, reset, saved, and told by CPUID.  Counters, samples and branch records
 * are perftax_engine.h's; what the guest executes is followed in
 * pmu_follow.c, accesses to memory in pmu_access.c, and registers are
 * pmu_registers.c's.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "cpu.h"
#include "accel/tcg/cpu-ldst.h"
#include "accel/tcg/probe.h"
#include "exec/target_page.h"
#include "exec/tlb-flags.h"
#include "hw/boards.h"
#include "migration/vmstate.h"
#include "exec/icount.h"
#include "system/cpu-timers.h"
#include "tcg/helper-tcg.h"
#include "pmu_internal.h"

/* Leaf 23H is there. */
#define CPUID_7_1_EAX_ARCH_PERFMON_EXT  (1U << 8)

bool x86_pmu_present(CPUX86State *env)
{
    return env->pmu.engine != NULL;
}

/*
 * Memory of the guest kernel, whatever the privilege: the debug store is the
 * kernel's.  Pages that would fault are refused.
 */
static void *kernel_memory(CPUX86State *env, uint64_t address,
                           MMUAccessType type)
{
    void *host;
    int flags = probe_access_flags(env, address, 0, type, MMU_KNOSMAP64_IDX,
                                   true, &host, 0);

    return flags ? NULL : host;
}

static bool pmu_read(void *of, uint64_t address, uint64_t *value)
{
    CPUX86State *env = of;
    void *host = kernel_memory(env, address, MMU_DATA_LOAD);

    if (!host) {
        return false;
    }
    if (address & 7) {
        *value = cpu_ldq_le_mmuidx_ra(env, address, MMU_KNOSMAP64_IDX, 0);
    } else {
        /* As that does it, but the page is looked up once. */
        *value = ldq_le_p(host);
        x86_pmu_watch_access(env_cpu(env), address, true, false);
    }
    return true;
}

static bool pmu_write(void *of, uint64_t address, const uint64_t *words,
                      size_t count)
{
    CPUX86State *env = of;
    uint64_t page, end = address + 8 * count;

    for (page = address & TARGET_PAGE_MASK; page < end;
         page += TARGET_PAGE_SIZE) {
        if (!kernel_memory(env, MAX(page, address), MMU_DATA_STORE)) {
            return false;
        }
    }
    while (address < end) {
        size_t size = MIN(end - address, -(address | TARGET_PAGE_MASK));
        /* Marks the page as written to, too. */
        void *host = probe_access(env, address, size, MMU_DATA_STORE,
                                  MMU_KNOSMAP64_IDX, 0);
        size_t i;

        if (host && !(address & 7)) {
            for (i = 0; i < size / 8; i++) {
                stq_le_p(host + 8 * i, *words++);
            }
            address += size;
        } else {
            cpu_stq_le_mmuidx_ra(env, address, *words++, MMU_KNOSMAP64_IDX, 0);
            address += 8;
        }
    }
    return true;
}

/*
 * Memory as the processor addresses it, without page tables: architectural
 * PEBS writes there.  Nothing but RAM takes records.
 */
static bool pmu_write_physical(void *of, uint64_t address,
                               const uint64_t *words, size_t count)
{
    AddressSpace *as = cpu_get_address_space(env_cpu(of), X86ASIdx_MEM);
    hwaddr inside, length = 8 * count;
    g_autofree uint64_t *bytes = g_new(uint64_t, count);
    MemoryRegion *mr;
    size_t i;

    RCU_READ_LOCK_GUARD();
    mr = address_space_translate(as, address, &inside, &length, true,
                                 MEMTXATTRS_UNSPECIFIED);
    if (!memory_region_is_ram(mr) || length < 8 * count) {
        return false;
    }
    for (i = 0; i < count; i++) {
        bytes[i] = cpu_to_le64(words[i]);
    }
    return address_space_write(as, address, MEMTXATTRS_UNSPECIFIED, bytes,
                               8 * count) == MEMTX_OK;
}

/* A cache as the engine simulates it, otherwise as the processor's. */
static void pmu_describe_cache(perftax_engine *engine, CPUCacheInfo **cache)
{
    CPUCacheInfo *own, *described = *cache;
    uint64_t bytes;
    uint32_t ways;

    if (described &&
        perftax_engine_cache(engine, described->level, &bytes, &ways)) {
        own = g_new(CPUCacheInfo, 1);
        *own = *described;
        own->size = bytes;
        own->associativity = ways;
        own->partitions = 1;
        own->sets = bytes / own->line_size / ways;
        *cache = own;
    }
}

void x86_pmu_describe_caches(CPUX86State *env)
{
    CPUCaches *caches = &env->cache_info;

    pmu_describe_cache(env->pmu.engine, &caches->l1d_cache);
    pmu_describe_cache(env->pmu.engine, &caches->l2_cache);
    pmu_describe_cache(env->pmu.engine, &caches->l3_cache);
}

/*
 * Whether CPUID tells the rate of time: leaves 15H and 16H, from Skylake on.
 * A time stamp counts instructions then.
 */
bool x86_pmu_tells_rate(X86CPU *cpu)
{
    CPUX86State *env = &cpu->env;
    uint32_t model = ((env->cpuid_version >> 4) & 0xf)
                   | ((env->cpuid_version >> 12) & 0xf0);

    return tcg_enabled() && cpu->enable_pmu && IS_INTEL_CPU(env)
        && icount_enabled() && model >= 0x4e && model != 0x4f && model != 0x56;
}

/* What counters were set to and nobody counts, at the machine's end. */
static void pmu_tell_unmodelled(void)
{
    uint64_t which, times;
    CPUState *cs;
    size_t i;

    CPU_FOREACH(cs) {
        perftax_engine *engine = X86_CPU(cs)->env.pmu.engine;

        for (i = 0; perftax_engine_unmodelled(engine, i, &which, &times); i++) {
            fprintf(stderr, "perftax-unmodelled: 0x%" PRIx64 " %" PRIu64 "\n",
                    which, times);
        }
    }
}

/*
 * Has CPUID list architectural branch records where the engine has them, the
 * leaf of Intel's version 6, and that of AMD's version 2. The former's
 * XSAVE state is not: features and components were told apart before.
 */
static void pmu_list_leaves(CPUX86State *env)
{
    uint32_t r[4];

    if (!pmu_is_hidden(env) &&
        perftax_engine_cpuid(env->pmu.engine, 0x1c, 0, r)) {
        env->features[FEAT_7_0_EDX] |= CPUID_7_0_EDX_ARCH_LBR;
        env->cpuid_level = MAX(env->cpuid_level, 0x1c);
    }
    if (!pmu_is_hidden(env) &&
        perftax_engine_cpuid(env->pmu.engine, 0x23, 0, r)) {
        env->features[FEAT_7_1_EAX] |= CPUID_7_1_EAX_ARCH_PERFMON_EXT;
        env->cpuid_level = MAX(env->cpuid_level, 0x23);
        env->cpuid_level_func7 = MAX(env->cpuid_level_func7, 1);
    }
    if (!pmu_is_hidden(env) &&
        perftax_engine_cpuid(env->pmu.engine, 0x80000022, 0, r)) {
        env->cpuid_xlevel = MAX(env->cpuid_xlevel, 0x80000022);
    }
}

bool x86_pmu_realize(X86CPU *cpu, Error **errp)
{
    CPUX86State *env = &cpu->env;
    X86PMU *pmu = &env->pmu;
    MachineState *machine = MACHINE(qdev_get_machine());
    struct perftax_memory memory = {
        env, pmu_read, pmu_write, pmu_write_physical
    };
    uint32_t version = env->cpuid_version;
    uint32_t family = (version >> 8) & 0xf;
    uint32_t model = ((version >> 4) & 0xf) | ((version >> 12) & 0xf0);

    if (family == 0xf) {
        family += (version >> 20) & 0xff;
    }

    pmu->engine = perftax_engine_new(family, model, CPU(cpu)->cpu_index,
                                     machine->smp.max_cpus, &pmu->settings,
                                     &pmu->budget, &memory);
    if (!pmu->engine) {
        error_setg(errp, "pmu=on: no PMU%s is modelled for family %u model %u;"
                   " there is one for Haswell, Broadwell, Skylake-Client,"
                   " Icelake-Server, Sapphire Rapids (model=143),"
                   " ClearwaterForest, EPYC, EPYC-Rome, EPYC-Milan, Zen 4"
                   " (EPYC-Milan,model=17) and EPYC-Turin",
                   pmu->settings.caches || pmu->settings.miss_time
                   ? " with caches" : "", family, model);
        return false;
    }
    if (!CPU(cpu)->cpu_index) {
        atexit(pmu_tell_unmodelled);
    }
    pmu_list_leaves(env);
    return true;
}

void x86_pmu_reset(CPUX86State *env)
{
    X86PMU *pmu = &env->pmu;

    if (pmu->engine) {
        perftax_engine_reset(pmu->engine);
        pmu->flight.all = 0;
        pmu->far_from = -1;
        pmu->stepping = false;
    }
}

/* The number of the register that has this place among those that are saved. */
static bool pmu_saves(X86PMU *pmu, unsigned place, uint32_t *number)
{
    return place < PMU_SAVED
        && perftax_engine_saves(pmu->engine, place, number);
}

static int pmu_pre_save(void *opaque)
{
    X86PMU *pmu = &((X86CPU *)opaque)->env.pmu;
    uint32_t number;
    unsigned i;

    memset(pmu->saved, 0, sizeof(pmu->saved));
    for (i = 0; pmu_saves(pmu, i, &number); i++) {
        perftax_engine_rdmsr(pmu->engine, number, &pmu->saved[i]);
    }
    return 0;
}

static int pmu_post_load(void *opaque, int version)
{
    X86PMU *pmu = &((X86CPU *)opaque)->env.pmu;
    uint32_t number;
    unsigned i;

    perftax_engine_reset(pmu->engine);
    pmu->flight.all = 0;
    pmu->branch = 0;
    pmu->access = 0;
    pmu->fetched = -1;
    pmu->unwound_ip = -1;
    pmu->far_from = -1;
    pmu->stepping = false;
    pmu->cycles = PMU_MANY_CYCLES;
    for (i = 0; pmu_saves(pmu, i, &number); i++) {
        perftax_engine_restore(pmu->engine, number, pmu->saved[i]);
    }
    return 0;
}

static bool pmu_needed(void *opaque)
{
    return ((X86CPU *)opaque)->env.pmu.engine != NULL;
}

const VMStateDescription vmstate_x86_pmu = {
    .name = "cpu/perftax_pmu",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = pmu_needed,
    .pre_save = pmu_pre_save,
    .post_load = pmu_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64_ARRAY(env.pmu.saved, X86CPU, PMU_SAVED),
        VMSTATE_INT64(env.pmu.nmi_instructions, X86CPU),
        VMSTATE_UINT8_ARRAY(env.pmu.predictor, X86CPU, 4096),
        VMSTATE_END_OF_LIST()
    }
};

void x86_pmu_cpuid(CPUX86State *env, uint32_t *eax, uint32_t *ebx,
                   uint32_t *ecx, uint32_t *edx)
{
    uint32_t r[4] = { 0 };

    if (env->pmu.engine && !pmu_is_hidden(env)) {
        perftax_engine_cpuid_a(env->pmu.engine, r);
    }
    *eax = r[0];
    *ebx = r[1];
    *ecx = r[2];
    *edx = r[3];
}

bool x86_pmu_cpuid_leaf(CPUX86State *env, uint32_t leaf, uint32_t subleaf,
                        uint32_t *eax, uint32_t *ebx, uint32_t *ecx,
                        uint32_t *edx)
{
    uint32_t r[4];

    if (!env->pmu.engine || pmu_is_hidden(env) ||
        !perftax_engine_cpuid(env->pmu.engine, leaf, subleaf, r)) {
        return false;
    }
    *eax = r[0];
    *ebx = r[1];
    *ecx = r[2];
    *edx = r[3];
    return true;
}

uint32_t x86_pmu_cpuid_ibs(CPUX86State *env)
{
    return env->pmu.engine && !pmu_is_hidden(env)
        ? perftax_engine_cpuid_ibs(env->pmu.engine) : 0;
}
