//! Samples over time and place, for the question what they cost the *run*: work that goes on in parallel on two CPUs is
//! delayed by the larger of the two costs, work that moves from one CPU to the other by their sum. Where only threads are known, those that come one after the
//! other are one.

use std::collections::{BTreeMap, HashSet};

use rustc_hash::FxHashMap as HashMap;

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
    /// Earliest and latest sample of a track in a slice.
    extents: HashMap<(u64, Track), (u64, u64)>,
    slices: BTreeMap<u64, u64>,
    /// What comes again and again is put down once.
    last: Option<Run>,
}

/// Samples in one slice, of one track and event, one behind the other in the file.
#[derive(Clone, Debug)]
struct Run {
    key: (u64, Track, usize),
    samples: u64,
    from_ns: u64,
    to_ns: u64,
}

/// First width of a slice: 2^20 ns, about a millisecond.
const FIRST_SHIFT: u32 = 20;
/// Slices kept at most.
const MAX_SLICES: usize = 512;
/// Samples that an average slice should hold before the busiest track of each is looked for: with fewer, chance alone makes
/// one track the busiest and the sum of the maxima too large.
const SAMPLES_A_SLICE: u64 = 100;

impl Slices {
    /// Takes a sample in.
    pub fn add(&mut self, time_ns: u64, track: Track, event: usize) {
        let key = (time_ns >> (FIRST_SHIFT + self.shift), track, event);
        match &mut self.last {
            Some(run) if run.key == key => {
                run.samples += 1;
                (run.from_ns, run.to_ns) = (run.from_ns.min(time_ns), run.to_ns.max(time_ns));
            }
            _ => {
                self.settle();
                // Putting the last one down may have widened the slices.
                let key = (time_ns >> (FIRST_SHIFT + self.shift), track, event);
                self.last = Some(Run { key, samples: 1, from_ns: time_ns, to_ns: time_ns });
            }
        }
    }

    /// Puts down what came last; before that nothing may be asked.
    pub fn settle(&mut self) {
        let Some(Run { key: (slice, track, event), samples, from_ns, to_ns }) = self.last.take() else { return };
        *self.slices.entry(slice).or_default() += samples;
        *self.counts.entry((slice, track, event)).or_default() += samples;
        if matches!(track, Track::Thread(_)) {
            let extent = self.extents.entry((slice, track)).or_insert((from_ns, to_ns));
            *extent = (extent.0.min(from_ns), extent.1.max(to_ns));
        }
        while self.slices.len() > MAX_SLICES {
            self.widen();
        }
    }

    fn widen(&mut self) {
        self.shift += 1;
        let mut counts = HashMap::default();
        for ((slice, track, event), samples) in self.counts.drain() {
            *counts.entry((slice >> 1, track, event)).or_default() += samples;
        }
        self.counts = counts;
        let mut extents = HashMap::default();
        for ((slice, track), (from, to)) in self.extents.drain() {
            let extent = extents.entry((slice >> 1, track)).or_insert((from, to));
            *extent = (extent.0.min(from), extent.1.max(to));
        }
        self.extents = extents;
        for (slice, samples) in std::mem::take(&mut self.slices) {
            *self.slices.entry(slice >> 1).or_default() += samples;
        }
    }

    /// Samples by event on the track that costs most in each slice, summed over the slices. `price` is the cost of one
    /// sample of an event. Empty where no sample told its time.
    pub fn critical(&self, price: impl Fn(usize) -> f64) -> BTreeMap<usize, u64> {
        let mut fine = self.clone();
        fine.settle();
        let total: u64 = fine.slices.values().sum();
        while fine.slices.len() > 1 && total < SAMPLES_A_SLICE * fine.slices.len() as u64 {
            fine.widen();
        }
        let mut costs: BTreeMap<(u64, Track), f64> = BTreeMap::new();
        for (&(slice, track, event), &samples) in &fine.counts {
            *costs.entry((slice, track)).or_default() += price(event) * samples as f64;
        }
        let mut tracks: BTreeMap<u64, Vec<(Track, f64)>> = BTreeMap::new();
        for ((slice, track), cost) in costs {
            tracks.entry(slice).or_default().push((track, cost));
        }
        let mut busiest: HashSet<(u64, Track)> = HashSet::new();
        for (slice, tracks) in tracks {
            busiest.extend(fine.busiest(slice, &tracks).into_iter().map(|track| (slice, track)));
        }
        let mut samples_of = BTreeMap::new();
        for (&(slice, track, event), &samples) in &fine.counts {
            if busiest.contains(&(slice, track)) {
                *samples_of.entry(event).or_default() += samples;
            }
        }
        samples_of
    }
}

impl Slices {
    /// The tracks of a slice that no two of ran at a time, and that cost most together: one CPU, or threads that came one after the other.
    fn busiest(&self, slice: u64, tracks: &[(Track, f64)]) -> Vec<Track> {
        let extent = |track: Track| self.extents.get(&(slice, track)).copied().unwrap_or((0, u64::MAX));
        let mut by_end: Vec<(u64, u64, Track, f64)> =
            tracks.iter().map(|&(track, cost)| (extent(track).1, extent(track).0, track, cost)).collect();
        by_end.sort_by_key(|&(to, from, track, _)| (to, from, track));
        // Of the first so many: the most that they cost, and which was taken last (weighted interval scheduling).
        let mut most: Vec<(f64, Option<usize>)> = vec![(0.0, None)];
        let before = |from: u64| by_end.partition_point(|&(to, ..)| to < from);
        for (index, &(_, from, _, cost)) in by_end.iter().enumerate() {
            let with = most[before(from).min(index)].0 + cost;
            let without = most[index];
            most.push(if with > without.0 { (with, Some(index)) } else { without });
        }
        let mut taken = Vec::new();
        let mut at = by_end.len();
        while let Some(index) = most[at].1 {
            taken.push(by_end[index].2);
            at = before(by_end[index].1).min(index);
        }
        taken
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
        let expensive = slices.critical(|event| if event == 1 { 10.0 } else { 1.0 });
        assert_eq!(expensive, BTreeMap::from([(1, 10_000)]));
    }

    #[test]
    fn threads_that_come_one_after_the_other_are_one() {
        let (mut one_by_one, mut two_at_a_time) = (Slices::default(), Slices::default());
        for task in 0..500_u32 {
            for i in 0..4 {
                let time = (u64::from(task) * 4 + i) * MS / 2;
                one_by_one.add(time, Track::Thread(task), 0);
                two_at_a_time.add(time, Track::Thread(2 * task), 0);
                two_at_a_time.add(time + 1000, Track::Thread(2 * task + 1), 0);
            }
        }
        assert_eq!(one_by_one.critical(|_| 1.0)[&0], 2000);
        let of_two = two_at_a_time.critical(|_| 1.0)[&0];
        assert!((2000..=2100).contains(&of_two), "{of_two}");
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
