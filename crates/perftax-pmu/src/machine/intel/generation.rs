//! Intel's processors: kinds of cores, counters, PEBS and LBR of each.

use super::Pebs;

/// A processor generation: model numbers, and the kinds of cores in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Name on the command line.
    pub name: &'static str,
    /// CPUID family.
    pub family: u32,
    /// Model numbers of that family.
    pub models: &'static [u32],
    /// One for each kind of core, that of the performance cores first; one alone where all are alike.
    pub cores: &'static [Core],
    /// What the entry rests on.
    pub basis: Basis,
}

/// A kind of core, as the kernel's PMU for it shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Core {
    /// Name of its PMU in sysfs: `cpu`, or `cpu_core`, `cpu_atom`, `cpu_lowpower` on hybrid processors.
    pub pmu: &'static str,
    /// Name of the microarchitecture.
    pub microarchitecture: &'static str,
    /// How it writes records; not known where no machine and no document was seen that says.
    pub pebs: Pebs,
    /// General counters of a thread, hyper-threading on; `None` where CPUID alone tells.
    pub general: Option<u32>,
    /// Bit *n* set where there is a fixed counter *n*; `None` where CPUID alone tells.
    pub fixed: Option<u32>,
    /// Depth of the last branch record.
    pub lbr: u32,
}

/// What is known of a generation, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Kernels on such machines said so when they booted ("PEBS fmt…", numbers of counters).
    Machines,
    /// The kernel's driver, its lists of events and Intel's manuals alone: no such machine was seen.
    Documentation,
}

impl Basis {
    /// In words, behind what rests on it.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Machines => "as such machines say when they boot",
            Self::Documentation => "by documentation alone: no such machine was seen",
        }
    }
}

/// The bits of `count` fixed counters without a gap.
const fn first(count: u32) -> u32 {
    (1 << count) - 1
}

const fn core(pmu: &'static str, microarchitecture: &'static str, pebs: Pebs, general: u32, fixed: u32, lbr: u32) -> Core {
    Core { pmu, microarchitecture, pebs, general: Some(general), fixed: Some(fixed), lbr }
}

const fn seen(name: &'static str, models: &'static [u32], cores: &'static [Core]) -> Generation {
    Generation { name, family: 6, models, cores, basis: Basis::Machines }
}

const fn documented(name: &'static str, family: u32, models: &'static [u32], cores: &'static [Core]) -> Generation {
    Generation { name, family, models, cores, basis: Basis::Documentation }
}

/// Fixed counters of an E-core from Skymont on: 0 to 2 and the three of top-down analysis, 4 to 6; 3 (slots) is the P-cores' alone.
const SKYMONT_FIXED: u32 = 0b111_0111;

const LION_COVE_6: Core = core("cpu_core", "Lion Cove", Pebs::adaptive(6), 10, first(4), 32);
const SKYMONT_6: Core = core("cpu_atom", "Skymont", Pebs::adaptive(6), 8, SKYMONT_FIXED, 32);

