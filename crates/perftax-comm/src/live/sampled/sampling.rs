//! What is to be found out, and by which samples.

use perftax_pmu::event::Event;

use super::MemoryEvents;
use crate::live::terms::Terms;

/// Which of what is sampled is the stores.
pub(super) const SAMPLED_STORES: usize = 1;
/// Which is the loads that take long, where there are any.
pub(super) const SAMPLED_SLOW_LOADS: usize = 2;

/// What is to be found out.
#[derive(Clone, Debug)]
pub struct Sampling {
    /// Of whom, and at what cost.
    pub terms: Terms,
    /// By which events.
    pub events: MemoryEvents,
    /// Stores between samples.
    pub period: u64,
    /// Loads that take long between samples of them; none: as it is chosen for the stores' period.
    pub slow_loads_period: Option<u64>,
    /// Seed of everything that is drawn.
    pub seed: u64,
}

impl Sampling {
    /// Loads between samples of them: they tell which words a thread touches, and no more, while threads that wait for a flag load without end.
    pub fn loads_period(&self) -> u64 {
        /// Of the stores' period.
        const TIMES: u64 = 8;
        self.period.saturating_mul(TIMES)
    }

    /// Loads that take long between samples of them: some one in a hundred does, and each that fetched a line is a transfer.
    fn slow_loads_period(&self) -> u64 {
        /// Of the stores' period.
        const PART: u64 = 32;
        /// A shorter one beats in time with loops, prime or not.
        const MIN: u64 = 10;
        self.slow_loads_period.unwrap_or((self.period / PART).max(MIN))
    }

    /// What is sampled, with its period: in the order of [`Kind`] there, then loads that take long.
    pub(super) fn sampled(&self) -> impl Iterator<Item = (&Event, u64)> {
        let of_all = [(&self.events.loads, self.loads_period()), (&self.events.stores, self.period)];
        of_all.into_iter().chain(self.events.slow_loads.iter().map(|event| (event, self.slow_loads_period())))
    }
}
