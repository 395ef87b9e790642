//! The cost of one sample, from timed blocks of fixed work.
//!
//! The estimator is the ratio of sums, Σ(on − off)/Σunits: of those tried on the recorded log it has the least spread about
//! the *expected* cost (relative SD 3.6 % scattered; paired median 5.7 % and 6 % low, Theil–Sen 7 %, OLS 11 %). Its interval
//! comes from resampling whole sessions ([`crate::bootstrap`]).
//!
//! Within a round every monitored block is set against the mean of the round's usable `off` blocks. A discarded block is left
//! out, and so is its partner: a monitored block of a round without a usable `off` block counts for nothing, and an `off`
//! block of a round without usable monitored blocks does not either.

use std::collections::BTreeMap;

use crate::bootstrap::{REPLICATES, SEED, cluster_bootstrap, joint_bootstrap};
pub use crate::foresight::{CONTROL_CONFIDENCE, Foresight, ROUNDS_MAX, control_variation, rounds_needed, session_variation};
use crate::regression::paired_slopes;
use crate::sums::{CLOCK_UNIT_NS, beyond, rounds, sums_where};
pub use crate::sums::{Clock, Sums, Unit, session_sums};
use perftax_doc::Estimate;
use perftax_doc::observation::Block;
use perftax_doc::{Control, Linearity, PeriodCost};
use perftax_doc::{median, quantile};

/// Tails as far out as many controls need take more resamples, up to this many times the usual number.
const CONTROL_REPLICATES_MAX: usize = 16;

/// The quantile that the floor is taken at.
pub const FLOOR_QUANTILE: f64 = 0.05;

/// α: Σ(on − off)/Σunits in ns, with a 95 % interval by cluster bootstrap over sessions.
///
/// `None` where fewer than two sessions have a usable pair, or where nothing was sampled.
pub fn ratio_of_sums(blocks: &[Block], off: &str, on: &str, unit: Unit, clock: Clock) -> Option<Estimate> {
    ratio(&session_sums(blocks, off, on, unit, clock))
}

/// As [`ratio_of_sums`], of the blocks of one period only.
pub fn ratio_of_sums_at(blocks: &[Block], off: &str, on: &str, period: u64, unit: Unit, clock: Clock) -> Option<Estimate> {
    let sessions = sums_where(blocks, off, |b| b.arm == on && b.period == period, unit, clock);
    ratio(&sessions.into_values().collect::<Vec<_>>())
}

fn ratio(sessions: &[Sums]) -> Option<Estimate> {
    let estimate = cluster_bootstrap(sessions, |sample| Sums::total(sample.iter().copied()).cost_ns(), REPLICATES, SEED)?;
    Some(beyond(&estimate, Sums::total(sessions).resolution_ns()))
}

/// The cost of a term: cost per unit of arm `b` minus cost per unit of arm `a`, both against `off`, ns.
///
/// Both are costs *per sample of their own arm*, so arms that delivered different numbers of samples compare rightly. Only
/// sessions that hold both arms count, and both are resampled together: what they share cancels out of the interval.
pub fn difference_of(blocks: &[Block], off: &str, a: &str, b: &str, unit: Unit, clock: Clock) -> Option<Estimate> {
    let of_a = sums_where(blocks, off, |block| block.arm == a, unit, clock);
    let of_b = sums_where(blocks, off, |block| block.arm == b, unit, clock);
    let both: Vec<(Sums, Sums)> = of_a.iter().filter_map(|(s, a)| Some((*a, *of_b.get(s)?))).collect();
    let difference = cluster_bootstrap(
        &both,
        |sample| Sums::total(sample.iter().map(|p| &p.1)).cost_ns() - Sums::total(sample.iter().map(|p| &p.0)).cost_ns(),
        REPLICATES,
        SEED,
    )?;
    let resolution = |of: fn(&(Sums, Sums)) -> &Sums| Sums::total(both.iter().map(of)).resolution_ns();
    Some(beyond(&difference, resolution(|p| &p.0) + resolution(|p| &p.1)))
}

