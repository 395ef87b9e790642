//! The attributes of an event, as far as a bill needs them.

pub use perftax_pmu::oracle::sample as sample_type;

use perftax_pmu::record;

use super::bytes::Order;

/// Bits of `read_format`.
pub mod read_format {
    /// time_enabled.
    pub const ENABLED: u64 = 1 << 0;
    /// time_running.
    pub const RUNNING: u64 = 1 << 1;
    /// Lost samples (Linux 6.0).
    pub const LOST: u64 = 1 << 4;
}

/// The part of `struct perf_event_attr` that says how an event was sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attribute {
    /// `type`: the PMU.
    pub pmu_type: u32,
    /// `config`: the event.
    pub config: u64,
    /// Fixed period; None in frequency mode.
    pub period: Option<u64>,
    /// Samples a second asked for in frequency mode.
    pub frequency: Option<u64>,
    /// `sample_type`.
    pub sample_type: u64,
    /// `read_format`.
    pub read_format: u64,
    /// `precise_ip`, 0 to 3.
    pub precise_ip: u8,
    /// Whether records other than samples carry ids and times too.
    pub sample_id_all: bool,
    /// Whether tasks that its task created had it, too.
    pub inherit: bool,
    /// Whether it began with the exec of a command that perf started.
    pub enable_on_exec: bool,
    /// Whether it leaves out the program's own mode.
    pub exclude_user: bool,
    /// Whether it leaves out the kernel's.
    pub exclude_kernel: bool,
    /// Whether call chains leave out the callers in user mode (`exclude_callchain_user`), for they are unwound of a copy of the stack.
    pub exclude_callchain_user: bool,
    /// Frames of a call chain at most, 0 where the system's limit holds (`sample_max_stack`, Linux 4.8).
    pub max_stack: u16,
    /// Whether its samples go into another event's AUX buffer (`aux_output`, Linux 5.5).
    pub aux_output: bool,
    /// Whether its ring is written backwards and overwritten (`write_backward`, Linux 4.7).
    pub overwrites: bool,
    /// Bytes of user stack copied with each sample.
    pub stack_user_bytes: u32,
    /// `branch_sample_type`.
    pub branch_sample_type: u64,
    /// `sample_regs_user`: which registers of user mode samples have.
    pub user_registers: u64,
    /// `sample_regs_intr`: which of the sampled instruction.
    pub interrupt_registers: u64,
}

/// Size of the first published `perf_event_attr` (`PERF_ATTR_SIZE_VER0`, Linux 2.6.31): none is shorter.
const SIZE_VER0_BYTES: usize = 64;

impl Attribute {
    /// The shape of its records.
    pub fn layout(&self) -> record::Layout {
        record::Layout {
            sample_type: self.sample_type,
            read_format: self.read_format,
            branch_sample_type: self.branch_sample_type,
            sample_regs_user: self.user_registers,
            sample_regs_intr: self.interrupt_registers,
            sample_id_all: self.sample_id_all,
        }
    }

    /// Reads `struct perf_event_attr` and gives its size with it. None where the bytes are too few.
    pub fn parse(order: Order, bytes: &[u8]) -> Option<(Self, usize)> {
        let stated = order.u32(bytes, 4)? as usize;
        let size = if stated == 0 { SIZE_VER0_BYTES } else { stated };
        let bytes = bytes.get(..size).filter(|b| b.len() >= SIZE_VER0_BYTES)?;
        let flags = order.bitfields(bytes, 40)?;
        let bit = |n: u32| flags >> n & 1 == 1;
        let rate = order.u64(bytes, 16)?;
        let by_frequency = bit(10);
        // Reversing the word for big-endian machines also swapped the two bits of this one field that is wider than a bit.
        let precise = (flags >> 15 & 3) as u8;
        let attribute = Self {
            pmu_type: order.u32(bytes, 0)?,
            config: order.u64(bytes, 8)?,
            period: (!by_frequency).then_some(rate),
            frequency: by_frequency.then_some(rate),
            sample_type: order.u64(bytes, 24)?,
            read_format: order.u64(bytes, 32)?,
            precise_ip: if order == Order::Big { precise >> 1 | (precise & 1) << 1 } else { precise },
            sample_id_all: bit(18),
            inherit: bit(1),
            enable_on_exec: bit(12),
            exclude_user: bit(4),
            exclude_kernel: bit(5),
            exclude_callchain_user: bit(22),
            max_stack: order.u16(bytes, 108).unwrap_or(0),
            aux_output: bit(31),
            overwrites: bit(27),
            stack_user_bytes: order.u32(bytes, 88).unwrap_or(0),
            branch_sample_type: order.u64(bytes, 72).unwrap_or(0),
            user_registers: order.u64(bytes, 80).unwrap_or(0),
            interrupt_registers: order.u64(bytes, 96).unwrap_or(0),
        };
        Some((attribute, size))
    }

