//! What sampling costs on a machine, term by term: what a calibration has to offer to predictions.

use std::collections::BTreeMap;

use crate::buffering::ASSIST_TERM;
use crate::drive::{Drive, PredictionError};
use crate::period::along_periods;
use crate::setting::{Setting, Watched};
use crate::tasks::{SWITCH_INHERITED_TERM, SWITCH_SEPARATE_RARE_TERM, SWITCH_SEPARATE_TERM, TaskCost};
use perftax_doc::Estimate;
use perftax_doc::tasks::Tasks;
use perftax_doc::{Calibration, PeriodCost};

/// The term of what an event costs by merely being counted (a breakpoint's or uprobe's trap), sampled or not: ns an event. Such
/// mechanisms also have [`RECORD_TERM`], and their α is the sum of both, as paid at period 1.
pub const COUNTING_TERM: &str = "counting";

/// The term of what taking a sample adds to a counted event, ns a sample.
pub const RECORD_TERM: &str = "record";

/// The term of what a sample costs work that lives off its second-level cache, α and all, ns a sample.
pub const CACHED_WORK_TERM: &str = "cached-work";

/// The term of what a sample costs work of wide code, α and all, ns a sample; how wide is [`Cost::wide_code_pages`].
pub const WIDE_CODE_TERM: &str = "wide-code";

/// Share of what work that lives off its caches has to lose that a program loses to a sample.
///
/// From eight programs at five overheads (docs/results/costs-and-plans.md, "Predictions against measurements: eight programs"; cpu-clock on a
/// KVM guest) against a chase of pointers there (docs/guide/verify.md): 7, 15, 30, 36 and 36 % on average at gaps of 67, 134, 247, 471 and 1143 µs;
/// a ninth is to be expected below 33, 42, 69, 86 and 86 % (95 %, Student's t). At 3 ms they were not told apart from 80 % on average, and up to 120 % but for one of wide interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Own {
    /// On average.
    pub mean: f64,
    /// At most.
    pub most: f64,
}

impl Own {
    /// Gap after which caches are full again, ns.
    const FULL_NS: f64 = 350_000.0;
    /// The longest gap of which anything is known, ns.
    const KNOWN_NS: f64 = 3_000_000.0;

    /// Of a program that runs for so long between two samples.
    pub fn after(gap_ns: f64) -> Self {
        let filled = (gap_ns / Self::FULL_NS).clamp(0.0, 1.0);
        let beyond = ((gap_ns - Self::FULL_NS) / (Self::KNOWN_NS - Self::FULL_NS)).clamp(0.0, 1.0);
        Self { mean: 0.36 * filled, most: 0.86 * (0.3 + 0.7 * filled) + 0.39 * beyond }
    }
}

/// Share of what work of wide code has to lose that a program loses to a sample, by the pages of code that it goes through.
///
/// In proportion to the pages, up to those of that work: 12, 18 and 29 µs a sample at 16, 1,024 and 4,096 of its functions, 27 at 16,384, and 30 for a compiler
/// (docs/results/tools.md, "What wide code loses"). Of programs at the same number of pages each lies where its branches and its calls put it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OfCode {
    /// At the least.
    pub least: f64,
    /// On average.
    pub mean: f64,
    /// At most.
    pub most: f64,
}

impl OfCode {
    /// The gap that the work is calibrated at, ns.
    const CALIBRATED_NS: f64 = 200_000.0;
    /// What is lost comes back with the code, page by page: 8, 12 and 16 µs of that work at gaps of 71, 125 and 250 µs.
    const REFILLED_NS: f64 = 95_000.0;
    /// A program may lose so many times less or more than its pages say.
    const FACTOR: f64 = 1.5;
    /// But hardly more than that work, however wide it is.
    const MOST: f64 = 1.1;
    /// Where nobody looked: most programs are narrow.
    const UNSEEN: Self = Self { least: 0.0, mean: 0.2, most: Self::MOST };

    /// Share of wide code that is there again so long after an interrupt.
    fn refilled(gap_ns: f64) -> f64 {
        -(-gap_ns.max(0.0) / Self::REFILLED_NS).exp_m1()
    }

