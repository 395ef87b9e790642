//! From transfers seen in slices to how many there would have been, had all places been watched all the time.
//!
//! Transfers between two pieces of a line are seen while a turn that has both is on. Each one seen stands for `elapsed / time on` of them, a ratio
//! estimator over slices. Its interval is by resampling whole rounds (every turn once), since what one slice sees hangs together.

use std::collections::BTreeMap;

use perftax_cost::bootstrap::{SEED, normal_quantile, small_sample_factor};
use perftax_doc::CommShare;
use perftax_doc::quantile;
use perftax_doc::{CONFIDENCE, Estimate};

use super::accounts::{Accounts, Kept};

/// Replicates of rounds.
const REPLICATES: usize = 1000;
/// Rounds below which resampling them says little, and a Poisson interval stands in.
const MIN_ROUNDS: usize = 3;
/// Rounds that are told apart at most.
const MAX_ROUNDS: usize = 2048;

/// What a slice's transfers stand for.
pub struct Estimator {
    elapsed_ns: f64,
    /// Everything was watched all the time: counts are what they are.
    is_exact: bool,
    turns: usize,
    rounds: usize,
    /// Time for which each class could be seen, ns.
    on_ns: Vec<f64>,
    /// The same by replicate, then class.
    on_ns_of: Vec<Vec<f64>>,
    /// How often each replicate has each round.
    times: Vec<Vec<u16>>,
}

impl Estimator {
    /// For what was seen in `elapsed_ns`, in `turns` that took turns.
    pub fn new(accounts: &Accounts, elapsed_ns: u64, turns: usize, is_exact: bool) -> Self {
        // Of a long run several rounds are one: a replicate remembers how often it has each.
        let turns = turns.max(1) * accounts.slices.len().div_ceil(turns.max(1)).div_ceil(MAX_ROUNDS).max(1);
        let rounds = accounts.slices.len().div_ceil(turns);
        let mut by_round = vec![vec![0.0; accounts.classes.len()]; rounds];
        for (number, slice) in accounts.slices.iter().enumerate() {
            for (class, of_class) in accounts.classes.iter().enumerate() {
                if of_class.contains(&slice.turn) {
                    by_round[number / turns][class] += (slice.to_ns - slice.from_ns) as f64;
                }
            }
        }
        let sum = |rounds: &mut dyn Iterator<Item = (usize, f64)>| {
            let mut on_ns = vec![0.0; accounts.classes.len()];
            for (round, times) in rounds {
                on_ns.iter_mut().zip(&by_round[round]).for_each(|(sum, more)| *sum += times * more);
            }
            on_ns
        };
        let on_ns = sum(&mut (0..rounds).map(|round| (round, 1.0)));
        let mut random = fastrand::Rng::with_seed(SEED);
        let replicates = if is_exact || rounds < MIN_ROUNDS { 0 } else { REPLICATES };
        let times: Vec<Vec<u16>> = (0..replicates)
            .map(|_| {
                let mut times = vec![0u16; rounds];
                (0..rounds).for_each(|_| times[random.usize(..rounds)] += 1);
                times
            })
            .collect();
        let on_ns_of = times.iter().map(|times| sum(&mut times.iter().map(|times| f64::from(*times)).enumerate())).collect();
        Self { elapsed_ns: elapsed_ns as f64, is_exact, turns, rounds, on_ns, on_ns_of, times }
    }

    /// Whether there were enough rounds to resample.
    pub fn is_resampled(&self) -> bool {
        self.is_exact || !self.times.is_empty()
    }

