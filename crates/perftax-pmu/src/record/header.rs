//! The eight bytes in front of every record.

use super::cursor::HEADER_BYTES;
use perf_event_open_sys::bindings as abi;

/// `struct perf_event_header`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// `PERF_RECORD_*`; 64 and above are perf's own, found in files only.
    pub kind: u32,
    /// `PERF_RECORD_MISC_*`; some bits mean different things by kind.
    pub misc: u16,
    /// Bytes of the whole record, these eight included.
    pub size: u16,
}

/// In which mode the CPU was (`PERF_RECORD_MISC_CPUMODE_MASK`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CpuMode {
    /// Not known.
    Unknown,
    /// In the kernel.
    Kernel,
    /// In user space.
    User,
    /// In the hypervisor.
    Hypervisor,
    /// In a guest's kernel.
    GuestKernel,
    /// In a guest's user space.
    GuestUser,
    /// A value that the ABI does not define.
    Reserved(u8),
}

impl Header {
    /// Bytes of a header.
    pub const BYTES: usize = HEADER_BYTES;

    /// From its bytes. Any eight bytes are a header; whether `size` makes sense is checked where records are walked.
    pub fn parse(bytes: &[u8; 8]) -> Self {
        let &[k0, k1, k2, k3, m0, m1, s0, s1] = bytes;
        Self {
            kind: u32::from_le_bytes([k0, k1, k2, k3]),
            misc: u16::from_le_bytes([m0, m1]),
            size: u16::from_le_bytes([s0, s1]),
        }
    }

    /// Bytes after the header.
    pub fn body_len(&self) -> usize {
        usize::from(self.size).saturating_sub(HEADER_BYTES)
    }

    /// Mode of the CPU at a sample or of a mapping.
    pub fn cpu_mode(&self) -> CpuMode {
        match u32::from(self.misc) & abi::PERF_RECORD_MISC_CPUMODE_MASK {
            abi::PERF_RECORD_MISC_CPUMODE_UNKNOWN => CpuMode::Unknown,
            abi::PERF_RECORD_MISC_KERNEL => CpuMode::Kernel,
            abi::PERF_RECORD_MISC_USER => CpuMode::User,
            abi::PERF_RECORD_MISC_HYPERVISOR => CpuMode::Hypervisor,
            abi::PERF_RECORD_MISC_GUEST_KERNEL => CpuMode::GuestKernel,
            abi::PERF_RECORD_MISC_GUEST_USER => CpuMode::GuestUser,
            other => CpuMode::Reserved(other as u8),
        }
    }

    /// Of a sample: its address is exactly the instruction that made the event (PEBS with eventing IP, IBS).
    pub fn is_exact_ip(&self) -> bool {
        self.has(abi::PERF_RECORD_MISC_EXACT_IP)
    }

    /// Of a task's name: it took it by executing a program.
    pub fn is_exec(&self) -> bool {
        self.has(abi::PERF_RECORD_MISC_COMM_EXEC)
    }

    /// Whether a misc bit is set.
    pub(super) fn has(&self, bit: u32) -> bool {
        u32::from(self.misc) & bit != 0
    }

    /// The kind as the ABI names it.
    pub fn kind_name(&self) -> &'static str {
        kind_name(self.kind)
    }
}

/// `PERF_RECORD_*` by number, for messages.
pub fn kind_name(kind: u32) -> &'static str {
    const NAMES: [&str; 23] = [
        "record of kind 0",
        "PERF_RECORD_MMAP",
        "PERF_RECORD_LOST",
        "PERF_RECORD_COMM",
        "PERF_RECORD_EXIT",
        "PERF_RECORD_THROTTLE",
        "PERF_RECORD_UNTHROTTLE",
        "PERF_RECORD_FORK",
        "PERF_RECORD_READ",
        "PERF_RECORD_SAMPLE",
        "PERF_RECORD_MMAP2",
        "PERF_RECORD_AUX",
        "PERF_RECORD_ITRACE_START",
        "PERF_RECORD_LOST_SAMPLES",
        "PERF_RECORD_SWITCH",
        "PERF_RECORD_SWITCH_CPU_WIDE",
        "PERF_RECORD_NAMESPACES",
        "PERF_RECORD_KSYMBOL",
        "PERF_RECORD_BPF_EVENT",
        "PERF_RECORD_CGROUP",
        "PERF_RECORD_TEXT_POKE",
        "PERF_RECORD_AUX_OUTPUT_HW_ID",
        "PERF_RECORD_CALLCHAIN_DEFERRED",
    ];
    match NAMES.get(kind as usize) {
        Some(name) => name,
        None if kind >= 64 => "record of perf's own",
        None => "record of unknown kind",
    }
}
