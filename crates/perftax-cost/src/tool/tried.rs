//! Prices from a trial: the tool around work whose number of events is known, and the same work alone, in turns.

use std::collections::BTreeMap;

use perftax_doc::{Estimate, ToolTrial, TrialPlacement, TrialRun, TrialStage};

use crate::cost::{CACHED_WORK_TERM, Cost, OfCode, WIDE_CODE_TERM};
use crate::order::median_interval;

/// System calls that each pass of the token takes beside its switch: a write and a read.
const CALLS_OF_A_PASS: f64 = 2.0;
/// System calls of creating a process and waiting for its end, by both: clone, set_robust_list, exit_group and wait4, as `strace -f` prints them (perftax's
/// tests count them).
pub const CALLS_OF_A_TASK: f64 = 4.0;

/// The prices of a trial. Each is the median over rounds of what the work took longer with the tool than without in the same round; where the trial had the tool
/// and the work on one CPU and on two besides, the interval reaches over those, for nobody knows where the scheduler will put a program.
#[derive(Clone, Copy, Debug)]
pub struct TrialPrices<'a> {
    trial: &'a ToolTrial,
}

/// What a call costs where tool and program share a CPU, and where they do not, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placed {
    /// On one CPU.
    pub together_ns: Estimate,
    /// On two.
    pub apart_ns: Estimate,
}

impl<'a> TrialPrices<'a> {
    /// Of a trial.
    pub fn of(trial: &'a ToolTrial) -> Self {
        Self { trial }
    }

    /// What each round says of a pair: the run with the tool, and the one without.
    fn by_round<T>(&self, placement: TrialPlacement, of: impl Fn(&TrialRun, &TrialRun) -> Option<T>) -> Vec<T> {
        let mut pairs: BTreeMap<u32, [Option<&TrialRun>; 2]> = BTreeMap::new();
        for run in self.trial.runs.iter().filter(|run| run.placement == placement) {
            pairs.entry(run.round).or_default()[usize::from(run.with_tool)] = Some(run);
        }
        pairs.into_values().filter_map(|[off, on]| of(on?, off?)).collect()
    }

    /// The median where the scheduler decides, with an interval over all placements that were tried.
    fn price(&self, of: impl Fn(&TrialRun, &TrialRun) -> Option<f64>) -> Option<Estimate> {
        let at = |placement| median_interval(&self.by_round(placement, &of));
        let placed = [TrialPlacement::Together, TrialPlacement::Apart].into_iter().filter_map(at);
        Some(placed.fold(at(TrialPlacement::Free)?, |price, other| Estimate {
            low: price.low.min(other.low),
            high: price.high.max(other.high),
            ..price
        }))
    }

    /// A system call on one CPU and on two, where the trial had both.
    pub fn placed(&self) -> Option<Placed> {
        let at = |placement| median_interval(&self.by_round(placement, |on, off| self.more_ns(TrialStage::Calls, on, off)));
        Some(Placed { together_ns: at(TrialPlacement::Together)?, apart_ns: at(TrialPlacement::Apart)? })
    }

    /// What a unit of a stage takes longer in a round, ns.
    fn more_ns(&self, stage: TrialStage, on: &TrialRun, off: &TrialRun) -> Option<f64> {
        let units = *self.trial.done.get(&stage)? as f64;
        let ns = |run: &TrialRun| Some(*run.stages_ns.get(&stage)? as f64);
        (units > 0.0).then_some((ns(on)? - ns(off)?) / units)
    }

    /// A unit of a stage, all that is in it, ns.
    pub fn unit_ns(&self, stage: TrialStage) -> Option<Estimate> {
        self.price(|on, off| self.more_ns(stage, on, off))
    }

    /// What a system call costs a program beyond its price, every `gap_ns` of its CPU time: what its code loses while the tool has its CPU, or has it told of
    /// the call. By what calls cost work of wide code between them, in proportion to the pages ([`OfCode`]).
    pub fn own_of_call_ns(&self, gap_ns: f64, code: Option<&Estimate>) -> Option<Estimate> {
        let spread = TrialStage::SpreadCalls;
        let calls = *self.trial.done.get(&spread)? as f64;
        let between: Vec<f64> = self.by_round(TrialPlacement::Free, |_, off| Some(*off.stages_ns.get(&spread)? as f64 / calls));
        let share = OfCode::beside(median_interval(&between)?.estimate, gap_ns, code, self.trial.wide_code_pages?);
        let to_lose_ns =
            self.price(|on, off| Some(self.more_ns(spread, on, off)? - self.more_ns(TrialStage::Calls, on, off)?))?;
        let to_lose_ns = left_over(to_lose_ns);
        let (about_ns, more_ns) = (to_lose_ns.estimate, to_lose_ns.high - to_lose_ns.estimate);
        let above = ((share.most - share.mean) * about_ns).hypot(share.most * more_ns);
        let below = ((share.mean - share.least) * about_ns).hypot(share.mean * (about_ns - to_lose_ns.low));
        let own_ns = share.mean * about_ns;
        Some(Estimate::new(own_ns, (own_ns - below).max(0.0), own_ns + above))
    }

