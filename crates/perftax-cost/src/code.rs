//! How wide a program's code is, from samples of where it was.
//!
//! What an interrupt costs in instruction caches, TLBs and branch predictors grows with the code that a program goes through until the next one. Pages are
//! counted by their *effective number* (Simpson's, 1949): one over the probability that two samples fall on the same. It needs no more samples than
//! pages, and pages that are hardly ever visited hardly count.

use std::collections::BTreeMap;

use perftax_doc::code::CodeFootprint;
use perftax_doc::{CONFIDENCE, Estimate};

use crate::bootstrap::student_quantile;

/// Fewer pairs of samples than these say nothing.
const PAIRS_MIN: f64 = 50.0;
/// At 95 %, where no pair met, as many might have as 3.7 (Poisson, two-sided).
const MET_AT_MOST_WHERE_NONE_DID: f64 = 3.7;
/// No program has more code than this many pages: 4 GiB.
const PAGES_MAX: f64 = 1_048_576.0;
/// As many degrees of freedom as make Student's quantile the normal one.
const MANY: usize = 1000;

/// Of things that have these shares (of any sum), how many alike ones would meet as often.
pub fn effective_number(shares: impl Iterator<Item = f64>) -> f64 {
    let (sum, squares) = shares.fold((0.0, 0.0), |(sum, squares), share| (sum + share, squares + share * share));
    if squares > 0.0 { sum * sum / squares } else { 0.0 }
}

/// The footprint by samples of (process, page), each so often; none where they are too few. Addresses of different processes are never compared: the
/// same code lies elsewhere in each.
pub fn footprint(
    samples: impl IntoIterator<Item = ((u32, u64), u64)>,
    period_ns: u64,
    is_of_user_mode: bool,
) -> Option<CodeFootprint> {
    let mut by_process: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for ((pid, _), count) in samples {
        by_process.entry(pid).or_default().push(count);
    }
    let mut samples: Vec<Vec<u64>> = by_process.into_values().collect();
    samples.iter_mut().for_each(|pages| pages.sort_unstable_by(|a, b| b.cmp(a)));
    samples.sort_unstable_by(|a, b| b.cmp(a));
    Some(CodeFootprint { pages: pages(&samples)?, is_of_user_mode, period_ns, samples })
}

/// The effective number of pages, by the samples that each had.
///
/// Pairs that met over all pairs is an unbiased estimate of the probability (a U-statistic, Hoeffding 1948); its variance is taken from the first two terms of
/// its decomposition.
fn pages(by_process: &[Vec<u64>]) -> Option<Estimate> {
    let (mut pairs, mut met, mut variance) = (0.0, 0.0, 0.0);
    for process in by_process {
        let n = process.iter().sum::<u64>() as f64;
        let falling = |order: u32| -> f64 {
            process.iter().map(|count| (0..order).map(|less| (*count as f64 - f64::from(less)).max(0.0)).product::<f64>()).sum()
        };
        if n < 2.0 {
            continue;
        }
        let twice = falling(2) / (n * (n - 1.0));
        let thrice = if n > 2.0 { falling(3) / (n * (n - 1.0) * (n - 2.0)) } else { twice * twice };
        let of_process = n * (n - 1.0) / 2.0;
        pairs += of_process;
        met += of_process * twice;
        variance += n * (n - 1.0).powi(2) * (thrice - twice * twice).max(0.0) + of_process * twice * (1.0 - twice);
    }
    if pairs < PAIRS_MIN {
        return None;
    }
    if met == 0.0 {
        let least = pairs / MET_AT_MOST_WHERE_NONE_DID;
        return Some(Estimate::new(pairs.min(PAGES_MAX), least, PAGES_MAX));
    }
    let half = student_quantile(MANY, CONFIDENCE) * variance.sqrt();
    // As a factor: what meets is a count, and its inverse has a long tail.
    let factor = (half / met).exp();
    Some(Estimate::new(pairs / met, (pairs / met / factor).max(1.0), pairs / met * factor))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    /// So many samples of pages with these weights, by process.
    fn sampled(seed: u64, weights: &[f64], per_process: &[u64]) -> BTreeMap<(u32, u64), u64> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut uniform = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let total: f64 = weights.iter().sum();
        let mut found = BTreeMap::new();
        for (pid, samples) in per_process.iter().enumerate() {
            for _ in 0..*samples {
                let mut at = uniform() * total;
                let page = weights.iter().position(|weight| {
                    at -= weight;
                    at < 0.0
                });
                // The same page lies elsewhere in each process.
                *found.entry((pid as u32, page.unwrap_or(0) as u64 + 1000 * pid as u64)).or_default() += 1;
            }
        }
        found
    }

    #[test]
    fn known_footprints_are_covered() {
        let uniform = vec![1.0; 150];
        let skewed: Vec<f64> = (1..400).map(|rank| 1.0 / f64::from(rank)).collect();
        for (weights, per_process) in
            [(&uniform, &[300][..]), (&skewed, &[400][..]), (&uniform, &[60; 7][..]), (&skewed, &[50; 8][..])]
        {
            let truth = effective_number(weights.iter().copied());
            let of = |seed| footprint(sampled(seed, weights, per_process), 1_000_000, false).unwrap().pages;
            let found: Vec<Estimate> = (1..=200).map(of).collect();
            let covering = found.iter().filter(|pages| pages.contains(truth)).count();
            assert!(covering >= 178, "{covering} of 200 cover {truth} at {per_process:?}");
            let mut widths: Vec<f64> = found.iter().map(|pages| pages.high / pages.low).collect();
            assert!(perftax_doc::median(&mut widths) < 3.0, "{widths:?}");
        }
    }

    #[test]
    fn a_loop_is_one_page_and_a_few_samples_say_nothing() {
        let one = footprint([((7, 3), 200)], 1_000_000, true).unwrap();
        assert_eq!((one.pages.estimate, one.pages.low, one.samples), (1.0, 1.0, vec![vec![200]]));
        assert!(footprint([((7, 3), 9)], 1_000_000, true).is_none());
        let none_met = (0..30).map(|page| ((7, page), 1));
        let pages = footprint(none_met, 1_000_000, true).unwrap().pages;
        assert!(pages.low > 100.0 && pages.high == PAGES_MAX);
    }
}
