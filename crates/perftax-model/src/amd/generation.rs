//! What distinguishes the generations.

/// A generation of cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Zen and Zen+: family 17h up to model 2Fh.
    Zen,
    /// Zen 2: the rest of family 17h.
    Zen2,
    /// Zen 3: family 19h before Zen 4.
    Zen3,
}

/// Width of the core counters, bits.
pub const COUNTER_BITS: u32 = 48;
/// Core counters (CPUID leaf 8000_0001, ECX bit 23: six instead of four).
pub const COUNTERS: usize = 6;

impl Generation {
    /// By the family and model of CPUID leaf 1, extensions added; `None` where the generation is not modelled.
    pub fn of(family: u32, model: u32) -> Option<Self> {
        // Linux's arch/x86/kernel/cpu/amd.c, bsp_determine_zen_generation().
        match (family, model) {
            (0x17, 0x00..=0x2f) => Some(Self::Zen),
            (0x17, _) => Some(Self::Zen2),
            (0x19, 0x00..=0x0f | 0x20..=0x5f) => Some(Self::Zen3),
            _ => None,
        }
    }

    /// EAX of CPUID leaf 8000_001B, the same for all of them (the PPRs' CPUID_Fn8000001B_EAX): the flags are valid (bit 0), fetch and
    /// op sampling (1, 2), the op counter may be read and written (3) and count ops (4), branch targets (5), seven more bits of the
    /// op counter (6), invalid addresses are marked (7), fused branches are (8), IcIbsExtdCtl (9).
    pub fn ibs_capabilities(self) -> u32 {
        0x3ff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_told_by_model() {
        // QEMU's EPYC, EPYC-Rome and EPYC-Milan; Zen 4; Intel's.
        let models = [(0x17, 0x01), (0x17, 0x31), (0x19, 0x01), (0x19, 0x11), (6, 94)];
        let generations = [Some(Generation::Zen), Some(Generation::Zen2), Some(Generation::Zen3), None, None];
        assert_eq!(models.map(|(family, model)| Generation::of(family, model)), generations);
    }
}
