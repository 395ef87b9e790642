/*
 * A PMU for TCG, Intel's or AMD's: what translated code and the rest of QEMU
 * call, but for accesses (pmu_access.c).  Counters, samples and branch
 * records are perftax_engine.h's.
 *
 * An instruction is in flight from the hook at its start until the next hook,
 * interrupt or trap, where it retires: env then holds the state right after
 * it.  An unwind or a fault at its own address cancels it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "qapi/error.h"
#include "cpu.h"
#include "exec/helper-proto.h"
#include "exec/cpu_ldst.h"
#include "exec/exec-all.h"
#include "hw/boards.h"
#include "hw/i386/apic.h"
#include "migration/vmstate.h"
#include "sysemu/cpu-timers.h"
#include "sysemu/runstate.h"
#include "tcg/helper-tcg.h"

/* Registers of the emulation itself: a guest's root may change what it does. */
#define MSR_EMULATION_ASSIST_NS     0x50540000
#define MSR_EMULATION_INTERRUPT_NS  0x50540001
#define MSR_EMULATION_SKID          0x50540002
#define MSR_EMULATION_ARM_SAME      0x50540003
#define MSR_EMULATION_PAUSE         0x50540008
#define MSR_EMULATION_RECORDS       0x50540010
#define MSR_EMULATION_LOST          0x50540011
#define MSR_EMULATION_INTERRUPTS    0x50540012
#define MSR_EMULATION_NMI_INSNS     0x50540013

#if HOST_BIG_ENDIAN
#error "translated code subtracts branches and instructions as one number"
#endif

/* More than a branch record tells. */
#define PMU_MANY_CYCLES 0x10000

static inline int pmu_mode(CPUX86State *env)
{
    return (env->hflags & HF_CPL_MASK) != 0;
}

/* Registers of the emulation alone are there. */
static bool pmu_is_hidden(CPUX86State *env)
{
    return env->pmu.settings.without & PERFTAX_WITHOUT_PMU;
}

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
    int flags = probe_access_flags(env, address, type, MMU_KNOSMAP64_IDX,
                                   true, &host, 0);

    return flags & ~TLB_NOTDIRTY ? NULL : host;
}

static bool pmu_read(void *of, uint64_t address, uint64_t *value)
{
    CPUX86State *env = of;

    if (!kernel_memory(env, address, MMU_DATA_LOAD)) {
        return false;
    }
    *value = cpu_ldq_mmuidx_ra(env, address, MMU_KNOSMAP64_IDX, 0);
    return true;
}

static bool pmu_write(void *of, uint64_t address, const uint64_t *words,
                      size_t count)
{
    CPUX86State *env = of;
    uint64_t page, end = address + 8 * count;
    size_t i;

    for (page = address & TARGET_PAGE_MASK; page < end;
         page += TARGET_PAGE_SIZE) {
        if (!kernel_memory(env, MAX(page, address), MMU_DATA_STORE)) {
            return false;
        }
    }
    for (i = 0; i < count; i++) {
        cpu_stq_mmuidx_ra(env, address + 8 * i, words[i], MMU_KNOSMAP64_IDX, 0);
    }
    return true;
}

/* A cache as the engine simulates it, otherwise as the processor's. */
static void pmu_describe_cache(perftax_engine *engine, CPUCacheInfo **cache)
{
    CPUCacheInfo *own;
    uint64_t bytes;
    uint32_t ways;

    if (*cache && perftax_engine_cache(engine, (*cache)->level, &bytes, &ways)) {
        own = g_new(CPUCacheInfo, 1);
        *own = **cache;
        own->size = bytes;
        own->associativity = ways;
        own->partitions = 1;
        own->sets = bytes / own->line_size / ways;
        *cache = own;
    }
}

