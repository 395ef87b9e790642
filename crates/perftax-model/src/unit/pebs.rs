//! Intel PEBS.

use super::{Action, Buffer, Counter};

/// Precise event-based sampling on one counter (SDM volume 3, 20.6.2.4).
///
/// The overflow arms it; the *next* event is recorded, at its retirement, by an assist that writes the record and reloads the
/// counter. The event recorded is therefore not counted, and one in period + 1 is sampled (the PES study's older session: to
/// within one sample at every period). At the buffer's threshold the counters freeze and an interrupt empties it, so no event
/// of the handler is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pebs {
    period: u64,
    counter: Counter,
    armed: bool,
    /// Where records go.
    pub buffer: Buffer,
}

impl Pebs {
    /// Sampling every so many events into a buffer.
    pub fn new(period: u64, buffer: Buffer) -> Self {
        Self { period, counter: Counter::loaded(period), armed: false, buffer }
    }

    /// See [`super::Unit::until_action`].
    pub fn until_action(&self) -> u64 {
        if self.armed { 1 } else { self.counter.until_overflow() + 1 }
    }

    /// See [`super::Unit::pass`].
    pub fn pass(&mut self, events: u64) {
        self.armed |= self.counter.add(events);
    }

    /// See [`super::Unit::act`].
    pub fn act(&mut self) -> Action {
        self.counter = Counter::loaded(self.period);
        self.armed = false;
        self.buffer.record()
    }
}
