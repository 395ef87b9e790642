//! `perftax phase`: two events over a program's run.

use serde::{Deserialize, Serialize};

use crate::Estimate;
use crate::Origin;

/// Counts of two events at fixed intervals of a third.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Phase {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The program and its arguments.
    pub program: Vec<String>,
    /// The event that ends an interval: `instructions:u` unless another was asked for.
    pub interval_event: String,
    /// Whether that is a clock, which counts nanoseconds.
    pub is_time: bool,
    /// After how many of it.
    pub period: u64,
    /// The two events, by name.
    pub events: [String; 2],
    /// Every interval, in the program's order; the last one is what was left at the end, and shorter.
    pub intervals: Vec<PhaseInterval>,
    /// Counts of the whole run: the interval's event and the two.
    pub counted: [u64; 3],
    /// Samples that must have come: counted over period, rounded down.
    pub expected_samples: u64,
    /// Samples that came.
    pub samples: u64,
    /// Samples that the kernel could not write.
    pub lost: u64,
    /// Times that it throttled.
    pub throttled: u64,
    /// Share of the time for which the events were on counters.
    pub running: f64,
    /// Threads and processes that the program created, which are not in it.
    pub unwatched: u64,
    /// First event over second, the whole run; the interval says how far runs of other intervals of the same kind would differ. None
    /// where there were none of the second, or too few for an interval.
    pub ratio: Option<Estimate>,
    /// The run in stretches within which neither event's rate changes, in order.
    pub stretches: Vec<PhaseStretch>,
}

/// One interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PhaseInterval {
    /// Events of the interval's kind from the start of the program to the end of the interval.
    pub until: u64,
    /// Of them in this interval: the period, and what passed until the handler had read the counters. Twice as many and more where a
    /// sample did not come.
    pub passed: u64,
    /// Of the first event.
    pub first: u64,
    /// Of the second event.
    pub second: u64,
    /// When it ended, ns of perf's clock since the first one did.
    pub time_ns: u64,
}

/// Intervals, one behind the other, that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PhaseStretch {
    /// Number of its first interval.
    pub from: u64,
    /// Number of the first one behind it.
    pub to: u64,
    /// Events of the interval's kind in it.
    pub passed: u64,
    /// The first event for each of them.
    pub first_rate: Option<Estimate>,
    /// The second event for each of them.
    pub second_rate: Option<Estimate>,
    /// First over second; none where there were none of the second, or too few for an interval.
    pub ratio: Option<Estimate>,
}

impl Phase {
    /// Samples that did not come though nothing says that they were lost.
    pub fn missing(&self) -> u64 {
        self.expected_samples.saturating_sub(self.samples + self.lost)
    }
}

impl PhaseInterval {
    /// The first event over the second, where there was one.
    pub fn ratio(&self) -> Option<f64> {
        (self.second > 0).then(|| self.first as f64 / self.second as f64)
    }
}

impl Phase {
    /// What rates are shown for: so many events of the interval's kind, and how that is said.
    pub fn shown_per(&self) -> (f64, String) {
        const NS_PER_MS: f64 = 1e6;
        const MANY: u64 = 1000;
        match self.is_time {
            true => (NS_PER_MS, format!("per ms of {}", self.interval_event)),
            false if self.period >= MANY => (MANY as f64, format!("per {MANY} {}", self.interval_event)),
            false => (1.0, format!("per {}", self.interval_event)),
        }
    }

    /// The intervals put together to at most so many, alike in length as far as they can be.
    pub fn thinned(&self, most: usize) -> Vec<PhaseInterval> {
        let (all, most) = (self.intervals.len(), most.max(1).min(self.intervals.len()));
        let sum = |of: &[PhaseInterval]| {
            let add = |sum: PhaseInterval, i: &PhaseInterval| PhaseInterval {
                until: i.until,
                passed: sum.passed + i.passed,
                first: sum.first + i.first,
                second: sum.second + i.second,
                time_ns: i.time_ns,
            };
            of.iter().fold(PhaseInterval::default(), add)
        };
        (0..most).map(|place| sum(&self.intervals[place * all / most..(place + 1) * all / most])).collect()
    }
}
