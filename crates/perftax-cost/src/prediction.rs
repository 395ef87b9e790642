//! What sampling would cost a program: one row of the table that `perftax predict` prints.

use std::collections::BTreeMap;

use crate::bootstrap::student_quantile;
use crate::buffering::ASSIST_TERM;
use crate::document::{Calibration, PeriodCost, PredictionRow, WorkloadProfile};
pub use crate::drive::PredictionError;
use crate::drive::{Drive, PERIOD_MIN_IN_COSTS};
use crate::estimate::CONFIDENCE;
use crate::left_out::LeftOut;
use crate::observation::Run;
use crate::period::along_periods;
use crate::tasks::{
    EXEC_TERM, SWITCH_INHERITED_TERM, SWITCH_SEPARATE_RARE_TERM, SWITCH_SEPARATE_TERM, TASK_EVENT_TERM, TASK_TERM, TaskCost,
    Tasks,
};
use crate::{Estimate, Mechanism};

/// The term that α itself stands under: record, interrupt and copy together.
pub const SAMPLE_TERM: &str = "sample";

/// The term that context switches stand under.
pub const SWITCH_TERM: &str = "switch";

/// The term of what an event costs by merely being counted (a breakpoint's or uprobe's trap), sampled or not: ns an event. Such
/// mechanisms also have [`RECORD_TERM`], and their α is the sum of both, as paid at period 1.
pub const COUNTING_TERM: &str = "counting";

/// The term of what taking a sample adds to a counted event, ns a sample.
pub const RECORD_TERM: &str = "record";

/// The term of what a sample costs work that lives off its second-level cache, α and all, ns a sample.
pub const CACHED_WORK_TERM: &str = "cached-work";

/// What a sample costs the program beyond α, in a prediction: [`Cost::own_ns`].
pub const OWN_TERM: &str = "own";

/// The term of what the program loses in its caches to the records.
pub const POLLUTION_TERM: &str = "pollution";

/// The pollution term may be so many times too high (first) or too low (second): 17 of the 18 cells in which it was held against
/// simulated caches lie between (docs/sim.md, "Pollution and the buffer"; the last, 0.10 % for 0.46 %, is the smallest).
const POLLUTION_FACTORS: (f64, f64) = (1.8, 3.3);

/// Share of what work that lives off its caches has to lose that a program loses to a sample.
///
/// From eight programs at five overheads (docs/acceptance.md, "The cost of sampling is predicted"; cpu-clock on a KVM guest) against a chase of pointers
/// there (docs/verify.md): 7, 15, 30, 36 and 36 % on average at gaps of 67, 134, 247, 471 and 1143 µs; a ninth is to be expected below 33, 42, 69, 86 and
/// 86 % (95 %, Student's t). At 3 ms they were not told apart from 80 % on average, and up to 120 % but for one of wide interval.
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

/// A program's tasks may cost so many times as much as those that the calibration creates, and so many times less: from threads and forks in the emulated
/// machine under `perf record` (docs/cost-model.md, *task*), where 1.42 and 1.3 were seen.
const TASKS_MORE: f64 = 1.5;
const TASKS_LESS: f64 = 1.25;

/// What α differs by between two pieces of work that lose nothing, a fraction: up to 1.1 % in the emulated machine, where nothing else varies.
const BETWEEN_WORKS: f64 = 0.02;

/// A program counts as parallel where it uses more CPU time than this many times its elapsed time. Several threads alone do
/// not make it so: they may take turns.
pub const PARALLEL_FROM: f64 = 1.1;

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
}

/// A cost by period is used only where it is known this well (relative half-width): low rates are noisy.
const BY_PERIOD_HALF_WIDTH_MAX: f64 = 0.15;

