//! Intel: counters, PEBS and LBR by generation, and what the CPU says of itself.

use perftax_doc::steps::Operation;

use super::capability::Capability;
use super::{Fact, Group, Machine, msr};

/// What the oracle and the facts need to know of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Name on the command line.
    pub name: &'static str,
    /// Family-6 model numbers.
    pub models: &'static [u32],
    /// PEBS record format (IA32_PERF_CAPABILITIES bits 11:8).
    pub pebs_format: u32,
    /// Adaptive ("baseline") PEBS: groups of fields are chosen, every counter is able (bit 14).
    pub baseline: bool,
    /// General counters of a thread, hyper-threading on.
    pub general: u32,
    /// Fixed counters.
    pub fixed: u32,
    /// Depth of the last branch record.
    pub lbr: u32,
}

const fn generation(
    name: &'static str,
    models: &'static [u32],
    pebs_format: u32,
    general: u32,
    fixed: u32,
    lbr: u32,
) -> Generation {
    Generation { name, models, pebs_format, baseline: pebs_format >= 4, general, fixed, lbr }
}

/// Model numbers as in Linux' `asm/intel-family.h`; formats from SDM vol. 3B, PEBS record tables, and the kernel's boot
/// messages; counters and LBR depth from SDM vol. 3B chapters 18 and 20.
pub const GENERATIONS: [Generation; 16] = [
    generation("core2", &[0x0f, 0x16, 0x17, 0x1d], 0, 2, 3, 4),
    generation("nehalem", &[0x1a, 0x1e, 0x1f, 0x2e], 1, 4, 3, 16),
    generation("westmere", &[0x25, 0x2c, 0x2f], 1, 4, 3, 16),
    generation("sandybridge", &[0x2a, 0x2d], 1, 4, 3, 16),
    generation("ivybridge", &[0x3a, 0x3e], 1, 4, 3, 16),
    generation("haswell", &[0x3c, 0x3f, 0x45, 0x46], 2, 4, 3, 16),
    generation("broadwell", &[0x3d, 0x47, 0x4f, 0x56], 2, 4, 3, 16),
    generation("skylake", &[0x4e, 0x5e, 0x55, 0x8e, 0x9e, 0xa5, 0xa6], 3, 4, 3, 32),
    generation("icelake", &[0x7d, 0x7e, 0x9d], 4, 8, 4, 32),
    generation("icelake-server", &[0x6a, 0x6c], 4, 8, 4, 32),
    generation("tigerlake", &[0x8c, 0x8d], 4, 8, 4, 32),
    generation("rocketlake", &[0xa7], 4, 8, 4, 32),
    generation("alderlake", &[0x97, 0x9a, 0xb7, 0xba, 0xbf], 4, 8, 4, 32),
    generation("sapphirerapids", &[0x8f, 0xcf], 4, 8, 4, 32),
    generation("graniterapids", &[0xad, 0xae], 5, 8, 4, 32),
    generation("lunarlake", &[0xbd], 6, 8, 4, 32),
];

/// Other names that people use for a generation whose sampling hardware is the same.
const ALIASES: [(&str, &str); 12] = [
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
    ("spr", "sapphirerapids"),
    ("emeraldrapids", "sapphirerapids"),
];

impl Generation {
    /// The generation of a family-6 model number.
    pub fn of_model(family: u32, model: u32) -> Option<&'static Self> {
        GENERATIONS.iter().find(|g| family == 6 && g.models.contains(&model))
    }

    /// The generation by its name, any case, with or without dashes, spaces and underscores.
    pub fn named(name: &str) -> Option<&'static Self> {
        let plain = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
        let wanted = plain(name);
        let of = ALIASES.iter().find(|(alias, _)| plain(alias) == wanted).map_or(wanted.clone(), |(_, name)| plain(name));
        GENERATIONS.iter().find(|g| plain(g.name) == of)
    }

    /// Highest precise level: the third needs precise distribution (PREC_DIST), which the kernel uses from Ivy Bridge on
    /// (Linux 4.6, `pebs_prec_dist`).
    pub fn max_precise(&self) -> u32 {
        let has_precise_distribution = self.pebs_format >= 2 || self.name == "ivybridge";
        if has_precise_distribution { 3 } else { 2 }
    }
}

/// What IA32_PERF_CAPABILITIES says (SDM vol. 4, MSR 345H).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfCapabilities(pub u64);

