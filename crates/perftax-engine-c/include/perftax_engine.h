/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A PMU for an emulated machine: registers, counters, caches; of Intel with PEBS and branch records, of AMD with instruction-based
 * sampling.
 *
 * Whoever emulates the core executes instructions and subtracts what they count as from a budget; the engine is called when a budget
 * is used up, when a register is read or written, and for every access while caches are watched. One engine a core; calls for one
 * engine come from one thread at a time. Meanings and sources: crates/perftax-model/src/intel
 * and src/amd.
 */
#ifndef PERFTAX_ENGINE_H
#define PERFTAX_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERFTAX_CLASSES 24

/* What is fetched at once, as PERFTAX_FETCHES counts. */
#define PERFTAX_FETCH_BYTES 64

/*
 * Classes of events, numbers of bits and of budgets. The first two are subtracted as one number of 64 bits for a block: while blocks are
 * followed the budget of branches is at least that of instructions, so that the sign of the latter tells of both.
 */
enum {
    PERFTAX_BRANCHES, PERFTAX_INSTRUCTIONS, PERFTAX_UOPS, PERFTAX_CYCLES, PERFTAX_LOADS, PERFTAX_STORES, PERFTAX_TAKEN,
    PERFTAX_MISPREDICTED, PERFTAX_CALLS, PERFTAX_RETURNS, PERFTAX_LOCKED_LOADS, PERFTAX_L1_MISSES, PERFTAX_L2_MISSES,
    PERFTAX_LLC_MISSES, PERFTAX_SLOW_LOADS, PERFTAX_CONDITIONAL,
    /* The first instruction in its aligned PERFTAX_FETCH_BYTES since the latest fetch, or after a taken branch. */
    PERFTAX_FETCHES,
    /* Loads whose page the second-level TLB did not have. */
    PERFTAX_STLB_MISSES,
    /* Accesses to data: an instruction that loads and stores is two. */
    PERFTAX_ACCESSES,
    PERFTAX_CONDITIONAL_TAKEN, PERFTAX_CONDITIONAL_NOT_TAKEN,
};

/* What a branch is, by the bit of MSR_LBR_SELECT that leaves it out. */
enum {
    PERFTAX_BRANCH_CONDITIONAL = 2, PERFTAX_BRANCH_RELATIVE_CALL, PERFTAX_BRANCH_INDIRECT_CALL, PERFTAX_BRANCH_RETURN,
    PERFTAX_BRANCH_INDIRECT_JUMP, PERFTAX_BRANCH_RELATIVE_JUMP,
    /* System calls, interrupts, exceptions, and returns from them. */
    PERFTAX_BRANCH_FAR,
};

/*
 * How closely a mode is to be followed. By blocks with data a block's loads and stores are subtracted as well, as one number of 64 bits, and nothing
 * else: there never are more instructions that load, or that store, than instructions. With branches what the branch at a block's end is beside is
 * subtracted where that led to, and taken ones are told.
 */
enum { PERFTAX_OFF, PERFTAX_BLOCK, PERFTAX_INSTRUCTION, PERFTAX_BLOCK_AND_DATA = 4, PERFTAX_BLOCK_AND_BRANCHES };

/* Index 0: kernel mode, 1: user mode. The engine writes it, the emulator subtracts from `left`. */
struct perftax_budget {
    _Alignas(8) int32_t left[2][PERFTAX_CLASSES];   /* below 0: call perftax_engine_retire */
    uint32_t watched[2];                /* classes that are counted, a bit each */
    uint8_t granularity[2];
    uint8_t watches_memory;             /* tell perftax_engine_access of every access */
    uint8_t records_branches;           /* tell perftax_engine_branch of every taken branch */
    uint8_t wants_registers;            /* tell perftax_engine_retire flags, registers, tsc and xmm */
};

/* An instruction that has retired, and the state right after it. */
struct perftax_retired {
    uint64_t ip, next_ip, flags, registers[16], tsc, load_address, store_address;
    uint32_t classes, uops;
    uint8_t level, privilege;
    uint16_t latency_cycles;
    uint16_t width;                     /* of the load, or else the store: 1 + log2 of its bytes; 0: not known */
    bool store_missed;                  /* an access of it came with PERFTAX_STORE_MISSED */
    uint8_t store_level;                /* where that was, as level has it */
    uint64_t xmm[16][2];
};

struct perftax_actions {
    uint64_t stall_ns;                  /* the core stands still for so long */
    bool interrupt;                     /* raise the performance interrupt */
    bool sampling_interrupt;            /* raise that of AMD's instruction-based sampling: extended entry 0 of the local APIC */
};

/* What processors may lack, as those of guests in clouds do; the emulator looks after the last three. */
enum {
    PERFTAX_WITHOUT_LBR = 1, PERFTAX_WITHOUT_PEBS = 2, PERFTAX_WITHOUT_PMI = 4, PERFTAX_WITHOUT_RDPMC = 8, PERFTAX_WITHOUT_PMU = 16,
};

