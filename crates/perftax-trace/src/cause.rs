//! What a thread's time goes to while it works on a message.

/// Where a piece of a message's time went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// The program ran; samples say in which function.
    OnCpu,
    /// The kernel worked for it, in a system call.
    Syscall,
    /// A device's interrupt ran instead.
    Irq,
    /// Work that an interrupt had put off ran instead.
    Softirq,
    /// The timer, another CPU's request or another of the processor's own vectors ran instead.
    Vector,
    /// It could have run, and another thread did.
    Runnable,
    /// It waited: for a lock, for input, for a page.
    Blocked,
    /// No thread worked on the message.
    Unattended,
}

impl Cause {
    /// All of them, in the order of [`Shares`].
    pub const ALL: [Self; 8] =
        [Self::OnCpu, Self::Syscall, Self::Irq, Self::Softirq, Self::Vector, Self::Runnable, Self::Blocked, Self::Unattended];

    /// The name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::OnCpu => "on CPU",
            Self::Syscall => "system call",
            Self::Irq => "irq",
            Self::Softirq => "softirq",
            Self::Vector => "vector",
            Self::Runnable => "runnable",
            Self::Blocked => "blocked",
            Self::Unattended => "unattended",
        }
    }
}

/// Time by cause, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares([u64; Cause::ALL.len()]);

impl Shares {
    /// The time of one cause.
    pub fn of(&self, cause: Cause) -> u64 {
        self.0[cause as usize]
    }

    /// Adds to one.
    pub fn add(&mut self, cause: Cause, ns: u64) {
        self.0[cause as usize] += ns;
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
