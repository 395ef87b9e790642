//! Sums over lines, and their variances.

use perftax_doc::Estimate;
use rustc_hash::FxHashMap;
use statrs::distribution::{ContinuousCDF, Gamma};

use crate::access::Thread;
use crate::line::Line;
use crate::pieces::{MAX_PIECES, Progress};

use super::strata::Strata;

/// Which transfers are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub pair: Option<(Thread, Thread)>,
    pub kind: Sharing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Sharing {
    Any,
    True,
    False,
}

impl Key {
    /// All transfers.
    pub const ALL: Self = Self { pair: None, kind: Sharing::Any };
}

/// Moments of y over the follows of some lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Moments {
    /// Of y, by stratum.
    sums: Vec<f64>,
    /// Of y².
    squares: f64,
    /// Follows in which there was any.
    seen: u64,
}

impl Moments {
    pub fn add(&mut self, y: f64, stratum: usize, strata: usize) {
        self.sums.resize(strata, 0.0);
        self.sums[stratum] += y;
        self.squares += y * y;
        self.seen += 1;
    }

    fn sum(&self) -> f64 {
        self.sums.iter().sum()
    }
}

/// What the follows of one line say.
#[derive(Clone, Debug, Default)]
pub(super) struct LineMeans {
    pub samples: f64,
    pub follows: f64,
    pub strata: Strata,
    pub by_key: FxHashMap<Key, Moments>,
    /// y of each follow, whoever fetched.
    pub each: Vec<f64>,
    /// The sampled instruction of each, and y by kind.
    pub by_follow: Vec<(u64, FxHashMap<Key, f64>)>,
}

/// A sum over lines, and its variance.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    pub value: f64,
    /// Of the means of y.
    pub of_means: f64,
    /// Of how often stores were drawn, were they drawn independently.
    pub of_draws: f64,
    /// The value, by piece of the run.
    pub pieces: [f64; MAX_PIECES],
    pub seen: u64,
}

impl Default for Sum {
    fn default() -> Self {
        Self { value: 0.0, of_means: 0.0, of_draws: 0.0, pieces: [0.0; MAX_PIECES], seen: 0 }
    }
}

impl LineMeans {
    /// Samples times mean, stratum by stratum, and its variance: of the number of samples, and of the means.
    pub fn sum(&self, moments: &Moments, unlike: f64) -> Sum {
        let mut sum = Sum { seen: moments.seen, ..Sum::default() };
        let means: Vec<f64> = self.strata.iter().zip(&moments.sums).map(|(stratum, y)| y / stratum.follows).collect();
        for (piece, samples, stratum) in self.strata.pieces() {
            sum.pieces[piece] += samples * means[stratum];
            sum.value += samples * means[stratum];
            sum.of_draws += samples * means[stratum].powi(2);
        }
        let mean = moments.sum() / self.follows;
        sum.of_means = if self.follows > 1.0 {
            let explained: f64 = self.strata.iter().zip(&means).map(|(stratum, mean)| stratum.follows * mean * mean).sum();
            let degrees = self.follows - self.strata.len() as f64;
            let variance = (moments.squares - explained).max(0.0) / degrees;
            let of_each: f64 = self.strata.iter().map(|stratum| stratum.samples.powi(2) / stratum.follows).sum();
            // A line's follows may all agree by chance: never less than one more, unlike the others, would make of it.
            variance * of_each + (self.samples * mean / (self.follows + 1.0)).powi(2)
        } else {
            unlike * sum.value.powi(2)
        };
        sum
    }
}

/// How unlike follows of one line are: the squared coefficient of variation, over all lines with several; 1 where there is none.
pub(super) fn variation(lines: &FxHashMap<Line, LineMeans>) -> f64 {
    let several =
        lines.values().filter(|means| means.follows > 1.0).filter_map(|means| Some((means, means.by_key.get(&Key::ALL)?)));
    let (mut squares, mut means) = (0.0, 0.0);
    for (line, moments) in several {
        let mean = moments.sum() / line.follows;
        squares += (moments.squares - line.follows * mean * mean).max(0.0);
        means += (line.follows - 1.0) * mean * mean;
    }
    if means > 0.0 { (squares / means).max(0.1) } else { 1.0 }
}

