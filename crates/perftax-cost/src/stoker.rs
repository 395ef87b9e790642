//! How many samples are worth taking: Stoker's optimum, and what a number of samples resolves.

use crate::bootstrap::normal_quantile;
use perftax_doc::CONFIDENCE;

/// Stoker's optimal number of samples: n* = (z·Tₐ·√(p(1−p)) / (2·o·p))^(2/3).
///
/// It balances what too few samples blur (the sampling error of a share `p`) against what too many disturb (their cost).
/// `elapsed_s` is the run's time Tₐ, `cost_s` the cost of one sample o, `share` the share p of the run to resolve, `z` the
/// quantile of the confidence wanted (1.96). NaN where an argument is not positive or `share` is not below 1.
pub fn optimal_samples(elapsed_s: f64, cost_s: f64, share: f64, z: f64) -> f64 {
    if !(elapsed_s > 0.0 && cost_s > 0.0 && z > 0.0 && share > 0.0 && share < 1.0) {
        return f64::NAN;
    }
    (z * elapsed_s * (share * (1.0 - share)).sqrt() / (2.0 * cost_s * share)).powf(2.0 / 3.0)
}

/// Samples needed to resolve a share: its 95 % half-width z·√(p(1−p)/n) must be at most half of it, so n = 4z²(1−p)/p.
///
/// 73 samples for 17 %, 292 for 5 %, 1521 for 1 %. Infinite for a share of 0; 0 for a share of 1.
pub fn samples_to_resolve(share: f64) -> f64 {
    let z = normal_quantile(CONFIDENCE);
    4.0 * z * z * (1.0 - share) / share
}

/// The smallest share that `samples` samples resolve (the inverse of [`samples_to_resolve`]): p = 4z²/(n + 4z²).
pub fn resolved_share(samples: f64) -> f64 {
    let z = normal_quantile(CONFIDENCE);
    4.0 * z * z / (samples + 4.0 * z * z)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stokers_published_numbers_come_out() {
        for (elapsed_s, samples) in [(300.0, 19_863.0), (600.0, 31_531.0), (900.0, 41_317.0)] {
            assert_eq!(optimal_samples(elapsed_s, 250e-6, 0.15, 1.96).round(), samples);
        }
        assert!(optimal_samples(1.0, 0.0, 0.1, 1.96).is_nan());
        assert!(optimal_samples(1.0, 1e-6, 1.0, 1.96).is_nan());
    }

    #[test]
    fn a_resolved_share_has_a_half_width_of_half_of_it() {
        for share in [0.01, 0.05, 0.17, 0.5] {
            let n = samples_to_resolve(share);
            let half_width = 1.959_964 * (share * (1.0 - share) / n).sqrt();
            assert!((half_width - share / 2.0).abs() < 1e-6 * share);
            assert!((resolved_share(n) - share).abs() < 1e-12);
        }
        assert_eq!(samples_to_resolve(0.05).ceil(), 292.0);
    }
}
