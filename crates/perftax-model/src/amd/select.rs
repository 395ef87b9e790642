//! What event selectors mean.

use crate::emulated::{Class, Counted, Masks};

/// Counts while a guest of the machine's runs, and not else.
const GUEST_ONLY: u64 = 1 << 40;
/// Counts while no guest runs. With both, as with neither, always (APM volume 2, 13.2.1).
const HOST_ONLY: u64 = 1 << 41;

/// What a selector (PERF_CTL) counts, by event, unit mask, counter mask, inversion and edge (PPR for family 17h models 31h, 2.1.14.4; perf's
/// lists); `None` for events that are not modelled. No guest runs in this machine.
///
/// A load-op-store instruction is a load and a store: event 29h has a unit mask of its own for these, which is not modelled, and the
/// instruction is counted by both of the others.
pub fn counted(selector: u64) -> Option<Counted> {
    let class = class_of(selector)?;
    let of_guests = selector & (GUEST_ONLY | HOST_ONLY) == GUEST_ONLY;
    Some(if of_guests { Counted::Never } else { Counted::of(class, Masks::of(selector)) })
}

fn class_of(selector: u64) -> Option<Class> {
    let (event, umask) = (selector & 0xff | selector >> 24 & 0xf00, selector >> 8 & 0xff);
    Some(match (event, umask) {
        (0x76, _) => Class::Cycles,
        (0xc0, _) => Class::Instructions,
        (0xc1, _) => Class::Uops,
        (0xc2, _) => Class::Branches,
        (0xc3, _) => Class::Mispredicted,
        (0xc4, _) => Class::Taken,
        (0xc8, _) => Class::Returns,
        (0xd1, _) => Class::Conditional,
        (0x29, 0x01) => Class::Loads,
        (0x29, 0x02) => Class::Stores,
        // Accesses to data, of loads and stores (perf's L1-dcache-loads).
        (0x40, _) => Class::Accesses,
        (0x25, 0x0e) => Class::LockedLoads,
        // Requests of the first level to the second, and those for data that it did not have, with and without those for instructions,
        // which the simulated caches do not hold. What perf calls L1-dcache-load-misses, cache-references and cache-misses.
        // L1 data TLB misses that the second level did not have either, for pages of all sizes (PPR for family 17h models 31h, PMCx045).
        (0x45, 0xf0) => Class::StlbMisses,
        // Besides the kernel's the masks of perf's names: l2_request_g1.all, .all_dc and .all_no_prefetch, of Zen 4 and of Zen 5, which has no bit 3; nothing
        // prefetches here.
        (0x60, 0xc8 | 0xff | 0xe8 | 0xf9 | 0xf7 | 0xe0 | 0xf1) | (0x64, 0xf8) => Class::L1Misses,
        (0x64, 0x08 | 0x09) => Class::L2Misses,
        // Cycles of the P0 clock, from Zen 4 on the kernel's ref-cycles: there is one clock.
        (0x120, 0x01) => Class::Cycles,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perfs_names_mean_what_they_say() {
        let each = |class| Some(Counted::Each(class, 1));
        for (selector, meant) in [
            (0x0053_0076, each(Class::Cycles)),
            (0x0053_00c0, each(Class::Instructions)),
            (0x0053_00c1, each(Class::Uops)),
            (0x0053_0129, each(Class::Loads)),
            (0x0053_0729, None),
            (0x0053_0040, each(Class::Accesses)),
            (0x0053_0964, each(Class::L2Misses)),
            (0x0053_ff60, each(Class::L1Misses)),
            (0x0053_e060, each(Class::L1Misses)),
            (0x0053_0120 | 1 << 32, each(Class::Cycles)),
            (0x0053_f045, each(Class::StlbMisses)),
            // Those that either level had not: the first is not modelled.
            (0x0053_ff45, None),
            (0xc0 | 1 << 23 | 16 << 24, each(Class::Cycles)),
            (0xc0 | 1 << 24, each(Class::Instructions)),
            (0xc0 | 2 << 24, Some(Counted::Never)),
            (0xc0 | GUEST_ONLY, Some(Counted::Never)),
            (0xc0 | HOST_ONLY, each(Class::Instructions)),
            (0xc0 | GUEST_ONLY | HOST_ONLY, each(Class::Instructions)),
            // Bit 8 of the event is bit 32 of the selector: 1c0h is another one.
            (0xc0 | 1 << 32, None),
        ] {
            assert_eq!(counted(selector), meant, "{selector:#x}");
        }
    }
}
