//! When the recorded command began and ended, by the time of its records and not by their place: rings are written one after another.

use std::collections::HashMap;

/// Collects programs executed and tasks ended, in whatever order they come.
#[derive(Clone, Debug, Default)]
pub(super) struct CommandSpan {
    /// The earliest exec, and whose.
    exec: Option<(u64, u32)>,
    /// The latest end of a thread of each process.
    exits: HashMap<u32, u64>,
}

/// Processes whose ends are remembered, at most: which of them is the command's is known when all is read. A command ends after most of what it created.
const MAX_EXITS: usize = 1 << 16;

impl CommandSpan {
    /// A program was executed.
    pub(super) fn executed(&mut self, pid: u32, time_ns: u64) {
        if self.exec.is_none_or(|(earliest_ns, _)| time_ns < earliest_ns) {
            self.exec = Some((time_ns, pid));
        }
    }

    /// A thread of a process ended.
    pub(super) fn ended(&mut self, pid: u32, time_ns: u64) {
        let latest_ns = self.exits.entry(pid).or_default();
        *latest_ns = time_ns.max(*latest_ns);
        if self.exits.len() > MAX_EXITS {
            let mut times_ns: Vec<u64> = self.exits.values().copied().collect();
            let middle = times_ns.len() / 2;
            let (_, &mut median_ns, _) = times_ns.select_nth_unstable(middle);
            self.exits.retain(|_, time_ns| *time_ns > median_ns);
        }
    }

    /// From exec to exit, each where a record tells of it.
    pub(super) fn settled(&self) -> (Option<u64>, Option<u64>) {
        let Some((exec_ns, pid)) = self.exec else { return (None, None) };
        // The number of a process is given out again.
        (Some(exec_ns), self.exits.get(&pid).copied().filter(|&exit_ns| exit_ns >= exec_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_records_says_nothing() {
        // The command (7) executes at 10 and again at 30, a child (8) at 20; it ends at 90, and a thread of it at 60.
        let records = [(true, 7, 10), (true, 8, 20), (true, 7, 30), (false, 8, 40), (false, 7, 60), (false, 7, 90)];
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..100 {
            let mut shuffled = records;
            random.shuffle(&mut shuffled);
            let mut span = CommandSpan::default();
            for (is_exec, pid, time_ns) in shuffled {
                if is_exec { span.executed(pid, time_ns) } else { span.ended(pid, time_ns) }
            }
            assert_eq!(span.settled(), (Some(10), Some(90)), "{shuffled:?}");
        }
    }

    #[test]
    fn of_many_processes_the_last_to_end_are_remembered() {
        let mut span = CommandSpan::default();
        span.executed(1, 5);
        for child in 0..300_000 {
            span.ended(child + 2, u64::from(child) + 6);
        }
        span.ended(1, 300_006);
        assert!(span.exits.len() <= MAX_EXITS + 1);
        assert_eq!(span.settled(), (Some(5), Some(300_006)));
        // Whose end nobody tells of has none.
        let mut cut = CommandSpan::default();
        cut.executed(1, 5);
        cut.ended(2, 9);
        assert_eq!(cut.settled(), (Some(5), None));
    }
}