    /// A page fault, ns.
    pub fn fault_ns(&self) -> Option<Estimate> {
        self.unit_ns(TrialStage::Faults)
    }

    /// A context switch without the system calls that led to it, ns.
    pub fn switch_ns(&self) -> Option<Estimate> {
        let more_ns = self.price(|on, off| {
            let calls_ns = CALLS_OF_A_PASS * self.more_ns(TrialStage::Reads, on, off)?;
            Some(self.more_ns(TrialStage::Switches, on, off)? - calls_ns)
        });
        more_ns.map(left_over)
    }

    /// A process that is created and ends, without the system calls that it takes for that, ns.
    pub fn task_ns(&self) -> Option<Estimate> {
        let more_ns = self.price(|on, off| {
            let calls_ns = CALLS_OF_A_TASK * self.more_ns(TrialStage::Calls, on, off)?;
            Some(self.more_ns(TrialStage::Tasks, on, off)? - calls_ns)
        });
        more_ns.map(left_over)
    }

    /// A sample of a clock, ns, where the trial sampled by one: what computing takes longer, by the samples that it had.
    pub fn sample_ns(&self) -> Option<Estimate> {
        self.sample_of_ns(TrialStage::Computing)
    }

    /// What a sample of a clock costs a program beyond that, every `gap_ns` of its CPU time, by what it costs work with more to lose: [`Cost::own_ns`].
    /// `code`: pages of code that the program effectively has, where somebody looked.
    pub fn own_ns(&self, gap_ns: f64, code: Option<&Estimate>) -> Option<Estimate> {
        let alpha_ns = self.sample_ns()?;
        let tried_ns = 1e9 / self.trial.hz?;
        let wide_ns = self.sample_of_ns(TrialStage::WideCode).map(|ns| OfCode::as_calibrated(&ns, &alpha_ns, tried_ns));
        let works = [(CACHED_WORK_TERM, self.sample_of_ns(TrialStage::CachedWork)), (WIDE_CODE_TERM, wide_ns)];
        let terms = works.into_iter().filter_map(|(term, sample_ns)| Some((term.into(), sample_ns?))).collect();
        let cost = Cost { terms, wide_code_pages: self.trial.wide_code_pages, ..Cost::new(alpha_ns, 0.0) };
        cost.own_ns(&alpha_ns, gap_ns, code)
    }

    /// A sample of a clock over the work of a stage, ns.
    fn sample_of_ns(&self, stage: TrialStage) -> Option<Estimate> {
        let hz = self.trial.hz?;
        let ns = |run: &TrialRun| Some(*run.stages_ns.get(&stage)? as f64);
        (self.trial.done.get(&stage).copied()? > 0).then_some(())?;
        self.price(|on, off| {
            let (on, off) = (ns(on)?, ns(off)?);
            // Time goes on while a sample is taken, and so do samples.
            (on > 0.0).then(|| (on - off) / (hz * on * 1e-9))
        })
    }

    /// What the tool takes before the work begins and after it has ended, s.
    pub fn around_s(&self) -> Option<Estimate> {
        let outside_s = |run: &TrialRun| run.elapsed_s - run.stages_ns.values().sum::<u64>() as f64 * 1e-9;
        self.price(|on, off| Some(outside_s(on) - outside_s(off)))
    }
}