/// The floor: what a sample costs when nothing disturbs the machine, ns.
///
/// The base is the 5th percentile of the `off` times; every monitored block's time above that base, divided by its units, is
/// a cost that disturbances can only raise; the floor is the 5th percentile of those. Blocks with less than half the units
/// of the richest block are left out, because the base work's own jitter would be divided by too few. It is a floor, and not
/// a cost to predict with: on the recorded log it lies a quarter below the expected cost.
pub fn floor(blocks: &[Block], off: &str, on: &str, unit: Unit, clock: Clock) -> Option<Estimate> {
    #[derive(Default)]
    struct Session {
        off: Vec<f64>,
        on: Vec<(f64, f64)>,
    }
    let mut sessions: BTreeMap<u32, Session> = BTreeMap::new();
    let rounds = rounds(blocks, |b| b.arm == off, |b| b.arm == on, clock);
    let richest = rounds.iter().flat_map(|r| &r.on).map(|b| unit.of(b)).fold(0.0, f64::max);
    for round in &rounds {
        let session = sessions.entry(round.session).or_default();
        session.off.push(round.off_ns);
        let rich = round.on.iter().filter(|b| unit.of(b) > 0.0 && unit.of(b) >= richest / 2.0);
        session.on.extend(rich.map(|b| (clock.of(b), unit.of(b))));
    }
    let sessions: Vec<Session> = sessions.into_values().collect();
    let statistic = |sample: &[&Session]| {
        let mut off: Vec<f64> = sample.iter().flat_map(|s| s.off.iter().copied()).collect();
        let base = quantile(&mut off, FLOOR_QUANTILE);
        let mut costs: Vec<f64> = sample.iter().flat_map(|s| &s.on).map(|(time, units)| (time - base) / units).collect();
        quantile(&mut costs, FLOOR_QUANTILE)
    };
    cluster_bootstrap(&sessions, statistic, REPLICATES / 2, SEED)
}

/// The A/A control: two unmonitored arms compared as the monitored one is. Relative difference Σ(b − a)/Σa with a 99 %
/// interval by cluster bootstrap over sessions.
///
/// It passes when the interval contains 0; `detects` is its half-width, the least bias that it could have told from 0.
pub fn control(blocks: &[Block], a: &str, b: &str, clock: Clock) -> Option<Control> {
    let sessions = session_sums(blocks, a, b, Unit::Expected, clock);
    let control = control_of(&sessions.iter().map(|s| (s.off_ns, s.off_ns + s.extra_ns)).collect::<Vec<_>>(), 1)?;
    let all = Sums::total(&sessions);
    let difference = beyond(&control.difference, f64::from(all.pairs) * CLOCK_UNIT_NS / all.off_ns);
    Some(Control { difference, passed: difference.contains(0.0), detects: difference.half_width() })
}

/// The A/A control of whole runs: pairs of (first arm, second arm) times, one pair a cluster. A difference that is known to be below half a
/// thousandth passes: on a machine without noise every difference is certain, and so small a one changes no verdict.
pub fn control_of(pairs: &[(f64, f64)], judged_together: usize) -> Option<Control> {
    // Of many controls one will fail by chance: together they keep the confidence of one (Bonferroni).
    let confidence = 1.0 - (1.0 - CONTROL_CONFIDENCE) / judged_together.max(1) as f64;
    let replicates = REPLICATES * judged_together.clamp(1, CONTROL_REPLICATES_MAX);
    let statistic = |sample: &[&(f64, f64)]| {
        let (a, b) = sample.iter().fold((0.0, 0.0), |sum, p| (sum.0 + p.0, sum.1 + p.1));
        [(b - a) / a]
    };
    let [difference] = joint_bootstrap(pairs, statistic, replicates, confidence, SEED)?;
    let is_negligible = difference.low.abs().max(difference.high.abs()) <= NEGLIGIBLE_BIAS;
    Some(Control { difference, passed: difference.contains(0.0) || is_negligible, detects: difference.half_width() })
}

/// A bias of unmonitored runs that no verdict depends on, a fraction of their time.
const NEGLIGIBLE_BIAS: f64 = 0.0005;

