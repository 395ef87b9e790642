//! Counters of CPUs, read whenever a thread leaves one and at probes, as counters of the threads that ran there.

use rustc_hash::FxHashMap;

use crate::executed::{Executed, ReadBy, Reading};

/// A reading of a CPU's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuReading {
    /// When.
    pub time_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// The thread that is on it.
    pub tid: u32,
    /// It leaves it to this one; 0: the CPU idles then.
    pub next: Option<u32>,
    /// What the CPU has executed so far.
    pub executed: Executed,
}

/// A thread's counter, as far as it was followed.
#[derive(Clone, Copy, Default)]
struct OfThread {
    executed: Executed,
    /// Part of what it executed was not seen.
    has_gap: bool,
}

/// Who is on which CPU, and what threads have executed.
#[derive(Default)]
pub(super) struct CpuCounters {
    cpus: FxHashMap<u32, (u32, Executed)>,
    threads: FxHashMap<u32, OfThread>,
}

impl CpuCounters {
    /// Takes a reading, in order of time; hands out what it says of threads. `is_ours`: whether anybody asks for a thread.
    pub fn take(&mut self, reading: &CpuReading, is_ours: impl Fn(u32) -> bool, out: &mut dyn FnMut(Reading)) {
        let CpuReading { time_ns, cpu, tid, next, executed } = *reading;
        let before = self.cpus.insert(cpu, (next.unwrap_or(tid), executed));
        let by = if next.is_some() { ReadBy::UsAsItLeaves } else { ReadBy::Us };
        if tid != 0 && is_ours(tid) {
            let of = self.threads.entry(tid).or_default();
            let since = before.filter(|(who, _)| *who == tid).and_then(|(_, before)| executed.since(before));
            match since {
                Some(since) => of.executed.add(since),
                None => of.has_gap = true,
            }
            let known = Some(of.executed).filter(|_| since.is_some());
            of.has_gap &= known.is_none();
            out(Reading { time_ns, tid, executed: known, by });
        }
        if let Some(next) = next.filter(|next| *next != 0 && is_ours(*next)) {
            let is_new = !self.threads.contains_key(&next);
            let of = self.threads.entry(next).or_default();
            if is_new || of.has_gap {
                of.has_gap = false;
                // From here on it is followed.
                out(Reading { time_ns, tid: next, executed: None, by: ReadBy::Us });
                out(Reading { time_ns, tid: next, executed: Some(of.executed), by: ReadBy::Us });
            }
        }
    }

    /// Readings are missing: of nobody it is known what they executed meanwhile.
    pub fn forget(&mut self) {
        self.cpus.clear();
        self.threads.values_mut().for_each(|of| of.has_gap = true);
    }

    /// A thread has ended: its number may be another's next.
    pub fn ended(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executed(instructions: u64) -> Executed {
        Executed { instructions, cycles: 2 * instructions }
    }

    struct Read {
        counters: CpuCounters,
        now_ns: u64,
    }

    impl Read {
        /// What a reading says: of whom, and what; none: unknown.
        fn take(&mut self, cpu: u32, tid: u32, next: Option<u32>, instructions: u64) -> Vec<(u32, Option<u64>)> {
            self.now_ns += 1;
            let reading = CpuReading { time_ns: self.now_ns, cpu, tid, next, executed: executed(instructions) };
            let mut out = Vec::new();
            let mut each = |reading: Reading| {
                assert!(reading.executed.is_none_or(|executed| executed.cycles == 2 * executed.instructions));
                out.push((reading.tid, reading.executed.map(|executed| executed.instructions)));
            };
            self.counters.take(&reading, |tid| tid < 100, &mut each);
            out
        }
    }

    /// Two threads take turns, are moved, and are read at probes; what a stranger executes is nobody's.
    #[test]
    fn a_thread_takes_its_count_along() {
        let mut read = Read { counters: CpuCounters::default(), now_ns: 0 };
        assert_eq!(read.take(0, 7, Some(8), 1000), [(7, None), (8, None), (8, Some(0))], "nobody knows since when 7 ran");
        assert_eq!(read.take(0, 8, None, 1100), [(8, Some(100))], "a probe");
        assert_eq!(read.take(0, 8, Some(7), 1150), [(8, Some(150)), (7, None), (7, Some(0))]);
        assert_eq!(read.take(0, 7, Some(500), 1160), [(7, Some(10))]);
        assert_eq!(read.take(0, 500, Some(0), 9000), []);
        assert_eq!(read.take(1, 0, Some(8), 50), []);
        assert_eq!(read.take(1, 8, Some(0), 90), [(8, Some(190))]);
    }

    #[test]
    fn what_was_not_seen_is_not_known() {
        let mut read = Read { counters: CpuCounters::default(), now_ns: 0 };
        read.take(0, 0, Some(7), 0);
        assert_eq!(read.take(0, 7, None, 5), [(7, Some(5))]);
        read.counters.forget();
        assert_eq!(read.take(0, 7, None, 50), [(7, None)]);
        assert_eq!(
            read.take(0, 7, Some(0), 60),
            [(7, Some(15))],
            "a new beginning: what counts is how much more it is next time"
        );
        read.counters.forget();
        assert_eq!(read.take(0, 0, Some(7), 70), [(7, None), (7, Some(15))]);
        // Somebody else was on the CPU, by the record: one is missing.
        assert_eq!(read.take(0, 9, None, 80), [(9, None)]);
        read.counters.ended(7);
        assert_eq!(read.take(0, 9, Some(7), 81), [(9, Some(1)), (7, None), (7, Some(0))]);
    }
}
