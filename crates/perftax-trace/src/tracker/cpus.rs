//! Who has had which CPU lately: of a thread that could run and did not, for whom it waited.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

/// Stretches of a CPU that are remembered: some hundred milliseconds of a busy one.
const MAX: usize = 1024;

/// A CPU's threads, one after the other.
#[derive(Default)]
struct Cpu {
    /// The thread that is on it, and since when; 0: it idles.
    tid: u32,
    since_ns: u64,
    /// Threads that were on it, from and to.
    before: VecDeque<(u32, u64, u64)>,
}

/// All CPUs.
#[derive(Default)]
pub(super) struct Cpus(FxHashMap<u32, Cpu>);

impl Cpus {
    /// A thread leaves a CPU to another one.
    pub fn switch(&mut self, cpu: u32, tid: u32, next: u32, now_ns: u64) {
        let cpu = self.0.entry(cpu).or_default();
        // Else something was not seen: some kernels tell nothing of a CPU that idles, not even who ends that.
        if cpu.tid == tid && cpu.since_ns > 0 {
            if cpu.before.len() >= MAX {
                cpu.before.pop_front();
            }
            cpu.before.push_back((tid, cpu.since_ns, now_ns));
        }
        (cpu.tid, cpu.since_ns) = (next, now_ns);
    }

    /// Who had a CPU from one time to another, in order: the thread (0: nobody), from when and until when. Time of which nothing is known is left out.
    pub fn held(&self, cpu: u32, from_ns: u64, to_ns: u64) -> impl Iterator<Item = (u32, u64, u64)> {
        let cpu = self.0.get(&cpu);
        let before = cpu.into_iter().flat_map(move |cpu| {
            let first = cpu.before.partition_point(|(_, _, end_ns)| *end_ns <= from_ns);
            cpu.before.range(first..).copied()
        });
        let now = cpu.into_iter().map(move |cpu| (cpu.tid, cpu.since_ns, to_ns));
        let is_within = move |(_, since_ns, end_ns): &(u32, u64, u64)| from_ns < to_ns && *since_ns < to_ns && since_ns < end_ns;
        let within = before.chain(now).filter(is_within);
        within.map(move |(tid, since_ns, end_ns)| (tid, since_ns.max(from_ns), end_ns.min(to_ns)))
    }

    /// What came before is not known any more.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_had_a_cpu_is_known_in_order() {
        let mut cpus = Cpus::default();
        for (tid, next, now_ns) in [(9, 1, 10), (1, 2, 20), (2, 0, 30), (0, 1, 45)] {
            cpus.switch(0, tid, next, now_ns);
        }
        let held = |from_ns, to_ns| cpus.held(0, from_ns, to_ns).collect::<Vec<_>>();
        assert_eq!(held(15, 50), [(1, 15, 20), (2, 20, 30), (0, 30, 45), (1, 45, 50)]);
        assert_eq!(held(20, 40), [(2, 20, 30), (0, 30, 40)]);
        assert_eq!((held(46, 46), held(46, 47), cpus.held(1, 0, 100).count()), (vec![], vec![(1, 46, 47)], 0));
        // Somebody else leaves than who came.
        cpus.switch(0, 7, 8, 60);
        assert_eq!(cpus.held(0, 40, 70).collect::<Vec<_>>(), [(0, 40, 45), (8, 60, 70)]);
        for now_ns in 61..10_000 {
            cpus.switch(0, 8, 8, now_ns);
        }
        assert_eq!(cpus.held(0, 0, 20_000).count(), MAX + 1);
    }
}