/// Is the cost of a sample the same at every rate? Costs by period, Theil–Sen slope and curvature with its interval.
///
/// `on` names the monitored arms; their blocks are told apart by period. The Theil–Sen slope is the median over all pairs of
/// blocks of one round (the unmonitored block included), so that slow changes of the machine cancel. The curvature is
/// α(shortest period)/α(longest period) − 1. `None` with fewer than two periods or two sessions.
pub fn linearity(blocks: &[Block], off: &str, on: &[&str], unit: Unit, clock: Clock) -> Option<Linearity> {
    let is_on = |b: &Block| on.contains(&b.arm.as_str()) && b.period > 0;
    let mut periods: Vec<u64> = blocks.iter().filter(|b| is_on(b)).map(|b| b.period).collect();
    periods.sort_unstable();
    periods.dedup();
    let by_period: Vec<(u64, BTreeMap<u32, Sums>)> = periods
        .iter()
        .map(|&period| (period, sums_where(blocks, off, |b| is_on(b) && b.period == period, unit, clock)))
        .collect();
    let costs: Vec<PeriodCost> = by_period
        .iter()
        .filter_map(|(period, sessions)| {
            let sessions: Vec<Sums> = sessions.values().copied().collect();
            let alpha_ns = ratio(&sessions)?;
            Some(PeriodCost { period: *period, samples: Sums::total(&sessions).units.round() as u64, alpha_ns })
        })
        .collect();
    let (shortest, longest) = (costs.first()?.period, costs.last()?.period);
    if shortest == longest {
        return None;
    }
    let of = |period: u64| by_period.iter().find(|(p, _)| *p == period).map(|(_, s)| s);
    let (short, long) = (of(shortest)?, of(longest)?);
    let both: Vec<(Sums, Sums)> = short.iter().filter_map(|(s, a)| Some((*a, *long.get(s)?))).collect();
    let curvature = cluster_bootstrap(
        &both,
        |sample| {
            let short = Sums::total(sample.iter().map(|p| &p.0)).cost_ns();
            let long = Sums::total(sample.iter().map(|p| &p.1)).cost_ns();
            if long == 0.0 { f64::NAN } else { short / long - 1.0 }
        },
        REPLICATES,
        SEED,
    )?;
    let mut slopes: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for round in rounds(blocks, |b| b.arm == off, is_on, clock) {
        let mut points = vec![(0.0, round.off_ns)];
        points.extend(round.on.iter().map(|b| (unit.of(b), clock.of(b))));
        paired_slopes(&points, slopes.entry(round.session).or_default());
    }
    let slopes: Vec<Vec<f64>> = slopes.into_values().collect();
    let theil_sen_ns = cluster_bootstrap(
        &slopes,
        |sample| median(&mut sample.iter().flat_map(|s| s.iter().copied()).collect::<Vec<_>>()),
        REPLICATES / 4,
        SEED,
    )?;
    Some(Linearity { periods: costs, theil_sen_ns, curvature })
}

/// How α wanders: relative SD of the sessions' α beyond what the scatter of the rounds within a session explains, a fraction.
///
/// Between-session variance minus the mean variance of a session's own estimate (from the residuals on − off − α_s·units of
/// its rounds), never below 0. Rounds of one session are positively correlated, so a part of the short-lived noise is booked
/// here: the drift errs on the large side.
pub fn drift(blocks: &[Block], off: &str, on: &str, unit: Unit, clock: Clock) -> Option<f64> {
    let mut sessions: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for round in rounds(blocks, |b| b.arm == off, |b| b.arm == on, clock) {
        let extra: f64 = round.on.iter().map(|b| clock.of(b) - round.off_ns).sum();
        let units: f64 = round.on.iter().map(|b| unit.of(b)).sum();
        sessions.entry(round.session).or_default().push((extra, units));
    }
    let mut costs = Vec::new();
    let mut noise = Vec::new();
    for rounds in sessions.values().filter(|r| r.len() >= 2) {
        let (extra, units) = rounds.iter().fold((0.0, 0.0), |sum, r| (sum.0 + r.0, sum.1 + r.1));
        if units <= 0.0 {
            continue;
        }
        let (n, cost) = (rounds.len() as f64, extra / units);
        let squares: f64 = rounds.iter().map(|(e, u)| (e - cost * u).powi(2)).sum();
        costs.push(cost);
        noise.push(squares * n / (n - 1.0) / (units * units));
    }
    if costs.len() < 2 {
        return None;
    }
    let mean = costs.iter().sum::<f64>() / costs.len() as f64;
    let between = costs.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / (costs.len() - 1) as f64;
    let within = noise.iter().sum::<f64>() / noise.len() as f64;
    let relative = (between - within).max(0.0).sqrt() / mean.abs();
    relative.is_finite().then_some(relative)
}