impl Cost {
    /// α and its drift, without terms: what a published number has to offer.
    pub fn new(alpha_ns: Estimate, drift: f64) -> Self {
        Self { alpha_ns, drift, terms: BTreeMap::new(), by_period: Vec::new(), pollution_ns: Vec::new() }
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
    /// interrupt that comes every `gap_ns` of CPU time. From nothing up to a share ([`Own`]) of what work that lives off its second-level cache loses;
    /// nothing where the calibration does not say.
    pub fn own_ns(&self, alpha_ns: &Estimate, gap_ns: f64) -> Option<Estimate> {
        let most_ns = self.terms.get(CACHED_WORK_TERM)?.widened(self.drift);
        let to_lose_ns = |most_ns: f64| (most_ns - alpha_ns.estimate).max(0.0);
        let least_ns = BETWEEN_WORKS * alpha_ns.estimate;
        let own = Own::after(gap_ns);
        let (about_ns, at_most_ns) = (to_lose_ns(most_ns.estimate), to_lose_ns(most_ns.high));
        // Where the program lies, and how well the two ends are known, have nothing to do with each other.
        let above = ((own.most - own.mean) * about_ns).hypot(own.most * (at_most_ns - about_ns));
        Some(Estimate::new(own.mean * about_ns, -least_ns, (own.mean * about_ns + above).max(least_ns)))
    }

    /// What one sample costs at a period, the counting of the events between two samples included, drift included.
    pub fn of_sample_ns(&self, drive: Drive, period: u64) -> Estimate {
        let (record_ns, counting_ns) = self.of_record_and_event(drive, period);
        counting_ns.map_or(record_ns, |counting_ns| record_ns.plus(&counting_ns.scaled(period as f64)))
    }

    /// What a sample costs at a period, drift included, and what every event costs by being counted, where the calibration tells
    /// them apart: costs by period are then those of the record alone.
    fn of_record_and_event(&self, drive: Drive, period: u64) -> (Estimate, Option<Estimate>) {
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
    fn switch_ns(&self, setting: &Setting, period: u64) -> Option<Estimate> {
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

    /// What the tasks of a run cost by being created, executing programs and ending, ns, drift included; none where nothing is inherited, or where it was
    /// not measured.
    fn tasks_ns(&self, tasks: &Tasks, setting: &Setting) -> Option<Estimate> {
        let Watched::Program { events, cpus } = setting.watched else { return None };
        let cost = TaskCost { first_ns: *self.terms.get(TASK_TERM)?, further_ns: self.terms.get(TASK_EVENT_TERM).copied() };
        let created_ns = cost.with_events(events, cpus).scaled(tasks.created() as f64);
        // The first program is executed before there is anything to be slowed.
        let executed = tasks.execs.saturating_sub(1) as f64;
        let executed_ns = self.terms.get(EXEC_TERM).map_or(Estimate::exact(0.0), |ns| ns.scaled(executed));
        let all_ns = created_ns.plus(&executed_ns).widened(self.drift);
        let (low, high) = (all_ns.low.min(all_ns.estimate / TASKS_LESS), all_ns.high.max(all_ns.estimate * TASKS_MORE));
        Some(Estimate { low, high, ..all_ns })
    }

    fn term(&self, name: &str) -> Result<Estimate, PredictionError> {
        self.terms.get(name).copied().ok_or_else(|| PredictionError::UnknownTerm {
            term: name.into(),
            known: self.terms.keys().cloned().collect::<Vec<_>>().join(", "),
        })
    }
}

/// Age from which a calibration carries more drift than it showed between its own sessions, seconds.
pub const FRESH_S: f64 = 3600.0;
/// Drift beyond that age, a fraction: regimes that last for hours were seen to change costs by half (docs/methods.md).
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
        }
    }
}

/// How the program would be sampled, the period aside.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting<'a> {
    /// What drives the sampler.
    pub drive: Drive,
    /// The event, as it is named in [`WorkloadProfile::counts`]. Time-driven sources need no count.
    pub event: &'a str,
    /// Payload terms of the calibration to add to α, by name (`callchain`, `regs`, `stack` …).
    pub payload: Vec<&'a str>,
    /// The calibration's term for a context switch under the attach mode wanted (`switch_inherited`, `switch_per_thread` …).
    pub switch_term: Option<&'a str>,
    /// Who is watched.
    pub watched: Watched,
    /// Bytes that one sample puts into the ring.
    pub bytes_per_sample: f64,
    /// Samples that a filter drops once they are taken.
    pub left_out: LeftOut,
}

/// Who is watched, and so what the coming and going of tasks costs and hides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The program and all that it creates, which inherits its events: `perf record -- COMMAND`.
    Program {
        /// Events that each task inherits.
        events: u32,
        /// CPUs that each of them is opened for.
        cpus: u32,
    },
    /// CPUs, whatever runs there: `perf record -a` or `-C`. Nothing is inherited, and no period begins anew.
    Cpus,
}

