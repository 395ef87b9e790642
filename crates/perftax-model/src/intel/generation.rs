//! What distinguishes the generations.

use super::msr;

/// A generation of cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Haswell: 4 + 3 counters, format 2, 16 branches.
    Haswell,
    /// Broadwell: as Haswell.
    Broadwell,
    /// Skylake: 4 + 3 counters, format 3, 32 branches with cycles.
    Skylake,
    /// Ice Lake: 8 + 4 counters, adaptive records, 32 branches.
    IceLake,
}

/// Width of all counters, bits.
pub const COUNTER_BITS: u32 = 48;

impl Generation {
    /// By the family and model of CPUID leaf 1; `None` where the generation is not modelled.
    pub fn of(family: u32, model: u32) -> Option<Self> {
        // Linux's arch/x86/include/asm/intel-family.h.
        match (family, model) {
            (6, 60 | 63 | 69 | 70) => Some(Self::Haswell),
            (6, 61 | 71 | 79 | 86) => Some(Self::Broadwell),
            (6, 78 | 94 | 85 | 142 | 158) => Some(Self::Skylake),
            (6, 106 | 108 | 125 | 126) => Some(Self::IceLake),
            _ => None,
        }
    }

    /// General counters.
    pub fn general(self) -> usize {
        if self == Self::IceLake { 8 } else { 4 }
    }

    /// Fixed counters: instructions, cycles, reference cycles, and slots.
    pub fn fixed(self) -> usize {
        if self == Self::IceLake { 4 } else { 3 }
    }

    /// Branch records.
    pub fn branches(self) -> usize {
        if matches!(self, Self::Haswell | Self::Broadwell) { 16 } else { 32 }
    }

    /// Version of architectural performance monitoring.
    pub fn version(self) -> u32 {
        match self {
            Self::Haswell | Self::Broadwell => 3,
            Self::Skylake => 4,
            Self::IceLake => 5,
        }
    }

    /// Number of the PEBS record's format.
    pub fn format(self) -> u32 {
        match self {
            Self::Haswell | Self::Broadwell => 2,
            Self::Skylake => 3,
            Self::IceLake => 4,
        }
    }

    /// IA32_PERF_CAPABILITIES: branch format (4: with flags, 5: with particulars), PEBS trap-like and with the architectural
    /// registers, its format, freeze in SMM, full-width writes, and from Ice Lake on the PEBS baseline.
    pub fn perf_capabilities(self) -> u64 {
        let branch_format = if matches!(self, Self::Haswell | Self::Broadwell) { 4 } else { 5 };
        let baseline = u64::from(self == Self::IceLake) << 14;
        branch_format | 1 << 6 | 1 << 7 | u64::from(self.format()) << 8 | 1 << 12 | 1 << 13 | baseline
    }

    /// CPUID leaf 0xA: EAX, EBX, ECX, EDX. The model has no architectural event for references to and misses of the last level
    /// where no caches are simulated, and counts no reference cycles by a general counter.
    pub fn cpuid_leaf_a(self) -> [u32; 4] {
        /// Architectural events listed: core cycles, instructions, reference cycles, LLC references, LLC misses, branches,
        /// mispredicted branches.
        const EVENTS: u32 = 7;
        let slots = u32::from(self == Self::IceLake);
        let eax = self.version() | (self.general() as u32) << 8 | COUNTER_BITS << 16 | (EVENTS + slots) << 24;
        // A set bit says that an event is missing: reference cycles.
        let ebx = 1 << 2;
        let ecx = if self == Self::IceLake { 0xf } else { 0 };
        let edx = self.fixed() as u32 | COUNTER_BITS << 5;
        [eax, ebx, ecx, edx]
    }

    /// Whether an event whose counter overflowed freezes branch records by a status bit (version 4) or by clearing the enable bit.
    pub fn freezes_by_status(self) -> bool {
        self.version() >= 4
    }

    /// Whether a register belongs to this PMU.
    pub fn has(self, number: u32) -> bool {
        let within = |first: u32, count: usize| (first..first + count as u32).contains(&number);
        within(msr::PERFCTR0, self.general())
            || within(msr::FULL_WIDTH_PERFCTR0, self.general())
            || within(msr::PERFEVTSEL0, self.general())
            || within(msr::FIXED_CTR0, self.fixed())
            || within(msr::LBR_FROM0, self.branches())
            || within(msr::LBR_TO0, self.branches())
            || within(msr::LBR_INFO0, if self.freezes_by_status() { self.branches() } else { 0 })
            || (number == msr::PEBS_DATA_CFG && self == Self::IceLake)
            || (number == msr::GLOBAL_STATUS_SET && self.version() >= 4)
            || matches!(
                number,
                msr::FIXED_CTR_CTRL
                    | msr::GLOBAL_STATUS
                    | msr::GLOBAL_CTRL
                    | msr::GLOBAL_STATUS_RESET
                    | msr::PERF_CAPABILITIES
                    | msr::PEBS_ENABLE
                    | msr::PEBS_LD_LAT
                    | msr::DS_AREA
                    | msr::DEBUGCTL
                    | msr::LBR_SELECT
                    | msr::LBR_TOS
                    | msr::OFFCORE_RSP0
                    | msr::OFFCORE_RSP1
                    | msr::PEBS_FRONTEND
            )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_what_linux_reads() {
        // lbr_format:6, pebs_trap:1, pebs_arch_reg:1, pebs_format:4 (union perf_capabilities, arch/x86/events/perf_event.h).
        assert_eq!(Generation::Skylake.perf_capabilities(), 0x33c5);
        assert_eq!(Generation::Broadwell.perf_capabilities(), 0x32c4);
        assert_eq!(Generation::IceLake.perf_capabilities(), 0x74c5);
    }

    #[test]
    fn families_are_told_by_model() {
        assert_eq!(Generation::of(6, 94), Some(Generation::Skylake));
        assert_eq!(Generation::of(6, 61), Some(Generation::Broadwell));
        assert_eq!(Generation::of(6, 106), Some(Generation::IceLake));
        assert_eq!(Generation::of(15, 6), None);
    }
}
