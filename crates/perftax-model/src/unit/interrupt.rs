//! Sampling by a counter's interrupt.

use super::{Action, Counter};

/// A counter whose overflow interrupts; the handler samples whatever runs then.
///
/// The interrupt is taken some instructions late, and the sample names that instruction: skid. What was counted meanwhile
/// belongs to the next period (arch/x86/events/core.c, `x86_perf_event_set_period`), so one in period events is sampled.
#[derive(Clone, Debug)]
pub struct Interrupt {
    period: u64,
    counter: Counter,
    skid: (u32, u32),
    rng: fastrand::Rng,
}

impl Interrupt {
    /// Sampling every so many events, with a skid between `skid.0` and `skid.1` instructions, evenly.
    pub fn new(period: u64, skid: (u32, u32), seed: u64) -> Self {
        let skid = (skid.0.min(skid.1), skid.1);
        Self { period, counter: Counter::loaded(period), skid, rng: fastrand::Rng::with_seed(seed) }
    }

    /// See [`super::Unit::until_action`].
    pub fn until_action(&self) -> u64 {
        self.counter.until_overflow()
    }

    /// See [`super::Unit::pass`].
    pub fn pass(&mut self, events: u64) {
        self.counter.add(events);
    }

    /// See [`super::Unit::act`].
    pub fn act(&mut self) -> Action {
        self.counter = Counter::loaded(self.period);
        let skid = self.rng.u32(self.skid.0..=self.skid.1);
        Action { sampled: true, skid, interrupted: true, ..Action::default() }
    }
}
