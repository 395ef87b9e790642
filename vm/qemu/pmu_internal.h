/*
 * What the parts of a PMU for TCG share.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef PMU_INTERNAL_H
#define PMU_INTERNAL_H

/* More than a branch record tells. */
#define PMU_MANY_CYCLES 0x10000

static inline int pmu_mode(CPUX86State *env)
{
    return (env->hflags & HF_CPL_MASK) != 0;
}

/* Blocks are subtracted as wholes, but for one of their instructions. */
static inline bool pmu_is_in_blocks(CPUX86State *env, int mode)
{
    uint8_t granularity = env->pmu.budget.granularity[mode];

    return granularity != PERFTAX_OFF && granularity != PERFTAX_INSTRUCTION
        && !env->pmu.stepping;
}

/* Registers of the emulation alone are there. */
static inline bool pmu_is_hidden(CPUX86State *env)
{
    return env->pmu.settings.without & PERFTAX_WITHOUT_PMU;
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

#endif
