//! Threads that give the CPU to each other.
//!
//! Two threads of a program whose events are all inherited from one have the same ones: the kernel leaves them on when one follows the other on a CPU, and exchanges what was counted
//! (kernel/events/core.c, `perf_event_context_sched_out`). Once an event of one of them was closed and opened again it never does so any more.

use rustc_hash::{FxHashMap, FxHashSet};

/// Pairs of threads that are counted.
const MAX_PAIRS: usize = 1 << 12;
/// What one takes more, as threads with own events of tracepoints have it, ns: 0.44 µs on a 6.18 guest.
const EACH_NS: f64 = 500.0;
/// The share of the time that they may take more.
const MAX_SHARE: f64 = 0.01;

/// How often one thread followed another on a CPU.
#[derive(Debug, Default)]
pub(super) struct Handovers {
    pairs: FxHashMap<(u32, u32), u64>,
}

impl Handovers {
    /// A thread leaves its CPU to another one.
    pub fn add(&mut self, tid: u32, next: u32) {
        if tid == 0 || next == 0 {
            return;
        }
        if self.pairs.len() < MAX_PAIRS || self.pairs.contains_key(&(tid, next)) {
            *self.pairs.entry((tid, next)).or_default() += 1;
        }
    }

    /// Whether events of a program's threads can be closed and opened again without its switches taking more than a hundredth of its time more from then on; it was recorded for so long.
    pub fn allow_closing(&self, threads: impl IntoIterator<Item = u32>, ns: u64) -> bool {
        let threads: FxHashSet<u32> = threads.into_iter().collect();
        let are_ours = |(from, to): &(u32, u32)| threads.contains(from) && threads.contains(to);
        let all: u64 = self.pairs.iter().filter(|(pair, _)| are_ours(pair)).map(|(_, n)| n).sum();
        all as f64 * EACH_NS <= MAX_SHARE * ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_take_turns_keep_what_they_inherited() {
        let mut handovers = Handovers::default();
        for at in 0..100_000 {
            handovers.add(10, 11);
            handovers.add(12, 0);
            handovers.add(0, 12);
            handovers.add(12, 900);
            handovers.add(1000 + at, 12);
        }
        assert!(!handovers.allow_closing([10, 11, 12], 1_000_000_000));
        assert!(handovers.allow_closing([10, 11, 12], 10_000_000_000), "0.5 % of the time");
        assert!(handovers.allow_closing([10, 12], 1_000_000_000), "only one of them is ours");
        assert!(handovers.pairs.len() <= MAX_PAIRS);
    }
}
