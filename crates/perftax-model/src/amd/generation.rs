//! What distinguishes the generations.

use crate::emulated::Without;

/// A generation of cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Zen and Zen+: family 17h up to model 2Fh.
    Zen,
    /// Zen 2: the rest of family 17h.
    Zen2,
    /// Zen 3: family 19h before Zen 4.
    Zen3,
    /// Zen 4: performance monitoring of version 2, and branch records.
    Zen4,
    /// Zen 5: sampling of loads that miss for long.
    Zen5,
}

/// Width of the core counters, bits.
pub const COUNTER_BITS: u32 = 48;
/// Core counters (CPUID leaf 8000_0001, ECX bit 23: six instead of four).
pub const COUNTERS: usize = 6;
/// Branch records from Zen 4 on.
pub const BRANCHES: usize = 16;

impl Generation {
    /// By the family and model of CPUID leaf 1, extensions added; `None` where the generation is not modelled.
    pub fn of(family: u32, model: u32) -> Option<Self> {
        // Linux's arch/x86/kernel/cpu/amd.c, bsp_determine_zen_generation().
        match (family, model) {
            (0x17, 0x00..=0x2f) => Some(Self::Zen),
            (0x17, _) => Some(Self::Zen2),
            (0x19, 0x00..=0x0f | 0x20..=0x5f) => Some(Self::Zen3),
            (0x19, 0x10..=0x1f | 0x60..=0xaf) => Some(Self::Zen4),
            (0x1a, 0x00..=0x2f | 0x40..=0x4f | 0x60..=0x7f) => Some(Self::Zen5),
            _ => None,
        }
    }

    /// Whether it has the registers of version 2: all counters' control, status, and branch records.
    pub fn is_version_2(self) -> bool {
        matches!(self, Self::Zen4 | Self::Zen5)
    }

    /// Whether op samples can be of loads alone that miss for longer than so many cycles.
    pub fn filters_by_latency(self) -> bool {
        self == Self::Zen5
    }

    /// CPUID leaf 8000_0022: EAX (version 2, branch records, which freeze with counters), EBX (core counters, records; the data fabric's and the memory
    /// controllers' are not modelled), ECX, EDX. `None` where there is none (APM volume 3, E.4.22).
    pub fn cpuid_leaf_8000_0022(self, without: Without) -> Option<[u32; 4]> {
        let records = if without.branches { 0 } else { BRANCHES as u32 };
        let features = if without.branches { 1 } else { 0b111 };
        self.is_version_2().then_some([features, COUNTERS as u32 | records << 4, 0, 0])
    }

    /// EAX of CPUID leaf 8000_001B (the PPRs' CPUID_Fn8000001B_EAX): the flags are valid (bit 0), fetch and
    /// op sampling (1, 2), the op counter may be read and written (3) and count ops (4), branch targets (5), seven more bits of the
    /// op counter (6), invalid addresses are marked (7), fused branches are (8), IcIbsExtdCtl (9); from Zen 4 on misses of the last level alone
    /// and more of where data came from (11); from Zen 5 on loads that miss for long alone (12), and IbsOpData3 tells a page's size where it tells a
    /// physical address (19; Linux's 0b347a4218da). Such machines say 00081BFFH.
    pub fn ibs_capabilities(self) -> u32 {
        let of_zen_5 = 1 << 12 | 1 << 19;
        0x3ff | u32::from(self.is_version_2()) << 11 | if self.filters_by_latency() { of_zen_5 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// union cpuid_0x80000022_ebx of arch/x86/include/asm/perf_event.h: 4 bits of counters, 6 of branch records.
    #[test]
    fn leaf_8000_0022_says_what_there_is() {
        assert_eq!(Generation::Zen3.cpuid_leaf_8000_0022(Without::default()), None);
        assert_eq!(Generation::Zen4.cpuid_leaf_8000_0022(Without::default()), Some([7, 6 | 16 << 4, 0, 0]));
        let without = Without { branches: true, precise: false };
        assert_eq!(Generation::Zen4.cpuid_leaf_8000_0022(without), Some([1, 6, 0, 0]));
    }

    #[test]
    fn families_are_told_by_model() {
        // QEMU's EPYC, EPYC-Rome, EPYC-Milan; Zen 4; Turin; Zen 6; Intel's.
        let models = [(0x17, 0x01), (0x17, 0x31), (0x19, 0x01), (0x19, 0x11), (0x1a, 0x02), (0x1a, 0x50), (6, 94)];
        let generations = [Generation::Zen, Generation::Zen2, Generation::Zen3, Generation::Zen4, Generation::Zen5].map(Some);
        let of: Vec<_> = models.iter().map(|(family, model)| Generation::of(*family, *model)).collect();
        assert_eq!(of, [&generations[..], &[None, None]].concat());
    }

    /// What the driver prints on such machines ("AMD IBS detected").
    #[test]
    fn capabilities_are_those_of_machines() {
        let generations = [Generation::Zen2, Generation::Zen3, Generation::Zen4, Generation::Zen5];
        assert_eq!(generations.map(Generation::ibs_capabilities), [0x3ff, 0x3ff, 0xbff, 0x8_1bff]);
    }
}
