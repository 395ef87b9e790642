//! A program's run in stretches: where the rates of two events change.
//!
//! Binary segmentation (Scott & Knott, Biometrics 1974; Killick, Fearnhead & Eckley, JASA 2012, section 2.2): of all places to cut, the one
//! that takes most off the squared deviations from the mean of each side, as long as it takes off more than a penalty that grows with the
//! logarithm of the number of intervals. Deviations are in units of the noise from one interval to the next, so that a rate that
//! drifts slowly is cut into few pieces and one that jumps is cut where it jumps.

use crate::bootstrap::{SEED, cluster_bootstrap};
use perftax_doc::Estimate;
use perftax_doc::median;
use perftax_doc::{PhaseInterval, PhaseStretch};

/// Stretches at most: more say nothing to a reader.
const MAX: usize = 24;
/// Intervals of a stretch at least: one alone is an interruption, or half of what is on either side.
const SHORTEST: usize = 3;
/// Penalty of a cut, a factor of the logarithm of the number of intervals: a place and two means, each as expensive as Schwarz's criterion has
/// it, three times over for intervals that hang together.
const PENALTY: f64 = 9.0;
/// The noise is taken to be at least this share of the standard deviation of all intervals, for counts that are exact have none.
const MIN_NOISE: f64 = 0.05;
/// From the median of absolute differences of normal deviates to their standard deviation, 1/(0.6745 √2).
const FROM_DIFFERENCES: f64 = 1.048_358;
/// Replicates of an interval here; there are many stretches.
const REPLICATES: usize = 400;

/// The stretches of a run, in order; none where there is no interval.
pub fn stretches(intervals: &[PhaseInterval]) -> Vec<PhaseStretch> {
    let rates: [Vec<f64>; 2] =
        [|i: &PhaseInterval| i.first, |i: &PhaseInterval| i.second].map(|of| intervals.iter().map(|i| rate(of(i), i)).collect());
    let passed = intervals.iter().map(|i| i.passed).sum::<u64>() as f64 / intervals.len().max(1) as f64;
    let scaled: Vec<Sums> = rates.iter().filter_map(|rates| Sums::of(rates, passed)).collect();
    let mut edges = vec![0, intervals.len()];
    let penalty = PENALTY * (intervals.len().max(2) as f64).ln();
    while edges.len() <= MAX {
        let best = edges.windows(2).filter_map(|pair| best_cut(&scaled, pair[0], pair[1]));
        match best.max_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((cut, gain)) if gain > penalty => {
                edges.push(cut);
                edges.sort_unstable();
            }
            _ => break,
        }
    }
    edges.windows(2).filter(|pair| pair[0] < pair[1]).map(|pair| stretch(intervals, pair[0], pair[1])).collect()
}

/// First over second over some intervals, and how far it varies with them; none where there were none of the second, or in so few of
/// the intervals that nobody can say how far.
pub fn ratio(intervals: &[PhaseInterval]) -> Option<Estimate> {
    over(intervals, |i| i.first, |i| i.second)
}

fn stretch(intervals: &[PhaseInterval], from: usize, to: usize) -> PhaseStretch {
    let inside = &intervals[from..to];
    // Events of the interval's kind are in every interval but perhaps the last, which may be empty.
    let within = if inside.last().is_some_and(|last| last.passed == 0) { &inside[..inside.len() - 1] } else { inside };
    let per_event = |of: fn(&PhaseInterval) -> u64| over(within, of, |i| i.passed);
    PhaseStretch {
        from: from as u64,
        to: to as u64,
        passed: inside.iter().map(|i| i.passed).sum(),
        first_rate: per_event(|i| i.first),
        second_rate: per_event(|i| i.second),
        ratio: ratio(inside),
    }
}

/// A ratio of sums over intervals; a single interval's has no interval of its own.
fn over(intervals: &[PhaseInterval], of: fn(&PhaseInterval) -> u64, by: fn(&PhaseInterval) -> u64) -> Option<Estimate> {
    let quotient = |sample: &[&PhaseInterval]| {
        let sum = |of: fn(&PhaseInterval) -> u64| sample.iter().map(|i| of(i)).sum::<u64>() as f64;
        sum(of) / sum(by)
    };
    let estimate = match intervals {
        [one] => Some(Estimate::exact(quotient(&[one]))).filter(|e| e.estimate.is_finite())?,
        all => cluster_bootstrap(all, quotient, REPLICATES, SEED)?,
    };
    // Widened for few intervals it may reach below nothing, where no count is.
    Some(Estimate { low: estimate.low.max(0.0), ..estimate })
}

fn rate(count: u64, interval: &PhaseInterval) -> f64 {
    count as f64 / interval.passed.max(1) as f64
}

