//! The CPU facts that the oracle looks at.

use super::attr::{AttrFacts, GENERAL_REGISTERS, sample};
use crate::machine::intel::{Core, Generation, Groups, NOT_SEEN, Pebs, Records, counters_of, extension, fixed_record_bytes};
use crate::machine::{Machine, Pmu, Vendor};

/// Bytes of perf's PEBS buffer on each CPU; of one page only with format 0 (`ds.c`, `PEBS_BUFFER_SIZE`).
const BUFFER_BYTES: u32 = 64 << 10;
const BUFFER_BYTES_FORMAT_0: u32 = 4 << 10;

/// Bytes at which architectural PEBS interrupts in multi-record mode: a page below the buffer's end (`asm/intel_ds.h`, `ARCH_PEBS_THRESH_MULTI`).
const ARCHITECTURAL_THRESHOLD_BYTES: u32 = BUFFER_BYTES - (4 << 10);

/// Bytes of the parts of an adaptive record (`asm/perf_event.h`): basic, memory, general registers, XMM, one branch, the counters' header, one counter.
const BASIC_BYTES: u32 = 32;
const MEMORY_BYTES: u32 = 32;
const GENERAL_BYTES: u32 = 144;
const XMM_BYTES: u32 = 256;
const BRANCH_BYTES: u32 = 24;
const COUNTERS_BYTES: u32 = 16;
const COUNTER_BYTES: u32 = 8;

/// The same of an architectural record (`struct arch_pebs_*`): header and basic group, the access, general registers, the branches' own header.
const ARCHITECTURAL_BASIC_BYTES: u32 = 16 + 48;
const ARCHITECTURAL_ACCESS_BYTES: u32 = 64;
const ARCHITECTURAL_GENERAL_BYTES: u32 = 160;
const ARCHITECTURAL_XMM_BYTES: u32 = 16 + XMM_BYTES;
const ARCHITECTURAL_BRANCHES_BYTES: u32 = 48;
const ARCHITECTURAL_UNIT_BYTES: u32 = 16;

/// What the oracle needs to know of a kind of core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuFacts {
    /// For people.
    pub name: String,
    /// Name of its PMU: `cpu`, or of a hybrid machine `cpu_core`, `cpu_atom`, `cpu_lowpower`.
    pub pmu: String,
    /// Whether it is Intel's.
    pub is_intel: bool,
    /// Why there is no PEBS here, if there is none.
    pub no_pebs: Option<String>,
    /// How records are written.
    pub pebs: Pebs,
    /// How that is known, or why it is not.
    pub format_source: String,
    /// Highest precise level; `None` where nobody says.
    pub max_precise: Option<u32>,
    /// General counters; `None` where nobody says.
    pub general: Option<u32>,
    /// Bit *n* set where there is a fixed counter *n*; `None` where nobody says.
    pub fixed: Option<u32>,
    /// LBR depth; `None` where nobody says.
    pub lbr: Option<u32>,
}

impl CpuFacts {
    /// A generation by the book: its kind of core, of a hybrid one that of the performance cores.
    pub fn of_generation(generation: &Generation) -> Self {
        Self::of_core(generation, &generation.cores[0])
    }

    /// A generation by the book: each of its kinds of cores, the performance cores first.
    pub fn each_of_generation(generation: &Generation) -> Vec<Self> {
        generation.cores.iter().map(|core| Self::of_core(generation, core)).collect()
    }

    fn of_core(generation: &Generation, core: &Core) -> Self {
        let is_hybrid = generation.cores.len() > 1;
        Self {
            name: if is_hybrid { format!("{} {}", generation.name, core.pmu) } else { generation.name.into() },
            pmu: core.pmu.into(),
            is_intel: true,
            no_pebs: None,
            pebs: core.pebs,
            format_source: match core.pebs {
                Pebs::Unknown => NOT_SEEN.into(),
                _ => format!("by the generation's name, {}", generation.basis.in_words()),
            },
            max_precise: generation.max_precise(core),
            general: core.general,
            fixed: core.fixed,
            lbr: Some(core.lbr),
        }
    }

