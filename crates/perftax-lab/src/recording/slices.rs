//! Samples over time and place, for the question what they cost the *run*: work that goes on in parallel on two CPUs is
//! delayed by the larger of the two costs, work that moves from one CPU to the other by their sum.

use std::collections::{BTreeMap, HashMap};

/// What can run in parallel with others: a CPU where the recording knows it, else a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Track {
    /// A CPU.
    Cpu(u32),
    /// A thread, by tid.
    Thread(u32),
    /// The recording tells neither.
    All,
}

/// Samples by slice of time, track and event. Slices widen as the recording grows, so that their number stays small.
#[derive(Clone, Debug, Default)]
pub struct Slices {
    shift: u32,
    counts: HashMap<(u64, Track, usize), u64>,
    slices: BTreeMap<u64, u64>,
}

/// First width of a slice: 2^20 ns, about a millisecond.
const FIRST_SHIFT: u32 = 20;
/// Slices kept at most.
const MOST_SLICES: usize = 512;
/// Samples that an average slice should hold before the busiest track of each is looked for: with fewer, chance alone makes
/// one track the busiest and the sum of the maxima too large.
const SAMPLES_A_SLICE: u64 = 100;

impl Slices {
    /// Takes a sample in.
    pub fn add(&mut self, time_ns: u64, track: Track, event: usize) {
        let slice = time_ns >> (FIRST_SHIFT + self.shift);
        *self.slices.entry(slice).or_default() += 1;
        *self.counts.entry((slice, track, event)).or_default() += 1;
        while self.slices.len() > MOST_SLICES {
            self.widen();
        }
    }

    fn widen(&mut self) {
        self.shift += 1;
        let mut counts = HashMap::with_capacity(self.counts.len() / 2);
        for ((slice, track, event), samples) in self.counts.drain() {
            *counts.entry((slice >> 1, track, event)).or_default() += samples;
        }
        self.counts = counts;
        for (slice, samples) in std::mem::take(&mut self.slices) {
            *self.slices.entry(slice >> 1).or_default() += samples;
        }
    }

    /// Samples by event on the track that costs most in each slice, summed over the slices. `price` is the cost of one
    /// sample of an event. Empty where no sample told its time.
    pub fn critical(&self, price: impl Fn(usize) -> f64) -> BTreeMap<usize, u64> {
        let mut fine = self.clone();
        let total: u64 = fine.slices.values().sum();
        while fine.slices.len() > 1 && total < SAMPLES_A_SLICE * fine.slices.len() as u64 {
            fine.widen();
        }
        let mut costs: BTreeMap<(u64, Track), f64> = BTreeMap::new();
        for (&(slice, track, event), &samples) in &fine.counts {
            *costs.entry((slice, track)).or_default() += price(event) * samples as f64;
        }
        let mut busiest: BTreeMap<u64, (Track, f64)> = BTreeMap::new();
        for ((slice, track), cost) in costs {
            let best = busiest.entry(slice).or_insert((track, cost));
            if cost > best.1 {
                *best = (track, cost);
            }
        }
        let mut samples_of = BTreeMap::new();
        for (&(slice, track, event), &samples) in &fine.counts {
            if busiest.get(&slice).is_some_and(|b| b.0 == track) {
                *samples_of.entry(event).or_default() += samples;
            }
        }
        samples_of
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_program_that_moves_between_cpus_pays_for_all() {
        let mut slices = Slices::default();
        for i in 0..100_000 {
            slices.add(i * MS, Track::Cpu(u32::from(i >= 50_000)), 0);
        }
        let samples = slices.critical(|_| 1.0)[&0];
        assert!((99_500..=100_000).contains(&samples), "{samples}");
    }

    #[test]
    fn two_cpus_in_parallel_pay_the_dearer() {
        let mut slices = Slices::default();
        for i in 0..30_000 {
            slices.add(i * MS, Track::Cpu(0), 0);
            if i % 3 == 0 {
                slices.add(i * MS, Track::Cpu(1), 1);
            }
        }
        assert_eq!(slices.critical(|_| 1.0), BTreeMap::from([(0, 30_000)]));
        // At ten times the price, the rarer event's CPU is the one that delays.
        let dear = slices.critical(|event| if event == 1 { 10.0 } else { 1.0 });
        assert_eq!(dear, BTreeMap::from([(1, 10_000)]));
    }

    #[test]
    fn few_samples_are_one_slice() {
        let mut slices = Slices::default();
        for i in 0..40 {
            slices.add(i * 10 * MS, Track::Thread(i as u32 % 2), 0);
        }
        assert!(slices.critical(|_| 1.0)[&0] <= 40);
        assert!(Slices::default().critical(|_| 1.0).is_empty());
    }
}
