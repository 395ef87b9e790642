//! What event selectors mean.

use super::Generation;
use crate::emulated::{Class, Counted, Masks};

/// What an event code and unit mask stand for.
enum Meaning {
    Class(Class),
    /// Slots of [`Generation::slots_a_cycle`].
    Slots,
    /// What a machine that never waits for instructions and never runs any in vain has none of.
    None,
}

/// What a selector counts, by event code, unit mask, counter mask, inversion and edge (SDM volume 3, 20.2.1.1, tables 20-1 and 20-3 for the
/// architectural events; the generations' own as in Linux's arch/x86/events/intel and perf's lists); `None` for events that are not modelled.
pub fn counted(generation: Generation, selector: u64) -> Option<Counted> {
    let masks = Masks::of(selector);
    Some(match meaning(generation, selector & 0xff, selector >> 8 & 0xff)? {
        Meaning::Class(class) => Counted::of(class, masks),
        Meaning::Slots if masks == Masks::default() => Counted::Each(Class::Cycles, generation.slots_a_cycle()),
        // Cycles with so many slots or fewer: each has as many.
        Meaning::Slots => return None,
        Meaning::None => Counted::none(masks),
    })
}

/// Whether a selector's records tell where stores find their lines: MEM_TRANS_RETIRED.STORE_SAMPLE.
pub fn samples_stores(generation: Generation, selector: u64) -> bool {
    match generation {
        Generation::SapphireRapids => selector & 0xffff == 0x02cd,
        Generation::ClearwaterForest => selector & 0xffff == 0x06d0,
        _ => false,
    }
}

/// What the fixed counter at this place counts ([`Generation::fixed`]).
pub fn counted_fixed(generation: Generation, place: usize) -> Counted {
    match (generation, place) {
        (_, 0) => Counted::Each(Class::Instructions, 1),
        (Generation::ClearwaterForest, 4 | 5) => Counted::Never,
        (Generation::ClearwaterForest, 6) => Counted::Each(Class::Uops, 1),
        (_, 3) => Counted::Each(Class::Cycles, generation.slots_a_cycle()),
        _ => Counted::Each(Class::Cycles, 1),
    }
}

fn meaning(generation: Generation, code: u64, umask: u64) -> Option<Meaning> {
    if generation == Generation::ClearwaterForest {
        return of_darkmont(code, umask);
    }
    if generation.is_adaptive() && (code, umask) == (0xa4, 0x01) {
        return Some(Meaning::Slots);
    }
    let class = match (code, umask) {
        (0xc0, 0x00 | 0x01) => Class::Instructions,
        // Of the thread, of the reference clock, of the same with one thread active: a core has one thread, and one clock.
        (0x3c, 0x00..=0x02) => Class::Cycles,
        // Slots in which something retires: all that is issued does.
        (0xc2, 0x02) => Class::Uops,
        (0xd0, 0x81) => Class::Loads,
        (0xd0, 0x11) => Class::StlbMisses,
        (0xd0, 0x82) | (0xcd, 0x02) => Class::Stores,
        (0xd0, 0x21) => Class::LockedLoads,
        (0xcd, 0x01) => Class::SlowLoads,
        (0xc4, 0x00 | 0x04) => Class::Branches,
        (0xc4, 0x11) => Class::Conditional,
        (0xc4, 0x02) => Class::Calls,
        (0xc4, 0x08) => Class::Returns,
        (0xc4, 0x20) => Class::Taken,
        (0xc4, 0x01) if generation.is_adaptive() => Class::ConditionalTaken,
        (0xc4, 0x10) if generation.is_adaptive() => Class::ConditionalNotTaken,
        (0xd1, 0x08) => Class::L1Misses,
        (0xd1, 0x10) => Class::L2Misses,
        (0xd1, 0x20) | (0x2e, 0x41) => Class::LlcMisses,
        (0x2e, 0x4f) => Class::L2Misses,
        _ if generation == Generation::SapphireRapids => return of_golden_cove(code, umask),
        _ => return before_golden_cove(code, umask),
    };
    Some(Meaning::Class(class))
}

/// Darkmont's own numbers: the architectural events, those that Linux 7.1 names (`skt_events_attrs`, `grt_mem_attrs`), and perf's list of what it retires (locked loads
/// by Crestmont's, which names them).
fn of_darkmont(code: u64, umask: u64) -> Option<Meaning> {
    Some(Meaning::Class(match (code, umask) {
        (0xc0, 0x00) => Class::Instructions,
        (0x3c, 0x00 | 0x01) => Class::Cycles,
        (0xc2, 0x02) => Class::Uops,
        (0xc4, 0x00) => Class::Branches,
        (0xc4, 0x03) => Class::ConditionalTaken,
        (0xc4, 0x04) => Class::ConditionalNotTaken,
        (0xc4, 0x07) => Class::Conditional,
        (0xc4, 0x08) => Class::Returns,
        (0xc4, 0x30) => Class::Calls,
        (0xc4, 0xfb) => Class::Taken,
        (0xc5, 0x00) => Class::Mispredicted,
        (0xd0, 0x81) => Class::Loads,
        (0xd0, 0x21) => Class::LockedLoads,
        (0xd0, 0x82 | 0x06) => Class::Stores,
        (0xd0, 0x05) => Class::SlowLoads,
        (0x2e, 0x41) => Class::LlcMisses,
        (0x2e, 0x4f) => Class::L2Misses,
        (0x9c, 0x01) | (0x73, 0x00) => return Some(Meaning::None),
        _ => return None,
    }))
}

