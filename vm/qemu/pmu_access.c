/*
 * Accesses that a PMU for TCG is told of: where they go, and at which place
 * of the machine's memory, for the engine's caches.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "cpu.h"
#include "exec/helper-proto.h"
#include "exec/cpu_ldst.h"
#include "exec/exec-all.h"
#include "tcg/helper-tcg.h"

static target_ulong tlb_tag(const CPUTLBEntry *entry, bool store)
{
    return store ? tlb_addr_write(entry) : entry->addr_read;
}

/*
 * The place of a byte in the machine's memory, by QEMU's own address of it:
 * the same on all vCPUs, and whatever the guest's address is. 0 where it is
 * not memory, or the access is about to fault and comes again.
 */
static uint64_t pmu_place(CPUX86State *env, target_ulong address, bool store)
{
    int index = cpu_mmu_index(env, false);
    CPUTLBEntry *entry = tlb_entry(env, index, address);

    if (!tlb_hit(tlb_tag(entry, store), address)) {
        /* Fills the entry as the access itself would, but for faults. */
        tlb_vaddr_to_host(env, address,
                          store ? MMU_DATA_STORE : MMU_DATA_LOAD, index);
        entry = tlb_entry(env, index, address);
        if (!tlb_hit(tlb_tag(entry, store), address)) {
            return 0;
        }
    }
    if (tlb_tag(entry, store) & TLB_MMIO) {
        return 0;
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
        env->pmu.access |= found;
    } else {
        uint64_t missed = env->pmu.access & PERFTAX_STORE_MISSED;

        env->pmu.access = MAX(env->pmu.access - missed, found)
            | (uint32_t)found | missed;
    }
}

/* An access of a helper. */
void x86_pmu_watch_access(CPUState *cs, vaddr address, bool load, bool store)
{
    CPUX86State *env = cs->env_ptr;
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
