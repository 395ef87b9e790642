//! How a core writes PEBS records, and which groups architectural PEBS has.

/// The value of IA32_PERF_CAPABILITIES bits 11:8 that says architectural PEBS (Linux 7.1, `intel_pebs_init`).
pub const ARCHITECTURAL_FORMAT: u32 = 0xf;

/// The newest format through the debug store that Linux 7.1 takes (`ds.c`, `intel_ds_pebs_init`): it refuses those above.
pub const NEWEST_DEBUG_STORE_FORMAT: u32 = 6;

/// How a core writes PEBS records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pebs {
    /// Nobody says.
    Unknown,
    /// Into the debug store, at virtual addresses.
    DebugStore {
        /// IA32_PERF_CAPABILITIES bits 11:8.
        format: u32,
        /// Adaptive ("baseline"): groups of fields are chosen, every counter is able (bit 14).
        baseline: bool,
    },
    /// Architectural PEBS (SDM vol. 3B; Linux 7.1): records with a header into a buffer of its own. The groups that it has are CPUID's to tell.
    Architectural(Option<Groups>),
}

/// What records of architectural PEBS can hold (CPUID leaf 23H, subleaf 4, EBX), as the upper half of `IA32_PMC_GPx_CFG_C` switches it on
/// (`asm/msr-index.h`, `ARCH_PEBS_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups(pub u32);

impl Pebs {
    /// Architectural PEBS of a CPU whose groups nobody has seen.
    pub const ARCHITECTURAL: Self = Self::Architectural(None);

    /// Records of one size: formats 0 to 3.
    pub const fn fixed(format: u32) -> Self {
        Self::DebugStore { format, baseline: false }
    }

    /// Adaptive records: format 4 and later.
    pub const fn adaptive(format: u32) -> Self {
        Self::DebugStore { format, baseline: true }
    }

    /// The record format, where it has a number of the debug store's.
    pub fn format(self) -> Option<u32> {
        match self {
            Self::DebugStore { format, .. } => Some(format),
            Self::Unknown | Self::Architectural(_) => None,
        }
    }

    /// Whether records hold the time by themselves; `None` where nobody says. Format 3 was the first; basic records of format 4 without groups have it, and
    /// the kernel does not use it (`ds.c`, `intel_ds_pebs_init`).
    pub fn holds_time(self) -> Option<bool> {
        match self {
            Self::Unknown => None,
            Self::DebugStore { format, baseline } => Some(format == 3 || baseline),
            Self::Architectural(_) => Some(true),
        }
    }

    /// Whether records can hold the XMM registers; `None` where nobody says.
    pub fn holds_xmm(self) -> Option<bool> {
        match self {
            Self::Unknown | Self::Architectural(None) => None,
            Self::DebugStore { baseline, .. } => Some(baseline),
            Self::Architectural(Some(groups)) => Some(groups.has_xmm()),
        }
    }

    /// For people: `format 4, adaptive`, `architectural`.
    pub fn in_words(self) -> String {
        match self {
            Self::Unknown => "unknown format".into(),
            Self::DebugStore { format, baseline: true } => format!("format {format}, adaptive"),
            Self::DebugStore { format, baseline: false } => format!("format {format}"),
            Self::Architectural(_) => "architectural".into(),
        }
    }
}

impl Groups {
    fn has(self, bits: u32) -> bool {
        self.0 & bits != 0
    }

    /// General counters.
    pub fn has_general_counters(self) -> bool {
        self.has(1 << 4)
    }

    /// Fixed counters.
    pub fn has_fixed_counters(self) -> bool {
        self.has(1 << 5)
    }

    /// Top-down metrics.
    pub fn has_metrics(self) -> bool {
        self.has(1 << 6)
    }

    /// Any of these: what the kernel asks before it lets counters be read by records (`ARCH_PEBS_CNTR_MASK`).
    pub fn has_counters(self) -> bool {
        self.has_general_counters() || self.has_fixed_counters() || self.has_metrics()
    }

    /// Branches of the LBR; two bits say how many (bits 9:8).
    pub fn has_branches(self) -> bool {
        self.has(0b11 << 8)
    }

    /// Branches in a record of an LBR so deep: bits 9:8 say 8, 16, or all of them. `None` where all are meant and the depth is not known.
    pub fn branches(self, depth: Option<u32>) -> Option<u32> {
        match self.0 >> 8 & 0b11 {
            0b11 => depth,
            eights => Some(8 * eights),
        }
    }

    /// XMM registers.
    pub fn has_xmm(self) -> bool {
        self.has(1 << 17)
    }

    /// General registers.
    pub fn has_registers(self) -> bool {
        self.has(1 << 29)
    }

    /// The access: address, source, latencies.
    pub fn has_access(self) -> bool {
        self.has(1 << 30)
    }

    /// Names of what is there. Bits that have none are told by number, never guessed.
    pub fn names(self) -> Vec<String> {
        /// By bit of EBX.
        const NAMES: [(u32, &str); 7] = [
            (4, "general counters"),
            (5, "fixed counters"),
            (6, "metrics"),
            (17, "XMM"),
            (29, "general registers"),
            (30, "access"),
            (31, "enable"),
        ];
        let mut names: Vec<String> =
            NAMES.iter().filter(|(bit, name)| self.has(1 << bit) && *name != "enable").map(|(_, name)| (*name).into()).collect();
        if self.has_branches() {
            names.push("branches".into());
        }
        let known = NAMES.iter().fold(0b11 << 8 | 1 << 3, |known, (bit, _)| known | 1 << bit);
        names.extend(
            (0..u32::BITS).filter(|bit| self.has(1 << bit) && known & 1 << bit == 0).map(|bit| format!("bit {bit} (unknown)")),
        );
        names
    }
}

/// Bytes of a record of the formats that have one size (`ds.c`, `struct pebs_record_*`); `None` from format 4 on.
pub fn fixed_record_bytes(format: u32) -> Option<u32> {
    [144, 176, 192, 200].get(format as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's masks (`asm/msr-index.h`) are of the 64-bit register, whose upper half CPUID's EBX is.
    #[test]
    fn groups_are_the_upper_half_of_the_register() {
        let of = |register: u64| Groups((register >> 32) as u32);
        assert!(of(1 << 36).has_general_counters() && of(1 << 37).has_fixed_counters() && of(1 << 38).has_metrics());
        assert!(of(0x3 << 40).has_branches() && of(1 << 41).has_branches() && of(1 << 49).has_xmm());
        assert!(of(1 << 61).has_registers() && of(1 << 62).has_access());
        let nothing = of(1 << 63);
        assert!(!nothing.has_counters() && !nothing.has_branches() && !nothing.has_registers() && !nothing.has_access());
        assert_eq!(nothing.names(), Vec::<String>::new());
    }

    #[test]
    fn bits_without_a_name_are_told_by_number() {
        assert_eq!(Groups(1 << 29 | 1 << 18).names(), ["general registers", "bit 18 (unknown)"]);
    }

    #[test]
    fn time_came_with_format_3() {
        let holds = [0, 1, 2, 3].map(|format| Pebs::fixed(format).holds_time());
        assert_eq!(holds, [Some(false), Some(false), Some(false), Some(true)]);
        assert_eq!(Pebs::fixed(4).holds_time(), Some(false), "basic records only");
        assert_eq!([Pebs::adaptive(5).holds_time(), Pebs::ARCHITECTURAL.holds_time()], [Some(true); 2]);
        assert_eq!((Pebs::Unknown.holds_time(), Pebs::ARCHITECTURAL.holds_xmm()), (None, None));
    }
}
