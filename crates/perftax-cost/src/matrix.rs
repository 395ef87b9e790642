//! The overhead of a cell of the grid: pairs of an unmonitored and a monitored run.
//!
//! A pair is what is resampled, whole. The two runs of a pair are seconds apart at most and their order is random, so what the machine does
//! slowly hits both alike; on a shared host a reference loop beside the programs takes out what it does fast ([`crate::reference_loop`]).

use crate::alpha::control_of;
use crate::bootstrap::{REPLICATES, SEED, joint_bootstrap, normal_quantile};
use crate::reference_loop;
use crate::verification::Round;
use perftax_doc::CONFIDENCE;
use perftax_doc::Estimate;
use perftax_doc::observation::Run;
use perftax_doc::{Control, MatrixPair, MatrixRun};

/// Variation from run to run above which the CERN study left benchmarks out (openlab 2014), a fraction.
pub const VARIATION_LIMIT: f64 = 0.1;

/// What the pairs of a cell say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overhead {
    /// Pairs that count.
    pub pairs: u32,
    /// Elapsed time of an unmonitored instance, s.
    pub unmonitored_s: Estimate,
    /// Elapsed time of a monitored instance, s.
    pub monitored_s: Estimate,
    /// (monitored − unmonitored)/unmonitored, a fraction.
    pub overhead: Estimate,
    /// The larger one of both arms' coefficients of variation, a fraction.
    pub variation: f64,
}

impl Overhead {
    /// From the pairs, those with a discarded run left out. None where fewer than two are left.
    pub fn of(pairs: &[MatrixPair]) -> Option<Self> {
        let times = times(pairs);
        let statistic = |sample: &[&(f64, f64)]| {
            let (off, on) = sample.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
            let n = sample.len() as f64;
            [off / n, on / n, (on - off) / off]
        };
        let [unmonitored_s, monitored_s, overhead] = joint_bootstrap(&times, statistic, REPLICATES, CONFIDENCE, SEED)?;
        let (off, on): (Vec<f64>, Vec<f64>) = times.iter().copied().unzip();
        Some(Self {
            pairs: times.len() as u32,
            unmonitored_s,
            monitored_s,
            overhead,
            variation: variation(&off).max(variation(&on)),
        })
    }
}

/// The A/A control of a cell in which nobody watched; together `judged_together` controls have the confidence of one.
pub fn control(pairs: &[MatrixPair], judged_together: usize) -> Option<Control> {
    control_of(&times(pairs), judged_together)
}

/// Coefficient of variation: standard deviation (n − 1) over mean; 0 of fewer than two times.
pub fn variation(times: &[f64]) -> f64 {
    let n = times.len() as f64;
    let mean = times.iter().sum::<f64>() / n;
    if times.len() < 2 || mean <= 0.0 {
        return 0.0;
    }
    (times.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt() / mean
}

/// Pairs after which the overhead has this half-width, where unmonitored runs vary so: the difference of two of them varies √2 as much.
pub fn pairs_for(half_width: f64, variation: f64) -> f64 {
    (normal_quantile(CONFIDENCE) * std::f64::consts::SQRT_2 * variation / half_width).powi(2)
}

/// The half-width after so many pairs: the same the other way round.
pub fn half_width_after(pairs: f64, variation: f64) -> f64 {
    normal_quantile(CONFIDENCE) * std::f64::consts::SQRT_2 * variation / pairs.sqrt()
}

/// What a grid will take, as far as a few unmonitored runs can tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Foreseen {
    /// Time until every cell is known as well as was asked for, or has the most pairs, s.
    pub time_s: f64,
    /// The widest half-width after the time limit, a fraction; at least what was asked for.
    pub half_width: f64,
}

impl Foreseen {
    /// Of cells whose unmonitored runs take so long, and vary so: `(elapsed_s, variation)` each. What monitoring adds is not known yet.
    pub fn of(cells: &[(f64, f64)], precision: f64, pairs: (u32, u32), limit_s: f64) -> Self {
        let wanted = |variation: f64| pairs_for(precision, variation).ceil().clamp(f64::from(pairs.0), f64::from(pairs.1));
        let time_s: f64 = cells.iter().map(|(elapsed_s, variation)| 2.0 * elapsed_s * wanted(*variation)).sum();
        let share = (limit_s / time_s).min(1.0);
        let widths = cells.iter().map(|(_, variation)| {
            let made = (wanted(*variation) * share).max(f64::from(pairs.0));
            half_width_after(made, *variation)
        });
        Self { time_s, half_width: widths.fold(precision, f64::max) }
    }
}

/// Sets [`MatrixRun::adjusted_s`] of every run, instance by instance, where each had a reference loop on a CPU of its own.
pub fn adjust(pairs: &mut [MatrixPair]) {
    let instances = pairs.iter().flat_map(|pair| [&pair.off, &pair.on]).map(|run| run.reference_loops.len()).max().unwrap_or(0);
    let mut adjusted: Vec<[Vec<f64>; 2]> = vec![Default::default(); pairs.len()];
    for instance in 0..instances {
        let of = |run: &MatrixRun, period| plain(run, instance, period);
        let mut rounds: Vec<Round> =
            pairs.iter().map(|pair| Round { runs: vec![of(&pair.off, 0), of(&pair.on, 1)], blocks: Vec::new() }).collect();
        reference_loop::adjust(&mut rounds);
        for (adjusted, round) in adjusted.iter_mut().zip(&rounds) {
            for (arm, run) in adjusted.iter_mut().zip(&round.runs) {
                arm.extend(run.adjusted_s);
            }
        }
    }
    for (pair, [off, on]) in pairs.iter_mut().zip(adjusted) {
        (pair.off.adjusted_s, pair.on.adjusted_s) = (off, on);
    }
}

