//! Lines that were sampled, and never followed: what follows stores of the same instructions elsewhere stands for what follows theirs.

use rustc_hash::FxHashMap;

use crate::access_table::AccessTable;
use crate::evidence::Evidence;
use crate::line::Line;
use crate::pieces::MAX_PIECES;

use super::moments::{Key, LineMeans, Sum};

/// Follows of an instruction that tell of its stores elsewhere; those with fewer are taken together.
const ENOUGH_FOLLOWS: u64 = 4;

/// Samples of lines that were never followed, by instruction.
#[derive(Default)]
pub(super) struct Unfollowed {
    groups: Vec<Group>,
}

/// Samples that no follow tells of, and follows that began with samples of the same instructions.
#[derive(Clone)]
struct Group {
    samples: f64,
    pieces: [f64; MAX_PIECES],
    follows: u64,
    /// Each follow stands for its share of its line's samples: the sum, and that of squares.
    weight: f64,
    weight_squares: f64,
    /// Weighted sums of y and y².
    by_key: FxHashMap<Key, (f64, f64)>,
}

impl Default for Group {
    fn default() -> Self {
        let by_key = FxHashMap::default();
        Self { samples: 0.0, pieces: [0.0; MAX_PIECES], follows: 0, weight: 0.0, weight_squares: 0.0, by_key }
    }
}

impl Unfollowed {
    pub fn of(evidence: &Evidence, board: &AccessTable, lines: &FxHashMap<Line, LineMeans>) -> Self {
        let mut by_ip: FxHashMap<u64, Group> = FxHashMap::default();
        for (line, spread) in evidence.store_samples.iter().filter(|(line, _)| !lines.contains_key(line)) {
            let uses = || board.uses(*line).iter().filter(|u| u.kind.is_store() && u.samples > 0);
            let told: u64 = uses().map(|u| u.samples).sum();
            if told == 0 {
                // The board had no room for it.
                by_ip.entry(0).or_default().take_samples(spread.iter());
            }
            for u in uses() {
                let share = u.samples as f64 / told as f64;
                by_ip.entry(u.ip).or_default().take_samples(spread.iter().map(|(piece, samples)| (piece, samples * share)));
            }
        }
        for means in lines.values() {
            let weight = means.samples / means.follows;
            means.by_follow.iter().for_each(|(ip, ys)| by_ip.entry(*ip).or_default().take_follow(weight, ys));
        }
        let (mut groups, mut few, mut all) = (Vec::new(), Group::default(), Group::default());
        for group in by_ip.into_values() {
            all.take(&group);
            if group.follows >= ENOUGH_FOLLOWS { groups.push(group) } else { few.take(&group) }
        }
        if few.follows < ENOUGH_FOLLOWS {
            few = Group { samples: few.samples, pieces: few.pieces, ..all };
        }
        groups.push(few);
        groups.retain(|group| group.samples > 0.0);
        Self { groups }
    }

    pub fn sum(&self, key: &Key) -> Sum {
        let mut sum = Sum::default();
        self.groups.iter().filter_map(|group| group.sum(key)).for_each(|one| sum.add(&one));
        sum
    }
}

impl Group {
    fn take_samples(&mut self, pieces: impl Iterator<Item = (usize, f64)>) {
        for (piece, samples) in pieces {
            self.pieces[piece] += samples;
            self.samples += samples;
        }
    }

    fn take_follow(&mut self, weight: f64, ys: &FxHashMap<Key, f64>) {
        self.follows += 1;
        self.weight += weight;
        self.weight_squares += weight * weight;
        for (key, y) in ys {
            let (sum, squares) = self.by_key.entry(*key).or_default();
            *sum += weight * y;
            *squares += weight * y * y;
        }
    }

    fn take(&mut self, other: &Self) {
        self.take_samples(other.pieces.iter().copied().enumerate());
        self.follows += other.follows;
        self.weight += other.weight;
        self.weight_squares += other.weight_squares;
        for (key, (sum, squares)) in &other.by_key {
            let own = self.by_key.entry(*key).or_default();
            *own = (own.0 + sum, own.1 + squares);
        }
    }

    fn sum(&self, key: &Key) -> Option<Sum> {
        let (sum, squares) = self.by_key.get(key).filter(|_| self.weight > 0.0)?;
        let mean = sum / self.weight;
        let variance = (squares / self.weight - mean * mean).max(mean * mean / self.follows as f64);
        // As many follows of one weight would tell as much (Kish, Survey Sampling, 1965, 11.7).
        let follows = self.weight * self.weight / self.weight_squares;
        Some(Sum {
            value: self.samples * mean,
            of_means: self.samples.powi(2) * variance / follows,
            of_draws: self.samples * (variance + mean * mean),
            pieces: self.pieces.map(|samples| samples * mean),
            // They are others' observations, counted there.
            seen: 0,
        })
    }
}