/// Where between two edges to cut, and by how much less the squared deviations are then.
fn best_cut(scaled: &[Sums], from: usize, to: usize) -> Option<(usize, f64)> {
    let cost = |from: usize, to: usize| scaled.iter().map(|sums| sums.deviation(from, to)).sum::<f64>();
    let whole = cost(from, to);
    let places = (from + SHORTEST..).take_while(|cut| cut + SHORTEST <= to);
    places.map(|cut| (cut, whole - cost(from, cut) - cost(cut, to))).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Sums of rates, in units of their noise, and of their squares up to each interval.
struct Sums {
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl Sums {
    /// Of rates over intervals of so many events; none where the rate never changes.
    fn of(rates: &[f64], passed: f64) -> Option<Self> {
        let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
        let spread = (rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / rates.len().max(1) as f64).sqrt();
        let mut differences: Vec<f64> = rates.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
        if spread == 0.0 || differences.is_empty() {
            return None;
        }
        // Events that come by chance vary by the root of their number.
        let by_chance = (mean / passed.max(1.0)).sqrt();
        let noise = (median(&mut differences) * FROM_DIFFERENCES).max(MIN_NOISE * spread).max(by_chance);
        let (mut sums, mut squares) = (vec![0.0], vec![0.0]);
        let (mut sum, mut square) = (0.0, 0.0);
        for rate in rates {
            let scaled = (rate - mean) / noise;
            sum += scaled;
            square += scaled * scaled;
            sums.push(sum);
            squares.push(square);
        }
        Some(Self { sums, squares })
    }

    /// Squared deviations from the mean between two edges.
    fn deviation(&self, from: usize, to: usize) -> f64 {
        let (sum, square) = (self.sums[to] - self.sums[from], self.squares[to] - self.squares[from]);
        square - sum * sum / (to - from).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pieces: &[(usize, u64, u64)], noise: u64) -> Vec<PhaseInterval> {
        let mut random = fastrand::Rng::with_seed(3);
        let (mut all, mut until) = (Vec::new(), 0);
        for &(intervals, first, second) in pieces {
            for _ in 0..intervals {
                until += 1000;
                let jitter = random.u64(0..=noise);
                all.push(PhaseInterval { until, passed: 1000, first: first + jitter, second: second + jitter, time_ns: until });
            }
        }
        all
    }

    fn edges(intervals: &[PhaseInterval]) -> Vec<u64> {
        stretches(intervals).iter().map(|stretch| stretch.from).collect()
    }

    #[test]
    fn jumps_are_cut_where_they_are_and_nowhere_else() {
        assert_eq!(edges(&run(&[(40, 500, 500)], 0)), [0]);
        assert_eq!(edges(&run(&[(40, 500, 500)], 60)), [0]);
        assert_eq!(edges(&run(&[(40, 500, 500), (30, 125, 500), (50, 500, 500)], 0)), [0, 40, 70]);
        assert_eq!(edges(&run(&[(40, 500, 500), (30, 425, 500), (50, 500, 500)], 20)), [0, 40, 70]);
        // Either event alone.
        assert_eq!(edges(&run(&[(40, 500, 500), (30, 500, 900)], 20)), [0, 40]);
    }

    #[test]
    fn rare_events_that_come_by_chance_are_no_stretches() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut rare = || u64::from(random.f64() < 0.2);
        let all = (1..=200).map(|i| PhaseInterval { until: 1000 * i, passed: 1000, first: rare(), second: rare(), time_ns: i });
        assert_eq!(edges(&all.collect::<Vec<_>>()), [0]);
    }

    #[test]
    fn a_stretch_has_its_own_ratio() {
        let all = run(&[(40, 500, 500), (30, 125, 500)], 0);
        let ratios: Vec<f64> = stretches(&all).iter().map(|stretch| stretch.ratio.unwrap().estimate).collect();
        assert_eq!(ratios, [1.0, 0.25]);
        let whole = ratio(&all).unwrap();
        assert!((whole.estimate - (40.0 * 500.0 + 30.0 * 125.0) / (70.0 * 500.0)).abs() < 1e-12);
        assert!(whole.low < whole.estimate && whole.estimate < whole.high);
    }

    #[test]
    fn nothing_of_the_second_event_has_no_ratio() {
        assert_eq!(ratio(&run(&[(5, 3, 0)], 0)), None);
        // One of the second in three intervals: another three might have none.
        assert_eq!(ratio(&run(&[(1, 3, 1), (2, 3, 0)], 0)), None);
        assert_eq!(ratio(&run(&[(1, 3, 1)], 0)), Some(Estimate::exact(3.0)));
        assert!(stretches(&[]).is_empty());
        assert_eq!(stretches(&run(&[(1, 3, 4)], 0)).len(), 1);
    }
}