void x86_pmu_describe_caches(CPUX86State *env)
{
    CPUCaches *all[] = { &env->cache_info_cpuid2, &env->cache_info_cpuid4,
                         &env->cache_info_amd };
    int i;

    for (i = 0; i < ARRAY_SIZE(all); i++) {
        pmu_describe_cache(env->pmu.engine, &all[i]->l1d_cache);
        pmu_describe_cache(env->pmu.engine, &all[i]->l2_cache);
        pmu_describe_cache(env->pmu.engine, &all[i]->l3_cache);
    }
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

bool x86_pmu_realize(X86CPU *cpu, Error **errp)
{
    CPUX86State *env = &cpu->env;
    X86PMU *pmu = &env->pmu;
    MachineState *machine = MACHINE(qdev_get_machine());
    struct perftax_memory memory = { env, pmu_read, pmu_write };
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
                   " Icelake-Server, EPYC, EPYC-Rome and EPYC-Milan",
                   pmu->settings.caches || pmu->settings.miss_time
                   ? " with caches" : "", family, model);
        return false;
    }
    if (!CPU(cpu)->cpu_index) {
        atexit(pmu_tell_unmodelled);
    }
    return true;
}

void x86_pmu_reset(CPUX86State *env)
{
    X86PMU *pmu = &env->pmu;

    if (pmu->engine) {
        perftax_engine_reset(pmu->engine);
        pmu->flight.all = 0;
        pmu->far_from = -1;
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
    .fields = (VMStateField[]) {
        VMSTATE_UINT64_ARRAY(env.pmu.saved, X86CPU, PMU_SAVED),
        VMSTATE_INT64(env.pmu.nmi_instructions, X86CPU),
        VMSTATE_UINT8_ARRAY(env.pmu.predictor, X86CPU, 4096),
        VMSTATE_END_OF_LIST()
    }
};

/* Stops the machine with this instruction, where that is wanted. */
static void pmu_pause(CPUX86State *env)
{
    CPUState *cs;
    bool locked = qemu_mutex_iothread_locked();

    if (!env->pmu.pauses) {
        return;
    }
    if (!locked) {
        qemu_mutex_lock_iothread();
    }
    if (icount_enabled()) {
        icount_hold();
    }
    CPU_FOREACH(cs) {
        cs->stop = true;
    }
    qemu_system_vmstop_request_prepare();
    qemu_system_vmstop_request(RUN_STATE_PAUSED);
    cpu_exit(env_cpu(env));
    if (!locked) {
        qemu_mutex_unlock_iothread();
    }
}

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

uint32_t x86_pmu_cpuid_ibs(CPUX86State *env)
{
    return env->pmu.engine && !pmu_is_hidden(env)
        ? perftax_engine_cpuid_ibs(env->pmu.engine) : 0;
}

/* Classes of the instruction in flight, which the one at @next follows. */
static uint32_t pmu_classes(CPUX86State *env, uint64_t next)
{
    X86PMU *pmu = &env->pmu;
    uint32_t classes = pmu->branch & 0xffff;
    uint32_t length = pmu->branch >> 24;
    uint64_t fetch = pmu->ip / PERFTAX_FETCH_BYTES;

    classes |= 1 << PERFTAX_INSTRUCTIONS | 1 << PERFTAX_UOPS;
    classes |= pmu->flight.load ? 1 << PERFTAX_LOADS : 0;
    classes |= pmu->flight.store ? 1 << PERFTAX_STORES : 0;
    if (pmu->flight.load || pmu->flight.store) {
        classes |= 1 << PERFTAX_ACCESSES;
    }
    if (pmu->flight.locked && pmu->flight.load) {
        classes |= 1 << PERFTAX_LOCKED_LOADS;
    }
    if (pmu->flight.load) {
        classes |= (uint32_t)pmu->access;
    }
    classes |= fetch != pmu->fetched ? 1 << PERFTAX_FETCHES : 0;
    pmu->fetched = fetch;
    if (pmu->branch) {
        bool conditional = classes & 1 << PERFTAX_CONDITIONAL;
        bool taken = !conditional || next != pmu->ip + length;
        /* Two bits for each of 4096 conditional branches, by address. */
        uint8_t *state = &pmu->predictor[(pmu->ip ^ pmu->ip >> 12) & 0xfff];

        classes |= taken ? 1 << PERFTAX_TAKEN : 0;
        if (conditional) {
            classes |= (*state >= 2) != taken ? 1 << PERFTAX_MISPREDICTED : 0;
            *state = taken ? MIN(*state + 1, 3) : MAX(*state - 1, 0);
        }
        if (taken) {
            pmu->fetched = -1;
        }
    }
    return classes;
}

/* A budget is used up with an instruction that has retired. */
static bool __attribute__((noinline)) pmu_used_up(CPUX86State *env, uint64_t next,
                                      uint32_t classes, uint32_t uops,
                                      uint32_t width,
                                      struct perftax_actions *actions)
{
    X86PMU *pmu = &env->pmu;
    struct perftax_retired retired;
    uint16_t granularity = lduw_he_p(pmu->budget.granularity);
    uint8_t memory = pmu->budget.watches_memory;
    int i;

    memset(&retired, 0, offsetof(struct perftax_retired, xmm));
    retired.ip = pmu->ip;
    retired.next_ip = next;
    retired.flags = cpu_compute_eflags(env);
    for (i = 0; i < 16; i++) {
        retired.registers[i] = env->regs[i];
        retired.xmm[i][0] = env->xmm_regs[i].ZMM_Q(0);
        retired.xmm[i][1] = env->xmm_regs[i].ZMM_Q(1);
    }
    retired.tsc = cpu_get_tsc(env) + env->tsc_offset;
    retired.load_address = pmu->load_address;
    retired.store_address = pmu->store_address;
    retired.classes = classes;
    retired.uops = uops;
    retired.privilege = pmu->mode;
    retired.level = pmu->access >> 32 & 0xff;
    retired.latency_cycles = pmu->access >> 48;
    retired.store_missed = pmu->access & PERFTAX_STORE_MISSED;
    retired.width = width;
    *actions = perftax_engine_retire(pmu->engine, &retired);
    return actions->interrupt || actions->sampling_interrupt
        || actions->stall_ns || memory != pmu->budget.watches_memory
        || granularity != lduw_he_p(pmu->budget.granularity);
}

/* From one look at what timers are due to the next, at most, while loads take time, ns. */
#define PMU_LATE_NS 5000

/*
 * The load of the instruction in flight takes so long.  What the machine may
 * run until its next timer was settled before: now and then that is done anew.
 */
static void __attribute__((noinline)) pmu_wait_for_load(CPUX86State *env,
                                                        int mode,
                                                        uint64_t stall_ns)
{
    X86PMU *pmu = &env->pmu;

    icount_stall(stall_ns);
    /* Cycles pass with instructions: whoever counts them watches those. */
    if (pmu->budget.watched[mode]
        & (1 << PERFTAX_CYCLES | 1 << PERFTAX_INSTRUCTIONS)) {
        perftax_engine_stand_still(pmu->engine, mode, stall_ns);
    }
    pmu->waited_ns += stall_ns;
    if (pmu->waited_ns >= PMU_LATE_NS) {
        pmu->waited_ns = 0;
        cpu_exit(env_cpu(env));
    }
}

/* A branch was taken to where env is now; cycles are counted from there. */
static void pmu_branch(CPUX86State *env, uint64_t from, uint32_t kind,
                       bool mispredicted)
{
    X86PMU *pmu = &env->pmu;
    uint64_t to = env->eip + env->segs[R_CS].base;

    if (perftax_engine_branch(pmu->engine, from, to, kind, pmu_mode(env),
                              mispredicted, pmu->cycles)) {
        pmu->cycles = 0;
    }
}

/*
 * The instruction in flight has retired.  True where translated code must be
 * left: something happened, or instructions are followed differently now.
 */
static inline bool pmu_retire(CPUX86State *env,
                              struct perftax_actions *actions)
{
    X86PMU *pmu = &env->pmu;
    uint64_t next = env->eip + env->segs[R_CS].base;
    uint32_t classes = pmu_classes(env, next);
    uint32_t uops = 1 + !!pmu->flight.load + 2 * !!pmu->flight.store;
    uint32_t width = (pmu->flight.load ?: pmu->flight.store) % PMU_ANY_WIDTH;
    int mode = pmu->mode;
    uint32_t watched = classes & pmu->budget.watched[mode];
    uint64_t stall_ns = pmu->access >> PERFTAX_STALL_SHIFT & PERFTAX_STALL_MASK;
    uint32_t accesses;
    bool used_up = false;

    if (pmu->flight.load && stall_ns) {
        pmu_wait_for_load(env, mode, stall_ns);
        watched = classes & pmu->budget.watched[mode];
    }

    pmu->cycles += 1 + (pmu->flight.load ? stall_ns : 0);
    if (pmu->budget.records_branches && classes & 1 << PERFTAX_TAKEN) {
        pmu_branch(env, pmu->ip, pmu->branch >> PMU_KIND_SHIFT & 0xf,
                   classes & 1 << PERFTAX_MISPREDICTED);
    }
    accesses = !!pmu->flight.load + !!pmu->flight.store;
    pmu->flight.all = 0;
    while (watched) {
        int i = ctz32(watched);

        watched &= watched - 1;
        pmu->budget.left[mode][i] -= i == PERFTAX_UOPS ? uops
                                   : i == PERFTAX_ACCESSES ? accesses : 1;
        used_up |= pmu->budget.left[mode][i] < 0;
    }
    return unlikely(used_up)
        && pmu_used_up(env, next, classes, uops, width, actions);
}

/* env is architectural and clocks may be read. */
static void pmu_act(CPUX86State *env, int mode,
                    const struct perftax_actions *actions)
{
    if (actions->stall_ns) {
        if (icount_enabled()) {
            icount_stall(actions->stall_ns);
        } else {
            int64_t end = get_clock() + actions->stall_ns;

            while (get_clock() < end) {
                /* real time has to pass */
            }
        }
        /* The virtual clock and the core run at 1 GHz. */
        perftax_engine_stand_still(env->pmu.engine, mode, actions->stall_ns);
    }
    if (actions->interrupt || actions->sampling_interrupt) {
        bool locked = qemu_mutex_iothread_locked();

        if (!locked) {
            qemu_mutex_lock_iothread();
        }
        if (actions->interrupt &&
            !(env->pmu.settings.without & PERFTAX_WITHOUT_PMI)) {
            apic_deliver_pmi(env_archcpu(env)->apic_state);
        }
        if (actions->sampling_interrupt &&
            !(env->pmu.settings.without & PERFTAX_WITHOUT_PMI)) {
            apic_deliver_extended(env_archcpu(env)->apic_state, 0);
        }
        if (!locked) {
            qemu_mutex_unlock_iothread();
        }
    }
}

/* An instruction is in flight from here on. */
static inline void pmu_start(CPUX86State *env)
{
    X86PMU *pmu = &env->pmu;

    pmu->flight.all = 0;
    pmu->flight.insn = 1;
    pmu->branch = 0;
    pmu->access = 0;
    pmu->mode = pmu_mode(env);
    pmu->ip = env->eip + env->segs[R_CS].base;
}

/* The start of every instruction while single instructions are followed. */
void helper_pmu_insn(CPUX86State *env)
{
    X86PMU *pmu = &env->pmu;

    if (pmu->flight.again) {
        /* A repetition: the same instruction is still in flight. */
        pmu->flight.again = 0;
        return;
    }
    /* A byte: reading what bytes were just stored to as a whole is slow. */
    if (pmu->flight.insn) {
        struct perftax_actions actions = { 0 };
        CPUState *cs = env_cpu(env);
        uint32_t can_do_io = cs->can_do_io;
        int mode = pmu->mode;

        /* A clock may be read for the record. */
        cs->can_do_io = 1;
        if (unlikely(pmu_retire(env, &actions))) {
            /* Gives icount back what this block has not run. */
            cpu_restore_state(cs, GETPC());
            cs->can_do_io = 1;
            pmu_act(env, mode, &actions);
            cs->exception_index = -1;
            cpu_loop_exit(cs);
        }
        cs->can_do_io = can_do_io;
    }
    if (unlikely(pmu->far_from != -1)) {
        /* An interrupt or exception led here. */
        if (pmu->budget.records_branches) {
            pmu_branch(env, pmu->far_from, PERFTAX_BRANCH_FAR, false);
        }
        pmu->far_from = -1;
    }
    pmu_start(env);
}

/*
 * A block exceeds the budget; it then exits, and nothing of it has run. @both:
 * its instructions in the upper half, its branches in the lower.
 */
void helper_pmu_replan(CPUX86State *env, uint64_t both)
{
    X86PMU *pmu = &env->pmu;
    uint32_t n = both >> 32;
    void *left = &pmu->budget.left[pmu_mode(env)][PERFTAX_BRANCHES];

    stq_he_p(left, ldq_he_p(left) + both);
    if (icount_enabled()) {
        cpu_neg(env_cpu(env))->icount_decr.u16.low += n;
    }
    pmu->flight.all = 0;
    perftax_engine_replan(pmu->engine, n);
}

/* Instructions so far, of all vCPUs: meant for machines with one. */
static int64_t pmu_instructions(CPUX86State *env)
{
    CPUState *cs = env_cpu(env);
    uint32_t can_do_io = cs->can_do_io;
    int64_t instructions = 0;

    if (icount_enabled()) {
        cs->can_do_io = 1;
        instructions = icount_get_raw();
        cs->can_do_io = can_do_io;
    }
    return instructions;
}

/* IRET out of an NMI: what its handler has executed, as a second witness. */
void x86_pmu_nmi_done(CPUX86State *env)
{
    X86PMU *pmu = &env->pmu;

    if (pmu->nmi_began) {
        pmu->nmi_instructions += pmu_instructions(env) - pmu->nmi_began;
        pmu->nmi_began = 0;
    }
}

static void pmu_boundary(CPUX86State *env, int intno, int is_int, int is_hw)
{
    X86PMU *pmu = &env->pmu;
    struct perftax_actions actions = { 0 };
    uint64_t next = env->eip + env->segs[R_CS].base;
    int mode = pmu_mode(env);
    bool fault = !is_hw && !is_int && intno != EXCP01_DB;

    if (is_hw && intno == EXCP02_NMI && !pmu->nmi_began) {
        pmu->nmi_began = pmu_instructions(env);
    }
    if (pmu->budget.granularity[mode] == PERFTAX_BLOCK) {
        /*
         * Unwinding gave back what did not run. Exceptions raised at the end
         * of a block do not unwind; a fetch fault comes before anything ran.
         */
        if (fault && intno != EXCP0E_PAGE && pmu->unwound_ip != next) {
            pmu->budget.left[mode][PERFTAX_INSTRUCTIONS]++;
        }
        pmu->unwound_ip = -1;
        return;
    }
    if (!pmu->flight.all) {
        return;
    }
    if (pmu->flight.again || (fault && pmu->ip == next)) {
        /* Not retired: interrupted between repetitions, or a fault. */
        pmu->flight.all = 0;
        return;
    }
    mode = pmu->mode;
    env_cpu(env)->can_do_io = 1;
    if (pmu_retire(env, &actions)) {
        pmu_act(env, mode, &actions);
    }
}

/* do_interrupt_all(): retires or cancels what is in flight. */
void x86_pmu_boundary(CPUX86State *env, int intno, int is_int, int is_hw)
{
    X86PMU *pmu = &env->pmu;

    if (is_int && pmu->budget.records_branches) {
        /* A branch like others: it retires at the handler, where it led. */
        return;
    }
    pmu_boundary(env, intno, is_int, is_hw);
    /* The handler is fetched, wherever it is. */
    pmu->fetched = -1;
    pmu->far_from = pmu->budget.records_branches
                  ? env->eip + env->segs[R_CS].base : -1;
}

/*
 * SYSCALL retires here: the kernel's blocks may not be followed.  They are
 * where branches are recorded, and it retires where it led.
 */
void x86_pmu_syscall(CPUX86State *env)
{
    if (env->pmu.flight.all && !env->pmu.budget.records_branches) {
        x86_pmu_boundary(env, 0, 1, 0);
    }
}

/* A block was unwound with @left instructions to go. */
void x86_pmu_unwind(CPUX86State *env, const TranslationBlock *tb,
                    uint64_t new_pc, int left)
{
    X86PMU *pmu = &env->pmu;
    int mode = (tb->flags & HF_CPL_MASK) != 0;

    if (pmu->ip == new_pc) {
        pmu->flight.all = 0;
    }
    if ((tb->flags & HF_PMU_MASK) == PERFTAX_BLOCK << HF_PMU_SHIFT) {
        pmu->budget.left[mode][PERFTAX_INSTRUCTIONS] += left;
        pmu->budget.left[mode][PERFTAX_BRANCHES] += tb->target_data;
        pmu->unwound_ip = new_pc;
    }
}

/*
 * RDMSR, WRMSR and RDPMC end a block whose instructions, this one included,
 * are subtracted: it has not retired when the register is accessed.  How the
 * mode was followed.
 */
static uint8_t pmu_begin_access(CPUX86State *env)
{
    X86PMU *pmu = &env->pmu;
    int mode = pmu_mode(env);

    if (pmu->budget.granularity[mode] == PERFTAX_BLOCK) {
        pmu->budget.left[mode][PERFTAX_INSTRUCTIONS]++;
    }
    return pmu->budget.granularity[mode];
}

/*
 * It retires afterwards, and is counted by what counts then: on Intel's also
 * by what it has started.
 */
static void pmu_end_access(CPUX86State *env, uint8_t before)
{
    X86PMU *pmu = &env->pmu;
    int mode = pmu_mode(env);
    uint8_t now = pmu->budget.granularity[mode];
    bool counts = IS_INTEL_CPU(env) || before == PERFTAX_BLOCK;

    if (now == PERFTAX_BLOCK && counts) {
        pmu->budget.left[mode][PERFTAX_INSTRUCTIONS]--;
    }
    if (now != PERFTAX_INSTRUCTION) {
        pmu->flight.all = 0;
    } else if (before != PERFTAX_INSTRUCTION && IS_INTEL_CPU(env)) {
        pmu_start(env);
    }
}

bool x86_pmu_rdpmc(CPUX86State *env)
{
    uint8_t before = pmu_begin_access(env);
    bool known;
    uint64_t value = 0;

    if (pmu_is_hidden(env) ||
        (env->pmu.settings.without & PERFTAX_WITHOUT_RDPMC && pmu_mode(env))) {
        /* The kernel reads its own counters so, and nobody takes that away. */
        pmu_end_access(env, before);
        return false;
    }
    known = perftax_engine_rdpmc(env->pmu.engine, env->regs[R_ECX], &value);
    pmu_end_access(env, before);
    if (known) {
        env->regs[R_EAX] = (uint32_t)value;
        env->regs[R_EDX] = value >> 32;
    }
    return known;
}

bool x86_pmu_rdmsr(CPUX86State *env, uint32_t msr, uint64_t *value)
{
    X86PMU *pmu = &env->pmu;
    struct perftax_tally tally;
    uint8_t before;
    bool known;

    perftax_engine_tally(pmu->engine, &tally);
    switch (msr) {
    case MSR_EMULATION_ASSIST_NS:
        *value = pmu->settings.assist_ns;
        return true;
    case MSR_EMULATION_INTERRUPT_NS:
        *value = pmu->settings.interrupt_ns;
        return true;
    case MSR_EMULATION_SKID:
        *value = pmu->settings.skid;
        return true;
    case MSR_EMULATION_ARM_SAME:
        *value = pmu->settings.arm_same;
        return true;
    case MSR_EMULATION_PAUSE:
        *value = pmu->pauses;
        return true;
    case MSR_EMULATION_RECORDS:
        *value = tally.records;
        return true;
    case MSR_EMULATION_LOST:
        *value = tally.lost;
        return true;
    case MSR_EMULATION_INTERRUPTS:
        *value = tally.interrupts;
        return true;
    case MSR_EMULATION_NMI_INSNS:
        *value = pmu->nmi_instructions;
        return true;
    }
    if (pmu_is_hidden(env)) {
        return false;
    }
    before = pmu_begin_access(env);
    known = perftax_engine_rdmsr(pmu->engine, msr, value);
    pmu_end_access(env, before);
    return known;
}

bool x86_pmu_wrmsr(CPUX86State *env, uint32_t msr, uint64_t value)
{
    X86PMU *pmu = &env->pmu;
    bool known, recorded = pmu->budget.records_branches;
    uint8_t before;

    switch (msr) {
    case MSR_EMULATION_ASSIST_NS:
        pmu->settings.assist_ns = value;
        break;
    case MSR_EMULATION_INTERRUPT_NS:
        pmu->settings.interrupt_ns = value;
        break;
    case MSR_EMULATION_SKID:
        pmu->settings.skid = value;
        break;
    case MSR_EMULATION_ARM_SAME:
        pmu->settings.arm_same = value;
        break;
    case MSR_EMULATION_PAUSE:
        pmu_pause(env);
        return true;
    default:
        if (pmu_is_hidden(env)) {
            return false;
        }
        before = pmu_begin_access(env);
        known = perftax_engine_wrmsr(pmu->engine, msr, value);
        pmu_end_access(env, before);
        if (!recorded && pmu->budget.records_branches) {
            /* How many cycles passed meanwhile nobody has counted. */
            pmu->cycles = PMU_MANY_CYCLES;
            pmu->far_from = -1;
        }
        return known;
    }
    perftax_engine_set(pmu->engine, &pmu->settings);
    return true;
}
