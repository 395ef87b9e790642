//! Taking the machine's own variation out of run times, by a covariate measured during the runs.
//!
//! ln T = (arm) + β·ln(throughput) + noise, fitted over all runs of one program with a constant for each arm. Every run is then
//! brought to the mean speed. The arms' means stay unbiased as long as the sampling itself does not change the reference loop; by how
//! much it moved in each arm is published beside ([`Fit::shift_by_arm`]).
//!
//! A second covariate, the latency of a walk through a ring of 1 MiB, was tried and dropped: it narrowed the scatter by a tenth at
//! most, and sampling itself moved it (a program that is stopped half of the time evicts less of the ring), which added up to
//! 1.5 % to the times of the most expensive arms.

use std::collections::BTreeMap;

use perftax_doc::observation::{ReferenceLoop, Run};
use perftax_doc::{ArmShift, Fit};

use crate::verification::Round;

/// Runs below which nothing is fitted.
const MIN_RUNS: usize = 12;
/// An exponent beyond this is noise: a program cannot be much more sensitive than the reference loop itself.
const EXPONENT_MAX: f64 = 1.5;

/// Sets [`Run::adjusted_s`] of every run, for programs on one CPU; per-CPU times likewise where each CPU had a reference loop.
/// `None`, and nothing changed but the reference loop's own time taken out, where there are too few runs.
pub fn adjust(rounds: &mut [Round]) -> Option<Fit> {
    for run in rounds.iter_mut().flat_map(|round| &mut round.runs) {
        let own: f64 = run.reference_loops.iter().map(|y| y.cpu_s).sum();
        // On several CPUs the reference loops run at the same time as the program elsewhere: only a lone CPU's time is known to be lost.
        run.adjusted_s = (run.reference_loops.len() == 1).then_some(run.elapsed_s - own);
    }
    let cpus = rounds.iter().flat_map(|r| &r.runs).map(|r| r.reference_loops.len()).max()?;
    if cpus == 1 {
        let fit = fit(rounds, 0, |run| run.adjusted_s)?;
        let centre = centre(rounds, 0);
        for run in rounds.iter_mut().flat_map(|round| &mut round.runs) {
            let Some(factor) = run.reference_loops.first().and_then(|y| factor(&fit, centre, y)) else { continue };
            run.adjusted_s = run.adjusted_s.map(|time| time * factor);
        }
        return Some(fit);
    }
    let mut last = None;
    for cpu in 0..cpus {
        let Some(fit) = fit(rounds, cpu, |run| run.cpu_s_per_cpu.get(cpu).copied()) else { continue };
        let centre = centre(rounds, cpu);
        for run in rounds.iter_mut().flat_map(|round| &mut round.runs) {
            let Some(factor) = run.reference_loops.get(cpu).and_then(|y| factor(&fit, centre, y)) else { continue };
            if let Some(time) = run.cpu_s_per_cpu.get_mut(cpu) {
                *time *= factor;
            }
        }
        last = Some(fit);
    }
    last
}

/// A run's logarithms.
struct Point {
    arm: u64,
    time: f64,
    throughput: f64,
}

fn points(rounds: &[Round], cpu: usize, time: impl Fn(&Run) -> Option<f64>) -> Vec<Point> {
    let runs = rounds.iter().flat_map(|round| &round.runs).filter(|run| run.discarded.is_none());
    runs.filter_map(|run| {
        let reference_loop = run.reference_loops.get(cpu).filter(|y| is_usable(y))?;
        let time = time(run).filter(|time| *time > 0.0)?;
        Some(Point { arm: run.period, time: time.ln(), throughput: reference_loop.throughput_ns.ln() })
    })
    .collect()
}

fn is_usable(reference_loop: &ReferenceLoop) -> bool {
    reference_loop.passes >= 5 && reference_loop.throughput_ns > 0.0
}

fn mean<'a>(points: impl IntoIterator<Item = &'a Point>, of: fn(&Point) -> f64) -> f64 {
    let (sum, n) = points.into_iter().fold((0.0, 0.0), |(sum, n), point| (sum + of(point), n + 1.0));
    sum / n
}

fn centre(rounds: &[Round], cpu: usize) -> f64 {
    mean(&points(rounds, cpu, |_| Some(1.0)), |p| p.throughput)
}

fn factor(fit: &Fit, centre: f64, reference_loop: &ReferenceLoop) -> Option<f64> {
    is_usable(reference_loop).then(|| (-fit.exponent * (reference_loop.throughput_ns.ln() - centre)).exp())
}

