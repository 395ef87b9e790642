//! AMD IBS.

use serde::{Deserialize, Serialize};

use super::Action;

/// Which half of IBS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IbsKind {
    /// Operations: IbsOpCtl with IbsOpCntCtl set, counting dispatched operations.
    Op,
    /// Fetches: IbsFetchCtl with IbsRandEn set.
    Fetch,
}

/// Bits of the count that hardware randomises at each start (AMD64 APM volume 2, 13.3.2 and 13.3.3: the low seven).
const RANDOM_BITS: u32 = 7;
/// The period is programmed in units of 16 events (IbsOpMaxCnt, IbsFetchMaxCnt hold bits 19:4).
const GRANULE: u64 = 16;

/// Instruction-based sampling (AMD64 APM volume 2, 13.3).
///
/// When the counter reaches the period, an operation is tagged, and when that is done an interrupt is raised; until the handler
/// re-enables it, the counter stands. What the handler still executes from there to its return is counted again: that is why a
/// program gets more samples than its own operations explain. Every interrupt carries one sample.
#[derive(Clone, Debug)]
pub struct Ibs {
    kind: IbsKind,
    period: u64,
    left: u64,
    /// Events of the handler that count, a sample.
    tail: u64,
    /// Share of the tags that never retire, their sample being discarded.
    discarded: f64,
    in_handler: u64,
    rng: fastrand::Rng,
}

impl Ibs {
    /// Sampling every so many events. The period is cut to a multiple of 16, at least 16.
    ///
    /// `tail`: events of the interrupt handler counted between the re-enable and the return; `discarded`: share of the tags that
    /// fall on operations that never retire.
    pub fn new(kind: IbsKind, period: u64, tail: u64, discarded: f64, seed: u64) -> Self {
        let period = (period / GRANULE).max(1) * GRANULE;
        let mut ibs = Self { kind, period, left: 0, tail, discarded, in_handler: 0, rng: fastrand::Rng::with_seed(seed) };
        ibs.left = ibs.next_count();
        ibs
    }

    /// Which half.
    pub fn kind(&self) -> IbsKind {
        self.kind
    }

    /// The period as programmed.
    pub fn period(&self) -> u64 {
        self.period
    }

    /// Samples whose count ran out inside the handler, so that the first operation after it was tagged.
    pub fn in_handler(&self) -> u64 {
        self.in_handler
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
    pub fn act(&mut self) -> Action {
        let count = self.next_count();
        if self.discarded > 0.0 && self.rng.f64() < self.discarded {
            self.left = count;
            return Action { lost: true, ..Action::default() };
        }
        self.left = if count > self.tail {
            count - self.tail
        } else {
            self.in_handler += 1;
            1
        };
        Action { sampled: true, interrupted: true, ..Action::default() }
    }

    fn next_count(&mut self) -> u64 {
        let started_at = self.rng.u64(0..1 << RANDOM_BITS);
        (self.period.saturating_sub(started_at)).max(1)
    }
}
