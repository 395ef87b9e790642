//! What was collected: follows, and samples by line.

use rustc_hash::FxHashMap;

use crate::access::Access;
use crate::line::Line;
use crate::pieces::{Progress, Spread};
use crate::watch_episode::{End, WatchEpisode};

/// A sampled access that fetched its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetching {
    /// The access.
    pub access: Access,
    /// How many stores had been sampled before.
    pub sample: u64,
}

/// Accesses that were seen to fetch, by PEBS's data source.
#[derive(Clone, Debug, Default)]
pub struct Fetches {
    /// Sampled loads that found the line modified in another core's cache (HITM), of those that took long.
    pub loads: Vec<Fetching>,
    /// Sampled stores that missed the first-level cache.
    pub stores: Vec<Fetching>,
    /// Samples of loads that took long, wherever they found their data.
    pub samples: u64,
    /// Such loads counted beside those sampled.
    pub counted: u64,
}

impl Fetches {
    /// For how many loads a sample stands: those counted, and itself. PEBS records the event after the one that overflows, and the counter
    /// begins anew with the record, so the recorded one is not counted (SDM volume 3, 20.6.2.4; Linux counts a period a sample,
    /// `intel_pmu_save_and_restart_reload` in arch/x86/events/intel/ds.c).
    pub fn weight(&self) -> f64 {
        if self.samples > 0 { (self.counted + self.samples) as f64 / self.samples as f64 } else { 0.0 }
    }
}

/// Everything that was collected.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Follows, in order.
    pub follows: Vec<WatchEpisode>,
    /// Samples of loads.
    pub load_samples: u64,
    /// How many stores were sampled.
    pub progress: Progress,
    /// Samples of stores, by line and piece of the run.
    pub store_samples: FxHashMap<Line, Spread>,
    /// Loads that were seen to fetch; none where nothing samples them.
    pub fetches: Option<Fetches>,
    /// Samples of stores that found the registers taken.
    pub busy: u64,
    /// Samples of stores to lines that were private so far, and not followed again.
    pub known_private: u64,
    /// Follows that were cut short before they told anything.
    pub cut: u64,
    /// Traps of lines that were no longer followed.
    pub stray: u64,
}

impl Evidence {
    /// Notes a sample.
    pub fn sampled(&mut self, access: &Access) {
        if access.kind.is_store() {
            let (piece, halved) = self.progress.advance();
            if halved {
                self.store_samples.values_mut().for_each(Spread::halve);
            }
            self.store_samples.entry(access.line).or_default().add(piece);
        } else {
            self.load_samples += 1;
        }
    }

    /// Samples of stores.
    pub fn stores(&self) -> u64 {
        self.progress.samples()
    }

    /// Traps.
    pub fn traps(&self) -> u64 {
        self.follows.iter().map(|follow| follow.traps).sum::<u64>() + self.stray
    }

    /// Follows in which nothing trapped.
    pub fn silent(&self) -> u64 {
        self.follows.iter().filter(|follow| follow.traps == 0).count() as u64
    }

    /// Follows that ran their whole length.
    pub fn full(&self) -> u64 {
        self.follows.iter().filter(|follow| follow.end == End::Full).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One in three was recorded, and of the others the kernel counts two a sample.
    #[test]
    fn a_sample_stands_for_itself_too() {
        let fetches = Fetches { samples: 100, counted: 200, ..Fetches::default() };
        assert!((fetches.weight() - 3.0).abs() < 1e-9);
        assert!(Fetches::default().weight().abs() < 1e-9);
    }
}
