//! Bootstrap intervals that respect how the observations hang together.
//!
//! Blocks timed within the same fraction of a second share the machine's mood: on the recorded log their costs are
//! correlated 0.51 at 16 ms and 0.17 at 0.3 s. What is independent is the *session*, a short burst of rounds some seconds
//! away from the next, so sessions are what is resampled here, whole ([`cluster_bootstrap`]). Resampling the rounds one by
//! one ([`iid_bootstrap`]) gives an interval several times too narrow; it is kept so that a test can show that.
//!
//! **Small samples.** A percentile interval over k clusters is too narrow by about the factor by which Student's t exceeds
//! the normal quantile, and again by √(k/(k−1)), because the bootstrap's variance divides by k. Both factors are applied to
//! the distance of each end from the estimate ([`small_sample_factor`]); the interval keeps its skew. (Efron & Tibshirani,
//! An Introduction to the Bootstrap, chapters 12 and 13; Hesterberg 2015, section 3.2.)

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use perftax_doc::{CONFIDENCE, Estimate, quantile};

/// Replicates for statistics that are cheap to evaluate on cluster sums. The Monte Carlo error of a 2.5 % quantile is then
/// about 3 % of the half-width.
pub const REPLICATES: usize = 2000;

/// The seed used where the caller has none of its own: results are the same each time the same observations are read.
pub const SEED: u64 = 0x70_65_72_66_74_61_78;

/// Share of replicates that may be undefined (a resample without any unit to divide by) before the interval is refused.
const UNDEFINED_SHARE_MAX: f64 = 0.05;

/// 95 % percentile interval of `statistic` by resampling whole clusters, with the small-sample correction of this module.
///
/// The estimate itself is `statistic` of all clusters. `None` where there are fewer than two clusters, where the statistic
/// of all clusters is not finite, or where it is undefined in more than 5 % of the replicates.
///
/// Precompute sums per cluster for ratio estimators: 2000 replicates over 30 clusters are then 60,000 additions.
pub fn cluster_bootstrap<C>(clusters: &[C], statistic: impl Fn(&[&C]) -> f64, replicates: usize, seed: u64) -> Option<Estimate> {
    let [one] = joint_bootstrap(clusters, |sample| [statistic(sample)], replicates, CONFIDENCE, seed)?;
    Some(one)
}

/// As [`cluster_bootstrap`], for several statistics of the same resamples and any confidence.
///
/// Each statistic gets an interval of its own. Use it where one quantity is a function of others that share their noise.
pub fn joint_bootstrap<C, const K: usize>(
    clusters: &[C],
    statistic: impl Fn(&[&C]) -> [f64; K],
    replicates: usize,
    confidence: f64,
    seed: u64,
) -> Option<[Estimate; K]> {
    let all = vector_bootstrap(clusters, |sample| statistic(sample).to_vec(), replicates, confidence, seed)?;
    all.try_into().ok()
}

/// As [`joint_bootstrap`], for a number of statistics that is known only when it runs; always the same number of them.
pub fn vector_bootstrap<C>(
    clusters: &[C],
    statistic: impl Fn(&[&C]) -> Vec<f64>,
    replicates: usize,
    confidence: f64,
    seed: u64,
) -> Option<Vec<Estimate>> {
    let widen = small_sample_factor(clusters.len(), confidence)?;
    percentile_intervals(clusters, statistic, replicates, confidence, seed, widen)
}

/// The naive interval: every item resampled on its own, no correction.
///
/// Kept to show that it fails: over adjacent rounds its nominal 95 % interval covers the true value about one time in five.
pub fn iid_bootstrap<T>(items: &[T], statistic: impl Fn(&[&T]) -> f64, replicates: usize, seed: u64) -> Option<Estimate> {
    if items.len() < 2 {
        return None;
    }
    percentile_intervals(items, |sample| vec![statistic(sample)], replicates, CONFIDENCE, seed, 1.0)?.pop()
}

