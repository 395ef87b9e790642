/*
 * What translated code, interrupts and unwinding tell a PMU for TCG of.
 *
 * An instruction is in flight from the hook at its start until the next hook,
 * interrupt or trap, where it retires: env then holds the state right after
 * it.  An unwind or a fault at its own address cancels it.  Blocks are
 * subtracted as wholes at their start, and the branch at their end is judged
 * where the next one starts.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "cpu.h"
#include "exec/helper-proto.h"
#include "exec/translation-block.h"
#include "hw/i386/apic.h"
#include "exec/icount.h"
#include "system/cpu-timers.h"
#include "tcg/helper-tcg.h"
#include "pmu_internal.h"

#if HOST_BIG_ENDIAN
#error "translated code subtracts branches and instructions as one number"
#endif

/* Classes of a branch, which the instruction at @next follows. */
static uint32_t pmu_branch_classes(CPUX86State *env, uint64_t next)
{
    X86PMU *pmu = &env->pmu;
    uint32_t classes = pmu->branch & 0xffff;
    bool conditional = classes & 1 << PERFTAX_CONDITIONAL;
    bool taken = !conditional || next != pmu->ip + (pmu->branch >> 24);
    /* Two bits for each of 4096 conditional branches, by address. */
    uint8_t *state = &pmu->predictor[(pmu->ip ^ pmu->ip >> 12) & 0xfff];

    if (!classes) {
        return 0;
    }
    if (conditional) {
        classes |= (*state >= 2) != taken ? 1 << PERFTAX_MISPREDICTED : 0;
        classes |= taken ? 1 << PERFTAX_CONDITIONAL_TAKEN
                         : 1 << PERFTAX_CONDITIONAL_NOT_TAKEN;
        *state = taken ? MIN(*state + 1, 3) : MAX(*state - 1, 0);
    }
    if (taken) {
        classes |= 1 << PERFTAX_TAKEN;
        pmu->fetched = -1;
    }
    return classes;
}

/* Classes of the instruction in flight, which the one at @next follows. */
static uint32_t pmu_classes(CPUX86State *env, uint64_t next)
{
    X86PMU *pmu = &env->pmu;
    uint32_t classes = 1 << PERFTAX_INSTRUCTIONS | 1 << PERFTAX_UOPS;
    uint64_t fetch = pmu->ip / PERFTAX_FETCH_BYTES;

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
    return classes | pmu_branch_classes(env, next);
}

/* A budget is used up with an instruction that has retired. */
static bool __attribute__((noinline))
pmu_used_up(CPUX86State *env, uint64_t next, uint32_t classes, uint32_t uops,
            uint32_t width, struct perftax_actions *actions)
{
    X86PMU *pmu = &env->pmu;
    struct perftax_retired retired;
    uint16_t granularity = lduw_he_p(pmu->budget.granularity);
    uint8_t memory = pmu->budget.watches_memory;
    int i;

    memset(&retired, 0, offsetof(struct perftax_retired, xmm));
    retired.ip = pmu->ip;
    retired.next_ip = next;
    if (pmu->budget.wants_registers) {
        retired.flags = cpu_compute_eflags(env);
        for (i = 0; i < 16; i++) {
            retired.registers[i] = env->regs[i];
            retired.xmm[i][0] = env->xmm_regs[i].ZMM_Q(0);
            retired.xmm[i][1] = env->xmm_regs[i].ZMM_Q(1);
        }
        retired.tsc = cpu_get_tsc(env) + env->tsc_offset;
    }
    retired.load_address = pmu->load_address;
    retired.store_address = pmu->store_address;
    retired.classes = classes;
    retired.uops = uops;
    retired.privilege = pmu->mode;
    retired.level = pmu->access >> 32 & 7;
    retired.latency_cycles = pmu->access >> 48;
    retired.store_missed = pmu->access & PERFTAX_STORE_MISSED;
    retired.store_level = pmu->access >> PERFTAX_STORE_LEVEL_SHIFT & 7;
    retired.width = width;
    *actions = perftax_engine_retire(pmu->engine, &retired);
    return actions->interrupt || actions->sampling_interrupt
        || actions->stall_ns || memory != pmu->budget.watches_memory
        || granularity != lduw_he_p(pmu->budget.granularity);
}