impl Sum {
    pub fn add(&mut self, other: &Self) {
        self.value += other.value;
        self.of_means += other.of_means;
        self.of_draws += other.of_draws;
        self.pieces.iter_mut().zip(other.pieces).for_each(|(all, piece)| *all += piece);
        self.seen += other.seen;
    }

    /// That of the means, and of how often stores were drawn: as if independently, or as pieces of the run say where that is more. Threads
    /// that wait for one another fall into step with a sampler of a fixed period, and samples that come one after the other are alike then.
    fn variance(&self, progress: &Progress) -> f64 {
        /// Fewer pieces say too little of how unlike they are.
        const MIN_PIECES: usize = 8;
        let mut pieces = self.pieces[..progress.whole()].to_vec();
        let mut most = self.of_draws;
        while pieces.len() >= MIN_PIECES {
            most = most.max(from_neighbours(&pieces) / progress.whole_share());
            // What is alike for longer than a piece shows in longer ones.
            pieces = pieces.chunks_exact(2).map(|two| two.iter().sum()).collect();
        }
        self.of_means + most
    }

    /// With so many stores a sample. The interval is a gamma distribution's of the same mean and variance, its upper end with one more
    /// observation, as for counts of few (Garwood, Biometrika 28, 1936); of what was not seen at most 3.7 samples' worth could have been.
    pub fn estimate(&self, weight: f64, progress: &Progress) -> Estimate {
        if self.value <= 0.0 {
            return Estimate::new(0.0, 0.0, Estimate::MAX_UNSEEN * weight);
        }
        let observations = self.value * self.value / self.variance(progress).max(f64::MIN_POSITIVE);
        let each = self.value / observations;
        let low = Gamma::new(observations, 1.0).map_or(0.0, |gamma| gamma.inverse_cdf(0.025) * each);
        let high = Gamma::new(observations + 1.0, 1.0).map_or(f64::MAX, |gamma| gamma.inverse_cdf(0.975) * each);
        Estimate::new(weight * self.value, weight * low.min(self.value), weight * high.max(self.value))
    }
}

/// The variance of a sum by its parts, from how much each differs from the next (von Neumann, Annals of Mathematical Statistics 12, 1941): what changes slowly, as
/// phases of a program do, is left out.
fn from_neighbours(parts: &[f64]) -> f64 {
    let squares: f64 = parts.windows(2).map(|two| (two[1] - two[0]).powi(2)).sum();
    squares / 2.0 * parts.len() as f64 / (parts.len() - 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_vary_tell_how_their_sum_does() {
        let rng = &mut fastrand::Rng::with_seed(3);
        let of = |rng: &mut fastrand::Rng, slope: f64| {
            let parts: Vec<f64> = (0..48).map(|i| f64::from(i) * slope + f64::from(rng.u32(0..100))).collect();
            from_neighbours(&parts)
        };
        // 48 parts, each of the variance (100² - 1) / 12.
        for slope in [0.0, 5.0] {
            let mean = (0..200).map(|_| of(rng, slope)).sum::<f64>() / 200.0;
            assert!((mean / (48.0 * 9999.0 / 12.0) - 1.0).abs() < 0.1, "{slope}: {mean}");
        }
    }

    /// Samples that come in runs of alike ones vary more than independent ones do.
    #[test]
    fn runs_of_alike_samples_widen_the_interval() {
        let mut progress = Progress::default();
        (0..1024).for_each(|_| {
            progress.advance();
        });
        let with = |pieces: [f64; MAX_PIECES]| {
            let sum = Sum { value: 512.0, of_means: 0.0, of_draws: 512.0, pieces, seen: 512 };
            sum.variance(&progress)
        };
        assert_eq!(with([8.0; MAX_PIECES]), 512.0);
        let runs = std::array::from_fn(|piece| if piece / 2 % 2 == 0 { 16.0 } else { 0.0 });
        assert!(with(runs) > 8.0 * 512.0, "{}", with(runs));
    }
}
