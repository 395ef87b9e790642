//! What drives a sampler: events that are counted, or time that passes. The number of samples stands on it.

use crate::period::{CPU_CLOCK_PERIOD_MIN_NS, PERIOD_MAX};
use perftax_doc::Mechanism;

/// How many times the cost of a sample a time-driven period must be.
///
/// At P = 2α the program takes twice its time; below that it crawls (24 to 27 times slower was seen on a guest whose samples
/// cost 15 to 25 µs, at P = 12 to 15 µs), the kernel skips the periods that it missed, and N is no longer T/P.
pub const PERIOD_MIN_IN_COSTS: f64 = 2.0;

/// Why there is no prediction.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PredictionError {
    /// A time-driven period so close to the cost of a sample that the program would hardly advance.
    #[error(
        "period {period} ns is too short: a sample costs {alpha_ns:.0} ns here, and the period must be at least {needed} ns \
         ({PERIOD_MIN_IN_COSTS} times that, and longer than the upper end of its interval)"
    )]
    PeriodTooShort {
        /// The period asked for, ns.
        period: u64,
        /// What a sample costs, ns.
        alpha_ns: f64,
        /// The shortest period that is accepted, ns.
        needed: u64,
    },
    /// A period outside of what counters hold.
    #[error("period {period} is not possible: it must lie between 1 and 2^48 ({PERIOD_MAX})")]
    PeriodOutOfRange {
        /// The period asked for.
        period: u64,
    },
    /// A calibration that cannot be predicted with.
    #[error("the cost of a sample is {alpha_ns} ns in this calibration, which predicts nothing: calibrate again")]
    NoCost {
        /// What the calibration says, ns.
        alpha_ns: f64,
    },
    /// The workload profile lacks a number that is needed.
    #[error("the workload profile has no {what}: measure the program again with it")]
    NotMeasured {
        /// What is missing.
        what: String,
    },
    /// A payload or switch term was asked for that the calibration does not have.
    #[error("the calibration has no term '{term}' (it has: {known}): calibrate again with it")]
    UnknownTerm {
        /// The term asked for.
        term: String,
        /// The terms there are.
        known: String,
    },
}

/// What makes a sampler take its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drive {
    /// CPU time of the thread: the sampler samples its own cost too. Periods are in nanoseconds.
    Time,
    /// Counted events. Periods are in events.
    Event {
        /// The hardware arms on overflow and records the *next* event: N = events/(R + 1). PEBS where the data show it.
        record_after_overflow: bool,
    },
}

impl Drive {
    /// The drive of a mechanism; `record_after_overflow` is taken from the CPU's own data and matters for PEBS only.
    pub fn of(mechanism: Mechanism, record_after_overflow: bool) -> Self {
        if mechanism.is_time_driven() {
            Self::Time
        } else {
            Self::Event {
                record_after_overflow: record_after_overflow && matches!(mechanism, Mechanism::Pebs | Mechanism::PebsDirect),
            }
        }
    }

    /// The period that the kernel makes of `period`: cpu-clock is clamped to 10 µs (kernel/events/core.c, perf_swevent_hrtimer).
    pub fn effective_period(self, period: u64) -> u64 {
        match self {
            Self::Time => period.max(CPU_CLOCK_PERIOD_MIN_NS),
            Self::Event { .. } => period,
        }
    }

    /// Samples taken over `quantity`: unmonitored CPU seconds of one thread (or one CPU) for [`Drive::Time`], else events.
    ///
    /// Time-driven: N = T/P with T = C0 + N·α, so N = C0/(P − α). Event-driven: events/R, or events/(R + 1).
    ///
    /// # Errors
    /// A period of 0 or above 2^48; a time-driven period below [`PERIOD_MIN_IN_COSTS`] times `alpha_ns`.
    pub fn samples(self, quantity: f64, period: u64, alpha_ns: f64) -> Result<f64, PredictionError> {
        self.check(period, alpha_ns)?;
        Ok(quantity * self.rate(period, alpha_ns))
    }

    /// Extra seconds that those samples cost: N·α. For [`Drive::Time`] that is C0·α/(P − α).
    ///
    /// # Errors
    /// As [`Drive::samples`].
    pub fn extra_s(self, quantity: f64, period: u64, alpha_ns: f64) -> Result<f64, PredictionError> {
        Ok(self.samples(quantity, period, alpha_ns)? * alpha_ns * 1e-9)
    }

