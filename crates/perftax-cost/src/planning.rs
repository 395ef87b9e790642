//! Choosing the settings for a budget.

use std::convert::Infallible;

use crate::bootstrap::normal_quantile;
use crate::drive::{Drive, PERIOD_MIN_IN_COSTS};
use crate::period::{PERIOD_MAX, Rule};
use crate::prediction::{Cost, PredictionError, SWITCH_TERM, Setting, row};
use crate::stoker::{optimal_samples, resolved_share, samples_to_resolve};
use crate::tasks::TASK_TERM;
use perftax_doc::CONFIDENCE;
use perftax_doc::{PredictionRow, Reason, WorkloadProfile, busiest_tells, cpu_time_tells};

/// Size of a page, which ring buffers are made of.
pub const PAGE_BYTES: u64 = 4096;

/// Seconds of records that the recommended ring buffer holds, so that a reader delayed by a scheduling hiccup loses nothing.
pub const BUFFER_S: f64 = 1.0;

/// Smallest recommended buffer, pages: what fits the locked memory that any user may have (perf_event_mlock_kb, 516 KiB).
pub const BUFFER_PAGES_MIN: u64 = 16;

/// Largest recommended buffer, pages a CPU (64 MiB).
pub const BUFFER_PAGES_MAX: u64 = 16_384;

/// Locked memory for ring buffers without privilege, pages a CPU (perf_event_mlock_kb = 516: 128 pages of data and a head).
pub const BUFFER_PAGES_UNPRIVILEGED: u64 = 128;

/// What is asked of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanRequest<'a> {
    /// Largest overhead, a fraction between 0 and 1 (both excluded): binds the upper end of the interval.
    pub budget: f64,
    /// The program.
    pub workload: &'a WorkloadProfile,
    /// The cost of a sample here.
    pub cost: &'a Cost,
    /// How it would be sampled.
    pub setting: Setting<'a>,
    /// What the hardware demands of the period.
    pub rule: Rule,
    /// The share of the run to resolve, if any.
    pub resolve: Option<f64>,
    /// Samples a second wanted at least, if any (such as samples per message × messages a second).
    pub samples_per_second: Option<f64>,
}

/// What no plan can be made from.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// A budget of nothing, or of everything.
    #[error("a budget of {} % cannot be planned for: it must lie above 0 % and below 100 %", budget * 100.0)]
    Budget {
        /// The budget asked for, a fraction.
        budget: f64,
    },
    /// A share to resolve that is not one.
    #[error("a share of {} % cannot be resolved: it must lie above 0 % and below 100 %", share * 100.0)]
    Share {
        /// The share asked for, a fraction.
        share: f64,
    },
    /// A rate that is not one.
    #[error("{rate} samples a second cannot be planned for: the rate must be above 0")]
    Rate {
        /// The rate asked for.
        rate: f64,
    },
    /// No prediction can be made at all.
    #[error(transparent)]
    Prediction(#[from] PredictionError),
}

/// The plan: settings, or why there are none.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// These settings keep within the budget and grant the wishes.
    Feasible(Box<Choice>),
    /// No settings do.
    Infeasible {
        /// Why, in a sentence.
        why: String,
        /// The best that the budget allows, where any period fits it: what to fall back on.
        nearest: Option<Box<Choice>>,
    },
}

/// The settings chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The period, and what it is predicted to cost.
    pub row: PredictionRow,
    /// Ring buffer, bytes a CPU (a power of two of pages).
    pub buffer_bytes: u64,
    /// The smallest share that the samples resolve.
    pub resolves_share: f64,
    /// Stoker's optimum for the share asked for, or for the share resolved.
    pub stoker_samples: f64,
    /// The period that takes that many samples (nearest legal one).
    pub stoker_period: u64,
    /// Why.
    pub reasons: Vec<Reason>,
}

