//! ARM SPE.

use super::{Action, Buffer};

/// Values that hardware adds to the interval where jitter is on (Arm ARM, D17.2: PMSIRR_EL1.RND, eight bits).
const JITTER: u64 = 256;

/// The statistical profiling extension: an operation is chosen every interval, followed until it is done, and written out.
///
/// Where the next choice comes before the last one is done, it is dropped: a collision.
#[derive(Clone, Debug)]
pub struct Spe {
    interval: u64,
    jitter: bool,
    left: u64,
    busy_until_cycle: u64,
    rng: fastrand::Rng,
    /// The AUX area.
    pub buffer: Buffer,
}

impl Spe {
    /// Bytes of one record with all its packets, padded (Arm ARM, D18: up to 64).
    pub const RECORD_BYTES: u64 = 64;

    /// Sampling one operation in so many; the machine's smallest interval is the caller's to check.
    pub fn new(interval: u64, jitter: bool, buffer: Buffer, seed: u64) -> Self {
        let mut spe = Self { interval, jitter, left: 0, busy_until_cycle: 0, rng: fastrand::Rng::with_seed(seed), buffer };
        spe.left = spe.next_interval();
        spe
    }

    /// See [`super::Unit::until_action`].
    pub fn until_action(&self) -> u64 {
        self.left
    }

    /// See [`super::Unit::pass`].
    pub fn pass(&mut self, events: u64) {
        self.left -= events;
    }

    /// See [`super::Unit::act`].
    pub fn act(&mut self, cycle: u64, latency_cycles: u64) -> Action {
        self.left = self.next_interval();
        if cycle < self.busy_until_cycle {
            return Action { lost: true, ..Action::default() };
        }
        self.busy_until_cycle = cycle + latency_cycles;
        self.buffer.record()
    }

    fn next_interval(&mut self) -> u64 {
        let jitter = if self.jitter { self.rng.u64(0..JITTER) } else { 0 };
        (self.interval + jitter).max(1)
    }
}
