//! From a counter of the processor (x86-64: the time stamp counter) to the clock that the kernel's records are on.
//!
//! The kernel's own rule for that (`time_zero`, `time_mult`, `time_shift` of an event's page) is missing where its clock is not the
//! counter: in guests that use their hypervisor's. So both are read together, again and again, and what lies between is interpolated:
//! clocks that are steered against each other drift by some parts in a million, which over a second is a microsecond without this.

/// Pairs that are remembered: a minute of looks.
const MAX_PAIRS: usize = 1 << 13;

/// Pairs of readings, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Anchors {
    pairs: Vec<(u64, u64)>,
}

impl Anchors {
    /// Takes readings of both clocks in turn, and keeps the pair whose readings of the kernel's clock lie closest together: `read` gives
    /// the counter, and the kernel's clock before and after it.
    pub fn take(&mut self, attempts: u32, mut read: impl FnMut() -> (u64, u64, u64)) {
        let best = (0..attempts.max(1)).map(|_| read()).min_by_key(|(_, before, after)| after.saturating_sub(*before));
        if let Some((counter, before, after)) = best {
            self.push(counter, before + after.saturating_sub(before) / 2);
        }
    }

    /// Adds a pair; one that does not lie behind the last in both clocks is left out.
    pub fn push(&mut self, counter: u64, time_ns: u64) {
        if self.pairs.last().is_none_or(|last| last.0 < counter && last.1 < time_ns) {
            // What is asked about is of late.
            if self.pairs.len() >= MAX_PAIRS {
                self.pairs.drain(..MAX_PAIRS / 2);
            }
            self.pairs.push((counter, time_ns));
        }
    }

    /// Counters and times, in order.
    pub fn pairs(&self) -> &[(u64, u64)] {
        &self.pairs
    }

    /// The time of a counter's reading; before the first and after the last pair, by the nearest two. `None` with fewer than two pairs.
    pub fn time_ns(&self, counter: u64) -> Option<u64> {
        let after = self.pairs.partition_point(|pair| pair.0 <= counter).clamp(1, self.pairs.len().max(2) - 1);
        let (&(c0, t0), &(c1, t1)) = (self.pairs.get(after - 1)?, self.pairs.get(after)?);
        let ticks = i128::from(counter) - i128::from(c0);
        let time = i128::from(t0) + ticks * i128::from(t1 - t0) / i128::from(c1 - c0);
        u64::try_from(time).ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn between_anchors_time_is_interpolated() {
        let mut anchors = Anchors::default();
        anchors.push(1000, 50);
        assert_eq!(anchors.time_ns(1000), None);
        anchors.push(3000, 1050);
        anchors.push(5000, 3050);
        assert_eq!(anchors.time_ns(1000), Some(50));
        assert_eq!(anchors.time_ns(2000), Some(550));
        assert_eq!(anchors.time_ns(3000), Some(1050));
        assert_eq!(anchors.time_ns(4000), Some(2050));
        // Outside by the nearest pair's rate.
        assert_eq!(anchors.time_ns(900), Some(0));
        assert_eq!(anchors.time_ns(6000), Some(4050));
        assert_eq!(anchors.time_ns(0), None);
    }

    #[test]
    fn the_tightest_reading_is_kept_and_a_jump_is_not() {
        let mut anchors = Anchors::default();
        let mut readings = [(10, 100, 180), (20, 200, 204), (30, 300, 390)].into_iter();
        anchors.take(3, || readings.next().unwrap());
        assert_eq!(anchors.pairs(), [(20, 202)]);
        anchors.push(15, 300);
        anchors.push(40, 100);
        assert_eq!(anchors.pairs().len(), 1);
    }
}
