/*
 * The registers of a PMU for TCG: those that perftax_engine.h knows, and the
 * emulation's own.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "cpu.h"
#include "exec/icount.h"
#include "system/cpu-timers.h"
#include "system/runstate.h"
#include "tcg/helper-tcg.h"
#include "pmu_internal.h"

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

/* Stops the machine with this instruction, where that is wanted. */
static void pmu_pause(CPUX86State *env)
{
    CPUState *cs;
    bool locked = bql_locked();

    if (!env->pmu.pauses) {
        return;
    }
    if (!locked) {
        bql_lock();
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
        bql_unlock();
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

    if (pmu_is_in_blocks(env, mode)) {
        pmu->budget.left[mode][PERFTAX_INSTRUCTIONS]++;
        return PERFTAX_BLOCK;
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

    if (pmu_is_in_blocks(env, mode) && counts) {
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
            pmu->branch = 0;
        }
        return known;
    }
    perftax_engine_set(pmu->engine, &pmu->settings);
    return true;
}