impl<'a> Setting<'a> {
    /// Plain samples of an event, inherited, of `bytes_per_sample` bytes.
    pub fn new(mechanism: Mechanism, event: &'a str, bytes_per_sample: f64) -> Self {
        Self {
            drive: Drive::of(mechanism, false),
            event,
            payload: Vec::new(),
            switch_term: None,
            watched: Watched::Program { events: 1, cpus: 1 },
            bytes_per_sample,
            left_out: LeftOut::Nothing,
        }
    }
}

/// Predicts one period: samples, rates, overhead with its interval and its split.
///
/// Overheads are fractions of the unmonitored elapsed time. The overhead rises with α and with what drives the sampler, so its
/// interval comes from the ends of theirs: α's (drift and payload included) are put through the model as they are, the
/// workload's relative uncertainty is added in quadrature, being independent. For parallel programs the elapsed time grows
/// by what the busiest CPU pays, never by the sum over CPUs (ROSS'17 section 4.5).
///
/// # Errors
/// See [`PredictionError`].
pub fn row(workload: &WorkloadProfile, cost: &Cost, setting: &Setting, period: u64) -> Result<PredictionRow, PredictionError> {
    let drive = setting.drive;
    let (sample_ns, counting) = cost.of_record_and_event(drive, period);
    let mut alphas = vec![(SAMPLE_TERM, sample_ns)];
    for name in &setting.payload {
        alphas.push((name, cost.term(name)?));
    }
    let gap_ns = gap_ns(workload, setting, period, sample_ns.estimate);
    let own_ns = gap_ns.and_then(|gap_ns| cost.own_ns(&sample_ns, gap_ns));
    alphas.extend(own_ns.map(|own_ns| (OWN_TERM, own_ns)));
    let switch = match setting.switch_term {
        Some(name) => Some(cost.term(name)?),
        None => cost.switch_ns(setting, period),
    };
    let alpha_ns = alphas[1..].iter().fold(alphas[0].1, |sum, (_, term)| sum.plus(term));
    check(drive, period, &alpha_ns)?;
    if workload.elapsed_s.estimate.is_nan() || workload.elapsed_s.estimate <= 0.0 {
        return Err(PredictionError::NotMeasured { what: "elapsed time".into() });
    }

    // What a filter drops is paid for without its record and its payload; where that is not known, as if it were whole.
    let dropped_share = setting.left_out.share(workload);
    let dropped = dropped_share.estimate;
    let kept = 1.0 - dropped;
    let excluded = setting.left_out.term();
    let dropped_ns = excluded.and_then(|term| cost.terms.get(term)).map_or(alpha_ns, |term| {
        let alone_ns = term.widened(cost.drift);
        own_ns.map_or(alone_ns, |own_ns| alone_ns.plus(&own_ns))
    });

    let elapsed_s = workload.elapsed_s.estimate;
    let quantity = quantity(workload, setting)?;
    let per_elapsed_s = per_elapsed(workload, setting, &quantity);
    // An interrupt that does not come costs nothing. What merely counts does so in every task.
    let seen = share_seen(workload, setting, drive.rate(period, alpha_ns.estimate));
    let critical = critical_share(workload);
    // Extra seconds for each unit of what drives the sampler, at an α. The time in each mode is driven by what an interrupt takes there.
    let extra = |alpha_ns: f64| drive.rate(period, alpha_ns) * alpha_ns * 1e-9;
    let ends = |alpha_ns: &Estimate| Estimate::new(extra(alpha_ns.estimate), extra(alpha_ns.low), extra(alpha_ns.high));
    let (kept_s, dropped_s) = (ends(&alpha_ns).scaled(kept), ends(&dropped_ns).scaled(dropped));
    let at_ends = kept_s.plus_dependent(&dropped_s);
    let of_elapsed = |extra_s: &Estimate| {
        let if_all = extra_s.scaled(per_elapsed_s.estimate * critical).widened(per_elapsed_s.relative_half_width());
        // Each side by itself: of tasks that are as long as a period hardly any may be seen, or all.
        let of_seen = Estimate::new(0.0, seen.low - seen.estimate, seen.high - seen.estimate).scaled(if_all.estimate);
        if_all.scaled(seen.estimate).plus(&of_seen)
    };
    let (sampling, of_kept) = (of_elapsed(&at_ends), of_elapsed(&kept_s));
    let mut terms: BTreeMap<String, Estimate> = BTreeMap::new();
    for (name, term) in &alphas {
        let share = if alpha_ns.estimate == 0.0 { 0.0 } else { of_kept.estimate / alpha_ns.estimate };
        terms.insert((*name).into(), if alphas.len() == 1 { of_kept } else { term.scaled(share) });
    }
    if let Some(excluded) = excluded.filter(|_| dropped > 0.0) {
        terms.insert(excluded.into(), of_elapsed(&dropped_s));
    }
    // What is not known of the share is paid at the difference of the two.
    let between = (extra(alpha_ns.estimate) - extra(dropped_ns.estimate)) * per_elapsed_s.estimate * seen.estimate * critical;
    let of_share = Estimate::new(0.0, dropped_share.low - dropped, dropped_share.high - dropped).scaled(-between);
    let mut overhead = sampling.plus(&of_share);
    if let Some(switch_ns) = switch {
        let (least, most) = switches_beside_tasks(workload, setting);
        let per_switch = |switches: f64| switches * critical * 1e-9 / elapsed_s;
        let of_least = switch_ns.scaled(per_switch(least)).widened(workload.switches.relative_half_width().min(1.0));
        // Those that may have come with tasks, at the most that they may cost.
        let beyond = Estimate::new(0.0, 0.0, switch_ns.high.max(0.0) * per_switch(most - least));
        let switching = of_least.plus_dependent(&beyond);
        terms.insert(SWITCH_TERM.into(), switching);
        overhead = overhead.plus(&switching);
    }

    if let Some(per_run_ns) = workload.tasks.as_ref().and_then(|tasks| cost.tasks_ns(tasks, setting)) {
        let share = per_run_ns.scaled(critical * 1e-9 / elapsed_s);
        terms.insert(TASK_TERM.into(), share);
        overhead = overhead.plus(&share);
    }

    if let Some(counting_ns) = counting {
        let share = counting_ns.scaled(per_elapsed_s.estimate * critical * 1e-9).widened(per_elapsed_s.relative_half_width());
        terms.insert(COUNTING_TERM.into(), share);
        overhead = overhead.plus(&share);
    }

    if let Some(lost_ns) = along_periods(&cost.pollution_ns, period) {
        let lost_ns = Estimate::new(lost_ns, lost_ns / POLLUTION_FACTORS.0, lost_ns * POLLUTION_FACTORS.1);
        let share =
            lost_ns.scaled(drive.rate(period, alpha_ns.estimate) * per_elapsed_s.estimate * seen.estimate * critical * 1e-9);
        terms.insert(POLLUTION_TERM.into(), share);
        overhead = overhead.plus(&share);
    }

    let samples = quantity.estimate * drive.rate(period, alpha_ns.estimate) * kept * seen.estimate;
    let monitored_s = elapsed_s * (1.0 + overhead.estimate);
    let samples_per_s = samples / monitored_s;
    let elapsed = Estimate::new(monitored_s, monitored_s, monitored_s)
        .widened(workload.elapsed_s.relative_half_width())
        .plus(&overhead_only(&overhead, elapsed_s));
    let unit_share =
        |cpu_s: &Estimate| if workload.cpu_s.estimate > 0.0 { cpu_s.estimate / workload.cpu_s.estimate } else { 0.0 };
    Ok(PredictionRow {
        period,
        samples,
        samples_per_s,
        bytes_per_s: samples_per_s * setting.bytes_per_sample,
        overhead,
        cpu_overhead: Some(workload.cpu_s.estimate)
            .filter(|cpu_s| *cpu_s > 0.0)
            .map(|cpu_s| overhead.scaled(elapsed_s / (critical * cpu_s))),
        elapsed_s: elapsed,
        terms,
        extra_s_per_cpu: workload
            .cpu_s_per_cpu
            .iter()
            .map(|cpu| {
                at_ends.scaled(quantity.estimate * seen.estimate * unit_share(cpu)).widened(if cpu.estimate > 0.0 {
                    cpu.relative_half_width()
                } else {
                    0.0
                })
            })
            .collect(),
    })
}

