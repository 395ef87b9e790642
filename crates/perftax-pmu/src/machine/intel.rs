//! Intel: counters, PEBS and LBR by generation, and what the CPU says of itself.

mod counters;
mod generation;
mod pebs;

use perftax_doc::steps::Operation;

use super::capability::Capability;
use super::{Fact, Group, Machine, Pmu, cpu_list, msr};

pub use counters::{ArchitecturalPebs, Counters, Extension, Reload};
pub use generation::{Basis, Core, GENERATIONS, Generation};
pub use pebs::{ARCHITECTURAL_FORMAT, Groups, NEWEST_DEBUG_STORE_FORMAT, Pebs, fixed_record_bytes};

/// What IA32_PERF_CAPABILITIES says (SDM vol. 4, MSR 345H).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfCapabilities(pub u64);

impl PerfCapabilities {
    /// How records are written: format in bits 11:8, adaptive in bit 14, which the kernel believes from format 4 on (`intel_ds_pebs_init`). Which groups
    /// architectural PEBS has is not in this register.
    pub fn pebs(self) -> Pebs {
        match (self.0 >> 8 & 0xf) as u32 {
            ARCHITECTURAL_FORMAT => Pebs::ARCHITECTURAL,
            format => Pebs::DebugStore { format, baseline: format >= 4 && self.0 & 1 << 14 != 0 },
        }
    }
}

/// Why a generation of the table has no record format.
pub const NOT_SEEN: &str =
    "of this generation neither a machine nor a document that says was seen; IA32_PERF_CAPABILITIES of one does";

/// How a kind of core writes PEBS records here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Records {
    /// As far as it is known.
    pub pebs: Pebs,
    /// How it is known, or why it is not.
    pub source: String,
    /// The generation whose table said so; `None` where the CPU did.
    pub by_model: Option<&'static Generation>,
    /// What makes it readable, where it was not.
    pub fix: String,
}

impl Records {
    /// Of a core PMU: by the CPU's register, else by the generation's table; groups of architectural PEBS by CPUID.
    pub fn read(machine: &Machine, pmu: &str) -> Self {
        let generation = Generation::of_model(machine.cpu.family, machine.cpu.model);
        let register = msr::read(&machine.root, msr::PERF_CAPABILITIES).map(PerfCapabilities);
        let by_table = || generation.and_then(|generation| Some((generation, generation.core(pmu)?)));
        let (pebs, source, by_model, fix) = match (register, by_table()) {
            (Ok(register), _) => (register.pebs(), "read from IA32_PERF_CAPABILITIES".to_string(), None, String::new()),
            (Err(why), Some((generation, core))) => {
                let source = match core.pebs {
                    Pebs::Unknown => format!("{NOT_SEEN} ({})", why.why),
                    _ => format!("by model number: {}, {}", generation.name, generation.basis.in_words()),
                };
                (core.pebs, source, Some(generation), why.fix)
            }
            (Err(why), None) => {
                (Pebs::Unknown, "neither IA32_PERF_CAPABILITIES is readable nor the model known".into(), None, why.fix)
            }
        };
        match (pebs, extension(machine, pmu).and_then(|extension| extension.pebs)) {
            (Pebs::Architectural(_), Some(found)) => {
                let source = format!("{source}; its groups by CPUID leaf 23H");
                Self { pebs: Pebs::Architectural(Some(found.groups)), source, by_model, fix }
            }
            _ => Self { pebs, source, by_model, fix },
        }
    }
}

/// What CPUID leaf 23H says of the cores of a PMU. On hybrid processors it is asked on one of them, by the kernel's `cpuid` driver.
pub fn extension(machine: &Machine, pmu: &str) -> Option<Extension> {
    let core_pmus = machine.core_pmus();
    let cpu = match core_pmus.as_slice() {
        [] | [_] => None,
        several => Some(*cpu_list(several.iter().find(|other| other.name == pmu)?.cpus.as_deref()?).first()?),
    };
    Extension::read(machine, cpu)
}

/// General counters, and the mask of the fixed ones, of a core PMU; each `None` where nobody says.
pub fn counters_of(machine: &Machine, pmu: &str) -> (Option<u32>, Option<u32>) {
    let extension = extension(machine, pmu).unwrap_or_default();
    let core = Generation::of_model(machine.cpu.family, machine.cpu.model).and_then(|generation| generation.core(pmu));
    // Leaf 0AH is that of the core that we happen to run on.
    let alike = machine.core_pmus().len() < 2;
    let leaf = Counters::read(machine).filter(|counters| alike && counters.general > 0);
    let general = extension.general.map(u32::count_ones).or(leaf.map(|counters| counters.general));
    let fixed = extension.fixed.or(leaf.map(|counters| counters.fixed_mask));
    (general.or(core.and_then(|core| core.general)), fixed.or(core.and_then(|core| core.fixed)))
}

