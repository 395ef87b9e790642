/*
 * Accesses that a PMU for TCG is told of: where they go, and at which place
 * of the machine's memory, for the engine's caches.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "cpu.h"
#include "exec/helper-proto.h"
#include "accel/tcg/cpu-ldst.h"
#include "accel/tcg/cpu-mmu-index.h"
#include "accel/tcg/probe.h"
#include "exec/target_page.h"
#include "exec/tlb-flags.h"
#include "tcg/helper-tcg.h"

/* The entry of the translation cache where an address would be found. */
static CPUTLBEntry *pmu_tlb_entry(CPUState *cs, int index, vaddr address)
{
    CPUTLBDescFast *fast = cpu_tlb_fast(cs, index);
    uintptr_t number = (address >> TARGET_PAGE_BITS)
                       & (fast->mask >> CPU_TLB_ENTRY_BITS);

    return &fast->table[number];
}

static uintptr_t pmu_tlb_tag(const CPUTLBEntry *entry, bool store)
{
    return store ? qatomic_read(&entry->addr_write) : entry->addr_read;
}

static bool pmu_tlb_hit(uintptr_t tag, vaddr address)
{
    return (address & TARGET_PAGE_MASK) ==
           (tag & (TARGET_PAGE_MASK | TLB_INVALID_MASK));
}

/*
 * The place of a byte in the machine's memory, by QEMU's own address of it:
 * the same on all vCPUs, and whatever the guest's address is. 0 where it is
 * not memory, or the access is about to fault and comes again.
 */
static uint64_t pmu_place(CPUX86State *env, target_ulong address, bool store)
{
    CPUState *cs = env_cpu(env);
    int index = cpu_mmu_index(cs, false);
    CPUTLBEntry *entry = pmu_tlb_entry(cs, index, address);

    if (!pmu_tlb_hit(pmu_tlb_tag(entry, store), address)) {
        /* Fills the entry as the access itself would, but for faults. */
        tlb_vaddr_to_host(env, address,
                          store ? MMU_DATA_STORE : MMU_DATA_LOAD, index);
        entry = pmu_tlb_entry(cs, index, address);
        if (!pmu_tlb_hit(pmu_tlb_tag(entry, store), address)) {
            return 0;
        }
    }
    if (pmu_tlb_tag(entry, store) & TLB_FORCE_SLOW) {
        CPUTLBEntryFull *full = cs->neg.tlb.d[index].fulltlb;

        full += entry - cpu_tlb_fast(cs, index)->table;
        if (full->slow_flags[store ? MMU_DATA_STORE : MMU_DATA_LOAD]
            & ~(TLB_WATCHPOINT | TLB_CHECK_ALIGNED)) {
            return 0;
        }
    }
    return (uintptr_t)(address + entry->addend);
}

/* An access of translated code, while the caches are watched. */
void helper_pmu_access(CPUX86State *env, target_ulong address, uint32_t store)
{
    uint64_t place = pmu_place(env, address, store);
    uint64_t found = perftax_engine_access(env->pmu.engine, address, place,
                                           store);

    /* An instruction may access memory in several parts. */
    if (store) {
        uint64_t worst = MAX(env->pmu.access & PERFTAX_OF_STORES, found);

        env->pmu.access = (env->pmu.access & ~PERFTAX_OF_STORES) | worst;
    } else {
        uint64_t stored = env->pmu.access & PERFTAX_OF_STORES;

        env->pmu.access = MAX(env->pmu.access - stored, found)
            | (uint32_t)found | stored;
    }
}

/* An access of a helper. */
void x86_pmu_watch_access(CPUState *cs, vaddr address, bool load, bool store)
{
    CPUX86State *env = cpu_env(cs);
    X86PMU *pmu = &env->pmu;

    if (!pmu->flight.all) {
        return;
    }
    if (load) {
        pmu->load_address = address;
        pmu->flight.load = PMU_ANY_WIDTH;
    }
    if (store) {
        pmu->store_address = address;
        pmu->flight.store = PMU_ANY_WIDTH;
    }
    if (pmu->budget.watches_memory) {
        if (load) {
            helper_pmu_access(env, address, false);
        }
        if (store) {
            helper_pmu_access(env, address, true);
        }
    }
}
