//! Multiplexing: more events than counters.

/// Events that take turns on the counters, one place further at every tick, as `perf_event_multiplex_hrtimer` and the tick
/// before it do it (kernel/events/core.c, `rotate_ctx`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Events opened.
    pub events: u32,
    /// Counters there are.
    pub counters: u32,
}

impl Rotation {
    /// Whether an event is on a counter during a tick.
    pub fn is_running(self, event: u32, tick: u64) -> bool {
        if self.events <= self.counters {
            return event < self.events;
        }
        let first = (tick % u64::from(self.events)) as u32;
        (event + self.events - first) % self.events < self.counters
    }

    /// Share of the time that an event is counted, in the long run.
    pub fn share(self) -> f64 {
        f64::from(self.counters.min(self.events)) / f64::from(self.events.max(1))
    }

    /// Scales a count to the whole time: what perf prints. `None` where the event never ran.
    pub fn scaled(count: u64, enabled_ticks: u64, running_ticks: u64) -> Option<f64> {
        (running_ticks > 0).then(|| count as f64 * enabled_ticks as f64 / running_ticks as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates of the PES study's multiplexed events, unscaled: 79.9 and 66.6 % with five and six events on four counters.
    #[test]
    fn five_and_six_events_share_four_counters() {
        for (events, share) in [(4, 1.0), (5, 0.8), (6, 4.0 / 6.0)] {
            let rotation = Rotation { events, counters: 4 };
            assert!((rotation.share() - share).abs() < 1e-12);
            for event in 0..events {
                let running = (0..6000).filter(|&tick| rotation.is_running(event, tick)).count();
                assert!((running as f64 / 6000.0 - share).abs() < 1e-9, "{events} events, number {event}: {running}");
                assert_eq!(Rotation::scaled(running as u64, 6000, running as u64), Some(6000.0));
            }
        }
        assert_eq!(Rotation::scaled(0, 10, 0), None);
    }

    #[test]
    fn never_more_events_run_than_there_are_counters() {
        let rotation = Rotation { events: 7, counters: 4 };
        for tick in 0..100 {
            assert_eq!((0..7).filter(|&event| rotation.is_running(event, tick)).count(), 4);
        }
    }
}
