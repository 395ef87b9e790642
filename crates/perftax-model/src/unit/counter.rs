//! A counter that overflows.

/// Width of the counters, bits (CPUID leaf 0xA, EAX 23:16, of every generation modelled).
const WIDTH_BITS: u32 = 48;

/// The longest sampling period: half the counter's range, as the kernel limits it (arch/x86/events/core.c, `max_period`).
pub const LONGEST_PERIOD: u64 = (1 << (WIDTH_BITS - 1)) - 1;

/// A counter loaded with minus the period: it overflows at the event that makes it zero (SDM volume 3, 20.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    value: u64,
}

impl Counter {
    /// Loaded for a period of 1 to [`LONGEST_PERIOD`] events; longer ones are cut, 0 is 1.
    pub fn loaded(period: u64) -> Self {
        Self { value: (1 << WIDTH_BITS) - period.clamp(1, LONGEST_PERIOD) }
    }

    /// Events until it overflows, at least 1.
    pub fn until_overflow(self) -> u64 {
        (1 << WIDTH_BITS) - self.value
    }

    /// So many events happen; whether it overflowed.
    pub fn add(&mut self, events: u64) -> bool {
        let sum = self.value + events;
        self.value = sum % (1 << WIDTH_BITS);
        sum >> WIDTH_BITS > 0
    }

    /// What a read of it returns.
    pub fn value(self) -> u64 {
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_overflows_at_the_last_event_of_its_period() {
        let mut counter = Counter::loaded(3);
        assert!(!counter.add(2));
        assert_eq!(counter.until_overflow(), 1);
        assert!(counter.add(1));
        assert_eq!(counter.value(), 0);
        assert_eq!(Counter::loaded(u64::MAX).until_overflow(), LONGEST_PERIOD);
        assert_eq!(Counter::loaded(0).until_overflow(), 1);
    }
}
