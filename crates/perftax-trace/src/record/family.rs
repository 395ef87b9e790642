//! The processes and threads that are recorded, as the kernel tells of their births, and how often one of the threads gives its CPU to another.

use rustc_hash::FxHashSet;

/// What a handover takes more once events were closed and opened again, as threads with events of their own have it, ns: 0.91 µs on a 6.18 guest.
const EACH_NS: f64 = 1000.0;
/// The share of the program's CPU time that they may take more.
const MAX_SHARE: f64 = 0.01;

/// Processes, and what they have started since they are recorded.
#[derive(Debug, Default)]
pub(super) struct Family {
    processes: FxHashSet<u32>,
    threads: FxHashSet<u32>,
    /// Switches from one of its threads to another.
    handovers: u64,
}

impl Family {
    /// Of processes, and the threads that they have.
    pub fn of(roots: impl IntoIterator<Item = u32>, threads: impl IntoIterator<Item = u32>) -> Self {
        Self { processes: roots.into_iter().collect(), threads: threads.into_iter().collect(), handovers: 0 }
    }

    /// The kernel says who has created a thread, of a new process or of its own.
    pub fn born(&mut self, pid: u32, tid: u32, parent: u32) {
        if self.processes.contains(&parent) {
            self.processes.insert(pid);
            self.threads.insert(tid);
        }
    }

    /// A thread has ended: another one may have its number next.
    pub fn ended(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }

    /// Whether a process is one of them.
    pub fn has(&self, pid: u32) -> bool {
        self.processes.contains(&pid)
    }

    /// Whether a thread is one of theirs.
    pub fn has_thread(&self, tid: u32) -> bool {
        self.threads.contains(&tid)
    }

    /// A thread leaves its CPU to another one.
    pub fn switched(&mut self, tid: u32, next: u32) {
        self.handovers += u64::from(self.threads.contains(&next) && self.threads.contains(&tid));
    }

    /// Whether events of its threads can be closed and opened again without its switches taking more than a hundredth of its CPU time more from then on; so much it has taken so far, ns.
    ///
    /// Two threads whose events are all inherited from one have the same ones: the kernel leaves them on when one follows the other on a CPU, and exchanges what was counted
    /// (kernel/events/core.c, `perf_event_context_sched_out`). Once an event of one of them was closed it never does so any more.
    pub fn may_be_closed(&self, cpu_ns: u64) -> bool {
        self.handovers as f64 * EACH_NS <= MAX_SHARE * cpu_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_starts_is_of_it() {
        let mut family = Family::of([10], [10, 11]);
        family.born(20, 20, 10);
        family.born(30, 30, 20);
        family.born(40, 40, 1);
        assert!([10, 20, 30].iter().all(|pid| family.has(*pid)) && !family.has(40) && !family.has(11) && !family.has(0));
    }

    #[test]
    fn threads_that_take_turns_keep_what_they_inherited() {
        let mut family = Family::of([10], [10]);
        family.born(10, 11, 10);
        for _ in 0..50_000 {
            family.switched(10, 11);
            family.switched(11, 10);
            family.switched(11, 0);
            family.switched(0, 11);
            family.switched(11, 900);
        }
        assert!(!family.may_be_closed(1_000_000_000), "10 % of its time");
        assert!(family.may_be_closed(20_000_000_000), "0.5 % of its time");
        let before = family.handovers;
        family.ended(11);
        family.switched(10, 11);
        assert_eq!(family.handovers, before, "it is another one's number");
    }
}
