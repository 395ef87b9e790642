//! What was collected: follows, and samples by line.

use rustc_hash::FxHashMap;

use crate::access::Access;
use crate::follow::{End, Follow};
use crate::line::Line;

/// Everything that was collected.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Follows, in order.
    pub follows: Vec<Follow>,
    /// Samples of loads.
    pub load_samples: u64,
    /// Samples of stores, by line.
    pub store_samples: FxHashMap<Line, u64>,
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
            *self.store_samples.entry(access.line).or_default() += 1;
        } else {
            self.load_samples += 1;
        }
    }

    /// Samples of stores.
    pub fn stores(&self) -> u64 {
        self.store_samples.values().sum()
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