    /// What a sample costs wide code at the gap that calibrations have, where one every `tried_ns` cost so much beyond `alpha_ns`: what was there again is lost
    /// again, and no more.
    pub(crate) fn as_calibrated(sample_ns: &Estimate, alpha_ns: &Estimate, tried_ns: f64) -> Estimate {
        let factor = Self::refilled(Self::CALIBRATED_NS) / Self::refilled(tried_ns).max(f64::MIN_POSITIVE);
        let at = |of: fn(&Estimate) -> f64| alpha_ns.estimate + (of(sample_ns) - alpha_ns.estimate) * factor;
        Estimate { estimate: at(|e| e.estimate), low: at(|e| e.low), high: at(|e| e.high), ..*sample_ns }
    }

    /// Of a program of so many pages that runs for so long between two samples, beside work of `of_pages` that was sampled by a calibration.
    pub fn after(gap_ns: f64, code: Option<&Estimate>, of_pages: f64) -> Self {
        Self::beside(Self::CALIBRATED_NS, gap_ns, code, of_pages)
    }

    /// The same beside work that was disturbed every `calibrated_ns`.
    pub fn beside(calibrated_ns: f64, gap_ns: f64, code: Option<&Estimate>, of_pages: f64) -> Self {
        let filled = Self::refilled(gap_ns) / Self::refilled(calibrated_ns).max(f64::MIN_POSITIVE);
        let share = |pages: f64| (pages / of_pages).clamp(0.0, 1.0) * filled;
        match code {
            Some(pages) => {
                let (least, mean, most) = (share(pages.low), share(pages.estimate), share(pages.high));
                // How wide it is, and what that means, are known apart.
                let below = (mean - least).hypot(mean - mean / Self::FACTOR);
                let above = (most - mean).hypot((mean * Self::FACTOR).min(Self::MOST * filled) - mean);
                Self { least: (mean - below).max(0.0), mean, most: mean + above }
            }
            None => Self { least: 0.0, mean: Self::UNSEEN.mean * filled, most: Self::UNSEEN.most * filled },
        }
    }
}

/// What α differs by between two pieces of work that lose nothing, a fraction: up to 1.1 % in the emulated machine, where nothing else varies.
const BETWEEN_WORKS: f64 = 0.02;

/// What sampling costs on the machine that is predicted for.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Cost of one sample.
    pub alpha_ns: Estimate,
    /// How much it drifts, a fraction: widens the interval.
    pub drift: f64,
    /// Payload terms (ns a sample on top of α) and `switch_*` terms (ns a context switch).
    pub terms: BTreeMap<String, Estimate>,
    /// α by period, shortest first; empty where the cost does not demonstrably depend on the rate.
    pub by_period: Vec<PeriodCost>,
    /// What a sample's record costs the program at hand in its caches, ns, by period, shortest first; empty where not known.
    pub pollution_ns: Vec<(u64, f64)>,
    /// Pages of code that the work of [`WIDE_CODE_TERM`] effectively has.
    pub wide_code_pages: Option<f64>,
}

/// A cost by period is used only where it is known this well (relative half-width): low rates are noisy.
const BY_PERIOD_HALF_WIDTH_MAX: f64 = 0.15;

impl Cost {
    /// α and its drift, without terms: what a published number has to offer.
    pub fn new(alpha_ns: Estimate, drift: f64) -> Self {
        Self { alpha_ns, drift, terms: BTreeMap::new(), by_period: Vec::new(), pollution_ns: Vec::new(), wide_code_pages: None }
    }

    /// α with its interval widened by the drift: what is shown beside predictions.
    pub fn alpha_with_drift_ns(&self) -> Estimate {
        self.alpha_ns.widened(self.drift)
    }

