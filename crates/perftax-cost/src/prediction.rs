//! What sampling would cost a program: one row of the table that `perftax predict` prints.

use std::collections::BTreeMap;

use crate::bootstrap::student_quantile;
pub use crate::cost::{CACHED_WORK_TERM, COUNTING_TERM, Cost, FRESH_S, OfCode, Own, RECORD_TERM, WIDE_CODE_TERM, drift_at_age};
pub use crate::drive::PredictionError;
use crate::drive::{Drive, PERIOD_MIN_IN_COSTS};
use crate::period::along_periods;
pub use crate::setting::{CALLERS, RAW_TERM, Setting, USER_STACK_BYTES, Watched};
use crate::tasks::TASK_TERM;
use crate::{busiest, left_out, tasks};
use perftax_doc::CONFIDENCE;
use perftax_doc::Estimate;
use perftax_doc::observation::Run;
use perftax_doc::{PredictionRow, WorkloadProfile};

/// The term that α itself stands under: record, interrupt and copy together.
pub const SAMPLE_TERM: &str = "sample";

/// The term that context switches stand under.
pub const SWITCH_TERM: &str = "switch";

/// What a sample costs the program beyond α, in a prediction: [`Cost::own_ns`].
pub const OWN_TERM: &str = "own";

/// The term of what the program loses in its caches to the records.
pub const POLLUTION_TERM: &str = "pollution";

/// The pollution term may be so many times too high (first) or too low (second): 17 of the 18 cells in which it was held against
/// simulated caches lie between (docs/guide/sim.md, "Pollution and the buffer"; the last, 0.10 % for 0.46 %, is the smallest).
const POLLUTION_FACTORS: (f64, f64) = (1.8, 3.3);

/// A program counts as parallel where it uses more CPU time than this many times its elapsed time. Several threads alone do
/// not make it so: they may take turns.
pub const PARALLEL_FROM: f64 = 1.1;

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
    let own_ns = gap_ns.and_then(|gap_ns| cost.own_ns(&sample_ns, gap_ns, workload.code_pages()));
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
    let dropped_share = left_out::share(setting.left_out, workload);
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
        if_all.at_share(&seen)
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
    // What nobody tells apart by tasks; what a sample takes beside α, and what each unit takes whether it gives a sample or not, seconds each.
    let (mut beside, mut sampled_s, mut counted_s) = (of_share, at_ends, Estimate::exact(0.0));
    let mut driven = sampling;
    if let Some(switch_ns) = switch {
        let (least, most) = switches_beside_tasks(workload, setting);
        let per_switch = |switches: f64| switches * critical * 1e-9 / elapsed_s;
        let of_least = switch_ns.scaled(per_switch(least)).widened(workload.switches.relative_half_width().min(1.0));
        // Those that may have come with tasks, at the most that they may cost.
        let beyond = Estimate::new(0.0, 0.0, switch_ns.high.max(0.0) * per_switch(most - least));
        let switching = of_least.plus_dependent(&beyond);
        terms.insert(SWITCH_TERM.into(), switching);
        beside = beside.plus(&switching);
    }

    if let Some(per_run_ns) = workload.tasks.as_ref().and_then(|tasks| cost.tasks_ns(tasks, setting)) {
        let share = per_run_ns.scaled(critical * 1e-9 / elapsed_s);
        terms.insert(TASK_TERM.into(), share);
        beside = beside.plus(&share);
    }

    if let Some(counting_ns) = counting {
        let share = counting_ns.scaled(per_elapsed_s.estimate * critical * 1e-9).widened(per_elapsed_s.relative_half_width());
        terms.insert(COUNTING_TERM.into(), share);
        driven = driven.plus(&share);
        counted_s = counting_ns.scaled(1e-9);
    }

    if let Some(lost_ns) = along_periods(&cost.pollution_ns, period) {
        let lost_ns = Estimate::new(lost_ns, lost_ns / POLLUTION_FACTORS.0, lost_ns * POLLUTION_FACTORS.1);
        let share =
            lost_ns.scaled(drive.rate(period, alpha_ns.estimate) * per_elapsed_s.estimate * seen.estimate * critical * 1e-9);
        terms.insert(POLLUTION_TERM.into(), share);
        driven = driven.plus(&share);
        sampled_s = sampled_s.plus(&lost_ns.scaled(drive.rate(period, alpha_ns.estimate) * 1e-9));
    }

    let overhead = driven.plus(&beside);
    let of_cpu_time = |overhead: &Estimate| {
        Some(workload.cpu_s.estimate).filter(|cpu_s| *cpu_s > 0.0).map(|cpu_s| overhead.scaled(elapsed_s / (critical * cpu_s)))
    };
    let busiest = workload.tasks.as_ref().and_then(|tasks| tasks.busiest.as_ref());
    let busiest_overhead = busiest.and_then(|busiest| {
        busiest::overhead(busiest, setting, drive.rate(period, alpha_ns.estimate), &sampled_s, &counted_s, &of_cpu_time(&beside)?)
    });
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
        cpu_overhead: of_cpu_time(&overhead),
        busiest_overhead,
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
        (Watched::Program { .. }, Some(tasks)) => tasks::seen(tasks, setting.drive, setting.event, rate),
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
        .measured_runs()
        .into_iter()
        .filter(|run| run.elapsed_s > 0.0)
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
pub(crate) fn critical_share(workload: &WorkloadProfile) -> f64 {
    let cpu_s = workload.cpu_s.estimate;
    let busiest = workload.cpu_s_per_cpu.iter().map(|c| c.estimate).fold(0.0, f64::max);
    let parallel = workload.threads > 1 && cpu_s > workload.elapsed_s.estimate * PARALLEL_FROM;
    if parallel && busiest > 0.0 { (busiest / cpu_s).min(1.0) } else { 1.0 }
}