    /// The share that these transfers are.
    pub fn share<'a>(&self, transfers: impl IntoIterator<Item = (&'a Kept, &'a u64)>) -> CommShare {
        // By round, class and kind.
        let mut seen: BTreeMap<(usize, usize, bool), f64> = BTreeMap::new();
        for (kept, count) in transfers {
            *seen.entry((kept.slice / self.turns, kept.class, kept.is_true)).or_default() += *count as f64;
        }
        let of = |wanted: Option<bool>| -> Vec<(usize, usize, f64)> {
            let is_wanted = |is_true: bool| wanted.is_none_or(|wanted| wanted == is_true);
            let all = seen.iter().filter(|((.., is_true), _)| is_wanted(*is_true));
            all.map(|((round, class, _), count)| (*round, *class, *count)).collect()
        };
        let evidence = seen.values().sum::<f64>() as u64;
        CommShare {
            total: self.estimate(&of(None)),
            true_sharing: self.estimate(&of(Some(true))),
            false_sharing: self.estimate(&of(Some(false))),
            evidence,
            exact: None,
        }
    }

    fn estimate(&self, seen: &[(usize, usize, f64)]) -> Estimate {
        // Not sum(): that of nothing is -0.
        let count = seen.iter().fold(0.0, |sum, (.., count)| sum + count);
        if self.is_exact {
            return Estimate::exact(count);
        }
        let stands_for = |on_ns: &[f64], class: usize| if on_ns[class] > 0.0 { self.elapsed_ns / on_ns[class] } else { 0.0 };
        if count == 0.0 {
            // There may have been some while registers were off, most where they were off the longest.
            let most = (0..self.on_ns.len()).map(|class| stands_for(&self.on_ns, class)).fold(0.0, f64::max);
            return Estimate::new(0.0, 0.0, Estimate::MAX_UNSEEN * (most - 1.0).max(0.0));
        }
        let estimate: f64 = seen.iter().map(|(_, class, count)| count * stands_for(&self.on_ns, *class)).sum();
        let (low, high) = match small_sample_factor(self.rounds, CONFIDENCE).filter(|_| !self.times.is_empty()) {
            Some(widen) => {
                let replicates = self.times.iter().zip(&self.on_ns_of);
                let mut values: Vec<f64> = replicates
                    .map(|(times, on_ns)| {
                        seen.iter()
                            .map(|(round, class, count)| f64::from(times[*round]) * count * stands_for(on_ns, *class))
                            .sum()
                    })
                    .collect();
                let low = quantile(&mut values, (1.0 - CONFIDENCE) / 2.0);
                let high = quantile(&mut values, (1.0 + CONFIDENCE) / 2.0);
                (estimate - (estimate - low).max(0.0) * widen, estimate + (high - estimate).max(0.0) * widen)
            }
            None => {
                let half = normal_quantile(CONFIDENCE) * estimate / count.sqrt();
                (estimate - half, estimate + half)
            }
        };
        // There were as many as were seen, whatever the rest.
        Estimate::new(estimate.max(count), low.max(count).min(estimate.max(count)), high.max(count))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use crate::{Bytes, Kind, Line};

    use super::super::accounts::{Entry, Seen};
    use super::super::place::Place;
    use super::super::plan::Plan;
    use super::*;

    const SLICE_NS: u64 = 1000;

    /// Slices of some turns, one after the other, one in `gap` on; in each, threads hand over a line so often.
    fn watched(lines: u64, slices: u64, gap: u64, handed: impl Fn(u64) -> u64) -> (Accounts, u64, usize) {
        let places: Vec<Place> =
            (0..lines).map(|i| Place { address: 64 * i, bytes: 32, name: String::new(), is_shared: false }).collect();
        let plan = Plan::of(&places, 4);
        let turns = plan.turns.len();
        let mut accounts = Accounts::new(plan, HashMap::new());
        for slice in 0..slices {
            let from_ns = slice * gap * SLICE_NS;
            let turn = slice as usize % turns;
            accounts.take(from_ns, Entry::Begin { turn });
            for i in 0..=handed(slice) {
                let (tid, line, bytes) = (1 + (i % 2) as u32, Line(turn as u64), Bytes::new(0, 8));
                let (kind, is_shared) = (Kind::Store, false);
                accounts.take(from_ns, Entry::Access(Seen { pid: 1, tid, cpu: tid, ip: 1, kind, line, bytes, is_shared }));
            }
            accounts.take(from_ns + SLICE_NS, Entry::End);
        }
        (accounts, slices * gap * SLICE_NS, turns)
    }

    #[test]
    fn what_is_always_on_is_counted() {
        let (accounts, elapsed_ns, turns) = watched(1, 1, 1, |_| 40);
        let share = Estimator::new(&accounts, elapsed_ns, turns, true).share(&accounts.transfers);
        assert_eq!((share.total, share.true_sharing, share.evidence), (Estimate::exact(40.0), Estimate::exact(40.0), 40));
    }

    #[test]
    fn what_is_on_for_a_part_stands_for_the_whole() {
        // Two lines take turns and nothing is on for three quarters of the time: each is on for an eighth.
        let (accounts, elapsed_ns, turns) = watched(2, 60, 4, |slice| 10 + slice % 3);
        let estimator = Estimator::new(&accounts, elapsed_ns, turns, false);
        let share = estimator.share(&accounts.transfers);
        assert!(turns == 2 && estimator.is_resampled());
        let seen: u64 = (0..60).map(|slice| 10 + slice % 3).sum();
        assert_eq!((share.evidence, share.total.estimate), (seen, 8.0 * seen as f64));
        assert!(share.total.low < share.total.estimate && share.total.estimate < share.total.high, "{share:?}");
        assert!(share.total.relative_half_width() < 0.1, "{share:?}");
        let first: Vec<_> = accounts.transfers.iter().filter(|(kept, _)| kept.line == Line(0)).collect();
        let of_first = estimator.share(first.iter().copied());
        assert!((of_first.total.estimate / share.total.estimate - 0.5).abs() < 0.01, "{of_first:?}");
    }

    /// Slices that differ, as those of programs do: the interval covers the truth about as often as it says.
    #[test]
    fn intervals_cover_the_truth() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut covered = 0;
        for _ in 0..200 {
            // A fifth of the slices is busy; a quarter of them is on.
            let all: Vec<u64> = (0..160).map(|_| if random.f64() < 0.2 { 50 } else { 5 }).collect();
            let truth: u64 = all.iter().sum();
            let (accounts, elapsed_ns, turns) = watched(1, 40, 4, |slice| all[slice as usize * 4]);
            let share = Estimator::new(&accounts, elapsed_ns, turns, false).share(&accounts.transfers);
            covered += u32::from(share.total.contains(truth as f64));
        }
        assert!(covered >= 180, "{covered} of 200");
    }

    #[test]
    fn few_rounds_have_the_interval_of_what_comes_by_chance() {
        let (accounts, elapsed_ns, turns) = watched(1, 2, 10, |_| 50);
        let estimator = Estimator::new(&accounts, elapsed_ns, turns, false);
        let total = estimator.share(&accounts.transfers).total;
        assert!(!estimator.is_resampled() && total.estimate == 1000.0, "{total:?}");
        assert!((total.high - 1000.0 - 196.0).abs() < 1.0, "{total:?}");
    }
}