/// Events whose numbers Golden Cove has changed, or added.
fn of_golden_cove(code: u64, umask: u64) -> Option<Meaning> {
    Some(Meaning::Class(match (code, umask) {
        // Shared out among threads, of which a core has one.
        (0x3c, 0x08) | (0xec, 0x02) => Class::Cycles,
        (0xae, 0x01) => Class::Uops,
        (0x12, 0x0e) => Class::StlbMisses,
        // Conditional branches alone are mispredicted here.
        (0xc5, 0x00 | 0x04 | 0x11) => Class::Mispredicted,
        (0xc5, 0x02 | 0x08 | 0x80) => return Some(Meaning::None),
        // Loads that a store before them blocks: the event beside loads by latency, which counts next to nothing on hardware, too. What the front end did not deliver;
        // cycles of recovery.
        (0x03, 0x82) | (0x9c, 0x01) | (0xad, 0x01) => return Some(Meaning::None),
        _ => return None,
    }))
}

/// Those as they were before.
fn before_golden_cove(code: u64, umask: u64) -> Option<Meaning> {
    Some(Meaning::Class(match (code, umask) {
        (0xc2, 0x01) | (0x0e, 0x01) => Class::Uops,
        (0x08, 0x01) => Class::StlbMisses,
        (0xc4, 0x01) => Class::Conditional,
        (0xc5, _) => Class::Mispredicted,
        // Micro-operations that the front end did not deliver; cycles of recovery after a clear (perf's topdown-fetch-bubbles and
        // topdown-recovery-bubbles).
        (0x9c, 0x01) | (0x0d, 0x01 | 0x03) => return Some(Meaning::None),
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perfs_names_mean_what_they_say() {
        let each = |class| Some(Counted::Each(class, 1));
        // perf's generic events and Skylake's own, as libpfm and the kernel encode them.
        for (selector, meant) in [
            (0x0053_00c0, each(Class::Instructions)),
            (0x0053_003c, each(Class::Cycles)),
            (0x01c0 | 1 << 23 | 16 << 24, each(Class::Cycles)),
            (0x01c2 | 1 << 23 | 16 << 24, each(Class::Cycles)),
            (0x02c2, each(Class::Uops)),
            (0x81d0, each(Class::Loads)),
            (0x82d0, each(Class::Stores)),
            (0x01cd, each(Class::SlowLoads)),
            (0x412e, each(Class::LlcMisses)),
            (0x00c5, each(Class::Mispredicted)),
            (0x20d1, each(Class::LlcMisses)),
            (0x11d0, each(Class::StlbMisses)),
            (0x0108, each(Class::StlbMisses)),
            (0x01c4, each(Class::Conditional)),
            // What perf stat --topdown counts before Ice Lake.
            (0x010e, each(Class::Uops)),
            (0x019c, Some(Counted::Never)),
            (0x010d | 1 << 21, Some(Counted::Never)),
            (0x01a4, None),
            (0x1234, None),
        ] {
            assert_eq!(counted(Generation::Skylake, selector), meant, "{selector:#x}");
        }
        assert_eq!(counted(Generation::IceLake, 0x01a4), Some(Counted::Each(Class::Cycles, 5)));
        assert_eq!(counted(Generation::IceLake, 0x01c4), each(Class::ConditionalTaken));
    }

    #[test]
    fn darkmonts_numbers_are_its_own() {
        let each = |class| Some(Counted::Each(class, 1));
        for (selector, meant) in [
            (0x02c2, each(Class::Uops)),
            (0x019c, Some(Counted::Never)),
            (0x05d0, each(Class::SlowLoads)),
            (0x06d0, each(Class::Stores)),
            (0xfbc4, each(Class::Taken)),
            (0x03c4, each(Class::ConditionalTaken)),
            // Direct calls alone, taken branches of the other cores. Slots by the core's own width, Golden Cove's conditional branches.
            (0x20c4, None),
            (0x01a4, None),
            (0x11c4, None),
        ] {
            assert_eq!(counted(Generation::ClearwaterForest, selector), meant, "{selector:#x}");
        }
        assert!(samples_stores(Generation::ClearwaterForest, 0x06d0) && !samples_stores(Generation::SapphireRapids, 0x06d0));
        assert_eq!(counted_fixed(Generation::ClearwaterForest, 6), Counted::Each(Class::Uops, 1));
        assert_eq!(counted_fixed(Generation::SapphireRapids, 3), Counted::Each(Class::Cycles, 6));
    }

    /// perf's list of Sapphire Rapids's.
    #[test]
    fn golden_coves_own_numbers_are_told_from_the_older_ones() {
        let each = |class| Some(Counted::Each(class, 1));
        for (selector, meant) in [
            (0x01a4, Some(Counted::Each(Class::Cycles, 6))),
            // MEM_TRANS_RETIRED.STORE_SAMPLE, and LD_BLOCKS.STORE_FORWARD: perf's mem-stores and mem-loads-aux.
            (0x02cd, each(Class::Stores)),
            (0x8203, Some(Counted::Never)),
            (0x0e12, each(Class::StlbMisses)),
            (0x01ae, each(Class::Uops)),
            (0x11c4, each(Class::Conditional)),
            (0x04c5, each(Class::Mispredicted)),
            (0x01c4, each(Class::ConditionalTaken)),
            (0x10c4, each(Class::ConditionalNotTaken)),
            // UOPS_RETIRED.HEAVY, BR_MISP_RETIRED.COND_TAKEN: nothing tells them.
            (0x01c2, None),
            (0x01c5, None),
            (0x0108, None),
            (0x010e, None),
        ] {
            assert_eq!(counted(Generation::SapphireRapids, selector), meant, "{selector:#x}");
        }
        assert!(samples_stores(Generation::SapphireRapids, 0x0053_02cd) && !samples_stores(Generation::IceLake, 0x02cd));
    }
}
