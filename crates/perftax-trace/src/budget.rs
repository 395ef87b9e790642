//! Recording within a budget: on and off in turn inside one process, and what being on costs measured by it.
//!
//! The process's CPU time a message is what is compared: it does not depend on how much it is asked to do. A slice lasts until the process has done enough for that, so
//! that one that works for a twentieth of the time is recorded while it does. A slice with recording on is
//! set against the two slices beside it, with recording off, so that what drifts drifts for both. Recording is on
//! again as soon as the upper end of what it has cost leaves room for another slice. Switching on and off is part of the slice between.

use perftax_cost::bootstrap::{REPLICATES, SEED, cluster_bootstrap};
use perftax_doc::Estimate;
use perftax_doc::TraceSpent;

/// Length of a slice at least, ns: some looks at the rings.
pub const SLICE_NS: u64 = 20_000_000;
/// CPU time in a slice that is waited for, ns; but not for longer than this.
const ENOUGH_CPU_NS: u64 = SLICE_NS / 4;
const LONGEST_NS: u64 = 1_000_000_000;
/// What recording costs while it is on, as a share, before that is known: more than it has been seen to.
const FIRST_COST: f64 = 2.0;
/// Comparisons from one estimate to the next.
const PAIRS: usize = 5;
/// Comparisons that an estimate is from, at most: the last ones.
const MAX_PAIRS: usize = 5000;
/// Messages that a slice must have to say anything.
const MIN_MESSAGES: u64 = 20;

/// What a process had done at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// When.
    pub time_ns: u64,
    /// CPU time of all its threads.
    pub cpu_ns: u64,
    /// Messages that ended.
    pub messages: u64,
}

/// A slice of time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slice {
    is_on: bool,
    cpu_ns: u64,
    messages: u64,
}

impl Slice {
    fn cpu_ns_each(&self) -> Option<f64> {
        (self.messages >= MIN_MESSAGES && self.cpu_ns > 0).then(|| self.cpu_ns as f64 / self.messages as f64)
    }
}

/// Says when to record.
#[derive(Clone, Debug)]
pub struct Controller {
    budget: f64,
    is_on: bool,
    began: Option<Progress>,
    /// The last slices, newest last: off, on, off are a comparison.
    last: Vec<Slice>,
    /// Extra CPU time a message, as a share, of each comparison.
    pairs: Vec<f64>,
    /// The upper end of their mean, as of the last estimate.
    cost_high: f64,
    on_cpu_ns: u64,
    cpu_ns: u64,
    slices: u64,
    on_slices: u64,
}

impl Controller {
    /// One that keeps to a share of the process's CPU time.
    pub fn new(budget: f64) -> Self {
        Self {
            budget,
            is_on: false,
            began: None,
            last: Vec::new(),
            pairs: Vec::new(),
            cost_high: FIRST_COST,
            on_cpu_ns: 0,
            cpu_ns: 0,
            slices: 0,
            on_slices: 0,
        }
    }

    /// Whether a slice is over by now; the process's CPU time is asked for where that decides.
    pub fn is_due(&self, now_ns: u64, cpu_ns: impl FnOnce() -> u64) -> bool {
        let Some(began) = self.began else { return true };
        let lasted_ns = now_ns.saturating_sub(began.time_ns);
        lasted_ns >= LONGEST_NS || lasted_ns >= SLICE_NS && cpu_ns().saturating_sub(began.cpu_ns) >= ENOUGH_CPU_NS
    }

    /// A slice is over, and recording off: says whether it is to be on in the next.
    pub fn next(&mut self, now: Progress) -> bool {
        if let Some(began) = self.began.replace(now) {
            let cpu_ns = now.cpu_ns.saturating_sub(began.cpu_ns);
            self.end(Slice { is_on: self.is_on, cpu_ns, messages: now.messages.saturating_sub(began.messages) });
        }
        // Of a slice's CPU time, what there would not have been without.
        let extra = self.cost_high.max(0.0) / (1.0 + self.cost_high.max(0.0));
        // The next one may use as much as the most of late: on several CPUs more than it lasts.
        let next_ns = self.last.iter().map(|slice| slice.cpu_ns).max().unwrap_or(SLICE_NS).max(ENOUGH_CPU_NS);
        let spent_ns = (self.on_cpu_ns + next_ns) as f64 * extra;
        self.is_on = !self.is_on && self.slices > 0 && spent_ns <= self.budget * self.cpu_ns as f64;
        self.is_on
    }

    fn end(&mut self, slice: Slice) {
        self.slices += 1;
        self.on_slices += u64::from(slice.is_on);
        self.cpu_ns += slice.cpu_ns;
        self.on_cpu_ns += if slice.is_on { slice.cpu_ns } else { 0 };
        self.last.push(slice);
        if self.last.len() > 3 {
            self.last.remove(0);
        }
        if let [before, on, after] = self.last[..]
            && !before.is_on
            && on.is_on
            && !after.is_on
            && let (Some(before), Some(on), Some(after)) = (before.cpu_ns_each(), on.cpu_ns_each(), after.cpu_ns_each())
        {
            // What is of long ago says less than it takes.
            if self.pairs.len() >= MAX_PAIRS {
                self.pairs.drain(..MAX_PAIRS / 2);
            }
            self.pairs.push(on / ((before + after) / 2.0) - 1.0);
            if self.pairs.len().is_multiple_of(PAIRS)
                && let Some(spent) = self.spent()
            {
                self.cost_high = spent.while_on.high;
            }
        }
    }