/// The deviation of the overhead alone, in seconds about 0, to be added to an estimate of the whole.
fn overhead_only(overhead: &Estimate, elapsed_s: f64) -> Estimate {
    Estimate::new(0.0, (overhead.low - overhead.estimate) * elapsed_s, (overhead.high - overhead.estimate) * elapsed_s)
}

/// Refuses periods and costs that cannot be predicted with: see [`Drive::check`]; the upper end of α must fit the period too.
///
/// # Errors
/// See [`PredictionError`].
pub fn check(drive: Drive, period: u64, alpha_ns: &Estimate) -> Result<(), PredictionError> {
    if !alpha_ns.estimate.is_finite() || alpha_ns.estimate <= 0.0 {
        return Err(PredictionError::NoCost { alpha_ns: alpha_ns.estimate });
    }
    drive.check(period, alpha_ns.estimate)?;
    if drive == Drive::Time && drive.effective_period(period) as f64 <= alpha_ns.high {
        let needed = (alpha_ns.estimate * PERIOD_MIN_IN_COSTS).max(alpha_ns.high + 1.0).ceil() as u64;
        return Err(PredictionError::PeriodTooShort { period, alpha_ns: alpha_ns.estimate, needed });
    }
    Ok(())
}

/// CPU time of the program between two samples, ns; `None` where its events were not counted.
fn gap_ns(workload: &WorkloadProfile, setting: &Setting, period: u64, sample_ns: f64) -> Option<f64> {
    match setting.drive {
        Drive::Time => Some(period as f64),
        Drive::Event { .. } => {
            let rate = setting.drive.rate(period, sample_ns);
            let samples = quantity(workload, setting).ok()?.estimate * rate * share_seen(workload, setting, rate).estimate;
            (samples > 0.0).then(|| workload.cpu_s.estimate * 1e9 / samples)
        }
    }
}

