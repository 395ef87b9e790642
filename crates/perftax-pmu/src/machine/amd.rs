//! AMD: counters, IBS and its capability bits.

use super::capability::Capability;
use super::{Fact, Group, Machine};

/// Bits of CPUID leaf 0x8000_001B EAX (AMD64 manual vol. 3, appendix E.4.13; later bits: Linux 7.1 `asm/perf_event.h`, `IBS_CAPS_*`).
const IBS_BITS: [(u32, &str); 18] = [
    (0, "available"),
    (1, "fetch sampling"),
    (2, "op sampling"),
    (3, "op counter writable"),
    (4, "counts dispatched ops"),
    (5, "branch target"),
    (6, "27-bit op counter"),
    (7, "invalid-RIP flag"),
    (8, "fused branch flag"),
    (9, "fetch control extended"),
    (10, "op data 4"),
    (11, "L3-miss filter"),
    (12, "load latency filter"),
    (13, "disable bit"),
    (14, "fetch latency filter"),
    (15, "user/kernel filter by address bit 63"),
    (16, "streaming store, remote socket"),
    (19, "data TLB page size"),
];

/// Bit 15: the hardware leaves out a mode (Zen 6).
const PRIVILEGE_FILTER: u32 = 1 << 15;

/// Files of sysfs that came with the driver's side of Zen 6 (Linux 7.1): where one is, the driver uses the hardware's filter of modes, too.
const OF_ZEN_6: [(&str, &str); 3] = [("ibs_op", "strmst"), ("ibs_op", "rmtsocket"), ("ibs_fetch", "fetchlat")];

/// A generation: its name, CPUID family, and first and last model of each range.
type OfModels = (&'static str, u32, &'static [(u32, u32)]);

/// Generations by CPUID family and models (Linux 7.1, `tools/perf/pmu-events/arch/x86/mapfile.csv`, of whose catch-all lines only the models are taken that are
/// known to be such).
const GENERATIONS: [OfModels; 6] = [
    ("zen1", 0x17, &[(0x00, 0x2f)]),
    ("zen2", 0x17, &[(0x30, 0x4f), (0x60, 0x7f), (0x90, 0x91), (0xa0, 0xaf)]),
    ("zen3", 0x19, &[(0x00, 0x0f), (0x20, 0x5f)]),
    ("zen4", 0x19, &[(0x10, 0x1f), (0x60, 0x7f), (0x90, 0xaf)]),
    ("zen5", 0x1a, &[(0x00, 0x2f), (0x40, 0x4f), (0x60, 0x7f)]),
    ("zen6", 0x1a, &[(0x50, 0x5f), (0x80, 0xaf), (0xc0, 0xcf)]),
];

/// The generation of a family and model; `None` where none is known.
pub fn generation(family: u32, model: u32) -> Option<&'static str> {
    let is_of =
        |(_, of, models): &&OfModels| *of == family && models.iter().any(|(first, last)| (*first..=*last).contains(&model));
    GENERATIONS.iter().find(is_of).map(|(name, ..)| *name)
}

/// The raw capability word, as the kernel holds it.
pub fn ibs_word(machine: &Machine) -> Option<u32> {
    machine.cpuid.leaf(0x8000_001b, 0).map(|leaf| leaf.eax).filter(|word| word & 1 != 0)
}

/// The names of the capabilities that a word holds, the first bit (which only says that the word is valid) left out. Bits without a name are told by number.
pub fn ibs_names(word: u32) -> Vec<String> {
    let name = |bit: u32| {
        let known = IBS_BITS.iter().find(|(known, _)| *known == bit);
        known.map_or_else(|| format!("bit {bit} (unknown)"), |(_, name)| (*name).to_string())
    };
    (1..u32::BITS).filter(|bit| word & 1 << bit != 0).map(name).collect()
}

/// General counters and depth of the branch record: CPUID leaf 0x8000_0022 where there is one (Zen 4 on), else the
/// number that the feature flag implies (6 with `perfctr_core`, family 15h on; else 4).
pub(super) fn counters(machine: &Machine) -> (u32, Option<u32>) {
    let leaf = machine.cpuid.leaf(0x8000_0022, 0).filter(|leaf| leaf.eax & 1 != 0);
    match leaf {
        Some(leaf) => (leaf.ebx & 0xf, (leaf.eax & 2 != 0).then_some(leaf.ebx >> 4 & 0x3f)),
        None if machine.cpu.has("perfctr_core") => (6, None),
        None => (4, None),
    }
}

