//! What event selectors mean.

use super::Class;

/// The class that a selector counts, by event code and umask (SDM volume 3, tables 20-1 and 20-3 for the architectural events; the
/// generations' own as in Linux's arch/x86/events/intel and perf's lists); `None` for events that are not modelled, which then count
/// nothing.
pub fn class_of(selector: u64) -> Option<Class> {
    let (code, umask) = (selector & 0xff, selector >> 8 & 0xff);
    let counter_mask = selector >> 24 & 0xff;
    let inverted = selector >> 23 & 1 == 1;
    // Cycles with fewer than so many of something, as perf's cycles:pp asks: all of them.
    if inverted && counter_mask > 0 {
        return Some(Class::Cycles);
    }
    Some(match (code, umask) {
        (0xc0, 0x00 | 0x01) => Class::Instructions,
        (0x3c, 0x00 | 0x01) => Class::Cycles,
        (0xc2, 0x01 | 0x02) => Class::Uops,
        (0xd0, 0x81) => Class::Loads,
        (0xd0, 0x11) | (0x08, 0x01) => Class::StlbMisses,
        (0xd0, 0x82) | (0xcd, 0x02) => Class::Stores,
        (0xd0, 0x21) => Class::LockedLoads,
        (0xcd, 0x01) => Class::SlowLoads,
        (0xc4, 0x00 | 0x04) => Class::Branches,
        (0xc4, 0x01 | 0x11) => Class::Conditional,
        (0xc4, 0x02) => Class::Calls,
        (0xc4, 0x08) => Class::Returns,
        (0xc4, 0x20) => Class::Taken,
        (0xc5, _) => Class::Mispredicted,
        (0xd1, 0x08) => Class::L1Misses,
        (0xd1, 0x10) => Class::L2Misses,
        (0xd1, 0x20) | (0x2e, 0x41) => Class::LlcMisses,
        (0x2e, 0x4f) => Class::L2Misses,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perfs_names_mean_what_they_say() {
        // perf's generic events and Skylake's own, as libpfm and the kernel encode them.
        for (selector, class) in [
            (0x0053_00c0, Some(Class::Instructions)),
            (0x0053_003c, Some(Class::Cycles)),
            (0x01c0 | 1 << 23 | 16 << 24, Some(Class::Cycles)),
            (0x01c2 | 1 << 23 | 16 << 24, Some(Class::Cycles)),
            (0x02c2, Some(Class::Uops)),
            (0x81d0, Some(Class::Loads)),
            (0x82d0, Some(Class::Stores)),
            (0x01cd, Some(Class::SlowLoads)),
            (0x412e, Some(Class::LlcMisses)),
            (0x00c5, Some(Class::Mispredicted)),
            (0x20d1, Some(Class::LlcMisses)),
            (0x11d0, Some(Class::StlbMisses)),
            (0x0108, Some(Class::StlbMisses)),
            (0x1234, None),
        ] {
            assert_eq!(class_of(selector), class, "{selector:#x}");
        }
    }
}
