//! Which conditions held in the latest cycle.

/// A bit for each counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held(u64);

impl Held {
    /// Lets a cycle be judged by whether a counter's condition held in the one before, which is brought up to date; what it adds to the counter.
    pub fn judge(&mut self, counter: u64, judge: impl FnOnce(&mut bool) -> u64) -> u64 {
        let mut held = self.0 >> counter & 1 == 1;
        let events = judge(&mut held);
        self.0 = self.0 & !(1 << counter) | u64::from(held) << counter;
        events
    }

    /// A counter begins anew.
    pub fn clear(&mut self, counter: u64) {
        self.0 &= !(1 << counter);
    }
}