    /// Refuses periods that cannot be predicted for.
    ///
    /// # Errors
    /// As [`Drive::samples`].
    pub fn check(self, period: u64, alpha_ns: f64) -> Result<(), PredictionError> {
        if period == 0 || period > PERIOD_MAX {
            return Err(PredictionError::PeriodOutOfRange { period });
        }
        let needed = alpha_ns * PERIOD_MIN_IN_COSTS;
        if self == Self::Time && (self.effective_period(period) as f64) < needed {
            return Err(PredictionError::PeriodTooShort { period, alpha_ns, needed: needed.ceil() as u64 });
        }
        Ok(())
    }

    /// What a sample cost, ns, where sampling took `extra_s` seconds more for each unmonitored CPU second ([`Drive::Time`]: the
    /// inverse of α/(P − α)) or for each sample.
    pub(crate) fn cost_ns(self, period: u64, extra_s: f64) -> f64 {
        match self {
            Self::Time => self.effective_period(period) as f64 * extra_s / (1.0 + extra_s),
            Self::Event { .. } => extra_s * 1e9,
        }
    }

    /// Samples per CPU second or per event, unchecked. Infinite at and below P = α for time-driven sources.
    pub(crate) fn rate(self, period: u64, alpha_ns: f64) -> f64 {
        let period = self.effective_period(period) as f64;
        match self {
            Self::Time if period <= alpha_ns => f64::INFINITY,
            Self::Time => 1e9 / (period - alpha_ns),
            Self::Event { record_after_overflow: true } => 1.0 / (period + 1.0),
            Self::Event { record_after_overflow: false } => 1.0 / period,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: Drive = Drive::Event { record_after_overflow: false };

    #[test]
    fn a_cost_is_found_back_from_what_it_cost() {
        let extra_s = Drive::Time.extra_s(1.0, 60_000, 20_000.0).unwrap();
        assert!((Drive::Time.cost_ns(60_000, extra_s) - 20_000.0).abs() < 1e-6);
        let extra_s = EVENT.extra_s(7e6, 7, 300.0).unwrap();
        assert!((EVENT.cost_ns(7, extra_s / 1e6) - 300.0).abs() < 1e-9);
    }

    #[test]
    fn time_driven_sampling_compounds() {
        // 25 kHz at 20 µs a sample: 1/(1 − αF) = 2, where 1 + αF would say 1.5. Measured: 2.01.
        assert!((Drive::Time.extra_s(1.0, 40_000, 20_000.0).unwrap() - 1.0).abs() < 1e-12);
        let samples = Drive::Time.samples(1.0, 40_000, 20_000.0).unwrap();
        assert!((samples - 2.0 / 40e-6).abs() < 1e-6, "samples come at every period of the monitored time");
    }

    #[test]
    fn events_are_divided_by_the_period_or_one_more() {
        assert_eq!(EVENT.samples(1e6, 1000, 50.0), Ok(1000.0));
        assert_eq!(Drive::Event { record_after_overflow: true }.samples(1001.0 * 7.0, 1000, 50.0), Ok(7.0));
        assert_eq!(Drive::of(Mechanism::Pebs, true), Drive::Event { record_after_overflow: true });
        assert_eq!(Drive::of(Mechanism::Pmi, true), EVENT);
        assert_eq!(Drive::of(Mechanism::CpuClock, true), Drive::Time);
    }

    #[test]
    fn periods_that_cannot_be_are_refused() {
        assert!(matches!(Drive::Time.check(29_999, 15_000.0), Err(PredictionError::PeriodTooShort { needed: 30_000, .. })));
        assert_eq!(Drive::Time.check(30_000, 15_000.0), Ok(()));
        assert_eq!(EVENT.check(1, 15_000.0), Ok(()));
        for period in [0, PERIOD_MAX + 1] {
            assert_eq!(EVENT.check(period, 1.0), Err(PredictionError::PeriodOutOfRange { period }));
        }
        assert_eq!(EVENT.check(PERIOD_MAX, 1.0), Ok(()));
    }

    #[test]
    fn the_kernel_clamps_cpu_clock_to_ten_microseconds() {
        assert_eq!(Drive::Time.samples(1.0, 1_000, 2_000.0), Drive::Time.samples(1.0, 10_000, 2_000.0));
    }
}
