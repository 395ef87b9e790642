//! How often an event came, by counters of several CPUs.

use perftax_pmu::sys::Reading;

/// What the counters of an event say, and for how much of the time they counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Events.
    pub events: u64,
    enabled_ns: u64,
    running_ns: u64,
}

impl Counted {
    /// Share of the time for which counters must have counted, all CPUs together: less is multiplexing, the rest is what lies between
    /// enabling one and the next.
    pub const MIN_RUNNING: f64 = 0.95;

    /// Adds a thread's counters, one a CPU. Each is enabled while the thread runs anywhere, and counts while it runs on that CPU (Linux,
    /// kernel/events/core.c, `event_filter_match`).
    pub fn add(&mut self, of_cpus: &[Reading]) {
        self.events += of_cpus.iter().map(|reading| reading.value).sum::<u64>();
        self.running_ns += of_cpus.iter().map(|reading| reading.time_running_ns).sum::<u64>();
        self.enabled_ns += of_cpus.iter().map(|reading| reading.time_enabled_ns).max().unwrap_or(0);
    }

    /// The share of the time for which they counted, where other events had them meanwhile (multiplexing); none where they were never enabled.
    pub fn multiplexed(&self) -> Option<f64> {
        let share = self.running_ns as f64 / self.enabled_ns as f64;
        (self.enabled_ns > 0 && share < Self::MIN_RUNNING).then_some(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(value: u64, time_enabled_ns: u64, time_running_ns: u64) -> Reading {
        Reading { value, time_enabled_ns, time_running_ns, lost: 0 }
    }

    #[test]
    fn a_thread_that_moves_is_counted_all_the_time() {
        let mut counted = Counted::default();
        counted.add(&[reading(60, 1_000, 600), reading(40, 1_000, 390)]);
        counted.add(&[reading(5, 0, 0), reading(7, 50, 50)]);
        assert_eq!((counted.events, counted.multiplexed()), (112, None));
    }

    #[test]
    fn counters_that_others_had_meanwhile_are_told() {
        let mut counted = Counted::default();
        counted.add(&[reading(60, 1_000, 300), reading(40, 1_000, 100)]);
        counted.add(&[reading(6, 1_000, 400), reading(4, 1_000, 0)]);
        assert_eq!((counted.events, counted.multiplexed()), (110, Some(0.4)));
        assert_eq!(Counted::default().multiplexed(), None, "what was never enabled had nobody beside it");
    }
}