    /// What it has cost so far; none with fewer than two comparisons.
    pub fn spent(&self) -> Option<TraceSpent> {
        let mean = |pairs: &[&f64]| pairs.iter().copied().sum::<f64>() / pairs.len() as f64;
        let while_on = cluster_bootstrap(&self.pairs, mean, REPLICATES, SEED)?;
        let on_share = self.on_cpu_ns as f64 / self.cpu_ns.max(1) as f64;
        // Of the time with recording on, what there would have been without.
        let of_all = |extra: f64| {
            let cost = on_share * (extra / (1.0 + extra));
            cost / (1.0 - cost)
        };
        let in_all = Estimate::new(of_all(while_on.estimate), of_all(while_on.low), of_all(while_on.high));
        Some(TraceSpent {
            budget: self.budget,
            while_on,
            in_all,
            on_share,
            slices: self.slices,
            on_slices: self.on_slices,
            pairs: self.pairs.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    /// A process that spends 10 µs a message, and so much more while it is recorded; slices that differ by 3 %.
    fn run(budget: f64, extra: f64, slices: usize) -> (Controller, f64) {
        let mut controller = Controller::new(budget);
        let mut random = fastrand::Rng::with_seed(7);
        let (mut now, mut truth, mut is_on) = (Progress::default(), 0.0, false);
        controller.next(now);
        for _ in 0..slices {
            let each = 10_000.0 * (1.0 + 0.03 * (random.f64() - 0.5)) * if is_on { 1.0 + extra } else { 1.0 };
            now.time_ns += SLICE_NS;
            now.cpu_ns += SLICE_NS;
            now.messages += (SLICE_NS as f64 / each) as u64;
            truth += if is_on { SLICE_NS as f64 * extra / (1.0 + extra) } else { 0.0 };
            assert!(controller.is_due(now.time_ns, || now.cpu_ns) && !controller.is_due(now.time_ns - 1, || now.cpu_ns));
            is_on = controller.next(now);
        }
        let spent_ns = truth / (now.cpu_ns as f64 - truth);
        (controller, spent_ns)
    }

    #[test]
    fn what_it_costs_is_found_and_kept_below_the_budget() {
        for extra in [1.4, 0.2, 0.08, 0.01] {
            let (controller, truth) = run(0.01, extra, 4000);
            let spent = controller.spent().unwrap();
            assert!(spent.while_on.contains(extra) || (spent.while_on.estimate - extra).abs() < 0.003, "{spent:?}");
            assert!((spent.in_all.estimate - truth).abs() < 0.0005, "{truth} {:?}", spent.in_all);
            assert!(truth < 0.0102 && spent.in_all.high < 0.0115, "{:?}", spent.in_all);
            assert!(spent.in_all.estimate > 0.004 && spent.slices == 4000, "{:?} {}", spent.in_all, spent.slices);
        }
    }

    /// It works for 50 ms of each second: what it costs then is known within a minute or two, and it is recorded for as much of its work as the budget buys.
    #[test]
    fn a_load_of_a_twentieth_is_recorded_while_it_works() {
        let (extra, budget) = (0.08, 0.01);
        let mut controller = Controller::new(budget);
        let (mut now, mut is_on) = (Progress::default(), false);
        let (mut messages, mut of_on_ns) = (0.0, 0u64);
        controller.next(now);
        for look in 0..20_000u64 {
            now.time_ns += 10_000_000;
            if look % 100 < 5 {
                now.cpu_ns += 10_000_000;
                of_on_ns += if is_on { 10_000_000 } else { 0 };
                messages += 1000.0 / if is_on { 1.0 + extra } else { 1.0 };
                now.messages = messages as u64;
            }
            if controller.is_due(now.time_ns, || now.cpu_ns) {
                is_on = controller.next(now);
            }
        }
        let spent = controller.spent().unwrap();
        assert!((spent.while_on.estimate - extra).abs() < 0.01, "{spent:?}");
        assert!(spent.in_all.estimate > 0.5 * budget && spent.in_all.high < 1.2 * budget, "{spent:?}");
        assert!(of_on_ns as f64 > 0.05 * now.cpu_ns as f64, "{of_on_ns} of {}", now.cpu_ns);
    }

    #[test]
    fn a_process_that_says_nothing_costs_nothing_that_is_known() {
        let mut controller = Controller::new(0.01);
        for i in 0..100 {
            let now = Progress { time_ns: i * SLICE_NS, cpu_ns: i, messages: 0 };
            controller.next(now);
        }
        assert_eq!(controller.spent(), None);
    }
}