/* From one look at what timers are due to the next, at most, ns. */
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

/* What blocks are subtracted as: accesses and micro-ops follow from it. */
#define PMU_OF_BLOCKS (1 << PERFTAX_INSTRUCTIONS | 1 << PERFTAX_BRANCHES | \
                       1 << PERFTAX_LOADS | 1 << PERFTAX_STORES)
/* What the branch at a block's end is beside, by where it leads. */
#define PMU_OF_BRANCHES (1 << PERFTAX_TAKEN | 1 << PERFTAX_MISPREDICTED | \
                         1 << PERFTAX_CALLS | 1 << PERFTAX_RETURNS | \
                         1 << PERFTAX_CONDITIONAL | \
                         1 << PERFTAX_CONDITIONAL_TAKEN | \
                         1 << PERFTAX_CONDITIONAL_NOT_TAKEN)

/* The branch at the end of the latest block has led to where env is now. */
static void pmu_finish_branch(CPUX86State *env)
{
    X86PMU *pmu = &env->pmu;
    uint64_t next = env->eip + env->segs[R_CS].base;
    uint32_t classes = pmu_branch_classes(env, next);
    uint32_t watched = classes & pmu->budget.watched[pmu->mode]
                     & PMU_OF_BRANCHES;

    for (; watched; watched &= watched - 1) {
        pmu->budget.left[pmu->mode][ctz32(watched)]--;
    }
    if (pmu->budget.records_branches && classes & 1 << PERFTAX_TAKEN) {
        pmu_branch(env, pmu->ip, pmu->branch >> PMU_KIND_SHIFT & 0xf,
                   classes & 1 << PERFTAX_MISPREDICTED);
    }
    pmu->branch = 0;
}

/* An interrupt or exception led to where env is now. */
static void pmu_finish_far(CPUX86State *env)
{
    X86PMU *pmu = &env->pmu;

    if (pmu->budget.records_branches) {
        pmu_branch(env, pmu->far_from, PERFTAX_BRANCH_FAR, false);
    }
    pmu->far_from = -1;
}

/* The start of a block, where branches are told and one has led here. */
void helper_pmu_branch(CPUX86State *env)
{
    X86PMU *pmu = &env->pmu;

    pmu_finish_branch(env);
    if (pmu->far_from != -1) {
        pmu_finish_far(env);
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
    bool used_up = false, replan = false;

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
    if (unlikely(pmu->stepping)) {
        pmu->stepping = false;
        watched = classes & (PMU_OF_BLOCKS |
                             (PMU_OF_BRANCHES & pmu->budget.watched[mode]));
        replan = true;
    }
    pmu->branch = 0;
    while (watched) {
        int i = ctz32(watched);

        watched &= watched - 1;
        pmu->budget.left[mode][i] -= i == PERFTAX_UOPS ? uops
                                   : i == PERFTAX_ACCESSES ? accesses : 1;
        used_up |= pmu->budget.left[mode][i] < 0;
    }
    if (unlikely(used_up)) {
        replan |= pmu_used_up(env, next, classes, uops, width, actions);
    }
    return replan;
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
        bool locked = bql_locked();

        if (!locked) {
            bql_lock();
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
            bql_unlock();
        }
    }
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
        bool can_do_io = cs->neg.can_do_io;
        int mode = pmu->mode;

        /* A clock may be read for the record. */
        cs->neg.can_do_io = true;
        if (unlikely(pmu_retire(env, &actions))) {
            /* Gives icount back what this block has not run. */
            cpu_restore_state(cs, GETPC());
            cs->neg.can_do_io = true;
            pmu_act(env, mode, &actions);
            cs->exception_index = -1;
            cpu_loop_exit(cs);
        }
        cs->neg.can_do_io = can_do_io;
    }
    if (unlikely(pmu->far_from != -1)) {
        pmu_finish_far(env);
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
        env_cpu(env)->neg.icount_decr.u16.low += n;
    }
    pmu->flight.all = 0;
    perftax_engine_replan(pmu->engine, n);
}

