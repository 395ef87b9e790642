//! What distinguishes the generations.

use super::architectural_pebs;
use super::branches::SELECTS;
use super::msr;
use crate::emulated::Without;

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
    /// Sapphire Rapids: as Ice Lake, with architectural branch records, latencies of stores, and two levels of metrics of slots.
    SapphireRapids,
    /// Clearwater Forest: 8 + 6 counters, architectural PEBS, reload of counters by others, 32 architectural branch records.
    ClearwaterForest,
}

/// Width of all counters, bits.
pub const COUNTER_BITS: u32 = 48;

/// Clearwater Forest's counters that sample precisely to the instruction: the first two general ones and that of instructions. Assumed: Linux takes what CPUID says.
const PRECISE_GENERAL: u32 = 0b11;
const PRECISE_FIXED: u32 = 0b1;

impl Generation {
    /// By the family and model of CPUID leaf 1; `None` where the generation is not modelled.
    pub fn of(family: u32, model: u32) -> Option<Self> {
        // Linux's arch/x86/include/asm/intel-family.h.
        match (family, model) {
            (6, 60 | 63 | 69 | 70) => Some(Self::Haswell),
            (6, 61 | 71 | 79 | 86) => Some(Self::Broadwell),
            (6, 78 | 94 | 85 | 142 | 158) => Some(Self::Skylake),
            (6, 106 | 108 | 125 | 126) => Some(Self::IceLake),
            (6, 143) => Some(Self::SapphireRapids),
            (6, 221) => Some(Self::ClearwaterForest),
            _ => None,
        }
    }

    /// General counters.
    pub fn general(self) -> usize {
        if self.version() >= 5 { 8 } else { 4 }
    }

    /// Places of fixed counters: instructions, cycles, reference cycles, and slots; on Clearwater Forest instead of the last slots run in vain, those that waited for
    /// instructions, and those in which something retired, at places 4 to 6 (`intel_skt_event_constraints` of Linux 7.1).
    pub fn fixed(self) -> usize {
        match self {
            Self::Haswell | Self::Broadwell | Self::Skylake => 3,
            Self::IceLake | Self::SapphireRapids => 4,
            Self::ClearwaterForest => 7,
        }
    }

    /// Fixed counters that are there, a bit each.
    pub fn fixed_mask(self) -> u64 {
        let places = (1 << self.fixed()) - 1;
        if self == Self::ClearwaterForest { places & !(1 << 3) } else { places }
    }

    /// Slots of a cycle, what each has room for, where there is a counter of them (perf's lists of events: TOPDOWN.SLOTS).
    pub fn slots_a_cycle(self) -> u64 {
        if self == Self::SapphireRapids { 6 } else { 5 }
    }

    /// Whether records hold groups that MSR_PEBS_DATA_CFG asks for, and slots are counted.
    pub fn is_adaptive(self) -> bool {
        matches!(self, Self::IceLake | Self::SapphireRapids)
    }

    /// Whether PEBS is the architectural one, without a debug store, and counters can reload others (CPUID leaf 23H).
    pub fn has_architectural_pebs(self) -> bool {
        self == Self::ClearwaterForest
    }

