//! What sampling costs by the work that a program does, and not by prices: a second opinion.
//!
//! Sampling pauses for a slice now and then, at random. Of each pause the CPU time for a piece of work is set against that of the slices beside it, in which
//! sampling was on: what drifts drifts for all three.

use perftax_doc::Estimate;

use crate::bootstrap::{REPLICATES, SEED, cluster_bootstrap};

/// One slice in so many is a pause.
const PAUSES: u32 = 8;
/// Pieces of work that a slice must have to say anything.
const MIN_WORK: u64 = 20;
/// Comparisons that are kept: the interval grows no narrower by more of them than a machine drifts.
const MOST: usize = 4096;
/// Fewest that say anything.
const FEWEST: usize = 8;

/// Compares slices with sampling and without.
#[derive(Clone, Debug)]
pub struct Witness {
    random: u64,
    is_paused: bool,
    /// The last two slices.
    last: [Option<Slice>; 2],
    /// What a piece of work took more with sampling, as a share of what it took without.
    pairs: Vec<f64>,
    /// Pieces of work in all slices.
    pub work: u64,
    /// Pauses so far.
    pub pauses: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slice {
    is_on: bool,
    cpu_ns_each: f64,
}

impl Witness {
    /// One that draws its pauses from this seed.
    pub fn new(seed: u64) -> Self {
        Self { random: seed | 1, is_paused: false, last: [None; 2], pairs: Vec::new(), work: 0, pauses: 0 }
    }

    /// A slice is over, in which the program used so much CPU time for so many pieces of work; `is_on`: it was sampled, at whichever rate. Says whether the
    /// next one is to be a pause.
    pub fn slice(&mut self, is_on: bool, cpu_ns: u64, work: u64) -> bool {
        self.work += work;
        let slice = (work >= MIN_WORK && cpu_ns > 0).then(|| Slice { is_on, cpu_ns_each: cpu_ns as f64 / work as f64 });
        if let ([Some(before), Some(pause)], Some(after)) = (self.last, slice)
            && before.is_on
            && !pause.is_on
            && after.is_on
            && self.pairs.len() < MOST
        {
            self.pairs.push((before.cpu_ns_each + after.cpu_ns_each) / 2.0 / pause.cpu_ns_each - 1.0);
        }
        self.last = [self.last[1], slice];
        // Never two in a row: each has a slice with sampling on both sides.
        self.is_paused = !self.is_paused && is_on && self.draw().is_multiple_of(u64::from(PAUSES));
        self.pauses += u64::from(self.is_paused);
        self.is_paused
    }

    /// Marsaglia's xorshift (Journal of Statistical Software 8, 2003): pauses must not be in step with anything, no more.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 11
    }

    /// What sampling cost while it was on, as a share of what the program took without; none while too few slices say anything. Of the comparisons the middle
    /// ones: what comes between one slice and the next is now and then far more than sampling costs.
    pub fn loss(&self) -> Option<Estimate> {
        let middle = |pairs: &[&f64]| trimmed_mean(&mut pairs.iter().map(|pair| **pair).collect::<Vec<_>>());
        (self.pairs.len() >= FEWEST).then(|| cluster_bootstrap(&self.pairs, middle, REPLICATES, SEED)).flatten()
    }

    /// The comparisons.
    pub fn pairs(&self) -> &[f64] {
        &self.pairs
    }
}

/// The mean of the middle half.
fn trimmed_mean(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let cut = values.len() / 4;
    let kept = &values[cut..values.len() - cut];
    kept.iter().sum::<f64>() / kept.len() as f64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    /// A program of 10 µs a piece that differs by 4 % from slice to slice, drifts, and costs so much more while it is sampled.
    fn watched(loss: f64, seed: u64) -> Witness {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut witness = Witness::new(seed);
        let mut is_paused = false;
        for slice in 0..4_000 {
            let drift = 1.0 + 0.2 * (f64::from(slice) / 500.0).sin();
            let disturbed = if random.u32(0..40) == 0 { 1.5 } else { 1.0 };
            let each_ns =
                10_000.0 * drift * disturbed * (1.0 + 0.04 * (random.f64() - 0.5)) * if is_paused { 1.0 } else { 1.0 + loss };
            is_paused = witness.slice(!is_paused, 100_000_000, (1e8 / each_ns) as u64);
        }
        witness
    }

    #[test]
    fn a_loss_is_found_and_none_is_not() {
        let mut covered = 0;
        for seed in 1..=40 {
            for loss in [0.0, 0.01, 0.05] {
                let found = watched(loss, seed).loss().unwrap();
                covered += u32::from(found.contains(loss));
                assert!((found.estimate - loss).abs() < 0.004, "{loss}: {found:?}");
            }
        }
        // Of 120 at nominal 95 %.
        assert!(covered >= 106, "{covered} of 120");
    }

    #[test]
    fn pauses_are_rare_and_never_two_in_a_row() {
        let witness = watched(0.01, 3);
        assert!((300..700).contains(&witness.pauses), "{}", witness.pauses);
        let mut witness = Witness::new(9);
        let mut before = false;
        for _ in 0..1000 {
            let next = witness.slice(!before, 1, 1);
            assert!(!(before && next));
            before = next;
        }
        assert_eq!(witness.loss(), None, "too little work says nothing");
    }
}