/// Chooses the shortest legal period whose upper end of the overhead stays within the budget.
///
/// Samples are what the budget buys, so no period is longer than it must be. What the choice resolves, and Stoker's optimum
/// beside it, are said for comparison; the budget decides.
///
/// # Errors
/// See [`PlanError`].
pub fn choose(request: &PlanRequest) -> Result<Outcome, PlanError> {
    let budget = request.budget;
    if !(budget > 0.0 && budget < 1.0) {
        return Err(PlanError::Budget { budget });
    }
    if let Some(share) = request.resolve.filter(|share| !(*share > 0.0 && *share < 1.0)) {
        return Err(PlanError::Share { share });
    }
    if let Some(rate) = request.samples_per_second.filter(|rate| !(*rate > 0.0 && rate.is_finite())) {
        return Err(PlanError::Rate { rate });
    }
    let Some(row) = shortest(request)? else {
        let why = match request.rule.at_most(request.rule.max).map(|period| predict(request, period)) {
            Some(Ok(row)) => nothing_fits(budget, &row),
            Some(Err(error)) => return Err(error.into()),
            None => "the hardware allows no period at all".into(),
        };
        return Ok(Outcome::Infeasible { why, nearest: None });
    };
    let choice = Box::new(complete(request, row));
    if choice.row.samples < 1.0 {
        let why = format!(
            "the budget of {:.4} % buys {:.2} samples in a run: lengthen the run or raise the budget",
            budget * 100.0,
            choice.row.samples
        );
        return Ok(Outcome::Infeasible { why, nearest: Some(choice) });
    }
    let needed = request.resolve.map(samples_to_resolve).filter(|needed| choice.row.samples < *needed);
    if let (Some(needed), Some(share)) = (needed, request.resolve) {
        let why = format!(
            "resolving a share of {:.2} % takes {needed:.0} samples, and the budget of {:.2} % buys {:.0} in one run: \
             lengthen the run {:.1} times, add up several recordings, or raise the budget",
            share * 100.0,
            budget * 100.0,
            choice.row.samples,
            needed / choice.row.samples
        );
        return Ok(Outcome::Infeasible { why, nearest: Some(choice) });
    }
    if let Some(rate) = request.samples_per_second.filter(|rate| choice.row.samples_per_s < *rate) {
        let why = format!(
            "{rate:.1} samples a second are wanted, and the budget of {:.2} % buys {:.1}",
            budget * 100.0,
            choice.row.samples_per_s
        );
        return Ok(Outcome::Infeasible { why, nearest: Some(choice) });
    }
    Ok(Outcome::Feasible(choice))
}

fn predict(request: &PlanRequest, period: u64) -> Result<PredictionRow, PredictionError> {
    row(request.workload, request.cost, &request.setting, period)
}

/// The row of the shortest legal period within the budget; `None` where there is none.
///
/// The overhead falls as the period grows, so the boundary is bisected over all periods, and the next good one taken.
fn shortest(request: &PlanRequest) -> Result<Option<PredictionRow>, PredictionError> {
    let fits = |period: u64| match predict(request, period) {
        Ok(row) => Ok(row.most() <= request.budget),
        Err(PredictionError::PeriodTooShort { .. }) => Ok(false),
        Err(error) => Err(error),
    };
    if !fits(longest(&request.rule))? {
        return Ok(None);
    }
    let long_enough = shortest_with(&request.rule, fits)?;
    // Where α depends on the period the overhead need not fall strictly: step on until the row itself fits.
    let mut next = request.rule.at_least(long_enough);
    while let Some(period) = next {
        let row = predict(request, period)?;
        if row.most() <= request.budget {
            return Ok(Some(row));
        }
        next = request.rule.at_least(period + (period / 100).max(1));
    }
    Ok(None)
}

/// The longest period that there is.
fn longest(rule: &Rule) -> u64 {
    rule.max.min(PERIOD_MAX)
}

/// The shortest period, legal or not, from which on something holds that holds for all longer ones; the longest where it never does.
fn shortest_with<E>(rule: &Rule, mut holds: impl FnMut(u64) -> Result<bool, E>) -> Result<u64, E> {
    let (mut too_short, mut long_enough) = (rule.min.saturating_sub(1), longest(rule));
    while long_enough - too_short > 1 {
        let middle = too_short + (long_enough - too_short) / 2;
        if holds(middle)? {
            long_enough = middle;
        } else {
            too_short = middle;
        }
    }
    Ok(long_enough)
}

/// Why not even the longest period fits.
fn nothing_fits(budget: f64, row: &PredictionRow) -> String {
    let most = row.most();
    // In terms of what binds: elapsed time, or CPU time.
    let factor = if row.overhead.high > 0.0 { most / row.overhead.high } else { 1.0 };
    let alone = [
        (SWITCH_TERM, "stopping and starting the event at context switches"),
        (TASK_TERM, "what each thread and process that is created brings with it (copies of the event, records of it)"),
    ];
    let expensive = alone.into_iter().find(|(term, _)| row.terms.get(*term).is_some_and(|cost| cost.high * factor > budget));
    match expensive {
        Some((term, what)) => {
            let cost = row.terms.get(term).map_or(0.0, |cost| cost.high * factor);
            format!("{what} alone costs up to {:.2} % at any period, above the budget of {:.2} %", cost * 100.0, budget * 100.0)
        }
        None => format!(
            "even the longest period, {}, costs up to {:.4} %, above the budget of {:.4} %",
            row.period,
            most * 100.0,
            budget * 100.0
        ),
    }
}

