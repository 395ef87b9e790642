//! Sums over lines, and their variances.

use perftax_cost::Estimate;
use rustc_hash::FxHashMap;
use statrs::distribution::{ContinuousCDF, Gamma};

use crate::access::Thread;
use crate::evidence::Evidence;
use crate::line::Line;

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

/// Moments of y over the follows of some lines.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    pub sum: f64,
    pub squares: f64,
    /// Follows in which there was any.
    pub seen: u64,
}

/// What the follows of one line say.
#[derive(Clone, Debug, Default)]
pub(super) struct LineMeans {
    pub samples: f64,
    pub follows: f64,
    pub by_key: FxHashMap<Key, Moments>,
    /// y of each follow, whoever fetched.
    pub each: Vec<f64>,
}

/// A sum over lines, and its variance.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub value: f64,
    pub variance: f64,
    pub seen: u64,
}

impl LineMeans {
    /// Samples times mean, and its variance: of the number of samples (Poisson), and of the mean.
    pub fn sum(&self, moments: &Moments, unlike: f64) -> Sum {
        let mean = moments.sum / self.follows;
        let of_mean = if self.follows > 1.0 {
            let variance = (moments.squares / self.follows - mean * mean).max(0.0) * self.follows / (self.follows - 1.0);
            // A line's follows may all agree by chance: never less than one more, unlike the others, would make of it.
            variance / self.follows + (mean / (self.follows + 1.0)).powi(2)
        } else {
            unlike * mean * mean
        };
        Sum {
            value: self.samples * mean,
            variance: self.samples * mean * mean + self.samples.powi(2) * of_mean,
            seen: moments.seen,
        }
    }
}

/// How unlike follows of one line are: the squared coefficient of variation, over all lines with several; 1 where there is none.
pub(super) fn variation(lines: &FxHashMap<Line, LineMeans>) -> f64 {
    let any = Key { pair: None, kind: Sharing::Any };
    let several = lines.values().filter(|means| means.follows > 1.0).filter_map(|means| Some((means, means.by_key.get(&any)?)));
    let (mut squares, mut means) = (0.0, 0.0);
    for (line, moments) in several {
        let mean = moments.sum / line.follows;
        squares += (moments.squares - line.follows * mean * mean).max(0.0);
        means += (line.follows - 1.0) * mean * mean;
    }
    if means > 0.0 { (squares / means).max(0.1) } else { 1.0 }
}

/// Lines that were sampled, and never followed.
pub(super) struct Unfollowed {
    samples: f64,
    /// Follows of lines that were sampled as seldom.
    follows: f64,
    by_key: FxHashMap<Key, Moments>,
}

impl Unfollowed {
    pub fn of(evidence: &Evidence, lines: &FxHashMap<Line, LineMeans>) -> Self {
        let left = || evidence.store_samples.iter().filter(|(line, _)| !lines.contains_key(line)).map(|(_, samples)| *samples);
        let most = left().max().unwrap_or(0) as f64;
        let mut like = Self { samples: left().sum::<u64>() as f64, follows: 0.0, by_key: FxHashMap::default() };
        for means in lines.values().filter(|means| means.samples <= most) {
            // Each sample of such a line counts once, however often the line was followed.
            let each = means.samples / means.follows;
            like.follows += means.samples;
            for (key, moments) in &means.by_key {
                let all = like.by_key.entry(*key).or_default();
                all.sum += each * moments.sum;
                all.squares += each * moments.squares;
                all.seen += moments.seen;
            }
        }
        like
    }

    pub fn sum(&self, key: &Key) -> Sum {
        let Some(moments) = self.by_key.get(key).filter(|_| self.follows > 0.0 && self.samples > 0.0) else {
            return Sum::default();
        };
        let mean = moments.sum / self.follows;
        let variance = (moments.squares / self.follows - mean * mean).max(mean * mean);
        Sum {
            value: self.samples * mean,
            variance: self.samples * (variance + mean * mean) + self.samples.powi(2) * variance / self.follows,
            // They are others' observations, counted there.
            seen: 0,
        }
    }
}

impl Sum {
    pub fn add(&mut self, other: &Self) {
        self.value += other.value;
        self.variance += other.variance;
        self.seen += other.seen;
    }

    /// With so many stores a sample. The interval is a gamma distribution's of the same mean and variance, its upper end with one more
    /// observation, as for counts of few (Garwood, Biometrika 28, 1936); of what was not seen at most 3.7 samples' worth could have been.
    pub fn estimate(&self, weight: f64) -> Estimate {
        /// 97.5 % point of a Poisson mean of which nothing was seen: -ln 0.025.
        const UNSEEN: f64 = 3.689;
        if self.value <= 0.0 {
            return Estimate::new(0.0, 0.0, UNSEEN * weight);
        }
        let observations = self.value * self.value / self.variance.max(f64::MIN_POSITIVE);
        let each = self.value / observations;
        let low = Gamma::new(observations, 1.0).map_or(0.0, |gamma| gamma.inverse_cdf(0.025) * each);
        let high = Gamma::new(observations + 1.0, 1.0).map_or(f64::MAX, |gamma| gamma.inverse_cdf(0.975) * each);
        Estimate::new(weight * self.value, weight * low.min(self.value), weight * high.max(self.value))
    }
}