    /// Whether branch records are the architectural ones.
    pub fn is_architectural(self) -> bool {
        matches!(self, Self::SapphireRapids | Self::ClearwaterForest)
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
            Self::IceLake | Self::SapphireRapids => 5,
            Self::ClearwaterForest => 6,
        }
    }

    /// Number of the PEBS record's format; 15: architectural PEBS.
    pub fn format(self) -> u32 {
        match self {
            Self::Haswell | Self::Broadwell => 2,
            Self::Skylake => 3,
            Self::IceLake | Self::SapphireRapids => 4,
            Self::ClearwaterForest => 15,
        }
    }

    /// IA32_PERF_CAPABILITIES: branch format (4: with flags, 5: with particulars, 3FH: architectural), PEBS trap-like and with the architectural
    /// registers, its format, freeze in SMM, full-width writes, and where records are adaptive the PEBS baseline and metrics of slots.
    pub fn perf_capabilities(self, without: Without) -> u64 {
        let branch_format = match self {
            Self::Haswell | Self::Broadwell => 4,
            Self::Skylake | Self::IceLake => 5,
            Self::SapphireRapids | Self::ClearwaterForest => 0x3f,
        };
        let baseline = u64::from(self.is_adaptive()) * (1 << 14 | 1 << 15);
        let pebs = 1 << 6 | 1 << 7 | u64::from(self.format()) << 8;
        let all = branch_format | pebs | 1 << 12 | 1 << 13 | baseline;
        all & !(if without.branches { 0x3f } else { 0 }) & !(if without.precise { 0xfc0 | 1 << 14 } else { 0 })
    }

    /// CPUID leaf 0xA: EAX, EBX, ECX, EDX. References to and misses of the last level are missing where no caches are simulated.
    pub fn cpuid_leaf_a(self, caches: bool) -> [u32; 4] {
        /// Architectural events listed: core cycles, instructions, reference cycles, LLC references, LLC misses, branches,
        /// mispredicted branches.
        const EVENTS: u32 = 7;
        let slots = u32::from(self.is_adaptive());
        // Those that stand at the first places without a gap.
        let first = self.fixed_mask().trailing_ones();
        let eax = self.version() | (self.general() as u32) << 8 | COUNTER_BITS << 16 | (EVENTS + slots) << 24;
        // A set bit says that an event is missing.
        let ebx = if caches { 0 } else { 1 << 3 | 1 << 4 };
        let ecx = if self.version() >= 5 { self.fixed_mask() as u32 } else { 0 };
        // A core has one thread: counting any thread's is deprecated from version 5 on.
        let edx = first | COUNTER_BITS << 5 | u32::from(self.version() >= 5) << 15;
        [eax, ebx, ecx, edx]
    }

    /// CPUID leaf 0x1C, architectural branch records: EAX, EBX, ECX, EDX. `None` where there are none.
    pub fn cpuid_leaf_1c(self, without: Without) -> Option<[u32; 4]> {
        /// 8, 16 or 32 records; they hold linear addresses. Nothing sleeps so deeply that they are lost.
        const DEPTHS: u32 = 1 | 1 << 1 | 1 << 3 | 1 << 31;
        /// They can be asked for by mode and by kind, and as a stack of calls.
        const FILTERS: u32 = 0b111;
        /// They tell of mispredictions, of cycles and of kinds.
        const PARTICULARS: u32 = 0b111;
        (self.is_architectural() && !without.branches).then_some([DEPTHS, FILTERS, PARTICULARS, 0])
    }

    /// CPUID leaf 23H, what version 6 has beyond leaf 0xA, by sub-leaf: EAX, EBX, ECX, EDX. `None` where there is none. Sub-leaves: which there are, counters, their
    /// reload by others, architectural events, PEBS's groups, and its counters (`update_pmu_cap` of Linux 7.1's arch/x86/events/intel/core.c). No unit mask has a second byte.
    pub fn cpuid_leaf_23(self, subleaf: u32, caches: bool, without: Without) -> Option<[u32; 4]> {
        if !self.has_architectural_pebs() {
            return None;
        }
        let (general, fixed) = ((1 << self.general()) - 1, self.fixed_mask() as u32);
        let pebs = if without.precise { 0 } else { 0b11 << 4 };
        let missing = self.cpuid_leaf_a(caches)[1];
        Some(match subleaf {
            0 => [0b1111 | pebs, 0, 0, 0],
            1 => [general, fixed, 0, 0],
            // All can be reloaded, and cause a reload.
            2 => [general, fixed, general, fixed],
            3 => [0x7f & !missing, 0, 0, 0],
            4 if pebs != 0 => [0, architectural_pebs::groups(without.branches), 0, 0],
            // All sample; which of them precisely to the instruction is what the driver takes for `:ppp`.
            5 if pebs != 0 => [general, PRECISE_GENERAL, fixed, PRECISE_FIXED],
            _ => [0; 4],
        })
    }

    /// The register that another number is an alias of: version 6 has counters, selectors and what else each counter has side by side.
    pub fn canonical(self, number: u32) -> u32 {
        if !self.has_architectural_pebs() {
            return number;
        }
        match (number.wrapping_sub(msr::V6_GENERAL0), number.wrapping_sub(msr::V6_FIXED0)) {
            (at, _) if at < 4 * self.general() as u32 && at % 4 == 0 => msr::FULL_WIDTH_PERFCTR0 + at / 4,
            (at, _) if at < 4 * self.general() as u32 && at % 4 == 1 => msr::PERFEVTSEL0 + at / 4,
            (_, at) if at < 4 * self.fixed() as u32 && at % 4 == 0 => msr::FIXED_CTR0 + at / 4,
            _ => number,
        }
    }

    /// Whether an event whose counter overflowed freezes branch records by a status bit (version 4) or by clearing the enable bit.
    pub fn freezes_by_status(self) -> bool {
        self.version() >= 4
    }

    /// All counters, a bit each: general ones, and fixed ones from 32 on.
    fn counters(self) -> u64 {
        let bits = |n: usize| (1u64 << n) - 1;
        bits(self.general()) | self.fixed_mask() << 32
    }

    /// Counters that PEBS can sample: before version 5 the general ones alone.
    pub fn precise(self) -> u64 {
        if self.version() >= 5 { self.counters() } else { self.counters() & 0xffff_ffff }
    }

    /// Whether a register takes a value, or answers with #GP: reserved bits are to be 0, counters have [`COUNTER_BITS`], addresses are canonical (SDM
    /// volume 3, 20.2 and 20.3, volume 4, table 2-2). No transactions are modelled: nor are their bits.
    pub fn takes(self, number: u32, value: u64) -> bool {
        let within = |first: u32, count: usize| (first..first + count as u32).contains(&number);
        if let Some(takes) = architectural_pebs::takes(number, value, self.counters()) {
            return takes;
        }
        let is_adaptive = u64::from(self.is_adaptive());
        let only = |allowed: u64| value & !allowed == 0;
        match number {
            _ if within(msr::FULL_WIDTH_PERFCTR0, self.general()) || within(msr::FIXED_CTR0, self.fixed()) => {
                value >> COUNTER_BITS == 0
            }
            _ if within(msr::PERFEVTSEL0, self.general()) => only(0xffff_ffff | is_adaptive << 34),
            msr::FIXED_CTR_CTRL => {
                let each = (0..self.fixed())
                    .filter(|i| self.fixed_mask() >> i & 1 == 1)
                    .fold(0, |all, i| all | (0xf | is_adaptive << 32) << (4 * i));
                only(each)
            }
            msr::GLOBAL_CTRL => only(self.counters() | is_adaptive << 48),
            // Besides counters: metrics, trace buffer, frozen branches and counters, protected keys, uncore, buffer, changed conditions.
            msr::GLOBAL_STATUS_RESET | msr::GLOBAL_STATUS_SET => {
                let newer = if self.freezes_by_status() { 1 << 55 | 1 << 58 | 1 << 59 | 1 << 60 } else { 0 };
                let threshold = u64::from(self.has_architectural_pebs()) << 54;
                only(self.counters() | is_adaptive << 48 | newer | threshold | 1 << 61 | 1 << 62 | 1 << 63)
            }
            msr::PEBS_ENABLE if self.version() >= 5 => only(self.counters()),
            msr::PEBS_ENABLE => only(0xf | 0xf << 32),
            msr::PEBS_DATA_CFG => only(0xf | 0xff << 24),
            msr::PEBS_LD_LAT => only(0xffff),
            msr::DEBUGCTL => only(0xffc3),
            msr::LBR_SELECT => only(SELECTS),
            msr::LBR_TOS => value < self.branches() as u64,
            msr::LBR_CTL => only(0x7f_000f),
            msr::LBR_DEPTH => matches!(value, 8 | 16 | 32),
            msr::PERF_METRICS if self != Self::SapphireRapids => only(0xffff_ffff),
            msr::DS_AREA => (value as i64) << 16 >> 16 == value as i64,
            _ => true,
        }
    }

    /// Whether a register is of branch records.
    pub fn is_of_branches(number: u32) -> bool {
        let within = |first: u32| (first..first + 32).contains(&number);
        within(msr::LBR_FROM0)
            || within(msr::LBR_TO0)
            || within(msr::LBR_INFO0)
            || within(msr::ARCH_LBR_FROM0)
            || within(msr::ARCH_LBR_TO0)
            || within(msr::ARCH_LBR_INFO0)
            || matches!(number, msr::LBR_SELECT | msr::LBR_TOS | msr::LBR_CTL | msr::LBR_DEPTH)
    }

    /// Whether a register of branch records is one of those that the generation has.
    fn has_of_branches(self, number: u32) -> bool {
        let within = |first: u32| (first..first + self.branches() as u32).contains(&number);
        if self.is_architectural() {
            return matches!(number, msr::LBR_CTL | msr::LBR_DEPTH)
                || within(msr::ARCH_LBR_FROM0)
                || within(msr::ARCH_LBR_TO0)
                || within(msr::ARCH_LBR_INFO0);
        }
        matches!(number, msr::LBR_SELECT | msr::LBR_TOS)
            || within(msr::LBR_FROM0)
            || within(msr::LBR_TO0)
            || (within(msr::LBR_INFO0) && self.freezes_by_status())
    }

    /// Whether a register is of PEBS.
    pub fn is_of_pebs(number: u32) -> bool {
        matches!(number, msr::PEBS_ENABLE | msr::PEBS_DATA_CFG | msr::PEBS_LD_LAT | msr::PEBS_FRONTEND | msr::DS_AREA)
            || architectural_pebs::is_of_pebs(number)
    }

    /// Whether a register belongs to this PMU.
    pub fn has(self, number: u32) -> bool {
        let within = |first: u32, count: usize| (first..first + count as u32).contains(&number);
        within(msr::PERFCTR0, self.general())
            || within(msr::FULL_WIDTH_PERFCTR0, self.general())
            || within(msr::PERFEVTSEL0, self.general())
            || (within(msr::FIXED_CTR0, self.fixed()) && self.fixed_mask() >> (number - msr::FIXED_CTR0) & 1 == 1)
            || (self.has_architectural_pebs() && architectural_pebs::has(number, self.counters()))
            || self.has_of_branches(number)
            || (matches!(number, msr::PEBS_DATA_CFG | msr::PERF_METRICS) && self.is_adaptive())
            || (number == msr::PEBS_ENABLE && !self.has_architectural_pebs())
            || (number == msr::GLOBAL_STATUS_SET && self.version() >= 4)
            || matches!(
                number,
                msr::FIXED_CTR_CTRL
                    | msr::GLOBAL_STATUS
                    | msr::GLOBAL_CTRL
                    | msr::GLOBAL_STATUS_RESET
                    | msr::PERF_CAPABILITIES
                    | msr::PEBS_LD_LAT
                    | msr::DS_AREA
                    | msr::DEBUGCTL
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
        assert_eq!(Generation::Skylake.perf_capabilities(Without::default()), 0x33c5);
        assert_eq!(Generation::Broadwell.perf_capabilities(Without::default()), 0x32c4);
        assert_eq!(Generation::IceLake.perf_capabilities(Without::default()), 0xf4c5);
        assert_eq!(Generation::IceLake.perf_capabilities(Without { branches: true, precise: true }), 0xb000);
        assert_eq!(Generation::SapphireRapids.perf_capabilities(Without::default()), 0xf4ff);
        // pebs_format 15 is what intel_pebs_init takes for architectural PEBS.
        assert_eq!(Generation::ClearwaterForest.perf_capabilities(Without::default()), 0x3fff);
    }

    #[test]
    fn leaf_a_says_what_is_missing() {
        let leaf = |generation: Generation, caches| generation.cpuid_leaf_a(caches);
        assert_eq!(leaf(Generation::Skylake, false), [4 | 4 << 8 | 48 << 16 | 7 << 24, 0b11000, 0, 3 | 48 << 5]);
        assert_eq!(leaf(Generation::IceLake, true), [5 | 8 << 8 | 48 << 16 | 8 << 24, 0, 0xf, 4 | 48 << 5 | 1 << 15]);
    }

    /// What update_pmu_cap reads, and what it warns of: PEBS on counters that are not there, and half of its two sub-leaves.
    #[test]
    fn leaf_23_says_what_each_counter_can() {
        let forest = Generation::ClearwaterForest;
        assert_eq!(forest.cpuid_leaf_a(false), [6 | 8 << 8 | 48 << 16 | 7 << 24, 0b11000, 0x77, 3 | 48 << 5 | 1 << 15]);
        let leaf = |subleaf| forest.cpuid_leaf_23(subleaf, false, Without::default()).unwrap();
        let all: Vec<_> = (0..7).map(leaf).collect();
        let expected = [
            [0x3f, 0, 0, 0],
            [0xff, 0x77, 0, 0],
            [0xff, 0x77, 0xff, 0x77],
            [0x67, 0, 0, 0],
            // ARCH_PEBS_CNTR_ALLOW, _GP, _FIXED, _LBR, _VECR_XMM, _GPR and _AUX, 32 bits lower.
            [0, 1 << 3 | 1 << 4 | 1 << 5 | 3 << 8 | 1 << 17 | 1 << 29 | 1 << 30, 0, 0],
            [0xff, 3, 0x77, 1],
            [0; 4],
        ];
        assert_eq!(all, expected);
        let without = Without { branches: false, precise: true };
        assert_eq!(forest.cpuid_leaf_23(0, false, without).unwrap()[0], 0xf);
        assert_eq!(forest.cpuid_leaf_23(5, false, without), Some([0; 4]));
        assert_eq!(Generation::SapphireRapids.cpuid_leaf_23(0, false, Without::default()), None);
    }

    #[test]
    fn version_6_has_registers_of_a_counter_side_by_side() {
        let forest = Generation::ClearwaterForest;
        assert_eq!([0x1900, 0x1905, 0x191c, 0x1920].map(|number| forest.canonical(number)), [0x4c1, 0x187, 0x4c8, 0x1920]);
        assert_eq!([0x1980, 0x1998, 0x1981].map(|number| forest.canonical(number)), [0x309, 0x30f, 0x1981]);
        assert_eq!(Generation::SapphireRapids.canonical(0x1900), 0x1900);
        // Each counter's own two, and no fixed counter 3.
        let has = |number: u32| forest.has(forest.canonical(number));
        assert!([0x1902, 0x191f, 0x1982, 0x199b, 0x3f4, 0x3f5].into_iter().all(has));
        assert!(![0x1922, 0x198c, 0x198e, 0x30c, 0x199c, 0x3f1, 0x3f2].into_iter().any(has));
    }

    /// Linux takes the greatest depth that is listed: 8 a bit (intel_pmu_arch_lbr_init).
    #[test]
    fn leaf_1c_says_what_branch_records_there_are() {
        let leaf = |generation: Generation| generation.cpuid_leaf_1c(Without::default());
        assert_eq!(leaf(Generation::IceLake), None);
        let [depths, filters, particulars, _] = leaf(Generation::SapphireRapids).unwrap();
        let greatest = 8 * (depths as u8).ilog2() + 8;
        assert_eq!((greatest as usize, filters, particulars), (Generation::SapphireRapids.branches(), 7, 7));
        let without = Without { branches: true, precise: false };
        assert_eq!(Generation::SapphireRapids.cpuid_leaf_1c(without), None);
        let takes = |number, value| Generation::SapphireRapids.takes(number, value);
        assert!(takes(msr::LBR_DEPTH, 16) && !takes(msr::LBR_DEPTH, 24) && !takes(msr::LBR_CTL, 1 << 4));
        let has = |number| Generation::SapphireRapids.has(number);
        assert!(has(msr::ARCH_LBR_INFO0 + 31) && !has(msr::LBR_FROM0) && !has(msr::LBR_TOS));
        assert!(!Generation::IceLake.has(msr::LBR_CTL) && Generation::IceLake.has(msr::LBR_SELECT));
    }

    #[test]
    fn reserved_bits_are_refused() {
        let generations = [
            Generation::Haswell,
            Generation::Broadwell,
            Generation::Skylake,
            Generation::IceLake,
            Generation::SapphireRapids,
            Generation::ClearwaterForest,
        ];
        for generation in generations {
            let takes = |number, value| generation.takes(number, value);
            let all = generation.counters();
            assert!(takes(msr::GLOBAL_CTRL, all) && !takes(msr::GLOBAL_CTRL, all | 1 << generation.general()));
            assert!(takes(msr::FULL_WIDTH_PERFCTR0, (1 << 48) - 1) && !takes(msr::FULL_WIDTH_PERFCTR0, 1 << 48));
            assert!(takes(msr::PERFCTR0, u64::MAX), "32 bits of it, sign-extended");
            assert!(!takes(msr::FIXED_CTR0, 1 << 48) && !takes(msr::PERFEVTSEL0, 1 << 35));
            assert_eq!(takes(msr::PERFEVTSEL0, 1 << 34), generation.is_adaptive());
            assert!(takes(msr::DS_AREA, 0xffff_8000_0000_0000) && !takes(msr::DS_AREA, 1 << 47));
            assert!(!takes(msr::LBR_TOS, generation.branches() as u64) && !takes(msr::LBR_SELECT, 1 << 10));
            // Which counter samples loads by latency, or a fixed counter.
            if generation.has(msr::PEBS_ENABLE) {
                assert!(takes(msr::PEBS_ENABLE, 0xf << 32) && !takes(msr::PEBS_ENABLE, 1 << 40));
            }
        }
    }

    #[test]
    fn families_are_told_by_model() {
        assert_eq!(Generation::of(6, 94), Some(Generation::Skylake));
        assert_eq!(Generation::of(6, 61), Some(Generation::Broadwell));
        assert_eq!(Generation::of(6, 106), Some(Generation::IceLake));
        assert_eq!(Generation::of(6, 0x8f), Some(Generation::SapphireRapids));
        assert_eq!(Generation::of(6, 0xdd), Some(Generation::ClearwaterForest));
        assert_eq!(Generation::of(15, 6), None);
    }
}