    /// The machine as its files, its CPUID and its registers describe it; the generation fills what they leave open. One for each kind of core, the
    /// performance cores first; one without PEBS where the kernel shows no core PMU.
    pub fn each_of_machine(machine: &Machine) -> Vec<Self> {
        let core_pmus = machine.core_pmus();
        match core_pmus.as_slice() {
            [] => vec![Self::of_pmu(machine, None)],
            [only] => vec![Self::of_pmu(machine, Some(only))],
            several => several
                .iter()
                .map(|pmu| Self { name: format!("{}, {}", machine.cpu.name, pmu.name), ..Self::of_pmu(machine, Some(pmu)) })
                .collect(),
        }
    }

    fn of_pmu(machine: &Machine, pmu: Option<&Pmu>) -> Self {
        let is_intel = machine.cpu.vendor == Vendor::Intel;
        let pmu_name = pmu.map_or("cpu", |pmu| &pmu.name);
        let generation = Generation::of_model(machine.cpu.family, machine.cpu.model).filter(|_| is_intel);
        let core = generation.and_then(|generation| generation.core(pmu_name));
        let max_precise = pmu.and_then(|pmu| pmu.cap("max_precise")).and_then(|level| u32::try_from(level).ok());
        let no_pebs = match (pmu, max_precise) {
            (None, _) => Some("the kernel exposes no cpu PMU: /sys/bus/event_source/devices/cpu is missing".to_string()),
            (Some(pmu), Some(0)) => Some(format!("caps/max_precise of the {} PMU is 0", pmu.name)),
            _ => None,
        };
        let records = Records::read(machine, pmu_name);
        let by_counters = extension(machine, pmu_name).and_then(|extension| extension.pebs);
        let by_counters = by_counters.map(|pebs| if pebs.precise == 0 { 2 } else { 3 });
        let by_book = generation.zip(core).and_then(|(generation, core)| generation.max_precise(core));
        let (general, fixed) = counters_of(machine, pmu_name);
        Self {
            name: machine.cpu.name.clone(),
            pmu: pmu_name.into(),
            is_intel,
            no_pebs,
            pebs: if is_intel { records.pebs } else { Pebs::Unknown },
            format_source: records.source,
            max_precise: max_precise.or(by_counters).or(by_book),
            general,
            fixed,
            lbr: pmu.and_then(|pmu| pmu.cap("branches")).and_then(|n| u32::try_from(n).ok()).or(core.map(|core| core.lbr)),
        }
    }

    /// Highest precise level that is sure to be there; 2 where nobody says, as with each PEBS that has eventing addresses.
    pub fn sure_precise(&self) -> u32 {
        self.max_precise.unwrap_or(2)
    }

    /// Bytes of a record: fixed by the format before adaptive PEBS, by what is asked for since. `None` where what decides about it is not known.
    pub(super) fn record_bytes(&self, attr: &AttrFacts) -> Option<u32> {
        match self.pebs {
            Pebs::Unknown => None,
            Pebs::DebugStore { format, .. } if format < 4 => fixed_record_bytes(format),
            Pebs::DebugStore { baseline: false, .. } => Some(BASIC_BYTES),
            Pebs::DebugStore { format, .. } => self.adaptive_bytes(attr, format),
            Pebs::Architectural(groups) => self.architectural_bytes(attr, groups),
        }
    }

    fn adaptive_bytes(&self, attr: &AttrFacts, format: u32) -> Option<u32> {
        let asked = Asked::by(attr);
        let branches = if asked.branches { BRANCH_BYTES * self.lbr? } else { 0 };
        let counters = if asked.counters && format >= 6 { COUNTERS_BYTES + COUNTER_BYTES * attr.group_events } else { 0 };
        let part = |is_there: bool, bytes: u32| if is_there { bytes } else { 0 };
        let fixed = part(asked.access, MEMORY_BYTES) + part(asked.registers, GENERAL_BYTES) + part(asked.xmm, XMM_BYTES);
        Some(BASIC_BYTES + fixed + branches + counters)
    }

    /// Only groups that the CPU has are switched on, whatever is asked for (`intel_pmu_enable_event_ext`).
    fn architectural_bytes(&self, attr: &AttrFacts, groups: Option<Groups>) -> Option<u32> {
        let asked = Asked::by(attr);
        if asked == Asked::default() {
            return Some(ARCHITECTURAL_BASIC_BYTES);
        }
        let groups = groups?;
        let branches = match groups.branches(self.lbr) {
            _ if !asked.branches => 0,
            Some(0) => 0,
            Some(branches) => ARCHITECTURAL_BRANCHES_BYTES + BRANCH_BYTES * branches,
            None => return None,
        };
        let part = |is_there: bool, bytes: u32| if is_there { bytes } else { 0 };
        let counters = part(asked.counters && groups.has_counters(), COUNTERS_BYTES + COUNTER_BYTES * attr.group_events);
        let fixed = part(asked.access && groups.has_access(), ARCHITECTURAL_ACCESS_BYTES)
            + part(asked.registers && groups.has_registers(), ARCHITECTURAL_GENERAL_BYTES)
            + part(asked.xmm && groups.has_xmm(), ARCHITECTURAL_XMM_BYTES);
        // Whole units of IA32_PEBS_INDEX.
        Some((ARCHITECTURAL_BASIC_BYTES + fixed + branches + counters).next_multiple_of(ARCHITECTURAL_UNIT_BYTES))
    }

