//! How an event is sampled, apart from which event it is.

use perf_event_open_sys::bindings as abi;

use crate::record::Layout;

/// When the reader is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// At every sample. On Intel this also switches multi-record PEBS off (kernel-facts: auto-reload needs a watermark).
    EverySample,
    /// When this many bytes are waiting.
    Bytes(u32),
}

/// What each sample carries, and so a part of what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// `PERF_SAMPLE_*` bits.
    pub sample_type: u64,
    /// User registers wanted (`PERF_SAMPLE_REGS_USER`).
    pub regs_user: u64,
    /// Registers at the event wanted (`PERF_SAMPLE_REGS_INTR`).
    pub regs_intr: u64,
    /// Bytes of user stack wanted (`PERF_SAMPLE_STACK_USER`).
    pub stack_user_bytes: u32,
    /// Branch stack filter (`PERF_SAMPLE_BRANCH_STACK`).
    pub branch_sample_type: u64,
    /// Whether call chains leave out the callers in user mode, which a copy of the stack tells.
    pub chain_of_kernel: bool,
    /// Whether a READ payload holds the whole group.
    pub group_read: bool,
}

/// The x86-64 integer registers AX to R15 without the segment registers, as `perf record --user-regs` takes them all.
const INTEGER_REGISTERS: u64 = 0x00ff_01ff;

impl Payload {
    /// What `perf record -c` takes by default: instruction pointer, thread, time.
    pub const BASIC: Self = Self {
        sample_type: (abi::PERF_SAMPLE_IP | abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME) as u64,
        regs_user: 0,
        regs_intr: 0,
        stack_user_bytes: 0,
        branch_sample_type: 0,
        chain_of_kernel: false,
        group_read: false,
    };

    /// Without the time, which Intel's records before Skylake's do not hold: with it each takes an interrupt there.
    pub fn without_time(mut self) -> Self {
        self.sample_type &= !u64::from(abi::PERF_SAMPLE_TIME);
        self
    }

    /// With the data address that the event is about.
    pub fn with_address(mut self) -> Self {
        self.sample_type |= u64::from(abi::PERF_SAMPLE_ADDR);
        self
    }

    /// With where the data came from, of which level of the caches.
    pub fn with_data_source(mut self) -> Self {
        self.sample_type |= u64::from(abi::PERF_SAMPLE_DATA_SRC);
        self
    }

    /// With the chain of callers, by frame pointers.
    pub fn with_callchain(mut self) -> Self {
        self.sample_type |= u64::from(abi::PERF_SAMPLE_CALLCHAIN);
        self
    }

    /// With the integer registers of user mode.
    pub fn with_user_registers(mut self) -> Self {
        self.sample_type |= u64::from(abi::PERF_SAMPLE_REGS_USER);
        self.regs_user = INTEGER_REGISTERS;
        self
    }

    /// With a copy of the user stack (and the registers that unwinding needs).
    pub fn with_user_stack(mut self, bytes: u32) -> Self {
        self = self.with_user_registers();
        self.sample_type |= u64::from(abi::PERF_SAMPLE_STACK_USER);
        self.stack_user_bytes = bytes;
        self
    }

    /// With all that callers in user mode are found by, by tables: a copy of the stack, and the three registers that frames are found by. The kernel's own callers
    /// come as a chain.
    pub fn with_stack_to_unwind(mut self, bytes: u32) -> Self {
        /// BP, SP, IP (`asm/perf_regs.h`, x86).
        const FRAME: u64 = 0b1_1100_0000;
        self = self.with_callchain().with_stack_copy(bytes);
        self.sample_type |= u64::from(abi::PERF_SAMPLE_REGS_USER);
        self.regs_user |= FRAME;
        self.chain_of_kernel = true;
        self
    }

    /// With a copy of the user stack beside the registers that are asked for; of no bytes it says that alone.
    pub fn with_stack_copy(mut self, bytes: u32) -> Self {
        self.sample_type |= u64::from(abi::PERF_SAMPLE_STACK_USER);
        self.stack_user_bytes = bytes;
        self
    }

    /// With the counts of all events of the group.
    pub fn with_group_read(mut self) -> Self {
        self.sample_type |= u64::from(abi::PERF_SAMPLE_READ);
        self.group_read = true;
        self
    }

    /// With the latest taken branches, as `perf record -b` has them: of every kind, in the modes that the event counts in.
    pub fn with_branches(mut self) -> Self {
        self.sample_type |= u64::from(abi::PERF_SAMPLE_BRANCH_STACK);
        self.branch_sample_type = u64::from(abi::PERF_SAMPLE_BRANCH_ANY);
        self
    }

    /// With the CPU and the event's identity, so that records of several events and CPUs can be told apart.
    pub fn with_place(mut self) -> Self {
        self.sample_type |= u64::from(abi::PERF_SAMPLE_IDENTIFIER) | u64::from(abi::PERF_SAMPLE_CPU);
        self
    }

    /// With the CPU that each sample was taken on.
    pub fn with_cpu(mut self) -> Self {
        self.sample_type |= u64::from(abi::PERF_SAMPLE_CPU);
        self
    }

    /// With the period that each sample stands for, as the event has it: samples of several periods are then told apart, each with its weight.
    pub fn with_period(mut self) -> Self {
        self.sample_type |= u64::from(abi::PERF_SAMPLE_PERIOD);
        self
    }

