//! AMD: counters, IBS and its capability bits.

use super::capability::Capability;
use super::{Fact, Group, Machine};

/// Bits of CPUID leaf 0x8000_001B EAX (AMD64 manual vol. 3, appendix E.4.13; later bits: Linux 6.15 `asm/amd/ibs.h`).
const IBS_BITS: [(u32, &str); 17] = [
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
    (15, "address bit 63 filter"),
    (16, "streaming store, remote socket"),
];

/// The raw capability word, as the kernel holds it.
pub fn ibs_word(machine: &Machine) -> Option<u32> {
    machine.cpuid.leaf(0x8000_001b, 0).map(|leaf| leaf.eax).filter(|word| word & 1 != 0)
}

/// The names of the capabilities that a word holds, the first bit (which only says that the word is valid) left out.
pub fn ibs_names(word: u32) -> Vec<&'static str> {
    IBS_BITS.iter().skip(1).filter(|(bit, _)| word & 1 << bit != 0).map(|(_, name)| *name).collect()
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
    vec![counters, ibs(machine), ibs_filter(machine), lbr]
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

/// Whether the kernel can leave user or kernel out of IBS samples: sysfs shows a `swfilt` format where it can.
fn ibs_filter(machine: &Machine) -> Fact {
    let pmu = machine.pmus.iter().find(|pmu| pmu.name == "ibs_op");
    let (value, meaning) = match pmu {
        Some(pmu) if pmu.formats.contains_key("swfilt") => {
            ("in software (swfilt)", ":u and :k work, but the filtered samples have already cost their interrupt")
        }
        Some(_) => ("none", ":u and :k are refused with IBS on this kernel (before 6.14)"),
        None => ("none", "there is no ibs_op to filter"),
    };
    Fact::new(Group::Hardware, "IBS user/kernel filter", value, meaning)
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
            "yes, of misses; a threshold in hardware only from Zen 5, with the L3-miss filter",
            "Linux 6.14 events/amd/ibs.c",
        ),
        Capability::new("data source", "yes: cache, DRAM, node; finer from Zen 4", "AMD64 vol. 2, 13.3.3"),
        Capability::new("registers", "those of the interrupt's frame, not of the tagged op", "Linux events/amd/ibs.c"),
        Capability::new("instruction address", "exact for ops; fetches by linear address", "AMD64 vol. 2, 13.3"),
        Capability::new("user/kernel filter", "none in hardware; in software from Linux 6.14", "Linux events/amd/ibs.c"),
        Capability::new("records per interrupt", "one", "AMD64 vol. 2, 13.3"),
        Capability::new("period", "multiples of 16, up to 20 bits (27 with the extension)", "AMD64 vol. 2, 13.3.3"),
        Capability::new("randomised period", "yes: low 7 bits of the op counter; fetch by rand_en", "AMD64 vol. 2, 13.3"),
        Capability::new("counts instead of samples", "no: the samplers give no counts", "AMD64 vol. 2, 13.3"),
    ]
}