/// What is left when calls were taken off is nothing at the least: a call that waits hides a part of what it costs.
fn left_over(more_ns: Estimate) -> Estimate {
    Estimate { estimate: more_ns.estimate.max(0.0), low: more_ns.low.max(0.0), high: more_ns.high.max(0.0), ..more_ns }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    /// A tool that takes so much for each thing, on a machine whose rounds differ.
    fn trial(call_ns: [u64; 3], fault_ns: u64, switch_ns: u64, task_ns: u64) -> ToolTrial {
        use TrialStage::*;
        let done = BTreeMap::from([
            (Computing, 1000),
            (Calls, 100),
            (Paths, 100),
            (Reads, 100),
            (Faults, 50),
            (Switches, 40),
            (Tasks, 10),
            (CachedWork, 1000),
            (WideCode, 1000),
            (SpreadCalls, 100),
        ]);
        let run = |round: u32, with_tool: bool| {
            let slow = 1000 + 37 * u64::from(round);
            let with = |more: u64| if with_tool { more } else { 0 };
            let stages_ns = BTreeMap::from([
                (Computing, 1_000_000_000 + with(70_000_000)),
                (Calls, 100 * (slow + with(call_ns[0]))),
                (Paths, 100 * (slow + with(call_ns[1]))),
                (Reads, 100 * (slow + with(call_ns[2]))),
                (Faults, 50 * (slow + with(fault_ns))),
                (Switches, 40 * (slow + with(switch_ns + 2 * call_ns[2]))),
                (Tasks, 10 * (slow + with(task_ns + CALLS_OF_A_TASK as u64 * call_ns[0]))),
                (CachedWork, 1_000_000_000 + with(80_000_000)),
                (WideCode, 1_000_000_000 + with(170_000_000)),
                (SpreadCalls, 100 * (30 * slow + with(call_ns[0] + 8_000))),
            ]);
            let inside_s = stages_ns.values().sum::<u64>() as f64 * 1e-9;
            TrialRun {
                round,
                with_tool,
                placement: TrialPlacement::Free,
                elapsed_s: inside_s + if with_tool { 0.3 } else { 0.1 },
                stages_ns,
            }
        };
        let runs = (0..8).flat_map(|round| [run(round, round % 2 == 0), run(round, round % 2 == 1)]).collect();
        ToolTrial { line: Vec::new(), hz: Some(5000.0), wide_code_pages: Some(150.0), done, runs }
    }

    #[test]
    fn what_was_injected_is_found() {
        let trial = trial([20_000, 24_000, 28_000], 0, 3_000, 150_000);
        let prices = TrialPrices::of(&trial);
        let of = |stage| prices.unit_ns(stage).unwrap().estimate;
        assert_eq!([TrialStage::Calls, TrialStage::Paths, TrialStage::Reads].map(of), [20_000.0, 24_000.0, 28_000.0]);
        assert_eq!(prices.fault_ns().unwrap().estimate, 0.0);
        assert_eq!(prices.switch_ns().unwrap().estimate, 3_000.0);
        assert_eq!(prices.task_ns().unwrap().estimate, 150_000.0);
        let sample_ns = prices.sample_ns().unwrap().estimate;
        assert!((sample_ns - 70e6 / 5350.0).abs() < 1e-6);
        // As wide as that work, or a tenth of it; and from nothing to a share of what the cached work loses besides.
        let own_ns = |pages: f64| prices.own_ns(200_000.0, Some(&Estimate::exact(pages))).unwrap();
        let of_code = |pages: f64| own_ns(pages).estimate - own_ns(0.0).estimate;
        let to_lose_ns = 170e6 / 5850.0 - sample_ns;
        assert!((of_code(150.0) - to_lose_ns).abs() < 1e-6 && (of_code(15.0) - to_lose_ns / 10.0).abs() < 1e-6);
        // A call is charged with what the same code loses between calls as far apart, and hardly anything where calls follow each other at once.
        let of_call = |gap_ns: f64, pages: f64| prices.own_of_call_ns(gap_ns, Some(&Estimate::exact(pages))).unwrap();
        let apart_ns = 30.0 * (1000.0 + 37.0 * 3.5);
        assert!((of_call(apart_ns, 150.0).estimate - 8_000.0).abs() < 1e-6, "{:?}", of_call(apart_ns, 150.0));
        assert!(of_call(500.0, 150.0).high < 300.0 && of_call(apart_ns, 1.0).high < 100.0);
        assert!(own_ns(0.0).estimate > 0.0 && own_ns(0.0).high < 80e6 / 5400.0);
        assert!((prices.around_s().unwrap().estimate - 0.2).abs() < 1e-9);
    }

    /// A price of a scheduler that chose one CPU says nothing of a program that it puts on two.
    #[test]
    fn intervals_reach_over_all_placements() {
        let mut all = trial([20_000; 3], 0, 3_000, 150_000);
        for (placement, call_ns) in [(TrialPlacement::Together, 18_000), (TrialPlacement::Apart, 90_000)] {
            all.runs.extend(trial([call_ns; 3], 0, 3_000, 150_000).runs.into_iter().map(|run| TrialRun { placement, ..run }));
        }
        let prices = TrialPrices::of(&all);
        let call = prices.unit_ns(TrialStage::Calls).unwrap();
        assert_eq!((call.estimate, call.low, call.high), (20_000.0, 18_000.0, 90_000.0));
        let placed = prices.placed().unwrap();
        assert_eq!((placed.together_ns.estimate, placed.apart_ns.estimate), (18_000.0, 90_000.0));
        // Differences of one placement are of runs of that placement.
        assert_eq!((prices.switch_ns().unwrap().low, prices.task_ns().unwrap().high), (3_000.0, 150_000.0));
        assert!(TrialPrices::of(&trial([1; 3], 0, 0, 0)).placed().is_none());
    }

    #[test]
    fn what_was_not_tried_has_no_price() {
        let mut trial = trial([1, 1, 1], 0, 0, 0);
        trial.hz = None;
        trial.done.remove(&TrialStage::Faults);
        trial.runs.retain(|run| run.with_tool || run.round > 0);
        let prices = TrialPrices::of(&trial);
        assert!(prices.sample_ns().is_none() && prices.fault_ns().is_none() && prices.unit_ns(TrialStage::Calls).is_some());
        trial.runs.retain(|run| run.with_tool);
        assert!(TrialPrices::of(&trial).unit_ns(TrialStage::Calls).is_none());
    }
}