    /// With what a tracepoint records, and by how much it counts: only then does one that counts by more than 1 (`sched_stat_runtime`, by
    /// nanoseconds) write one record each time, and not one for each period of it (kernel/events/core.c, perf_swevent_event).
    pub fn with_raw(mut self) -> Self {
        self.sample_type |= u64::from(abi::PERF_SAMPLE_RAW) | u64::from(abi::PERF_SAMPLE_PERIOD);
        self
    }

    /// With the CPU and what a tracepoint or a probe records, as `perf record` has them of each. Its period stays the one that is asked for.
    pub fn with_tracepoint_data(mut self) -> Self {
        self.sample_type |= u64::from(abi::PERF_SAMPLE_RAW) | u64::from(abi::PERF_SAMPLE_CPU);
        self
    }

    /// With one register of user mode, by its number (`asm/perf_regs.h`).
    pub fn with_user_register(mut self, number: u32) -> Self {
        self.sample_type |= u64::from(abi::PERF_SAMPLE_REGS_USER);
        self.regs_user |= 1 << number;
        self
    }

    /// With one register as it was at the event: in a PEBS record as the instruction left it.
    pub fn with_interrupt_register(mut self, number: u32) -> Self {
        self.sample_type |= u64::from(abi::PERF_SAMPLE_REGS_INTR);
        self.regs_intr |= 1 << number;
        self
    }

    /// The layout of the records that this payload gives.
    pub fn layout(&self) -> Layout {
        let group = if self.group_read { abi::PERF_FORMAT_GROUP as u64 | abi::PERF_FORMAT_ID as u64 } else { 0 };
        Layout {
            sample_type: self.sample_type,
            read_format: abi::PERF_FORMAT_TOTAL_TIME_ENABLED as u64 | abi::PERF_FORMAT_TOTAL_TIME_RUNNING as u64 | group,
            branch_sample_type: self.branch_sample_type,
            sample_regs_user: self.regs_user,
            sample_regs_intr: self.regs_intr,
            sample_id_all: true,
        }
    }
}

/// How an event is sampled (or only counted).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Period in events, or nanoseconds for time-driven sources; none counts without sampling.
    pub period: Option<u64>,
    /// What each sample carries.
    pub payload: Payload,
    /// Whether children of the watched thread are watched too.
    pub inherit: bool,
    /// Whether it starts when the watched process executes a program.
    pub enable_on_exec: bool,
    /// Whether, as a member of a group, it is on whenever its leader is, and needs no start of its own. Members that are off the kernel leaves out when it
    /// looks whether the group fits the counters (arch/x86/events/core.c, collect_events): it then takes any number of them.
    pub on_with_leader: bool,
    /// Whether COMM, FORK and EXIT records are wanted.
    pub task_records: bool,
    /// Whether a READ record is wanted of each task that inherited the event, with its count, when it ends.
    pub task_counts: bool,
    /// Whether MMAP2 records of code are wanted, which symbols need.
    pub mapping_records: bool,
    /// Whether they are wanted of data, too, of a file or of none.
    pub data_mapping_records: bool,
    /// Whether idle CPUs give no samples.
    pub without_idle: bool,
    /// When the reader is woken.
    pub wakeup: Wakeup,
    /// The clock of the samples' times.
    pub clock: Clock,
}

/// The clock that samples take their times from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// perf's own, which nobody else can read.
    #[default]
    Perf,
    /// CLOCK_MONOTONIC_RAW, which programs can read. Intel's multi-record mode then ends, as with every clock but perf's own (doctor's oracle: use_clockid).
    MonotonicRaw,
    /// CLOCK_MONOTONIC.
    Monotonic,
    /// CLOCK_BOOTTIME.
    Boottime,
    /// CLOCK_REALTIME: may be set.
    Realtime,
    /// CLOCK_TAI.
    Tai,
}

impl Clock {
    /// Its number (clock_gettime(2)); none of perf's own.
    pub const fn id(self) -> Option<i32> {
        match self {
            Self::Perf => None,
            Self::MonotonicRaw => Some(libc::CLOCK_MONOTONIC_RAW),
            Self::Monotonic => Some(libc::CLOCK_MONOTONIC),
            Self::Boottime => Some(libc::CLOCK_BOOTTIME),
            Self::Realtime => Some(libc::CLOCK_REALTIME),
            Self::Tai => Some(libc::CLOCK_TAI),
        }
    }
}

impl Sampling {
    /// Counting only.
    pub const COUNTING: Self = Self {
        period: None,
        payload: Payload::BASIC,
        inherit: false,
        enable_on_exec: false,
        on_with_leader: false,
        task_records: false,
        task_counts: false,
        mapping_records: false,
        data_mapping_records: false,
        without_idle: false,
        wakeup: Wakeup::Bytes(u32::MAX),
        clock: Clock::Perf,
    };

    /// Sampling with a period and the basic payload; the reader is woken at half of a ring of `ring_bytes`.
    pub fn every(period: u64, ring_bytes: usize) -> Self {
        Self { period: Some(period), wakeup: Wakeup::Bytes((ring_bytes / 2) as u32), ..Self::COUNTING }
    }

    /// The same for a command that is about to be executed, children included.
    pub fn for_command(self) -> Self {
        Self { inherit: true, enable_on_exec: true, ..self }
    }

    /// The same with another payload.
    pub fn carrying(self, payload: Payload) -> Self {
        Self { payload, ..self }
    }
}