/// Power-of-two pages that hold [`BUFFER_S`] seconds of records.
pub fn buffer_bytes(bytes_per_s: f64) -> u64 {
    let pages = (bytes_per_s.max(0.0) * BUFFER_S / PAGE_BYTES as f64).ceil().min(BUFFER_PAGES_MAX as f64) as u64;
    pages.next_power_of_two().clamp(BUFFER_PAGES_MIN, BUFFER_PAGES_MAX) * PAGE_BYTES
}

fn complete(request: &PlanRequest, row: PredictionRow) -> Choice {
    let resolves_share = resolved_share(row.samples);
    let share = request.resolve.unwrap_or(resolves_share);
    let alpha_ns = request.cost.alpha_ns.estimate;
    let elapsed_s = request.workload.elapsed_s.estimate;
    let stoker_samples = optimal_samples(elapsed_s, alpha_ns * 1e-9, share, normal_quantile(CONFIDENCE));
    let stoker_period = period_for(request, stoker_samples);
    let buffer_bytes = buffer_bytes(row.bytes_per_s);
    let mut reasons =
        vec![period_reason(request, &row), Reason { setting: "period".into(), why: request.rule.reason(row.period) }];
    reasons.push(Reason {
        setting: "samples".into(),
        why: format!(
            "{:.0} samples resolve shares from {:.2} % of the CPU time; Stoker's optimum for {:.2} % would be {stoker_samples:.0}",
            row.samples,
            resolves_share * 100.0,
            share * 100.0
        ),
    });
    reasons.push(buffer_reason(&row, buffer_bytes));
    Choice { row, buffer_bytes, resolves_share, stoker_samples, stoker_period, reasons }
}

fn period_reason(request: &PlanRequest, row: &PredictionRow) -> Reason {
    let alpha_ns = request.cost.alpha_ns.estimate;
    let bound_by_cost = request.setting.drive == Drive::Time && (row.period as f64) < alpha_ns * PERIOD_MIN_IN_COSTS * 1.01;
    let bound_by_rule = row.period <= request.rule.at_least(request.rule.min).unwrap_or(request.rule.min);
    let costs = format!(
        "costs {:.2} % [{:.2}, {:.2}]",
        row.overhead.estimate * 100.0,
        row.overhead.low * 100.0,
        row.overhead.high * 100.0
    );
    let why = if bound_by_rule {
        format!("the shortest that the hardware and kernel take; it {costs}")
    } else if bound_by_cost {
        format!("the shortest that leaves the program room beside its samples; it {costs}")
    } else if busiest_tells(&row.overhead, row.cpu_overhead, row.busiest_overhead).is_some() {
        format!(
            "the shortest whose upper end stays within the budget of {:.2} % of the CPU time of the busiest thread: of elapsed time it {costs}",
            request.budget * 100.0
        )
    } else if cpu_time_tells(&row.overhead, row.cpu_overhead).is_some() {
        format!(
            "the shortest whose upper end stays within the budget of {:.2} % of CPU time: of elapsed time it {costs}",
            request.budget * 100.0
        )
    } else {
        format!("the shortest whose upper end stays within the budget of {:.2} %: {costs}", request.budget * 100.0)
    };
    Reason { setting: "period".into(), why }
}

fn buffer_reason(row: &PredictionRow, buffer_bytes: u64) -> Reason {
    let kib = buffer_bytes / 1024;
    let mut why = if row.bytes_per_s > 0.0 {
        format!("{kib} KiB hold {:.1} s of records at {:.0} bytes/s", buffer_bytes as f64 / row.bytes_per_s, row.bytes_per_s)
    } else {
        format!("{kib} KiB, the least that is sensible: hardly any records come")
    };
    if buffer_bytes > BUFFER_PAGES_UNPRIVILEGED * PAGE_BYTES {
        why += &format!("; without privilege it needs sysctl kernel.perf_event_mlock_kb={}", kib + PAGE_BYTES / 1024);
    }
    Reason { setting: "buffer".into(), why }
}

/// The good period nearest to the one that takes `samples` samples, as they are predicted at that period: of tasks that are hardly as long as it is, fewer come.
fn period_for(request: &PlanRequest, samples: f64) -> u64 {
    if !samples.is_finite() || samples <= 0.0 {
        return 0;
    }
    // One that is too short to be predicted gives more than any other.
    let gives_no_more = |period: u64| Ok::<_, Infallible>(predict(request, period).is_ok_and(|row| row.samples <= samples));
    let Ok(long_enough) = shortest_with(&request.rule, gives_no_more);
    request.rule.at_least(long_enough).or_else(|| request.rule.at_most(long_enough)).unwrap_or(0)
}
