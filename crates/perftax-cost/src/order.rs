//! Medians with intervals from order statistics: nothing is assumed about how the observations are distributed.
//!
//! Of n independent observations the k-th smallest and the k-th largest enclose the median with a probability that depends on n and k alone:
//! 1 − 2·P(X ≤ k − 1), X binomial with n and 1/2 (Conover, Practical Nonparametric Statistics, section 3.2; Le Boudec, Performance Evaluation,
//! theorem 2.1). What must be independent here is the *round*: runs of one round follow each other within milliseconds and share the machine's
//! mood, so an interval over all runs would be several times too narrow ([`crate::bootstrap`]). A round is therefore brought down to its median
//! first, and the interval is that of the rounds' medians.

use perftax_doc::{CONFIDENCE, Estimate, median};

/// The median with the narrowest symmetric interval of order statistics that covers it with [`CONFIDENCE`].
///
/// With fewer than six observations no such interval exists: from the least to the most is given then, with the confidence that this has.
/// `None` where there are none, or one is no number.
pub fn median_interval(observations: &[f64]) -> Option<Estimate> {
    if observations.is_empty() || observations.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let mut sorted = observations.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let (depth, covered) = depth(n, CONFIDENCE);
    let estimate = median(&mut sorted.clone());
    let confidence = if covered >= CONFIDENCE { CONFIDENCE } else { covered };
    Some(Estimate { estimate, low: sorted[depth - 1], high: sorted[n - depth], confidence })
}

/// The median of the rounds' medians, and its interval: see the module. Rounds without a run are left out.
pub fn median_of_rounds(rounds: &[Vec<f64>]) -> Option<Estimate> {
    let medians: Vec<f64> = rounds.iter().filter(|round| !round.is_empty()).map(|round| median(&mut round.clone())).collect();
    median_interval(&medians)
}

/// The largest k for which the k-th smallest and the k-th largest of `n` cover the median with `confidence`, at least 1, and the confidence that
/// they have.
fn depth(n: usize, confidence: f64) -> (usize, f64) {
    // P(X = i) for X binomial(n, 1/2), from ln to be safe with large n.
    let ln_half_n = n as f64 * 0.5_f64.ln();
    let (mut ln_choose, mut below, mut best) = (0.0_f64, 0.0_f64, None);
    for k in 1..=n.div_ceil(2) {
        // Here ln_choose is that of (n choose k − 1); `below` becomes P(X ≤ k − 1).
        below += (ln_choose + ln_half_n).exp();
        let covered = 1.0 - 2.0 * below;
        if best.is_some() && covered < confidence {
            break;
        }
        best = Some((k, covered.max(0.0)));
        ln_choose += ((n - k + 1) as f64).ln() - (k as f64).ln();
    }
    best.unwrap_or((1, 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The depths of Le Boudec's table (appendix A.1, order statistics of the median at 95 %).
    #[test]
    fn depths_are_those_of_the_tables() {
        for (n, wanted) in [(6, 1), (9, 2), (12, 3), (20, 6), (32, 10), (50, 18), (70, 27)] {
            let (depth, covered) = depth(n, 0.95);
            assert_eq!(depth, wanted, "{n}");
            assert!(covered >= 0.95, "{n}: {covered}");
        }
        let (depth, covered) = depth(5, 0.95);
        assert!(depth == 1 && (covered - 0.9375).abs() < 1e-12);
        assert_eq!(super::depth(1, 0.95), (1, 0.0));
        assert!((super::depth(5000, 0.95).1 - 0.95).abs() < 0.01);
    }

    #[test]
    fn an_interval_covers_as_often_as_it_says() {
        let mut random = fastrand::Rng::with_seed(7);
        // Skewed, so that no interval made for the normal distribution would do: exp(3u), whose median is exp(1.5).
        let truth = 1.5_f64.exp();
        let covers = (0..2000).filter(|_| {
            let sample: Vec<f64> = (0..32).map(|_| (3.0 * random.f64()).exp()).collect();
            median_interval(&sample).unwrap().contains(truth)
        });
        let share = covers.count() as f64 / 2000.0;
        assert!((0.955..0.995).contains(&share), "{share}: P(10..=23 of 32) is 0.980");
    }

    #[test]
    fn rounds_and_not_runs_make_the_interval() {
        // Within a round all alike, from round to round not: an interval over all runs would have no width to speak of.
        let rounds: Vec<Vec<f64>> = (0..32).map(|round| vec![100.0 + f64::from(round); 32]).collect();
        let estimate = median_of_rounds(&rounds).unwrap();
        assert_eq!((estimate.estimate, estimate.low, estimate.high), (115.5, 109.0, 122.0));
        assert_eq!(median_of_rounds(&[vec![], vec![]]), None);
        assert_eq!(median_interval(&[f64::NAN]), None);
    }
}
