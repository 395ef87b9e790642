//! The CPU facts that the oracle looks at.

use super::attr::{AttrFacts, GENERAL_REGISTERS, sample};
use crate::machine::intel::{Counters, Generation, PerfCapabilities, fixed_record_bytes};
use crate::machine::{Machine, Vendor, msr};

/// Bytes of perf's PEBS buffer on each CPU; of one page only with format 0 (`ds.c`, `PEBS_BUFFER_SIZE`).
const BUFFER_BYTES: u32 = 64 << 10;
const BUFFER_BYTES_FORMAT_0: u32 = 4 << 10;

/// Bytes of the parts of an adaptive record (`asm/perf_event.h`): basic, memory, general registers, XMM, one branch.
const BASIC_BYTES: u32 = 32;
const MEMORY_BYTES: u32 = 32;
const GENERAL_BYTES: u32 = 144;
const XMM_BYTES: u32 = 256;
const BRANCH_BYTES: u32 = 24;

/// The most general counters that the kernel takes as able to do PEBS (`MAX_PEBS_EVENTS`).
const MAX_PEBS_EVENTS: u32 = 8;

/// What the oracle needs to know of a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuFacts {
    /// For people.
    pub name: String,
    /// Whether it is Intel's.
    pub is_intel: bool,
    /// Why there is no PEBS here, if there is none.
    pub no_pebs: Option<String>,
    /// PEBS record format.
    pub format: Option<u32>,
    /// How the format is known, or why it is not.
    pub format_source: String,
    /// Adaptive PEBS on every counter.
    pub baseline: bool,
    /// Highest precise level.
    pub max_precise: u32,
    /// General counters.
    pub general: u32,
    /// Fixed counters.
    pub fixed: u32,
    /// LBR depth.
    pub lbr: u32,
}

impl CpuFacts {
    /// A generation by the book.
    pub fn of_generation(generation: &Generation) -> Self {
        Self {
            name: generation.name.into(),
            is_intel: true,
            no_pebs: None,
            format: Some(generation.pebs_format),
            format_source: "by the generation's name".into(),
            baseline: generation.baseline,
            max_precise: generation.max_precise(),
            general: generation.general,
            fixed: generation.fixed,
            lbr: generation.lbr,
        }
    }

    /// The machine as its files, its CPUID and its registers describe it; the generation fills what they leave open.
    pub fn of_machine(machine: &Machine) -> Self {
        let is_intel = machine.cpu.vendor == Vendor::Intel;
        let generation = Generation::of_model(machine.cpu.family, machine.cpu.model).filter(|_| is_intel);
        let pmu = machine.core_pmu();
        let register = msr::read(&machine.root, msr::PERF_CAPABILITIES).map(PerfCapabilities).ok();
        let max_precise = pmu.and_then(|pmu| pmu.cap("max_precise")).and_then(|level| u32::try_from(level).ok());
        let no_pmu = "the kernel exposes no cpu PMU: /sys/bus/event_source/devices/cpu is missing";
        let no_pebs = match (pmu, max_precise) {
            (None, _) => Some(no_pmu.to_string()),
            (Some(_), Some(0)) => Some("caps/max_precise of the cpu PMU is 0".to_string()),
            _ => None,
        };
        let counters = Counters::read(machine);
        let format_source = match (register, generation) {
            (Some(_), _) => "read from IA32_PERF_CAPABILITIES".into(),
            (None, Some(generation)) => format!("by model number: {}", generation.name),
            (None, None) => "neither IA32_PERF_CAPABILITIES is readable nor the model known".into(),
        };
        Self {
            name: machine.cpu.name.clone(),
            is_intel,
            no_pebs,
            format: register.map(PerfCapabilities::pebs_format).or(generation.map(|g| g.pebs_format)),
            format_source,
            baseline: register.map_or(generation.is_some_and(|g| g.baseline), PerfCapabilities::baseline),
            max_precise: max_precise.or(generation.map(Generation::max_precise)).unwrap_or(0),
            general: counters.map(|c| c.general).filter(|&n| n > 0).or(generation.map(|g| g.general)).unwrap_or(4),
            fixed: counters.map(|c| c.fixed).filter(|&n| n > 0).or(generation.map(|g| g.fixed)).unwrap_or(3),
            lbr: pmu
                .and_then(|p| p.cap("branches"))
                .and_then(|n| u32::try_from(n).ok())
                .or(generation.map(|g| g.lbr))
                .unwrap_or(0),
        }
    }

    /// Bytes of a record: fixed by the format before adaptive PEBS, by what is asked for since.
    pub(super) fn record_bytes(&self, format: u32, attr: &AttrFacts) -> Option<u32> {
        if format < 4 {
            return fixed_record_bytes(format);
        }
        let asks = |bits: u64| attr.sample_type & bits != 0;
        let only_basic = attr.sample_type & !(sample::IP | sample::TIME) == 0 && attr.precise > 1;
        if !self.baseline || only_basic {
            return Some(BASIC_BYTES);
        }
        let memory = sample::ADDR | sample::DATA_SRC | sample::PHYS_ADDR | sample::WEIGHT | sample::WEIGHT_STRUCT;
        let memory = asks(memory | sample::TRANSACTION | sample::DATA_PAGE_SIZE);
        let general = attr.precise < 2
            || asks(sample::REGS_INTR) && attr.regs_intr & GENERAL_REGISTERS != 0
            || asks(sample::REGS_USER) && attr.regs_user & GENERAL_REGISTERS != 0;
        // Extended registers start at bit 32 (PERF_REG_EXTENDED_MASK).
        let xmm = asks(sample::REGS_INTR) && attr.regs_intr >> 32 != 0;
        let part = |is_there: bool, bytes: u32| if is_there { bytes } else { 0 };
        let branches = part(asks(sample::BRANCH_STACK), BRANCH_BYTES * self.lbr);
        Some(BASIC_BYTES + part(memory, MEMORY_BYTES) + part(general, GENERAL_BYTES) + part(xmm, XMM_BYTES) + branches)
    }

    /// Records at which the interrupt comes: perf sets the threshold one record per able counter below the buffer's end,
    /// so that those which overflow before the interrupt is served still find room.
    pub(super) fn records_per_interrupt(&self, format: u32, bytes: u32) -> u32 {
        let buffer = if format == 0 { BUFFER_BYTES_FORMAT_0 } else { BUFFER_BYTES };
        // The end of the buffer is rounded down to whole records of the smallest kind.
        let unit = fixed_record_bytes(format).unwrap_or(BASIC_BYTES);
        let end = buffer / unit * unit;
        let reserved = self.general.min(MAX_PEBS_EVENTS) + if self.baseline { self.fixed } else { 0 };
        end.saturating_sub(reserved * bytes).div_ceil(bytes).max(1)
    }
}
