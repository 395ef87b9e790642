//! The attributes that the oracle looks at, under the kernel's names.

/// How the period is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// A fixed number of events.
    Period(u64),
    /// Samples per second: the kernel adapts the period.
    Frequency(u64),
}

/// Bits of `perf_event_attr.sample_type` (include/uapi/linux/perf_event.h).
#[allow(missing_docs)]
pub mod sample {
    pub const IP: u64 = 1 << 0;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const BRANCH_STACK: u64 = 1 << 11;
    pub const REGS_USER: u64 = 1 << 12;
    pub const STACK_USER: u64 = 1 << 13;
    pub const WEIGHT: u64 = 1 << 14;
    pub const DATA_SRC: u64 = 1 << 15;
    pub const IDENTIFIER: u64 = 1 << 16;
    pub const TRANSACTION: u64 = 1 << 17;
    pub const REGS_INTR: u64 = 1 << 18;
    pub const PHYS_ADDR: u64 = 1 << 19;
    pub const AUX: u64 = 1 << 20;
    pub const CGROUP: u64 = 1 << 21;
    pub const DATA_PAGE_SIZE: u64 = 1 << 22;
    pub const CODE_PAGE_SIZE: u64 = 1 << 23;
    pub const WEIGHT_STRUCT: u64 = 1 << 24;
}

/// A field of a sample, and whether PEBS can deliver it without an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleField {
    /// Its bit in `sample_type`.
    pub bit: u64,
    /// The kernel's name for it.
    pub name: &'static str,
    /// Whether the record holds it, or it is the same for all records of a drain (`LARGE_PEBS_FLAGS`). Rules that depend
    /// on the CPU or on other attributes come on top.
    pub is_in_record: bool,
    /// Why not.
    pub why_not: &'static str,
    /// How not to ask for it.
    pub fix: &'static str,
}

const fn held(bit: u64, name: &'static str, fix: &'static str) -> SampleField {
    SampleField { bit, name, is_in_record: true, why_not: "", fix }
}

const fn missing(bit: u64, name: &'static str, why_not: &'static str, fix: &'static str) -> SampleField {
    SampleField { bit, name, is_in_record: false, why_not, fix }
}

/// Every field, in the order of its bit.
pub const SAMPLE_FIELDS: [SampleField; 25] = [
    held(sample::IP, "PERF_SAMPLE_IP", ""),
    held(sample::TID, "PERF_SAMPLE_TID", ""),
    held(sample::TIME, "PERF_SAMPLE_TIME", "--no-timestamp"),
    held(sample::ADDR, "PERF_SAMPLE_ADDR", "no -d / --data"),
    missing(sample::READ, "PERF_SAMPLE_READ", "counters are read by the kernel at each sample", "no {…}:S group"),
    missing(
        sample::CALLCHAIN,
        "PERF_SAMPLE_CALLCHAIN",
        "the stack must be walked while the program stands still",
        "no -g / --call-graph",
    ),
    held(sample::ID, "PERF_SAMPLE_ID", ""),
    held(sample::CPU, "PERF_SAMPLE_CPU", ""),
    held(sample::PERIOD, "PERF_SAMPLE_PERIOD", ""),
    held(sample::STREAM_ID, "PERF_SAMPLE_STREAM_ID", ""),
    missing(sample::RAW, "PERF_SAMPLE_RAW", "raw data are the kernel's", "no -R / --raw-samples"),
    missing(sample::BRANCH_STACK, "PERF_SAMPLE_BRANCH_STACK", "", "no -b / --branch"),
    held(sample::REGS_USER, "PERF_SAMPLE_REGS_USER", "no --user-regs"),
    missing(
        sample::STACK_USER,
        "PERF_SAMPLE_STACK_USER",
        "the stack must be copied while the program stands still",
        "no --call-graph dwarf",
    ),
    held(sample::WEIGHT, "PERF_SAMPLE_WEIGHT", "no -W / --weight"),
    held(sample::DATA_SRC, "PERF_SAMPLE_DATA_SRC", "no -d / --data"),
    held(sample::IDENTIFIER, "PERF_SAMPLE_IDENTIFIER", ""),
    held(sample::TRANSACTION, "PERF_SAMPLE_TRANSACTION", "no --transaction"),
    held(sample::REGS_INTR, "PERF_SAMPLE_REGS_INTR", "no -I / --intr-regs"),
    held(sample::PHYS_ADDR, "PERF_SAMPLE_PHYS_ADDR", "no --phys-data"),
    missing(sample::AUX, "PERF_SAMPLE_AUX", "the AUX area is copied at each sample", "no --aux-sample"),
    missing(sample::CGROUP, "PERF_SAMPLE_CGROUP", "the kernel looks the group up at each sample", "no --all-cgroups"),
    missing(
        sample::DATA_PAGE_SIZE,
        "PERF_SAMPLE_DATA_PAGE_SIZE",
        "the page table is walked at each sample",
        "no --data-page-size",
    ),
    held(sample::CODE_PAGE_SIZE, "PERF_SAMPLE_CODE_PAGE_SIZE", "no --code-page-size"),
    held(sample::WEIGHT_STRUCT, "PERF_SAMPLE_WEIGHT_STRUCT", "no -W / --weight"),
];

/// x86 registers 0 (AX) to 23 (R15) of `perf_regs.h` that a PEBS record holds: all general ones, IP and FLAGS, no segments
/// (CS, SS, DS, ES, FS, GS are 10 to 15).
pub const GENERAL_REGISTERS: u64 = 0x00ff_ffff & !0xfc00;

/// What `perf_event_attr` would say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttrFacts {
    /// The event as the user wrote it.
    pub event: String,
    /// Whether a core's counter counts it.
    pub is_hardware: bool,
    /// `precise_ip`, 0 to 3.
    pub precise: u8,
    /// `exclude_kernel`.
    pub exclude_kernel: bool,
    /// `freq` and its number.
    pub rate: Rate,
    /// `wakeup_events`.
    pub wakeup_events: u32,
    /// `watermark`.
    pub watermark: bool,
    /// `use_clockid`.
    pub use_clockid: bool,
    /// `sample_type`.
    pub sample_type: u64,
    /// `sample_regs_intr`.
    pub regs_intr: u64,
    /// `sample_regs_user`.
    pub regs_user: u64,
    /// Any of `aux_sample_size`, `aux_pause`, `aux_resume`.
    pub has_aux: bool,
    /// Events of its group, itself included: with `PERF_SAMPLE_READ` each is in the record.
    pub group_events: u32,
    /// `acr_mask` (config2, where the PMU has that term): events of the group whose overflow reloads this one's counter.
    pub acr_mask: u64,
}

impl AttrFacts {
    /// What `perf record -c PERIOD -e EVENT` asks for: instruction address, thread, time.
    pub fn new(event: &str, precise: u8, rate: Rate) -> Self {
        let period = if matches!(rate, Rate::Frequency(_)) { sample::PERIOD } else { 0 };
        Self {
            event: event.into(),
            is_hardware: true,
            precise,
            exclude_kernel: false,
            rate,
            wakeup_events: 0,
            watermark: false,
            use_clockid: false,
            sample_type: sample::IP | sample::TID | sample::TIME | period,
            regs_intr: 0,
            regs_user: 0,
            has_aux: false,
            group_events: 1,
            acr_mask: 0,
        }
    }
}