/// What is peculiar to Intel.
pub fn facts(machine: &Machine) -> Vec<Fact> {
    let core_pmus = machine.core_pmus();
    let mut facts = match core_pmus.as_slice() {
        [] | [_] => vec![counters(machine), pebs(machine, core_pmus.first().copied(), "PEBS")],
        several => several.iter().flat_map(|pmu| of_kind(machine, pmu)).collect(),
    };
    facts.extend([max_precise(machine), lbr(machine)]);
    facts.extend(core_pmus.iter().filter_map(|pmu| reload(machine, pmu)));
    facts
}

/// Counters and PEBS of a hybrid processor's kind of core.
fn of_kind(machine: &Machine, pmu: &Pmu) -> Vec<Fact> {
    let (general, fixed) = counters_of(machine, &pmu.name);
    let number = |count: Option<u32>| count.map_or("?".to_string(), |count| count.to_string());
    let value = format!("{} general, {} fixed", number(general), number(fixed.map(u32::count_ones)));
    let meaning = match general {
        Some(general) => format!("{general} events at once without multiplexing on its CPUs"),
        None => "CPUID leaf 23H of one of its CPUs says it".into(),
    };
    let counters = Fact::new(Group::Hardware, &format!("counters of {}", pmu.name), value, meaning);
    let counters = counters.fix_if(general.is_none(), "sudo modprobe cpuid");
    vec![counters, pebs(machine, Some(pmu), &format!("PEBS of {}", pmu.name))]
}

fn counters(machine: &Machine) -> Fact {
    let (value, meaning) = match Counters::read(machine) {
        Some(c) if c.version > 0 => (
            format!("{} general ({} bit), {} fixed ({} bit)", c.general, c.width_bits, c.fixed, c.fixed_width_bits),
            format!("{} events at once without multiplexing (architectural version {})", c.general, c.version),
        ),
        Some(_) => ("none".into(), "CPUID leaf 0xA is empty: hardware events cannot be counted or sampled".into()),
        None => ("unknown".into(), "there is no CPUID leaf 0xA: hardware events cannot be counted".into()),
    };
    Fact::new(Group::Hardware, "counters", value, meaning)
}

fn pebs(machine: &Machine, pmu: Option<&Pmu>, name: &str) -> Fact {
    let Some(pmu) = pmu else {
        let meaning = "no core PMU in sysfs, so no precise events; KVM passes PEBS on only from Ice Lake server on";
        return Fact::new(Group::Hardware, name, "none", meaning)
            .fix_if(!machine.virtualisation.is_guest(), "dmesg | grep -i -e 'PMU driver' -e 'Performance Events'");
    };
    match msr::read(&machine.root, msr::MISC_ENABLE) {
        Ok(bits) if bits & 1 << 12 != 0 => {
            let meaning = "IA32_MISC_ENABLE bit 12 says unavailable: only counter interrupts, with skid";
            return Fact::new(Group::Hardware, name, "switched off", meaning);
        }
        _ => {}
    }
    let records = Records::read(machine, &pmu.name);
    let meaning = match records.pebs {
        Pebs::Unknown => format!("the record format decides whether large PEBS may carry times: {}", records.source),
        Pebs::DebugStore { format, .. } if format > NEWEST_DEBUG_STORE_FORMAT => {
            format!("newer than what is known here (up to {NEWEST_DEBUG_STORE_FORMAT}); Linux 7.1 refuses it")
        }
        Pebs::DebugStore { baseline: true, .. } => "adaptive records of 32 to 1200 bytes, on every counter".into(),
        Pebs::DebugStore { format, .. } => {
            let bytes = fixed_record_bytes(format).map_or("?".into(), |bytes| bytes.to_string());
            format!("records of {bytes} bytes, on the general counters")
        }
        Pebs::Architectural(None) => {
            "records with a header, on every counter that CPUID names; which groups it has CPUID leaf 23H says".into()
        }
        Pebs::Architectural(Some(groups)) => format!("records with a header; groups: {}", groups.names().join(", ")),
    };
    match records.by_model {
        Some(generation) => {
            let value = format!("{} (by model: {})", records.pebs.in_words(), generation.name);
            let meaning = format!("{meaning}; not read from the CPU, {}", generation.basis.in_words());
            Fact::new(Group::Hardware, name, value, meaning).fix(records.fix)
        }
        None => Fact::new(Group::Hardware, name, records.pebs.in_words(), meaning).fix(records.fix),
    }
}

