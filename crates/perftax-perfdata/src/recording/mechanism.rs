//! Which mechanism sampled an event, as far as its attributes and the recording's header tell.

use perftax_doc::Mechanism;
use perftax_pmu::event::pmu_types;

use super::attribute::Attribute;
use super::features::Features;

/// `PERF_COUNT_SW_CPU_CLOCK` and `_TASK_CLOCK`: both are sampled by a high-resolution timer.
const SW_CLOCKS: [u64; 2] = [0, 1];

/// The mechanism, or None where nothing is known that samples so: instruction traces (intel_pt, cs_etm), uncore PMUs,
/// PMU types that the header does not name.
///
/// - Precise core events are PEBS on Intel, and on AMD are handed over to IBS by the kernel (`core_pmu_ibs_config`).
/// - A uprobe made by `perf probe` is a tracepoint to perf_event_open; perf puts those in a group `probe_<binary>`, which
///   `name` shows.
pub fn mechanism_of(attribute: &Attribute, name: &str, features: &Features) -> Option<Mechanism> {
    match attribute.pmu_type {
        pmu_types::SOFTWARE if SW_CLOCKS.contains(&attribute.config) => Some(Mechanism::CpuClock),
        pmu_types::SOFTWARE => Some(Mechanism::Software),
        pmu_types::TRACEPOINT if name.starts_with("probe_") => Some(Mechanism::Uprobe),
        pmu_types::TRACEPOINT => Some(Mechanism::Tracepoint),
        pmu_types::BREAKPOINT => Some(Mechanism::Breakpoint),
        pmu_types::HARDWARE | pmu_types::HW_CACHE | pmu_types::RAW => Some(counter(attribute, features)),
        other => by_pmu(features.pmus.get(&other)?, attribute, features),
    }
}

fn by_pmu(pmu: &str, attribute: &Attribute, features: &Features) -> Option<Mechanism> {
    match pmu {
        "ibs_op" => Some(Mechanism::IbsOp),
        "ibs_fetch" => Some(Mechanism::IbsFetch),
        "uprobe" => Some(Mechanism::Uprobe),
        "kprobe" => Some(Mechanism::Tracepoint),
        "cpu" | "cpu_core" | "cpu_atom" | "cpu_lowpower" => Some(counter(attribute, features)),
        _ if pmu.starts_with("arm_spe") => Some(Mechanism::Spe),
        _ if pmu.starts_with("armv") => Some(counter(attribute, features)),
        _ => None,
    }
}

/// Whether a PMU writes into an AUX buffer instead of taking samples.
pub(super) fn traces(pmu: &str) -> bool {
    ["intel_pt", "intel_bts", "cs_etm", "arm_spe", "hisi_ptt"].iter().any(|traces| pmu.starts_with(traces))
}

fn counter(attribute: &Attribute, features: &Features) -> Mechanism {
    let vendor = |names: [&str; 2]| names.iter().any(|v| features.cpuid.starts_with(v) || features.cpu.starts_with(v));
    if attribute.precise_ip == 0 {
        Mechanism::Pmi
    } else if vendor(["AuthenticAMD", "AMD"]) || vendor(["HygonGenuine", "Hygon"]) {
        Mechanism::IbsOp
    } else if vendor(["GenuineIntel", "Intel"]) || features.cpuid.is_empty() && features.cpu.is_empty() {
        // Only x86 takes precise_ip, so without a vendor PEBS is the likelier of two.
        Mechanism::Pebs
    } else {
        Mechanism::Pmi
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pmu_type: u32, config: u64, precise_ip: u8, name: &str, cpuid: &str) -> Option<Mechanism> {
        let attribute = Attribute { pmu_type, config, precise_ip, ..Attribute::default() };
        let pmus =
            [(10, "ibs_op"), (11, "ibs_fetch"), (12, "arm_spe_0"), (13, "uncore_imc_0"), (14, "cpu_core"), (15, "intel_pt")];
        let pmus = pmus.into_iter().map(|(n, name)| (n, name.to_string())).collect();
        mechanism_of(&attribute, name, &Features { cpuid: cpuid.into(), pmus, ..Features::default() })
    }

    #[test]
    fn every_mechanism_from_its_attributes() {
        let intel = "GenuineIntel,6,167,8";
        let amd = "AuthenticAMD,25,17,1";
        assert_eq!(of(1, 0, 0, "cpu-clock", intel), Some(Mechanism::CpuClock));
        assert_eq!(of(1, 1, 0, "task-clock", intel), Some(Mechanism::CpuClock));
        assert_eq!(of(1, 2, 0, "page-faults", intel), Some(Mechanism::Software));
        assert_eq!(of(2, 314, 0, "sched:sched_switch", intel), Some(Mechanism::Tracepoint));
        assert_eq!(of(2, 2000, 0, "probe_bzip2:main", intel), Some(Mechanism::Uprobe));
        assert_eq!(of(5, 0, 0, "mem:0x1000:w", intel), Some(Mechanism::Breakpoint));
        assert_eq!(of(0, 0, 0, "cycles", intel), Some(Mechanism::Pmi));
        assert_eq!(of(0, 0, 2, "cycles:pp", intel), Some(Mechanism::Pebs));
        assert_eq!(of(0, 0, 2, "cycles:pp", amd), Some(Mechanism::IbsOp));
        assert_eq!(of(4, 0xc2, 0, "r00c2", amd), Some(Mechanism::Pmi));
        assert_eq!(of(10, 0, 0, "ibs_op//", amd), Some(Mechanism::IbsOp));
        assert_eq!(of(11, 0, 0, "ibs_fetch//", amd), Some(Mechanism::IbsFetch));
        assert_eq!(of(12, 0, 0, "arm_spe_0//", "0x00000000410fd0c0"), Some(Mechanism::Spe));
        assert_eq!(of(14, 0x1cd, 3, "cpu_core/mem-loads/P", intel), Some(Mechanism::Pebs));
    }

    #[test]
    fn what_does_not_sample_has_none() {
        assert_eq!(of(13, 1, 0, "uncore", "GenuineIntel,6,1,1"), None);
        assert_eq!(of(15, 0, 0, "intel_pt//", "GenuineIntel,6,1,1"), None);
        assert_eq!(of(99, 0, 0, "?", "GenuineIntel,6,1,1"), None);
    }
}