    /// α at a period, drift included: what predictions are made with.
    ///
    /// Between calibrated periods the cost is interpolated along the logarithm of the period, beyond them it stays that of the
    /// nearest. Without `by_period` it is the one α.
    pub fn alpha_at_ns(&self, period: u64) -> Estimate {
        let along = |of: fn(&Estimate) -> f64| {
            let points: Vec<(u64, f64)> = self.by_period.iter().map(|c| (c.period, of(&c.alpha_ns))).collect();
            along_periods(&points, period).unwrap_or(of(&self.alpha_ns))
        };
        let alpha_ns =
            Estimate { estimate: along(|e| e.estimate), low: along(|e| e.low), high: along(|e| e.high), ..self.alpha_ns };
        alpha_ns.widened(self.drift)
    }

    /// What a sample costs a program beyond its α, where only the program itself can tell: what its caches, TLBs and branch predictors lose to an
    /// interrupt that comes every `gap_ns` of CPU time; none where the calibration does not say.
    ///
    /// Of its data, from nothing up to a share ([`Own`]) of what work that lives off its second-level cache loses; of its code, what work of wide code loses in
    /// proportion to the pages that it goes through ([`OfCode`]). `code`: how many those effectively are, where somebody looked.
    pub fn own_ns(&self, alpha_ns: &Estimate, gap_ns: f64, code: Option<&Estimate>) -> Option<Estimate> {
        let least_ns = BETWEEN_WORKS * alpha_ns.estimate;
        let to_lose_ns = |term: &str| {
            let most_ns = self.terms.get(term)?.widened(self.drift);
            let of = |most_ns: f64| (most_ns - alpha_ns.estimate).max(0.0);
            Some((of(most_ns.estimate), of(most_ns.high)))
        };
        // Where the program lies, and how well the two ends are known, have nothing to do with each other.
        let above_ns = |mean: f64, most: f64, (about_ns, at_most_ns): (f64, f64)| {
            ((most - mean) * about_ns).hypot(most * (at_most_ns - about_ns))
        };
        let of_data = to_lose_ns(CACHED_WORK_TERM).map(|to_lose_ns| {
            let own = Own::after(gap_ns);
            let own_ns = own.mean * to_lose_ns.0;
            Estimate::new(own_ns, -least_ns, (own_ns + above_ns(own.mean, own.most, to_lose_ns)).max(least_ns))
        });
        let of_code = to_lose_ns(WIDE_CODE_TERM).zip(self.wide_code_pages).map(|(to_lose_ns, pages)| {
            let share = OfCode::after(gap_ns, code, pages);
            let own_ns = share.mean * to_lose_ns.0;
            Estimate::new(own_ns, share.least * to_lose_ns.0, own_ns + above_ns(share.mean, share.most, to_lose_ns))
        });
        match (of_data, of_code) {
            (Some(of_data), Some(of_code)) => Some(of_data.plus(&of_code)),
            (of_data, of_code) => of_data.or(of_code),
        }
    }

    /// What one sample costs at a period, the counting of the events between two samples included, drift included.
    pub fn of_sample_ns(&self, drive: Drive, period: u64) -> Estimate {
        let (record_ns, counting_ns) = self.of_record_and_event(drive, period);
        counting_ns.map_or(record_ns, |counting_ns| record_ns.plus(&counting_ns.scaled(period as f64)))
    }

    /// What a sample costs at a period, drift included, and what every event costs by being counted, where the calibration tells
    /// them apart: costs by period are then those of the record alone.
    pub(crate) fn of_record_and_event(&self, drive: Drive, period: u64) -> (Estimate, Option<Estimate>) {
        let counting_ns = self.terms.get(COUNTING_TERM).filter(|_| drive != Drive::Time).copied();
        let record_ns = match (counting_ns, self.terms.get(RECORD_TERM)) {
            (Some(_), Some(record_ns)) if self.by_period.is_empty() => record_ns.widened(self.drift),
            (Some(counting_ns), None) if self.by_period.is_empty() => {
                self.alpha_ns.plus(&counting_ns.scaled(-1.0)).widened(self.drift)
            }
            _ => self.alpha_at_ns(period),
        };
        (record_ns, counting_ns)
    }