impl PerfCapabilities {
    /// PEBS record format, bits 11:8.
    pub fn pebs_format(self) -> u32 {
        (self.0 >> 8 & 0xf) as u32
    }

    /// Adaptive PEBS on every counter, bit 14.
    pub fn baseline(self) -> bool {
        self.0 & 1 << 14 != 0
    }
}

/// Counters as CPUID leaf 0xA enumerates them (SDM vol. 2A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Version of architectural performance monitoring; 0 where there is none.
    pub version: u32,
    /// General counters per logical CPU.
    pub general: u32,
    /// Their width in bits.
    pub width_bits: u32,
    /// Fixed counters.
    pub fixed: u32,
    /// Their width in bits.
    pub fixed_width_bits: u32,
}

impl Counters {
    /// Reads the leaf; `None` where the CPU or its hypervisor hides it.
    pub fn read(machine: &Machine) -> Option<Self> {
        let leaf = machine.cpuid.leaf(0xa, 0)?;
        // From version 5 fixed counters may be sparse: the bitmap in ECX counts beside the number in EDX.
        let (listed, mapped) = (leaf.edx & 0x1f, leaf.ecx.count_ones());
        Some(Self {
            version: leaf.eax & 0xff,
            general: leaf.eax >> 8 & 0xff,
            width_bits: leaf.eax >> 16 & 0xff,
            fixed: if leaf.eax & 0xff >= 5 { listed.max(mapped) } else { listed },
            fixed_width_bits: leaf.edx >> 5 & 0xff,
        })
    }
}

/// What is peculiar to Intel.
pub fn facts(machine: &Machine) -> Vec<Fact> {
    vec![counters(machine), pebs(machine), max_precise(machine), lbr(machine)]
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

fn pebs(machine: &Machine) -> Fact {
    let name = "PEBS";
    if machine.core_pmu().is_none() {
        let meaning = "no core PMU in sysfs, so no precise events; KVM passes PEBS on only from Ice Lake server on";
        return Fact::new(Group::Hardware, name, "none", meaning)
            .fix_if(!machine.virtualisation.is_guest(), "dmesg | grep -i -e 'PMU driver' -e 'Performance Events'");
    }
    match msr::read(&machine.root, msr::MISC_ENABLE) {
        Ok(bits) if bits & 1 << 12 != 0 => {
            let meaning = "IA32_MISC_ENABLE bit 12 says unavailable: only counter interrupts, with skid";
            return Fact::new(Group::Hardware, name, "switched off", meaning);
        }
        _ => {}
    }
    let meaning = |format: u32, baseline: bool| {
        if baseline {
            "adaptive records of 32 to 1200 bytes, on every counter".to_string()
        } else {
            let bytes = fixed_record_bytes(format).map_or("?".into(), |b| b.to_string());
            format!("records of {bytes} bytes, on the general counters")
        }
    };
    match msr::read(&machine.root, msr::PERF_CAPABILITIES).map(PerfCapabilities) {
        Ok(caps) => {
            let adaptive = if caps.baseline() { ", adaptive" } else { "" };
            Fact::new(
                Group::Hardware,
                name,
                format!("format {}{adaptive}", caps.pebs_format()),
                meaning(caps.pebs_format(), caps.baseline()),
            )
        }
        Err(unreadable) => match Generation::of_model(machine.cpu.family, machine.cpu.model) {
            Some(g) => {
                let value = format!("format {} (by model: {})", g.pebs_format, g.name);
                let meaning = format!("{}; not read from the CPU, {}", meaning(g.pebs_format, g.baseline), unreadable.why);
                Fact::new(Group::Hardware, name, value, meaning).fix(unreadable.fix)
            }
            None => {
                let meaning = format!("the record format decides whether large PEBS may carry times: {}", unreadable.why);
                Fact::new(Group::Hardware, name, "unknown format", meaning).fix(unreadable.fix)
            }
        },
    }
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
            "4 until Cascade Lake; 8 general and 4 fixed from Ice Lake (the study counted 7 usable)",
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

/// Bytes of a record of the formats that have one size (`ds.c`, `struct pebs_record_*`); `None` from format 4 on.
pub fn fixed_record_bytes(format: u32) -> Option<u32> {
    [144, 176, 192, 200].get(format as usize).copied()
}
