//! ARM: core names and the statistical profiling extension.

use super::capability::Capability;
use super::{Fact, Group, Machine, Pmu};

/// Part numbers of the implementer ARM (0x41), from MIDR_EL1 as the cores' technical reference manuals give it.
const ARM_CORES: [(u32, &str); 9] = [
    (0xd08, "Cortex-A72"),
    (0xd0b, "Cortex-A76"),
    (0xd0c, "Neoverse N1"),
    (0xd40, "Neoverse V1"),
    (0xd49, "Neoverse N2"),
    (0xd4a, "Neoverse E1"),
    (0xd4f, "Neoverse V2"),
    (0xd84, "Neoverse V3"),
    (0xd8e, "Neoverse N3"),
];

/// A name for an ARM core, which `/proc/cpuinfo` gives only numbers for.
pub fn core_name(implementer: u32, part: u32) -> String {
    let core = ARM_CORES.iter().find(|(number, _)| implementer == 0x41 && *number == part);
    match core {
        Some((_, name)) => format!("ARM {name}"),
        None => format!("ARM core {implementer:#04x}:{part:#05x}"),
    }
}

/// What is peculiar to ARM.
pub fn facts(machine: &Machine) -> Vec<Fact> {
    let mut facts = vec![counters(machine), spe(machine), spe_interval(machine)];
    facts.extend(spe_filters(machine));
    facts.push(branches(machine));
    facts
}

fn counters(machine: &Machine) -> Fact {
    match machine.core_pmu() {
        Some(pmu) => {
            let meaning = "usually 6 general and 1 for cycles; their number is not readable from user space";
            Fact::new(Group::Hardware, "counters", format!("PMUv3 as {}", pmu.name), meaning)
        }
        None => Fact::new(
            Group::Hardware,
            "counters",
            "none visible",
            "no core PMU in sysfs: hardware events cannot be counted or sampled",
        ),
    }
}

/// The SPE device, if the kernel shows one.
fn spe_pmu(machine: &Machine) -> Option<&Pmu> {
    machine.pmus.iter().find(|pmu| pmu.name.starts_with("arm_spe"))
}

fn spe(machine: &Machine) -> Fact {
    match spe_pmu(machine) {
        Some(pmu) => {
            let count = pmu.cap("count_size").map_or("?".into(), |bits| bits.to_string());
            let cpus = pmu.cpus.as_deref().map_or(String::new(), |cpus| format!(" on CPUs {cpus}"));
            let meaning = format!("operations are tagged and written to an AUX buffer{cpus}; latency counters of {count} bits");
            Fact::new(Group::Hardware, "SPE", pmu.name.as_str(), meaning)
        }
        None => Fact::new(
            Group::Hardware,
            "SPE",
            "none",
            "no arm_spe device: not in this core, not in this guest, or the module is not loaded",
        )
        .fix("sudo modprobe arm_spe_pmu"),
    }
}

fn spe_interval(machine: &Machine) -> Fact {
    let interval = spe_pmu(machine).and_then(|pmu| pmu.cap("min_interval"));
    let (value, meaning) = match interval {
        Some(interval) => (
            format!("{interval} operations"),
            "what the CPU recommends: older drivers raise a shorter period to it without a word, that of Linux 7.1 takes it from 256 on",
        ),
        None => ("unknown".into(), "no caps/min_interval to read"),
    };
    Fact::new(Group::Hardware, "SPE minimum interval", value, meaning)
}

/// Filters that came after the first SPE, by the formats that the driver shows where the CPU has them (drivers/perf/arm_spe_pmu.c, Linux 7.1).
fn spe_filters(machine: &Machine) -> Option<Fact> {
    const FILTERS: [(&str, &str); 6] = [
        ("inv_event_filter", "inv_event_filter=MASK drops operations with any of these events (FEAT_SPEv1p2)"),
        ("inv_data_src_filter", "inv_data_src_filter=MASK drops data from these sources (FEAT_SPE_FDS)"),
        ("load_filter_mask", "masks combine filters by operation (FEAT_SPE_EFT)"),
        ("simd_filter", "simd_filter=1 keeps SIMD operations (FEAT_SPE_EFT)"),
        ("float_filter", "float_filter=1 keeps floating-point operations (FEAT_SPE_EFT)"),
        ("discard", "discard=1 counts by events and keeps no record"),
    ];
    let pmu = spe_pmu(machine)?;
    let shown: Vec<_> = FILTERS.iter().filter(|(name, _)| pmu.formats.contains_key(*name)).collect();
    let names: Vec<_> = shown.iter().map(|(name, _)| *name).collect();
    let mut meanings: Vec<String> = shown.iter().map(|(_, meaning)| (*meaning).to_string()).collect();
    if let Some(able) = pmu.cap("event_filter") {
        meanings.push(format!("events that can be filtered by: {able:#x}"));
    }
    let value = if names.is_empty() { "event_filter, min_latency".into() } else { names.join(", ") };
    (!meanings.is_empty()).then(|| Fact::new(Group::Hardware, "SPE filters", value, meanings.join("; ")))
}

fn branches(machine: &Machine) -> Fact {
    match machine.core_pmu().and_then(|pmu| pmu.cap("branches")).filter(|&depth| depth > 0) {
        Some(depth) => Fact::new(Group::Hardware, "BRBE", format!("{depth} branches"), "branch stacks work"),
        None => Fact::new(Group::Hardware, "BRBE", "none", "no branch stacks"),
    }
}

/// What SPE can do, in the terms of the PES study's table I (which does not cover ARM).
pub fn capabilities() -> Vec<Capability> {
    vec![
        Capability::new("precise events at once", "1: one sampler a core", "ARM ARM, SPE chapter"),
        Capability::new("what is sampled", "any operation; kept or dropped by type, event and latency", "ARM ARM, SPE chapter"),
        Capability::new("tagged by", "a counter of operations picks one before it runs", "ARM ARM, SPE chapter"),
        Capability::new("data address", "yes, virtual; physical with privilege", "ARM ARM, SPE chapter"),
        Capability::new("latency of a load", "yes, total, issue and translation; threshold min_latency", "ARM ARM, SPE chapter"),
        Capability::new("data source", "yes, where the core implements it", "ARM ARM, SPE chapter"),
        Capability::new("registers", "none: tags in registers cannot be read, correlate by time", "ARM ARM, SPE chapter"),
        Capability::new(
            "instruction address",
            "exact; Neoverse N1 leans to branch targets (erratum 1694299)",
            "Neoverse N1 SDEN",
        ),
        Capability::new("user/kernel filter", "in hardware, by exception level", "ARM ARM, SPE chapter"),
        Capability::new("records per interrupt", "as many as the AUX buffer holds", "Linux drivers/perf/arm_spe_pmu.c"),
        Capability::new(
            "period",
            "min_interval (256 to 4096) and up, from Linux 7.1 on 256; multiples of 256",
            "Linux drivers/perf/arm_spe_pmu.c",
        ),
        Capability::new("randomised period", "yes: jitter=1 over the low 8 bits", "ARM ARM, SPE chapter"),
        Capability::new("counts instead of samples", "no", "ARM ARM, SPE chapter"),
    ]
}
