//! For how long an event was on a counter, of the time that it was to be: from READ records and from samples that carry counts.

use std::collections::HashMap;

/// time_enabled and time_running, ns.
type Times = (u64, u64);

/// What was told of one event.
///
/// An event of a task is opened once for each CPU, and enabled in all of them wherever the task runs, but runs in that one alone: running adds up over
/// the CPUs (ids), enabled is one. An event of CPUs is enabled and runs on each by itself.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningTimes {
    /// By id, the latest of what samples carry: these are sums since the event was opened.
    of_ids: HashMap<u64, Times>,
    /// By thread, what its READ records said: enabled, and running over all CPUs. The newer ones, and those before.
    of_threads: [HashMap<u32, Times>; 2],
    /// The same of threads of which no more is to come.
    ended: Times,
}

/// Threads that are kept apart. The records of one, each from another CPU's ring, stand between two flushes of the rings.
const THREADS_APART: usize = 1 << 15;

impl RunningTimes {
    /// A sample of an id told its times.
    pub(super) fn sampled(&mut self, id: u64, enabled_ns: u64, running_ns: u64) {
        let times = self.of_ids.entry(id).or_default();
        *times = (*times).max((enabled_ns, running_ns));
    }

    /// A thread ended, and told the times of one of its copies.
    pub(super) fn ended(&mut self, tid: u32, enabled_ns: u64, running_ns: u64) {
        let [newer, older] = &mut self.of_threads;
        let times = match older.get_mut(&tid) {
            Some(times) => times,
            None => newer.entry(tid).or_default(),
        };
        *times = (times.0.max(enabled_ns), times.1.saturating_add(running_ns));
        if newer.len() > THREADS_APART {
            for (enabled_ns, running_ns) in older.drain().map(|(_, times)| times) {
                self.ended = (self.ended.0.saturating_add(enabled_ns), self.ended.1.saturating_add(running_ns));
            }
            std::mem::swap(newer, older);
        }
    }

    /// Running over enabled; none where nothing was told.
    pub(super) fn share(&self, is_of_tasks: bool) -> Option<f64> {
        let mut enabled_ns = self.ended.0 as f64;
        let mut running_ns = self.ended.1 as f64;
        for (enabled, running) in self.of_threads.iter().flat_map(HashMap::values) {
            (enabled_ns, running_ns) = (enabled_ns + *enabled as f64, running_ns + *running as f64);
        }
        let of_ids = self.of_ids.values();
        running_ns += of_ids.clone().map(|times| times.1 as f64).sum::<f64>();
        let enabled = of_ids.map(|times| times.0 as f64);
        enabled_ns += if is_of_tasks { enabled.fold(0.0, f64::max) } else { enabled.sum() };
        (enabled_ns > 0.0).then(|| (running_ns / enabled_ns).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_moves_between_cpus_is_not_multiplexed() {
        let mut times = RunningTimes::default();
        // Half on each CPU; another a quarter on the first, and three on the second.
        for (tid, running_ns) in [(7, 500), (7, 500), (8, 250), (8, 750)] {
            times.ended(tid, 1000, running_ns);
        }
        assert_eq!(times.share(true), Some(1.0));
        times.ended(9, 1000, 100);
        assert_eq!(times.share(true), Some(2100.0 / 3000.0));
        assert_eq!(RunningTimes::default().share(true), None);
    }

    #[test]
    fn cpus_are_each_by_themselves() {
        let mut times = RunningTimes::default();
        for (id, running_ns) in [(1, 100), (1, 400), (2, 400)] {
            times.sampled(id, running_ns * 2, running_ns);
        }
        assert_eq!(times.share(false), Some(0.5));
        // The same of a task, which was on one or the other all the time.
        assert_eq!(times.share(true), Some(1.0));
    }

    #[test]
    fn many_threads_take_no_more_room() {
        let mut times = RunningTimes::default();
        for cpu in 0..2 {
            for tid in 0..20_000 {
                times.ended(tid, 1000, 400 + 100 * cpu);
            }
        }
        for tid in 20_000..500_000 {
            times.ended(tid, 1000, 900);
        }
        assert!(times.of_threads.iter().all(|threads| threads.len() <= THREADS_APART + 1));
        assert_eq!(times.share(true), Some(0.9));
    }
}