/// How much a percentile interval over `clusters` clusters is widened: t(k−1)/z · √(k/(k−1)). `None` below two clusters.
///
/// 1.06 for 30 clusters, 1.17 for 12, 1.58 for 5 (at 95 %).
pub fn small_sample_factor(clusters: usize, confidence: f64) -> Option<f64> {
    if clusters < 2 {
        return None;
    }
    let k = clusters as f64;
    Some(student_quantile(clusters - 1, confidence) / normal_quantile(confidence) * (k / (k - 1.0)).sqrt())
}

/// The two-sided quantile of the standard normal distribution: 1.96 for 0.95.
pub fn normal_quantile(confidence: f64) -> f64 {
    Normal::standard().inverse_cdf(0.5 + confidence / 2.0)
}

/// The two-sided quantile of Student's t with `freedom` degrees of freedom (at least 1): 2.045 for 29 and 0.95.
pub fn student_quantile(freedom: usize, confidence: f64) -> f64 {
    match StudentsT::new(0.0, 1.0, freedom.max(1) as f64) {
        Ok(distribution) => distribution.inverse_cdf(0.5 + confidence / 2.0),
        Err(_) => normal_quantile(confidence),
    }
}

fn percentile_intervals<C>(
    clusters: &[C],
    statistic: impl Fn(&[&C]) -> Vec<f64>,
    replicates: usize,
    confidence: f64,
    seed: u64,
    widen: f64,
) -> Option<Vec<Estimate>> {
    let all: Vec<&C> = clusters.iter().collect();
    let estimates = statistic(&all);
    if estimates.iter().any(|e| !e.is_finite()) {
        return None;
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut values = vec![Vec::with_capacity(replicates); estimates.len()];
    let mut sample = all.clone();
    for _ in 0..replicates {
        for slot in &mut sample {
            *slot = all[random.usize(..all.len())];
        }
        for (value, list) in statistic(&sample).into_iter().zip(&mut values) {
            if value.is_finite() {
                list.push(value);
            }
        }
    }
    let needed = (replicates as f64 * (1.0 - UNDEFINED_SHARE_MAX)).max(2.0);
    if values.iter().any(|list| (list.len() as f64) < needed) {
        return None;
    }
    let tail = (1.0 - confidence) / 2.0;
    let intervals = estimates.iter().zip(&mut values).map(|(&estimate, values)| {
        let low = quantile(values, tail);
        let high = quantile(values, 1.0 - tail);
        Estimate {
            estimate,
            low: estimate - (estimate - low).max(0.0) * widen,
            high: estimate + (high - estimate).max(0.0) * widen,
            confidence,
        }
    });
    Some(intervals.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        assert!((normal_quantile(0.95) - 1.959_964).abs() < 1e-4);
        assert!((student_quantile(29, 0.95) - 2.045_230).abs() < 1e-4);
        assert!((small_sample_factor(12, 0.95).unwrap() - 2.200_985 / 1.959_964 * (12.0_f64 / 11.0).sqrt()).abs() < 1e-4);
    }

    #[test]
    fn one_cluster_has_no_interval_and_equal_clusters_have_none_to_speak_of() {
        assert_eq!(cluster_bootstrap(&[1.0], |c| *c[0], REPLICATES, 1), None);
        let same = cluster_bootstrap(&[2.0; 8], |c| c.iter().copied().sum::<f64>() / c.len() as f64, 200, 1).unwrap();
        assert_eq!((same.low, same.estimate, same.high), (2.0, 2.0, 2.0));
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let values: Vec<f64> = (0..20).map(|i| f64::from(i * i % 17)).collect();
        let mean = |c: &[&f64]| c.iter().copied().sum::<f64>() / c.len() as f64;
        let a = cluster_bootstrap(&values, mean, REPLICATES, 7).unwrap();
        assert_eq!(Some(a), cluster_bootstrap(&values, mean, REPLICATES, 7));
        assert_ne!(Some(a), cluster_bootstrap(&values, mean, REPLICATES, 8));
    }

    #[test]
    fn a_statistic_that_is_mostly_undefined_is_refused() {
        let clusters = [0.0, 0.0, 0.0, 1.0];
        assert_eq!(cluster_bootstrap(&clusters, |c| 1.0 / c.iter().copied().sum::<f64>(), 500, 3), None);
    }
}