struct perftax_settings {
    uint64_t assist_ns, interrupt_ns;
    uint32_t skid;
    bool arm_same;                      /* PEBS records the event that overflowed, not the next */
    bool caches;
    bool ibs_random;                    /* the low bits of AMD's sampling counters start at random, from a seed */
    uint32_t without;                   /* what is missing, a bit each */
    bool miss_time;                     /* loads that miss take time, all instructions are followed for that; with caches */
};

/* The machine's memory at its kernel's addresses, and at its own; false where it cannot be reached without a fault. */
struct perftax_memory {
    void *of;
    bool (*read)(void *of, uint64_t address, uint64_t *value);
    bool (*write)(void *of, uint64_t address, const uint64_t *words, size_t count);
    bool (*write_physical)(void *of, uint64_t address, const uint64_t *words, size_t count);
};

struct perftax_tally {
    uint64_t records, lost, interrupts;
};

typedef struct perftax_engine perftax_engine;

/* NULL where the family and model are not modelled, or `caches` is wanted and not described. `budget` must outlive the engine. */
perftax_engine *perftax_engine_new(uint32_t family, uint32_t model, uint32_t core, uint32_t cores,
                                   const struct perftax_settings *settings, struct perftax_budget *budget,
                                   const struct perftax_memory *memory);
void perftax_engine_free(perftax_engine *engine);
void perftax_engine_reset(perftax_engine *engine);
void perftax_engine_set(perftax_engine *engine, const struct perftax_settings *settings);
/* Leaf 0xA. */
void perftax_engine_cpuid_a(const perftax_engine *engine, uint32_t registers[4]);
/* Another leaf that is of a PMU alone, a sub-leaf of it where it has some: EAX, EBX, ECX, EDX. False where the processor has none. */
bool perftax_engine_cpuid(const perftax_engine *engine, uint32_t leaf, uint32_t subleaf, uint32_t registers[4]);
/* Size and ways of the caches for data: level 1 to 3. False where they are not described. */
bool perftax_engine_cache(const perftax_engine *engine, uint32_t level, uint64_t *bytes, uint32_t *ways);
/* The event at this place among those that counters were set to and that are not modelled (code in bits 7:0, unit mask in 15:8, AMD's upper
 * bits of the code in 35:32), and how often; false past the last. */
bool perftax_engine_unmodelled(const perftax_engine *engine, size_t place, uint64_t *which, uint64_t *times);
/* EAX of leaf 0x8000001B. */
uint32_t perftax_engine_cpuid_ibs(const perftax_engine *engine);
void perftax_engine_tally(const perftax_engine *engine, struct perftax_tally *tally);

/* False where the register is not one of the PMU's, or refuses the value. */
bool perftax_engine_rdmsr(perftax_engine *engine, uint32_t number, uint64_t *value);
bool perftax_engine_wrmsr(perftax_engine *engine, uint32_t number, uint64_t value);
bool perftax_engine_rdpmc(perftax_engine *engine, uint32_t number, uint64_t *value);

/* The register at this place among those that make up the state, in the order in which they are to be restored; false past the last. */
bool perftax_engine_saves(const perftax_engine *engine, size_t place, uint32_t *number);
/* Gives a register the value that it had: right after a reset, with what was read of each. The caches stay empty. */
void perftax_engine_restore(perftax_engine *engine, uint32_t number, uint64_t value);

/* A budget fell below 0 with this instruction, which is subtracted already. */
struct perftax_actions perftax_engine_retire(perftax_engine *engine, const struct perftax_retired *retired);
/* The next block, of so many instructions, does not fit the budget; nothing of it is subtracted. */
void perftax_engine_replan(perftax_engine *engine, uint32_t instructions);
/* A branch was taken to code of a mode, so many cycles after the records changed last; whether they changed. */
bool perftax_engine_branch(perftax_engine *engine, uint64_t from, uint64_t to, uint32_t kind, uint32_t mode,
                           bool mispredicted, uint64_t cycles);
void perftax_engine_stand_still(perftax_engine *engine, uint32_t mode, uint64_t cycles);

/* The store found no good copy of the line in the core's own cache; where it found one, three bits. */
#define PERFTAX_STORE_MISSED (UINT64_C(1) << 40)
#define PERFTAX_STORE_LEVEL_SHIFT 35
#define PERFTAX_OF_STORES (PERFTAX_STORE_MISSED | UINT64_C(7) << PERFTAX_STORE_LEVEL_SHIFT)

/*
 * An access to an address, whose byte lies at `place` in the machine's memory: any numbering that is the same for all cores, 0 where it is
 * not known. Of a load classes that it adds (misses), its level in bits 34:32 and its latency in cycles in bits 63:48; of a store
 * nothing beyond PERFTAX_OF_STORES. Where misses take time: for so many ns the core stands still then, in bits 47:41.
 */
#define PERFTAX_STALL_SHIFT 41
#define PERFTAX_STALL_MASK UINT64_C(0x7f)
uint64_t perftax_engine_access(perftax_engine *engine, uint64_t address, uint64_t place, bool write);

#endif