/*
 * A block begins with an instruction that must be followed by itself; it then
 * exits, and nothing of it has run.
 */
void helper_pmu_step(CPUX86State *env)
{
    if (icount_enabled()) {
        env_cpu(env)->neg.icount_decr.u16.low++;
    }
    env->pmu.flight.all = 0;
    env->pmu.stepping = true;
}

/* Instructions so far, of all vCPUs: meant for machines with one. */
static int64_t pmu_instructions(CPUX86State *env)
{
    CPUState *cs = env_cpu(env);
    bool can_do_io = cs->neg.can_do_io;
    int64_t instructions = 0;

    if (icount_enabled()) {
        cs->neg.can_do_io = true;
        instructions = icount_get_raw();
        cs->neg.can_do_io = can_do_io;
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
    if (pmu_is_in_blocks(env, mode)) {
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
        pmu->stepping = false;
        return;
    }
    if (pmu->flight.again || (fault && pmu->ip == next)) {
        /* Not retired: interrupted between repetitions, or a fault. */
        pmu->flight.all = 0;
        pmu->stepping = false;
        return;
    }
    mode = pmu->mode;
    env_cpu(env)->neg.can_do_io = true;
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
    if (pmu->branch && pmu_is_in_blocks(env, pmu_mode(env))) {
        helper_pmu_branch(env);
    }
    pmu_boundary(env, intno, is_int, is_hw);
    /* The handler is fetched, wherever it is. */
    pmu->fetched = -1;
    pmu->far_from = -1;
    if (pmu->budget.records_branches) {
        pmu->far_from = env->eip + env->segs[R_CS].base;
        pmu->branch = PMU_FAR;
    }
}

/*
 * SYSCALL retires here: the kernel's blocks may not be followed.  They are
 * where branches are recorded, and it retires where it led.
 */
void x86_pmu_syscall(CPUX86State *env)
{
    X86PMU *pmu = &env->pmu;

    if (pmu->budget.records_branches) {
        return;
    }
    if (pmu->flight.all) {
        x86_pmu_boundary(env, 0, 1, 0);
    } else if (pmu->branch && pmu_is_in_blocks(env, pmu_mode(env))) {
        pmu_finish_branch(env);
    }
}

/*
 * A block was unwound with @left instructions to go; it has loaded and stored
 * as often as @counted says.
 */
void x86_pmu_unwind(CPUX86State *env, const TranslationBlock *tb,
                    uint64_t new_pc, int left, uint32_t counted)
{
    X86PMU *pmu = &env->pmu;
    int32_t *budget = pmu->budget.left[(tb->flags & HF_CPL_MASK) != 0];
    uint32_t follows = (tb->flags & HF_PMU_MASK) >> HF_PMU_SHIFT;
    uint32_t loads = extract32(tb->target_data, PMU_LOADS_SHIFT, 12);
    uint32_t stores = extract32(tb->target_data, PMU_STORES_SHIFT, 12);

    if (pmu->ip == new_pc) {
        pmu->flight.all = 0;
    }
    if (follows != PERFTAX_OFF && follows != PERFTAX_INSTRUCTION &&
        follows != PMU_INSTRUCTION_AND_MEMORY) {
        if (follows == PERFTAX_BLOCK_AND_BRANCHES) {
            pmu->cycles -= left;
            /* A branch that did not come to its end. */
            pmu->branch = pmu->ip == new_pc ? 0 : pmu->branch;
        }
        budget[PERFTAX_INSTRUCTIONS] += left;
        budget[PERFTAX_BRANCHES] += extract32(tb->target_data, 0, 8);
        budget[PERFTAX_LOADS] += loads
            - extract32(counted, PMU_LOADS_SHIFT, 12);
        budget[PERFTAX_STORES] += stores
            - extract32(counted, PMU_STORES_SHIFT, 12);
        pmu->unwound_ip = new_pc;
    }
}