/// Automatic counter reload, where the kernel offers it: sysfs shows `acr_mask`.
fn reload(machine: &Machine, pmu: &Pmu) -> Option<Fact> {
    let bits = pmu.formats.get("acr_mask")?;
    let meaning = "an overflow reloads other counters of the group, so that only what is rare between two of them is sampled: acr_mask names the \
                   events by place in the group; no frequency, no :ppp, and only counters that can";
    let counters = extension(machine, &pmu.name).and_then(|extension| extension.reload);
    let value = match counters {
        Some(reload) => format!("{} reloaded by {}", reload.reloaded.count_ones(), reload.causes.count_ones()),
        None => format!("acr_mask={bits}"),
    };
    Some(Fact::new(Group::Hardware, &format!("counter reload of {}", pmu.name), value, meaning))
}

fn max_precise(machine: &Machine) -> Fact {
    let value = machine.core_pmu().and_then(|pmu| pmu.cap("max_precise"));
    let meaning = match value {
        Some(0) | None => "only :u and :k modifiers; every p is refused",
        Some(1) => ":p works (constant skid), :pp and :ppp are refused",
        Some(2) => ":p and :pp work; :ppp is refused",
        Some(_) => "up to :ppp, on the events and counters that can",
    };
    let value = value.map_or("none".into(), |level| format!("{level} (:{})", "p".repeat(level.min(3) as usize)));
    Fact::new(Group::Hardware, "precise level", value, meaning)
}

fn lbr(machine: &Machine) -> Fact {
    let caps = machine.core_pmu().and_then(|pmu| pmu.cap("branches"));
    // CPUID leaf 0x1C, EAX bits 7:0: bit n set where a depth of 8·(n+1) is supported (SDM vol. 2A, CPUID).
    let architectural = machine.cpuid.leaf(0x1c, 0).map(|leaf| leaf.eax & 0xff).filter(|&depths| depths != 0);
    let depth =
        caps.or(architectural.filter(|_| machine.core_pmu().is_some()).map(|depths| u64::from(32 - depths.leading_zeros()) * 8));
    let (value, meaning) = match depth {
        Some(0) | None => ("none".into(), "no branch stacks, no call chains of them".into()),
        Some(depth) => (
            format!("{depth} branches"),
            format!("a branch stack adds {} bytes to each sample", depth.saturating_mul(24).saturating_add(8)),
        ),
    };
    Fact::new(Group::Hardware, "LBR", value, meaning)
}

/// What PEBS can do, in the terms of the PES study's table I.
pub fn capabilities() -> Vec<Capability> {
    vec![
        Capability::new(
            "precise events at once",
            "4 until Cascade Lake; 8 general and 4 fixed from Ice Lake, 10 from Lion Cove (the study counted 7 usable)",
            "SDM vol. 3B, PEBS; TPDS'23",
        ),
        Capability::new(
            "what is sampled",
            "retired instructions and micro-operations of many events: loads, stores, branches, misses",
            "SDM vol. 3B, PEBS",
        ),
        Capability::new(
            "tagged by",
            "the event that overflows the counter: the record is of the next one after it",
            "SDM vol. 3B, PEBS",
        ),
        Capability::new(
            "data address",
            "yes, for loads and stores (from Haswell also without a latency threshold)",
            "SDM vol. 3B, PEBS",
        ),
        Capability::new("latency of a load", "yes, above a threshold of 3 cycles or more (ldlat=N)", "SDM vol. 3B, PEBS"),
        Capability::new("data source", "yes: which cache level or node answered, hit or snoop", "SDM vol. 3B, PEBS"),
        Capability::new(
            "registers",
            "all general ones as the sampled instruction left them; XMM from format 4",
            "SDM vol. 3B, PEBS",
        ),
        Capability::new(
            "instruction address",
            "exact from Haswell on (format 2 holds the eventing address)",
            "SDM vol. 3B, PEBS",
        ),
        Capability::new("user/kernel filter", "in hardware, per counter", "SDM vol. 3B, PEBS"),
        Capability::new(
            "records per interrupt",
            format!("one, or hundreds in multi-record mode: {}", Operation::DiagnoseRecords),
            "Linux events/intel/ds.c",
        ),
        Capability::new("period", "any count up to 47 bits (31 before full-width writes)", "SDM vol. 3B, PEBS"),
        Capability::new("randomised period", "no: use prime periods against aliasing", "SDM vol. 3B, PEBS"),
        Capability::new("counts instead of samples", "yes, the same events count exactly", "SDM vol. 3B, PEBS"),
    ]
}