    /// Whether `sample_type` has all of these bits.
    pub fn samples(&self, bits: u64) -> bool {
        self.sample_type & bits == bits
    }

    /// Whether the kernel counts it by itself (PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT): it never waits for a counter.
    pub fn needs_no_counter(&self) -> bool {
        matches!(self.pmu_type, 1 | 2)
    }

    /// Events that each sample stands for, where that is fixed: the period, but of software events and tracepoints whose samples carry their period. Of
    /// those each event is a sample, whatever was asked for (kernel/events/core.c, perf_swevent_event); perf record has it so for every tracepoint.
    pub fn events_a_sample(&self) -> Option<u64> {
        let each_event = !self.is_clock_or_counter() && self.samples(sample_type::PERIOD);
        self.period.map(|period| if each_event { period.min(1) } else { period })
    }

    /// Whether perf itself writes its samples, by a BPF program (`PERF_COUNT_SW_BPF_OUTPUT`).
    pub fn is_written_by_perf(&self) -> bool {
        self.generic_name() == Some("bpf-output")
    }

    /// Whether it interrupts by itself (a timer, a counter) and is not something that the kernel does.
    pub fn is_clock_or_counter(&self) -> bool {
        match self.pmu_type {
            1 => self.config <= 1,
            2 | 5 => false,
            _ => true,
        }
    }

    /// Whether it is a timer of the kernel: `cpu-clock`, `task-clock`. Its period is fixed by frequency, too (`perf_swevent_init_hrtimer`).
    pub fn is_clock(&self) -> bool {
        self.needs_no_counter() && self.is_clock_or_counter()
    }

    /// Time between two samples of a clock, ns; none of other events, or where it has no rate of its own.
    pub fn clock_period_ns(&self) -> Option<u64> {
        let by_frequency = self.frequency.filter(|hz| *hz > 0).map(|hz| 1_000_000_000 / hz);
        self.period.or(by_frequency).filter(|_| self.is_clock())
    }

    /// The kernel's name of a generic event (`PERF_TYPE_HARDWARE`, `PERF_TYPE_SOFTWARE`), whatever the recording calls it.
    pub fn generic_name(&self) -> Option<&'static str> {
        const SOFTWARE: [&str; 12] = [
            "cpu-clock",
            "task-clock",
            "page-faults",
            "context-switches",
            "cpu-migrations",
            "minor-faults",
            "major-faults",
            "alignment-faults",
            "emulation-faults",
            "dummy",
            "bpf-output",
            "cgroup-switches",
        ];
        const HARDWARE: [&str; 10] = [
            "cycles",
            "instructions",
            "cache-references",
            "cache-misses",
            "branches",
            "branch-misses",
            "bus-cycles",
            "stalled-cycles-frontend",
            "stalled-cycles-backend",
            "ref-cycles",
        ];
        let names: &[&str] = match self.pmu_type {
            0 => &HARDWARE,
            1 => &SOFTWARE,
            _ => return None,
        };
        // Above the event a hybrid processor's PMU has its number.
        names.get(usize::try_from(self.config & 0xffff_ffff).ok()?).copied()
    }

    /// A name for an event that the recording does not name: the kernel's generic ones, else the raw numbers.
    pub fn fallback_name(&self, pmu: Option<&str>) -> String {
        let known = match self.pmu_type {
            2 => Some(format!("tracepoint:{}", self.config)),
            4 => Some(format!("r{:x}", self.config)),
            5 => Some("breakpoint".into()),
            _ => self.generic_name().map(String::from),
        };
        known.unwrap_or_else(|| match pmu {
            Some(pmu) => format!("{pmu}/config={:#x}/", self.config),
            None => format!("type={}/config={:#x}/", self.pmu_type, self.config),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recordings by perfs whose structure is longer than those known here (config3: 136 bytes, config4: 144, and what comes) are read as far as they are.
    #[test]
    fn attributes_of_later_perfs_are_read() {
        for size in [64_usize, 128, 136, 144, 200] {
            let mut bytes = vec![0; 256];
            bytes[0..4].copy_from_slice(&4_u32.to_le_bytes());
            bytes[4..8].copy_from_slice(&(size as u32).to_le_bytes());
            bytes[8..16].copy_from_slice(&0x1c2_u64.to_le_bytes());
            bytes[16..24].copy_from_slice(&100_003_u64.to_le_bytes());
            bytes[96..104].copy_from_slice(&7_u64.to_le_bytes());
            bytes[128..144].fill(0xff);
            let expected = Attribute {
                pmu_type: 4,
                config: 0x1c2,
                period: Some(100_003),
                interrupt_registers: if size > 100 { 7 } else { 0 },
                ..Attribute::default()
            };
            assert_eq!(Attribute::parse(Order::Little, &bytes), Some((expected, size)), "{size}");
            assert_eq!(Attribute::parse(Order::Little, &bytes[..size - 1]), None, "{size}");
        }
    }
}