/// Context switches of a run that are not part of what a task costs: at least, and at most. A task that is waited for comes with two switches, in the
/// calibration as well, of which the kernel counts one or both.
fn switches_beside_tasks(workload: &WorkloadProfile, setting: &Setting) -> (f64, f64) {
    let created = match (setting.watched, &workload.tasks) {
        (Watched::Program { .. }, Some(tasks)) => tasks.created() as f64,
        _ => 0.0,
    };
    let beside = |of_tasks: f64| (workload.switches.estimate - of_tasks).max(0.0);
    (beside(2.0 * created), beside(created))
}

/// The share of what drives the sampler that gives samples: all of it, unless events are inherited by tasks that are not long enough.
fn share_seen(workload: &WorkloadProfile, setting: &Setting, rate: f64) -> Estimate {
    match (setting.watched, &workload.tasks) {
        (Watched::Program { .. }, Some(tasks)) => tasks.seen(setting.drive, setting.event, rate),
        _ => Estimate::exact(1.0),
    }
}

/// What drives the sampler: unmonitored CPU seconds, or events, a run.
fn quantity(workload: &WorkloadProfile, setting: &Setting) -> Result<Estimate, PredictionError> {
    match setting.drive {
        Drive::Time => Ok(workload.cpu_s),
        Drive::Event { .. } => workload
            .counts
            .get(setting.event)
            .copied()
            .ok_or_else(|| PredictionError::NotMeasured { what: format!("count of event {}", setting.event) }),
    }
}

/// `quantity` per second of elapsed time. Both vary together from run to run, so the ratio is taken run by run where there are
/// at least three; else the quantity's own uncertainty stands in.
fn per_elapsed(workload: &WorkloadProfile, setting: &Setting, quantity: &Estimate) -> Estimate {
    let of_run = |run: &Run| match setting.drive {
        Drive::Time => Some(run.user_s + run.system_s),
        Drive::Event { .. } => run.counts.get(setting.event).map(|n| *n as f64),
    };
    let ratios: Vec<f64> = workload
        .runs
        .iter()
        .filter(|run| run.spoiled.is_none() && run.period == 0 && run.elapsed_s > 0.0)
        .filter_map(|run| Some(of_run(run)? / run.elapsed_s))
        .collect();
    let overall = quantity.scaled(1.0 / workload.elapsed_s.estimate);
    if ratios.len() < 3 {
        return overall;
    }
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let variance = ratios.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half = student_quantile(ratios.len() - 1, CONFIDENCE) * (variance / n).sqrt();
    Estimate::new(overall.estimate, overall.estimate - half, overall.estimate + half)
}

/// The share of the whole program's extra time that its elapsed time feels: 1 for serial programs, the busiest CPU's share
/// for parallel ones.
fn critical_share(workload: &WorkloadProfile) -> f64 {
    let cpu_s = workload.cpu_s.estimate;
    let busiest = workload.cpu_s_per_cpu.iter().map(|c| c.estimate).fold(0.0, f64::max);
    let parallel = workload.threads > 1 && cpu_s > workload.elapsed_s.estimate * PARALLEL_FROM;
    if parallel && busiest > 0.0 { (busiest / cpu_s).min(1.0) } else { 1.0 }
}