/// Family and model numbers as in Linux' `asm/intel-family.h` (7.1); formats from SDM vol. 3B, PEBS record tables, and the kernel's boot messages; counters
/// and LBR depth from SDM vol. 3B chapters 18 and 20, boot messages, and the kernel's event lists (`counter.json`).
pub const GENERATIONS: [Generation; 27] = [
    seen("core2", &[0x0f, 0x16, 0x17, 0x1d], &[core("cpu", "Core 2", Pebs::fixed(0), 2, first(3), 4)]),
    seen("nehalem", &[0x1a, 0x1e, 0x1f, 0x2e], &[core("cpu", "Nehalem", Pebs::fixed(1), 4, first(3), 16)]),
    seen("westmere", &[0x25, 0x2c, 0x2f], &[core("cpu", "Westmere", Pebs::fixed(1), 4, first(3), 16)]),
    seen("sandybridge", &[0x2a, 0x2d], &[core("cpu", "Sandy Bridge", Pebs::fixed(1), 4, first(3), 16)]),
    seen("ivybridge", &[0x3a, 0x3e], &[core("cpu", "Ivy Bridge", Pebs::fixed(1), 4, first(3), 16)]),
    seen("haswell", &[0x3c, 0x3f, 0x45, 0x46], &[core("cpu", "Haswell", Pebs::fixed(2), 4, first(3), 16)]),
    seen("broadwell", &[0x3d, 0x47, 0x4f, 0x56], &[core("cpu", "Broadwell", Pebs::fixed(2), 4, first(3), 16)]),
    seen("skylake", &[0x4e, 0x5e, 0x55, 0x8e, 0x9e, 0xa5, 0xa6], &[core("cpu", "Skylake", Pebs::fixed(3), 4, first(3), 32)]),
    seen("icelake", &[0x7d, 0x7e, 0x9d], &[core("cpu", "Sunny Cove", Pebs::adaptive(4), 8, first(4), 32)]),
    seen("icelake-server", &[0x6a, 0x6c], &[core("cpu", "Sunny Cove", Pebs::adaptive(4), 8, first(4), 32)]),
    seen("tigerlake", &[0x8c, 0x8d], &[core("cpu", "Willow Cove", Pebs::adaptive(4), 8, first(4), 32)]),
    seen("rocketlake", &[0xa7], &[core("cpu", "Cypress Cove", Pebs::adaptive(4), 8, first(4), 32)]),
    seen("tremont", &[0x86, 0x96, 0x9c], &[core("cpu", "Tremont", Pebs::adaptive(4), 4, first(3), 32)]),
    seen(
        "alderlake",
        &[0x97, 0x9a, 0xb7, 0xba, 0xbf],
        &[
            core("cpu_core", "Golden Cove", Pebs::adaptive(4), 8, first(4), 32),
            core("cpu_atom", "Gracemont", Pebs::adaptive(4), 6, first(3), 32),
        ],
    ),
    documented("alderlake-n", 6, &[0xbe], &[core("cpu", "Gracemont", Pebs::adaptive(4), 6, first(3), 32)]),
    seen("sapphirerapids", &[0x8f, 0xcf], &[core("cpu", "Golden Cove", Pebs::adaptive(4), 8, first(4), 32)]),
    seen(
        "meteorlake",
        &[0xaa, 0xac, 0xb5],
        &[
            core("cpu_core", "Redwood Cove", Pebs::adaptive(4), 8, first(4), 32),
            core("cpu_atom", "Crestmont", Pebs::adaptive(4), 8, first(3), 32),
        ],
    ),
    documented("graniterapids", 6, &[0xad, 0xae], &[core("cpu", "Redwood Cove", Pebs::adaptive(5), 8, first(4), 32)]),
    documented("sierraforest", 6, &[0xaf], &[core("cpu", "Crestmont", Pebs::Unknown, 8, first(3), 32)]),
    documented("grandridge", 6, &[0xb6], &[core("cpu", "Crestmont", Pebs::Unknown, 8, first(3), 32)]),
    seen(
        "arrowlake-h",
        &[0xc5],
        &[
            core("cpu_core", "Lion Cove", Pebs::adaptive(5), 10, first(4), 32),
            core("cpu_atom", "Skymont", Pebs::adaptive(5), 8, SKYMONT_FIXED, 32),
            core("cpu_lowpower", "Crestmont", Pebs::adaptive(5), 8, first(3), 32),
        ],
    ),
    seen("arrowlake", &[0xc6], &[LION_COVE_6, SKYMONT_6]),
    seen("lunarlake", &[0xbd], &[LION_COVE_6, SKYMONT_6]),
    documented(
        "pantherlake",
        6,
        &[0xcc, 0xd5],
        &[
            core("cpu_core", "Cougar Cove", Pebs::ARCHITECTURAL, 10, first(4), 32),
            core("cpu_atom", "Darkmont", Pebs::ARCHITECTURAL, 8, SKYMONT_FIXED, 32),
        ],
    ),
    documented("clearwaterforest", 6, &[0xdd], &[core("cpu", "Darkmont", Pebs::ARCHITECTURAL, 8, SKYMONT_FIXED, 32)]),
    documented(
        "diamondrapids",
        19,
        &[0x01],
        &[Core { pmu: "cpu", microarchitecture: "Panther Cove", pebs: Pebs::ARCHITECTURAL, general: None, fixed: None, lbr: 32 }],
    ),
    documented(
        "novalake",
        18,
        &[0x01, 0x03],
        &[
            Core { pmu: "cpu_core", microarchitecture: "Coyote Cove", pebs: Pebs::Unknown, general: None, fixed: None, lbr: 32 },
            Core { pmu: "cpu_atom", microarchitecture: "Arctic Wolf", pebs: Pebs::Unknown, general: None, fixed: None, lbr: 32 },
        ],
    ),
];

