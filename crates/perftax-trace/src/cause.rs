//! What a thread's time goes to while it works on a message.

/// Where a piece of a message's time went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// The program ran; samples say in which function.
    OnCpu,
    /// The kernel filled in a page for it.
    PageFault,
    /// The kernel worked for it, in a system call.
    Syscall,
    /// A device's interrupt ran instead.
    Irq,
    /// Work that an interrupt had put off ran instead.
    Softirq,
    /// The timer, another CPU's request or another of the processor's own vectors ran instead.
    Vector,
    /// The hypervisor ran something else on the CPU.
    Steal,
    /// Another thread took its CPU.
    Preempted,
    /// It had been woken, and waited for a CPU.
    Runnable,
    /// It waited: for a lock, for input, for a page.
    Blocked,
    /// No thread worked on the message.
    Unattended,
}

impl Cause {
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// All of them, in the order of [`Shares`].
    pub const ALL: [Self; 11] = [
        Self::OnCpu,
        Self::PageFault,
        Self::Syscall,
        Self::Irq,
        Self::Softirq,
        Self::Vector,
        Self::Steal,
        Self::Preempted,
        Self::Runnable,
        Self::Blocked,
        Self::Unattended,
    ];

    /// The name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::OnCpu => "on CPU",
            Self::PageFault => "page fault",
            Self::Syscall => "system call",
            Self::Irq => "irq",
            Self::Softirq => "softirq",
            Self::Vector => "vector",
            Self::Steal => "steal",
            Self::Preempted => "preempted",
            Self::Runnable => "runnable",
            Self::Blocked => "blocked",
            Self::Unattended => "unattended",
        }
    }

    /// Whether the thread had the CPU, as far as the guest's kernel knew: what the hypervisor took, it took from these.
    pub fn is_running(self) -> bool {
        matches!(self, Self::OnCpu | Self::PageFault | Self::Syscall)
    }

    /// Whether something else ran on its CPU, in interrupt context.
    pub fn is_interruption(self) -> bool {
        matches!(self, Self::Irq | Self::Softirq | Self::Vector)
    }
}

/// Time by cause, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares([u64; Cause::COUNT]);

impl Shares {
    /// The time of one cause.
    pub fn of(&self, cause: Cause) -> u64 {
        self.0[cause as usize]
    }

    /// Adds to one.
    pub fn add(&mut self, cause: Cause, ns: u64) {
        self.0[cause as usize] += ns;
    }

    /// Moves time from one to another; never more than there is. Returns how much.
    pub fn shift(&mut self, from: Cause, to: Cause, ns: u64) -> u64 {
        let moved = ns.min(self.of(from));
        self.0[from as usize] -= moved;
        self.0[to as usize] += moved;
        moved
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// In the order of [`Cause::ALL`].
    pub fn values(&self) -> &[u64; Cause::COUNT] {
        &self.0
    }
}

impl From<[u64; Cause::COUNT]> for Shares {
    fn from(values: [u64; Cause::COUNT]) -> Self {
        Self(values)
    }
}