    /// Bytes of each one's records where these events share a CPU with architectural PEBS. Where one's records hold counters, those of all do: perf has one mask of
    /// counters for a CPU (`intel_get_arch_pebs_data_config`).
    pub(super) fn sizes_together(&self, events: &[&AttrFacts]) -> Option<Vec<u32>> {
        let counters: u32 =
            events.iter().filter(|event| event.sample_type & sample::READ != 0).map(|event| event.group_events).sum();
        let together = |event: &&AttrFacts| match counters {
            0 => self.record_bytes(event),
            _ => self.record_bytes(&AttrFacts {
                sample_type: event.sample_type | sample::READ,
                group_events: counters,
                ..(*event).clone()
            }),
        };
        events.iter().map(together).collect()
    }

    /// Records at which the interrupt comes where events with records of these sizes take as many of them each: records of all. Architectural PEBS alone has different ones.
    pub(super) fn records_of_several(&self, sizes: &[u32]) -> Option<u32> {
        let (events, bytes) = (u32::try_from(sizes.len()).ok()?, sizes.iter().sum::<u32>());
        matches!(self.pebs, Pebs::Architectural(_)).then(|| (ARCHITECTURAL_THRESHOLD_BYTES * events).div_ceil(bytes))
    }

    /// Records at which the interrupt comes. Through the debug store perf sets the threshold one record per able counter below the buffer's end, so that those
    /// which overflow before the interrupt is served still find room; architectural PEBS has a page for that.
    pub(super) fn records_per_interrupt(&self, bytes: u32) -> Option<u32> {
        let (format, baseline) = match self.pebs {
            Pebs::Unknown => return None,
            Pebs::Architectural(_) => return self.records_of_several(&[bytes]),
            Pebs::DebugStore { format, baseline } => (format, baseline),
        };
        let buffer = if format == 0 { BUFFER_BYTES_FORMAT_0 } else { BUFFER_BYTES };
        // The end of the buffer is rounded down to whole records of the smallest kind.
        let unit = fixed_record_bytes(format).unwrap_or(BASIC_BYTES);
        let end = buffer / unit * unit;
        // Fixed counters by the highest number that there is, gaps included (`x86_pmu_max_num_counters_fixed`).
        let fixed = if baseline { u32::BITS - self.fixed?.leading_zeros() } else { 0 };
        Some(end.saturating_sub((self.general? + fixed) * bytes).div_ceil(bytes).max(1))
    }
}

/// Groups that an event's attributes ask for (`pebs_update_adaptive_cfg`), beside the basic one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Asked {
    access: bool,
    registers: bool,
    xmm: bool,
    branches: bool,
    counters: bool,
}

impl Asked {
    fn by(attr: &AttrFacts) -> Self {
        if attr.sample_type & !(sample::IP | sample::TIME) == 0 && attr.precise > 1 {
            return Self::default();
        }
        let asks = |bits: u64| attr.sample_type & bits != 0;
        let access = sample::ADDR | sample::DATA_SRC | sample::PHYS_ADDR | sample::WEIGHT | sample::WEIGHT_STRUCT;
        Self {
            access: asks(access | sample::TRANSACTION | sample::DATA_PAGE_SIZE),
            registers: attr.precise < 2
                || asks(sample::REGS_INTR) && attr.regs_intr & GENERAL_REGISTERS != 0
                || asks(sample::REGS_USER) && attr.regs_user & GENERAL_REGISTERS != 0,
            // Extended registers start at bit 32 (PERF_REG_EXTENDED_MASK).
            xmm: asks(sample::REGS_INTR) && attr.regs_intr >> 32 != 0,
            branches: asks(sample::BRANCH_STACK),
            counters: asks(sample::READ),
        }
    }
}