/// Other names that people use for a generation whose sampling hardware is the same.
const ALIASES: [(&str, &str); 22] = [
    ("cascadelake", "skylake"),
    ("cooperlake", "skylake"),
    ("kabylake", "skylake"),
    ("coffeelake", "skylake"),
    ("cometlake", "skylake"),
    ("skylake-server", "skylake"),
    ("skx", "skylake"),
    ("icx", "icelake-server"),
    ("icelake-x", "icelake-server"),
    ("raptorlake", "alderlake"),
    ("twinlake", "alderlake-n"),
    ("spr", "sapphirerapids"),
    ("emeraldrapids", "sapphirerapids"),
    ("emr", "sapphirerapids"),
    ("gnr", "graniterapids"),
    ("srf", "sierraforest"),
    ("arrowlake-s", "arrowlake"),
    ("arrowlake-u", "meteorlake"),
    ("wildcatlake", "pantherlake"),
    ("cwf", "clearwaterforest"),
    ("dmr", "diamondrapids"),
    ("elkhartlake", "tremont"),
];

impl Generation {
    /// The generation of a CPUID family and model.
    pub fn of_model(family: u32, model: u32) -> Option<&'static Self> {
        GENERATIONS.iter().find(|g| g.family == family && g.models.contains(&model))
    }

    /// The generation by its name, any case, with or without dashes, spaces and underscores.
    pub fn named(name: &str) -> Option<&'static Self> {
        let plain = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
        let wanted = plain(name);
        let of = ALIASES.iter().find(|(alias, _)| plain(alias) == wanted).map_or(wanted.clone(), |(_, name)| plain(name));
        GENERATIONS.iter().find(|g| plain(g.name) == of)
    }

    /// Its kind of core with that PMU.
    pub fn core(&self, pmu: &str) -> Option<&'static Core> {
        self.cores.iter().find(|core| core.pmu == pmu)
    }

    /// Highest precise level of a kind of core: the third needs precise distribution (PREC_DIST), which the kernel uses from Ivy Bridge on (Linux 4.6,
    /// `pebs_prec_dist`). `None` where CPUID alone tells: architectural PEBS has a bit for each counter that can (leaf 23H, subleaf 5).
    pub fn max_precise(&self, core: &Core) -> Option<u32> {
        match core.pebs {
            Pebs::Unknown | Pebs::Architectural(_) => None,
            Pebs::DebugStore { format, .. } if format >= 2 || self.name == "ivybridge" => Some(3),
            Pebs::DebugStore { .. } => Some(2),
        }
    }
}

impl Core {
    /// Fixed counters.
    pub fn fixed_counters(&self) -> Option<u32> {
        self.fixed.map(u32::count_ones)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_model_is_of_one_generation_and_each_name_is_one() {
        let mut models = BTreeSet::new();
        let mut names = BTreeSet::new();
        for generation in &GENERATIONS {
            assert!(names.insert(generation.name) && !generation.cores.is_empty(), "{}", generation.name);
            for model in generation.models {
                assert!(models.insert((generation.family, model)), "{} {model:#x}", generation.name);
                assert_eq!(Generation::of_model(generation.family, *model), Some(generation));
            }
            let pmus: BTreeSet<_> = generation.cores.iter().map(|core| core.pmu).collect();
            assert_eq!(pmus.len(), generation.cores.len(), "{}: a PMU for each kind", generation.name);
            assert_eq!(generation.cores.len() > 1, generation.core("cpu").is_none(), "{}", generation.name);
        }
        for (alias, name) in ALIASES {
            assert_eq!(Generation::named(alias).unwrap().name, name, "{alias}");
            assert!(!names.contains(alias), "{alias} is a generation of its own");
        }
    }

    /// By the boot message of a Core Ultra 9 285H: event masks 0001000f000003ff, 00000077000000ff and 00000007000000ff.
    #[test]
    fn arrow_lake_h_has_three_kinds_of_cores() {
        let masks = |core: &Core| u64::from(core.fixed.unwrap()) << 32 | ((1 << core.general.unwrap()) - 1);
        let cores = Generation::of_model(6, 0xc5).unwrap().cores;
        assert_eq!(cores.iter().map(masks).collect::<Vec<_>>(), [0xf_0000_03ff, 0x77_0000_00ff, 0x7_0000_00ff]);
        assert_eq!(cores.iter().map(|core| core.pmu).collect::<Vec<_>>(), ["cpu_core", "cpu_atom", "cpu_lowpower"]);
    }

    /// Families above 6 begin anew with their models: 19/1 is Diamond Rapids, 18/1 Nova Lake, 6/1 a Pentium Pro.
    #[test]
    fn families_count() {
        let name = |family, model| Generation::of_model(family, model).map(|g| g.name);
        assert_eq!([name(19, 1), name(18, 1), name(6, 1), name(15, 1)], [Some("diamondrapids"), Some("novalake"), None, None]);
    }

    #[test]
    fn arrow_lake_is_three_generations() {
        let name = |model| Generation::of_model(6, model).unwrap().name;
        assert_eq!([name(0xc6), name(0xc5), name(0xb5)], ["arrowlake", "arrowlake-h", "meteorlake"]);
    }
}