    /// What a context switch costs at a period, drift included; none where events are those of CPUs, or where it was not measured.
    ///
    /// Between two tasks of the program the kernel swaps contexts (the least that it can cost); to and from anything else, an idle CPU too, events are
    /// stopped and started (the most). Which a switch is, nobody sees without watching the CPUs, so it is taken to lie in the middle.
    pub(crate) fn switch_ns(&self, setting: &Setting, period: u64) -> Option<Estimate> {
        /// A timer that is due later than any kernel's tick (100 a second at least) does not reach the hardware.
        const RARE_NS: u64 = 10_000_000;
        if setting.watched == Watched::Cpus {
            return None;
        }
        let rare = self.terms.get(SWITCH_SEPARATE_RARE_TERM).filter(|_| setting.drive == Drive::Time && period >= RARE_NS);
        let separate_ns = rare.or_else(|| self.terms.get(SWITCH_SEPARATE_TERM))?.widened(self.drift);
        let swapped_ns = self.terms.get(SWITCH_INHERITED_TERM)?.widened(self.drift);
        let (least, most) = (swapped_ns.estimate.min(separate_ns.estimate), swapped_ns.estimate.max(separate_ns.estimate));
        let (low, high) = (swapped_ns.low.min(separate_ns.low), swapped_ns.high.max(separate_ns.high));
        Some(Estimate::new((least + most) / 2.0, low.max(0.0).min(least), high))
    }

    /// What the tasks of a run cost by being created, executing programs and ending, ns, drift included: by copies of inherited events and by being told of, or
    /// where CPUs are watched by being told of; none where it was not measured.
    pub(crate) fn tasks_ns(&self, tasks: &Tasks, setting: &Setting) -> Option<Estimate> {
        // The first program is executed before there is anything to be slowed.
        let (created, executed) = (tasks.created(), tasks.execs.saturating_sub(1));
        match setting.watched {
            Watched::Program { events, cpus } => {
                Some(TaskCost::of(&self.terms)?.of_run_ns(created, executed, (events, cpus), self.drift))
            }
            Watched::Cpus => Some(TaskCost::of_cpus(&self.terms)?.of_run_ns(created, executed, (1, 1), self.drift)),
        }
    }

    pub(crate) fn term(&self, name: &str) -> Result<Estimate, PredictionError> {
        self.terms.get(name).copied().ok_or_else(|| PredictionError::UnknownTerm {
            term: name.into(),
            known: self.terms.keys().cloned().collect::<Vec<_>>().join(", "),
        })
    }
}

/// Age from which a calibration carries more drift than it showed between its own sessions, seconds.
pub const FRESH_S: f64 = 3600.0;

/// Drift beyond that age, a fraction: regimes that last for hours were seen to change costs by half (docs/explain/methods.md).
const OLD_DRIFT: f64 = 0.25;

/// The drift that a calibration carries at an age.
pub fn drift_at_age(calibration: &Calibration, age_s: f64) -> f64 {
    if age_s > FRESH_S { calibration.drift.max(OLD_DRIFT) } else { calibration.drift }
}

impl From<&Calibration> for Cost {
    /// The calibration's cost. Costs by period are taken over where the interval of the curvature excludes 0.
    fn from(calibration: &Calibration) -> Self {
        // Where a buffer's terms are known, a cost by period lacks the share of an interrupt that its last, unfilled buffer did not have.
        let is_split = calibration.terms.contains_key(ASSIST_TERM);
        let curved = calibration.linearity.as_ref().filter(|l| !is_split && !l.curvature.contains(0.0));
        let mut by_period: Vec<PeriodCost> = curved.map(|l| l.periods.clone()).unwrap_or_default();
        by_period.retain(|c| c.alpha_ns.relative_half_width() <= BY_PERIOD_HALF_WIDTH_MAX);
        by_period.sort_by_key(|c| c.period);
        by_period.dedup_by_key(|c| c.period);
        Self {
            alpha_ns: calibration.alpha_ns,
            drift: calibration.drift,
            terms: calibration.terms.clone(),
            by_period,
            pollution_ns: Vec::new(),
            wide_code_pages: calibration.wide_code_pages,
        }
    }
}