/// Least squares within arms: every arm's mean is subtracted, then the exponent is fitted.
fn fit(rounds: &[Round], cpu: usize, time: impl Fn(&Run) -> Option<f64>) -> Option<Fit> {
    let points = points(rounds, cpu, time);
    if points.len() < MIN_RUNS {
        return None;
    }
    let mut arms: BTreeMap<u64, Vec<&Point>> = BTreeMap::new();
    for point in &points {
        arms.entry(point.arm).or_default().push(point);
    }
    let mut within = Vec::new();
    for arm in arms.values() {
        let (time, throughput) = (mean(arm.iter().copied(), |p| p.time), mean(arm.iter().copied(), |p| p.throughput));
        within.extend(arm.iter().map(|p| (p.throughput - throughput, p.time - time)));
    }
    let (xx, xy) = within.iter().fold((0.0, 0.0), |(xx, xy), (x, y)| (xx + x * x, xy + x * y));
    if xx.is_nan() || xx <= 0.0 {
        return None;
    }
    let exponent = (xy / xx).clamp(-EXPONENT_MAX, EXPONENT_MAX);
    let freedom = (points.len() - arms.len()).max(1) as f64;
    let scatter = |exponent: f64| (within.iter().map(|(x, y)| (y - exponent * x).powi(2)).sum::<f64>() / freedom).sqrt();
    let taken_out = |arm: &[&Point]| mean(arm.iter().copied(), |p| p.throughput) * exponent;
    let base = arms.get(&0).map(|arm| taken_out(arm)).unwrap_or(0.0);
    Some(Fit {
        exponent,
        scatter_before: scatter(0.0),
        scatter_after: scatter(exponent),
        shift_by_arm: arms
            .iter()
            .filter(|(period, _)| **period > 0)
            .map(|(&period, arm)| ArmShift { period, shift: taken_out(arm) - base })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of two arms, the second 20 % slower, on a machine whose speed wanders by 15 %.
    fn rounds(n: u32, noise: f64) -> Vec<Round> {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut normal = move || (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        let mut run = |round: u32, period: u64, factor: f64| {
            let h = 0.1 * normal();
            let reference_loop = ReferenceLoop { passes: 100, throughput_ns: 2e5 * h.exp(), cpu_s: 0.02 };
            let time = factor * (0.8 * h + noise * normal()).exp();
            Run { round, period, elapsed_s: time + 0.02, reference_loops: vec![reference_loop], ..blank() }
        };
        (0..n)
            .map(|round| Round { runs: vec![run(round, 0, 1.0), run(round, 0, 1.0), run(round, 100, 1.2)], blocks: Vec::new() })
            .collect()
    }

    fn blank() -> Run {
        serde_json::from_str(
            r#"{"round":0,"period":0,"arm":"off","elapsed_s":1,"user_s":1,"system_s":0,"samples":0,"expected_samples":0,"lost":0,
            "throttled":0,"voluntary_switches":0,"involuntary_switches":0,"minor_faults":0,"major_faults":0,"max_rss_bytes":0,"steal_s":0}"#,
        )
        .unwrap()
    }

    fn mean(rounds: &[Round], period: u64) -> f64 {
        let times: Vec<f64> =
            rounds.iter().flat_map(|r| &r.runs).filter(|r| r.period == period).filter_map(|r| r.adjusted_s).collect();
        times.iter().sum::<f64>() / times.len() as f64
    }

    #[test]
    fn finds_the_exponent_and_keeps_the_difference() {
        let mut rounds = rounds(60, 0.01);
        let fit = adjust(&mut rounds).unwrap();
        assert!((fit.exponent - 0.8).abs() < 0.05, "{fit:?}");
        assert!(fit.scatter_before > 0.06 && fit.scatter_after < 0.015, "{fit:?}");
        let ratio = mean(&rounds, 100) / mean(&rounds, 0);
        assert!((ratio - 1.2).abs() < 0.01, "{ratio}");
    }

    #[test]
    fn noise_that_it_does_not_explain_stays() {
        let mut rounds = rounds(60, 0.1);
        let fit = adjust(&mut rounds).unwrap();
        assert!(fit.scatter_after > 0.08, "{fit:?}");
    }

    #[test]
    fn few_runs_lose_only_the_reference_loops_own_time() {
        let mut rounds = rounds(2, 0.0);
        assert_eq!(adjust(&mut rounds), None);
        let run = &rounds[0].runs[0];
        assert!((run.adjusted_s.unwrap() - (run.elapsed_s - 0.02)).abs() < 1e-12);
    }
}