/// What is peculiar to AMD.
pub fn facts(machine: &Machine) -> Vec<Fact> {
    let has_pmu = machine.core_pmu().is_some();
    let (general, lbr) = counters(machine);
    let counters = if has_pmu {
        let meaning = format!("{general} events at once without multiplexing; one may be the NMI watchdog's");
        Fact::new(Group::Hardware, "counters", format!("{general} general (48 bit), no fixed"), meaning)
    } else {
        Fact::new(
            Group::Hardware,
            "counters",
            "none visible",
            "no core PMU in sysfs: hardware events cannot be counted or sampled",
        )
    };
    let depth = machine.core_pmu().and_then(|pmu| pmu.cap("branches")).or(lbr.filter(|_| has_pmu).map(u64::from));
    let lbr = match depth.filter(|&d| d > 0) {
        Some(depth) => Fact::new(
            Group::Hardware,
            "LBR",
            format!("{depth} branches"),
            format!("a branch stack adds {} bytes to each sample", depth.saturating_mul(24).saturating_add(8)),
        ),
        None => Fact::new(Group::Hardware, "LBR", "none", "no branch stacks"),
    };
    let mut facts = vec![counters, ibs(machine), ibs_filter(machine), lbr];
    facts.extend(ibs_more(machine));
    facts
}

fn ibs(machine: &Machine) -> Fact {
    let pmus: Vec<_> = machine.pmus.iter().filter(|pmu| pmu.name.starts_with("ibs_")).map(|pmu| pmu.name.as_str()).collect();
    match (ibs_word(machine), pmus.is_empty()) {
        (Some(word), false) => {
            let names: Vec<_> = ibs_names(word).into_iter().filter(|n| !n.ends_with("sampling")).collect();
            let meaning = format!("one interrupt a sample, period a multiple of 16. Has: {}", names.join(", "));
            Fact::new(Group::Hardware, "IBS", pmus.join(", "), meaning)
        }
        (None, false) => Fact::new(Group::Hardware, "IBS", pmus.join(", "), "capability bits unknown (no CPUID leaf 0x8000001B)"),
        (Some(_), true) => Fact::new(
            Group::Hardware,
            "IBS",
            "hidden",
            "the CPU has it, the kernel shows no ibs_op: disabled in firmware, or no perf support",
        )
        .fix("dmesg | grep -i ibs"),
        (None, true) => Fact::new(
            Group::Hardware,
            "IBS",
            "none",
            "no precise sampling; guests get IBS only from Zen 4 hosts with virtual IBS",
        ),
    }
}

/// How user or kernel mode can be left out of IBS samples: by the hardware (the kernel must know how), by the driver (sysfs shows a `swfilt` format), or not.
fn ibs_filter(machine: &Machine) -> Fact {
    let name = "IBS user/kernel filter";
    let of = |name: &str| machine.pmus.iter().find(|pmu| pmu.name == name);
    let Some(pmu) = of("ibs_op") else {
        return Fact::new(Group::Hardware, name, "none", "there is no ibs_op to filter");
    };
    let has_hardware = ibs_word(machine).is_some_and(|word| word & PRIVILEGE_FILTER != 0);
    let shows =
        |(name, file): &(&str, &str)| of(name).is_some_and(|pmu| pmu.caps.contains_key(*file) || pmu.formats.contains_key(*file));
    let (value, meaning) = match (has_hardware, OF_ZEN_6.iter().any(shows), pmu.formats.contains_key("swfilt")) {
        (true, true, _) => ("in hardware (bit 63)", ":u and :k work by themselves: what they leave out costs no interrupt"),
        (true, false, true) => (
            "in software (swfilt)",
            "the CPU could by itself (CPUID 8000001BH, bit 15), but this kernel does not know how (Linux 7.1 does)",
        ),
        (false, _, true) => {
            ("in software (swfilt)", ":u and :k need swfilt=1, and the filtered samples have already cost their interrupt")
        }
        (_, _, false) => ("none", ":u and :k are refused with IBS on this kernel (before 6.14)"),
    };
    Fact::new(Group::Hardware, name, value, meaning)
}

