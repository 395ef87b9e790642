//! What the kernel says that it did, from its tracepoints.

/// What runs on a CPU instead of the thread that it interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// `irq:irq_handler_*`; which: the line's number.
    Irq,
    /// `irq:softirq_*`; which: its vector (include/linux/interrupt.h).
    Softirq,
    /// `irq_vectors:*`; which: its place in [`Interruption::VECTORS`].
    Vector,
}

impl Interruption {
    /// The processor's own vectors that are watched, as their tracepoints are named: `*_entry`, `*_exit`. irq_work's exit cannot be
    /// sampled (arch/x86/include/asm/trace/irq_vectors.h), and its entry alone would never end.
    pub const VECTORS: [&str; 4] = ["local_timer", "reschedule", "call_function", "call_function_single"];
    /// Behind them among vectors: the non-maskable interrupt.
    pub const NMI: u32 = Self::VECTORS.len() as u32 + 1;
    /// Names of the softirqs, by vector (kernel/softirq.c, since 2.6.31).
    pub const SOFTIRQS: [&str; 10] =
        ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
}

/// One record of a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// `sched:sched_switch`.
    Switch {
        /// Whether the thread that leaves the CPU could go on: it was preempted.
        is_runnable: bool,
        /// The thread that gets it; 0 is the idle task.
        next: u32,
    },
    /// `sched:sched_waking`: a thread can run from now on, by what the thread that runs here does, or what interrupts it. (`sched:sched_wakeup` in traces that perftax recorded before
    /// December 2026, where the one who runs there may be anybody.)
    Wakeup {
        /// Which.
        tid: u32,
    },
    /// An interruption begins.
    Enter(Interruption, u32),
    /// It ends.
    Exit(Interruption, u32),
    /// `raw_syscalls:sys_enter`, with the call's number; where it waits for a lock, that one's ([`crate::Lock::number`]).
    SyscallEnter(u32),
    /// `raw_syscalls:sys_exit`.
    SyscallExit(u32),
    /// The software event `page-faults`: the kernel begins to fill in a page.
    FaultEnter,
    /// The software events `minor-faults` and `major-faults`: it has done so (mm/memory.c, mm_account_fault, Linux 5.9 on).
    FaultExit,
    /// `sched:sched_stat_runtime`: for how long the thread has run since the kernel last said so, ns. What a hypervisor took, the
    /// guest's kernel has left out (`CONFIG_PARAVIRT_TIME_ACCOUNTING`).
    Ran(u64),
    /// `sched:sched_migrate_task`: a thread goes to another CPU.
    Migrate {
        /// Which.
        tid: u32,
        /// To which CPU; none where the record does not say (traces of before 2026-11-29).
        to: Option<u32>,
    },
    /// Recording is switched off: nothing is known of the kernel until it is on again. Of no thread.
    Paused,
    /// The same, and nothing is known of messages either: those under way are told no further. Of no thread.
    Blind,
    /// Recording has been switched on. Of no thread.
    Resumed,
    /// `tlb:tlb_flush`, with its reason (include/linux/mm_types.h, `enum tlb_flush_reason`).
    TlbFlush(u32),
    /// `nmi:nmi_handler`: a handler of the non-maskable interrupt, which sampling hardware uses, has run for so long, ns.
    Nmi(u64),
}

/// A record with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelEvent {
    /// When.
    pub time_ns: u64,
    /// On which CPU.
    pub cpu: u32,
    /// The thread that ran there.
    pub tid: u32,
    /// What.
    pub what: What,
}