/// Unmonitored and monitored time of an instance, in the mean of all, of each pair that counts.
fn times(pairs: &[MatrixPair]) -> Vec<(f64, f64)> {
    let time = |run: &MatrixRun| {
        let times = if run.adjusted_s.is_empty() { &run.elapsed_s } else { &run.adjusted_s };
        times.iter().sum::<f64>() / times.len().max(1) as f64
    };
    pairs.iter().filter(|pair| pair.counts()).map(|pair| (time(&pair.off), time(&pair.on))).collect()
}

/// One instance's part of a run, as the reference loop's fit takes it; `period` only tells the arms apart.
fn plain(run: &MatrixRun, instance: usize, period: u64) -> Run {
    Run {
        period,
        elapsed_s: run.elapsed_s.get(instance).copied().unwrap_or(0.0),
        reference_loops: run.reference_loops.get(instance).copied().into_iter().collect(),
        discarded: run.discarded.clone(),
        ..Run::nothing("", 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perftax_doc::observation::ReferenceLoop;

    fn run(elapsed_s: &[f64]) -> MatrixRun {
        MatrixRun { elapsed_s: elapsed_s.to_vec(), ..MatrixRun::default() }
    }

    /// Pairs with 5 % noise of their own and 20 % that both runs of a pair share.
    fn pairs(n: usize, factor: f64) -> Vec<MatrixPair> {
        let mut rng = fastrand::Rng::with_seed(11);
        let mut normal = move || (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        (0..n)
            .map(|_| {
                let mood = (0.2 * normal()).exp();
                let mut time = |factor: f64| factor * mood * (0.05 * normal()).exp();
                let (off, on) = ([time(1.0), time(1.0)], [time(factor), time(factor)]);
                MatrixPair { off: run(&off), on: run(&on) }
            })
            .collect()
    }

    #[test]
    fn the_interval_holds_the_truth_and_knows_pairs() {
        let many = Overhead::of(&pairs(60, 1.1)).unwrap();
        assert!(many.overhead.contains(0.1) && many.pairs == 60, "{many:?}");
        // What both runs of a pair share does not widen it: two instances of 5 % each, √2 for the difference, 60 pairs.
        assert!(many.overhead.half_width() < 0.02, "{many:?}");
        assert!((0.15..0.25).contains(&many.variation), "{many:?}");
        assert_eq!(Overhead::of(&pairs(1, 1.1)), None);
    }

    /// Without noise every difference is certain; one that changes no verdict excludes no cell.
    #[test]
    fn a_certain_but_negligible_difference_is_no_bias() {
        let exact =
            |factor: f64| (1..7).map(move |n| MatrixPair { off: run(&[f64::from(n)]), on: run(&[factor * f64::from(n)]) });
        let [small, large] = [1.0001, 1.001].map(|factor| control(&exact(factor).collect::<Vec<_>>(), 1).unwrap());
        assert!(small.passed && !small.difference.contains(0.0), "{small:?}");
        assert!(!large.passed, "{large:?}");
    }

    #[test]
    fn discarded_pairs_do_not_count() {
        let mut all = pairs(8, 1.0);
        all[3].on = MatrixRun { discarded: Some("stolen".into()), ..run(&[100.0, 100.0]) };
        let overhead = Overhead::of(&all).unwrap();
        assert!(overhead.pairs == 7 && overhead.overhead.estimate < 0.5, "{overhead:?}");
    }

    #[test]
    fn what_varies_not_at_all_has_no_width() {
        let same = vec![MatrixPair { off: run(&[1.0]), on: run(&[1.25]) }; 2];
        let overhead = Overhead::of(&same).unwrap();
        assert_eq!((overhead.overhead, overhead.variation), (Estimate::exact(0.25), 0.0));
    }

    #[test]
    fn foresight_goes_both_ways() {
        assert!((half_width_after(pairs_for(0.02, 0.05), 0.05) - 0.02).abs() < 1e-12);
        assert!((pairs_for(0.02, 0.05) - 48.0).abs() < 0.1);
        // 49 pairs of 2 × 1 s each fit into 100 s; in a quarter of that the interval is twice as wide.
        let foreseen = |limit_s| Foreseen::of(&[(1.0, 0.05)], 0.02, (6, 60), limit_s);
        assert_eq!(foreseen(100.0), Foreseen { time_s: 98.0, half_width: 0.02 });
        assert!((foreseen(24.5).half_width - 0.04).abs() < 0.001, "{:?}", foreseen(24.5));
    }

    #[test]
    fn the_reference_loop_is_taken_out_instance_by_instance() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut all: Vec<MatrixPair> = (0..10)
            .map(|_| {
                let mut run = |factor: f64| {
                    let speed = [1.0 + 0.3 * rng.f64(), 1.0 + 0.3 * rng.f64()];
                    let reference_loop = |speed: f64| ReferenceLoop { passes: 100, throughput_ns: 2e5 * speed, cpu_s: 0.01 };
                    let mut run = run(&speed.map(|speed| factor * speed + 0.01));
                    run.reference_loops = speed.map(reference_loop).to_vec();
                    run
                };
                MatrixPair { off: run(1.0), on: run(1.5) }
            })
            .collect();
        let raw = Overhead::of(&all).unwrap();
        adjust(&mut all);
        let adjusted = Overhead::of(&all).unwrap();
        assert!(all[0].on.adjusted_s.len() == 2, "{:?}", all[0]);
        assert!(adjusted.overhead.half_width() < raw.overhead.half_width() / 10.0, "{raw:?} {adjusted:?}");
        assert!((adjusted.overhead.estimate - 0.5).abs() < 0.002, "{adjusted:?}");
    }
}