/// The filters and data that IBS's driver offers here beyond the first generations', by what sysfs shows.
fn ibs_more(machine: &Machine) -> Option<Fact> {
    /// PMU, file below `format` or `caps`, and what it stands for.
    const MORE: [(&str, &str, &str); 6] = [
        ("ibs_op", "l3missonly", "l3missonly=1: ops that miss L3 alone; the period then stretches"),
        ("ibs_op", "ldlat", "ldlat=128 to 2048: loads that miss for longer, in cycles; with l3missonly on Zen 5"),
        ("ibs_op", "strmst", "strmst=1: streaming stores alone"),
        ("ibs_op", "rmtsocket", "samples tell another socket's data"),
        ("ibs_op", "dtlb_pgsize", "samples tell the page size of a translation where the physical address is valid"),
        ("ibs_fetch", "fetchlat", "fetchlat=128 to 1920: fetches that took longer, in cycles"),
    ];
    let shows = |(name, file, _): &&(&str, &str, &str)| {
        machine.pmus.iter().any(|pmu| pmu.name == *name && (pmu.formats.contains_key(*file) || pmu.caps.contains_key(*file)))
    };
    let shown: Vec<_> = MORE.iter().filter(shows).collect();
    let names: Vec<_> = shown.iter().map(|(_, name, _)| *name).collect();
    let meanings: Vec<_> = shown.iter().map(|(.., meaning)| *meaning).collect();
    (!shown.is_empty()).then(|| Fact::new(Group::Hardware, "IBS filters and data", names.join(", "), meanings.join("; ")))
}

/// What IBS can do, in the terms of the PES study's table I.
pub fn capabilities() -> Vec<Capability> {
    vec![
        Capability::new("precise events at once", "2: one op sampler and one fetch sampler", "AMD64 vol. 2, 13.3; TPDS'23"),
        Capability::new(
            "what is sampled",
            "any dispatched micro-operation (or elapsed cycle), any instruction fetch",
            "AMD64 vol. 2, 13.3",
        ),
        Capability::new(
            "tagged by",
            "a counter of ops or cycles picks the op before it runs; events are read off afterwards",
            "AMD64 vol. 2, 13.3.3",
        ),
        Capability::new("data address", "yes, linear and physical, where the op loads or stores", "AMD64 vol. 2, 13.3.3"),
        Capability::new(
            "latency of a load",
            "yes, of misses; a threshold in hardware only from Zen 5 (there with the L3-miss filter); of fetches from Zen 6",
            "Linux 7.1 events/amd/ibs.c",
        ),
        Capability::new("data source", "yes: cache, DRAM, node; finer from Zen 4", "AMD64 vol. 2, 13.3.3"),
        Capability::new("registers", "those of the interrupt's frame, not of the tagged op", "Linux events/amd/ibs.c"),
        Capability::new("instruction address", "exact for ops; fetches by linear address", "AMD64 vol. 2, 13.3"),
        Capability::new(
            "user/kernel filter",
            "in hardware from Zen 6; before in software, from Linux 6.14",
            "Linux 7.1 events/amd/ibs.c",
        ),
        Capability::new("records per interrupt", "one", "AMD64 vol. 2, 13.3"),
        Capability::new("period", "multiples of 16, up to 20 bits (27 with the extension)", "AMD64 vol. 2, 13.3.3"),
        Capability::new("randomised period", "yes: low 7 bits of the op counter; fetch by rand_en", "AMD64 vol. 2, 13.3"),
        Capability::new("counts instead of samples", "no: the samplers give no counts", "AMD64 vol. 2, 13.3"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_without_a_name_are_told_by_number() {
        assert_eq!(ibs_names(1 | 1 << 2 | 1 << 19 | 1 << 17), ["op sampling", "bit 17 (unknown)", "data TLB page size"]);
    }

    #[test]
    fn models_that_nobody_has_named_are_of_no_generation() {
        let of = |family, model| generation(family, model);
        assert_eq!(
            [of(0x1a, 0x44), of(0x1a, 0x50), of(0x19, 0x11), of(0x19, 0x21)],
            [Some("zen5"), Some("zen6"), Some("zen4"), Some("zen3")]
        );
        assert_eq!([of(0x17, 0x31), of(0x17, 0x08), of(0x1a, 0x30), of(0x1b, 0)], [Some("zen2"), Some("zen1"), None, None]);
    }
}
