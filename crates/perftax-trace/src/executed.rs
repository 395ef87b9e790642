//! Instructions and cycles that hardware counts of threads in user mode, and what of them was for each message: more work is told from slower work.
//!
//! A thread's counters are read at moments: in its marks, at a probe, when it leaves its CPU. What it executed from one reading to the next is a message's where the thread was at that
//! one alone; of several, each had between none and all of it.

/// What was executed in user mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// Instructions retired.
    pub instructions: u64,
    /// Cycles in which the CPU was not halted.
    pub cycles: u64,
}

impl Executed {
    /// What came after an earlier reading; none where the counters went back.
    pub fn since(self, before: Self) -> Option<Self> {
        Some(Self {
            instructions: self.instructions.checked_sub(before.instructions)?,
            cycles: self.cycles.checked_sub(before.cycles)?,
        })
    }

    /// Adds another part.
    pub fn add(&mut self, other: Self) {
        self.instructions = self.instructions.saturating_add(other.instructions);
        self.cycles = self.cycles.saturating_add(other.cycles);
    }

    /// So many parts of so many.
    fn part(self, part: u64, of: u64) -> Self {
        let part = |n: u64| (u128::from(n) * u128::from(part) / u128::from(of.max(1))) as u64;
        Self { instructions: part(self.instructions), cycles: part(self.cycles) }
    }
}

/// A reading of a thread's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When.
    pub time_ns: u64,
    /// The thread.
    pub tid: u32,
    /// What it has executed since some moment; none: what came before, and what comes until the next reading, is not known.
    pub executed: Option<Executed>,
    /// Who read it.
    pub by: ReadBy,
}

/// Who read a thread's counters, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBy {
    /// The thread itself, in a mark.
    Itself,
    /// We, with those of its CPU.
    Us,
    /// We, where it leaves its CPU: until it comes back it executes nothing, whatever is heard of it.
    UsAsItLeaves,
}

/// What was executed for one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecutedOfMessage {
    /// At least.
    pub low: Executed,
    /// At most.
    pub high: Executed,
    /// What lies between shared out by time on the CPU.
    pub estimate: Executed,
    /// Readings that told something of it.
    pub readings: u32,
    /// How long threads were on CPUs for it in their own code, ns.
    ran_ns: u64,
    /// For how long of that it was read, ns.
    read_ns: u64,
}

impl ExecutedOfMessage {
    /// A thread was at it, in its own code.
    pub(crate) fn ran(&mut self, ns: u64) {
        self.ran_ns += ns;
    }

    /// A thread executed so much while it was at it for `ns` of `all_ns`, and at others else.
    pub(crate) fn read(&mut self, executed: Executed, ns: u64, all_ns: u64) {
        self.readings = self.readings.saturating_add(1);
        self.read_ns += ns;
        self.high.add(executed);
        if ns == all_ns {
            self.low.add(executed);
            self.estimate.add(executed);
        } else {
            self.estimate.add(executed.part(ns, all_ns));
        }
    }

    /// Whether all of its time was read: only then is it known.
    pub fn is_known(&self) -> bool {
        self.readings > 0 && self.read_ns == self.ran_ns
    }

    /// Whether nothing of it was shared with other messages.
    pub fn is_exact(&self) -> bool {
        self.low == self.high
    }

    /// Itself where it is known.
    pub fn known(self) -> Option<Self> {
        self.is_known().then_some(self)
    }
}

/// Sums over messages of which it is known what they executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecutedTotals {
    /// How many they are.
    pub messages: u64,
    /// Instructions and cycles.
    pub executed: Executed,
    /// Their time on the CPU ([`crate::Cause::OnCpu`]), ns.
    pub on_cpu_ns: u64,
}

impl ExecutedTotals {
    /// Adds a message.
    pub(crate) fn add(&mut self, executed: &ExecutedOfMessage, on_cpu_ns: u64) {
        if executed.is_known() {
            self.messages += 1;
            self.executed.add(executed.estimate);
            self.on_cpu_ns += on_cpu_ns;
        }
    }

    /// Adds other sums.
    pub(crate) fn join(&mut self, other: &Self) {
        self.messages += other.messages;
        self.executed.add(other.executed);
        self.on_cpu_ns += other.on_cpu_ns;
    }

    /// The mean message; none where there is none that executed anything.
    pub fn mean(&self) -> Option<MeanExecution> {
        let n = self.messages as f64;
        let mean = MeanExecution {
            instructions: self.executed.instructions as f64 / n,
            cycles: self.executed.cycles as f64 / n,
            on_cpu_ns: self.on_cpu_ns as f64 / n,
        };
        (self.messages > 0 && self.executed.instructions > 0 && self.executed.cycles > 0).then_some(mean)
    }
}

/// What messages executed on average, and how long they were on the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeanExecution {
    /// Instructions.
    pub instructions: f64,
    /// Cycles.
    pub cycles: f64,
    /// Time on the CPU, ns.
    pub on_cpu_ns: f64,
}

/// Why time on the CPU is longer than usual. The three add up to how much it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Longer {
    /// More work: the additional instructions, at the usual cycles and the usual time for each, ns.
    pub more_work_ns: f64,
    /// Slower work: the additional cycles for each instruction, at the usual time for each, ns.
    pub slower_work_ns: f64,
    /// What neither explains, ns: cycles that took longer (a lower frequency, a hypervisor), and time on the CPU that is not the program's own code.
    pub rest_ns: f64,
}

impl MeanExecution {
    /// Why this is longer than what is usual.
    pub fn longer_than(&self, usual: &Self) -> Longer {
        let (each_cycles, each_ns) = (usual.cycles / usual.instructions, usual.on_cpu_ns / usual.cycles);
        let more_work_ns = (self.instructions - usual.instructions) * each_cycles * each_ns;
        let slower_work_ns = (self.cycles - self.instructions * each_cycles) * each_ns;
        Longer { more_work_ns, slower_work_ns, rest_ns: self.on_cpu_ns - usual.on_cpu_ns - more_work_ns - slower_work_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executed(instructions: u64, cycles: u64) -> Executed {
        Executed { instructions, cycles }
    }

    #[test]
    fn what_several_messages_shared_is_between_nothing_and_all() {
        let mut one = ExecutedOfMessage::default();
        one.ran(40);
        one.read(executed(100, 200), 10, 40);
        assert!(!one.is_known());
        one.read(executed(7, 9), 30, 30);
        assert!(one.is_known() && !one.is_exact());
        assert_eq!((one.low, one.high, one.estimate), (executed(7, 9), executed(107, 209), executed(32, 59)));
        assert_eq!(executed(5, 5).since(executed(6, 0)), None);
    }
}
