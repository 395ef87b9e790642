//! What a reader must know beside a number, and what to do about it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::steps::{Calibrated, Operation, Setting};

/// A condition that weakens a result without voiding it. Each says what it means (`Display`) and has a remedy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Warning {
    /// The run-to-run variation is above the limit that the CERN study excluded benchmarks at (10 %).
    HighVariation {
        /// What varied.
        what: String,
        /// Coefficient of variation, a fraction.
        variation: f64,
    },
    /// Records were lost.
    LostRecords {
        /// How many.
        lost: u64,
    },
    /// The kernel throttled the event.
    Throttled {
        /// How many THROTTLE records came.
        throttled: u64,
    },
    /// Fewer samples came than the period and the events say: α is of those that came, and whatever held back the others is unknown.
    MissingSamples {
        /// How many came.
        came: u64,
        /// How many should have.
        expected: f64,
    },
    /// Rounds were left out.
    #[serde(rename = "spoiled-rounds")]
    DiscardedRounds {
        /// How many.
        #[serde(rename = "spoiled")]
        discarded: u64,
        /// Of how many.
        of: u64,
        /// The commonest reason.
        reason: String,
    },
    /// The asked precision was not reached in the time given.
    PrecisionNotReached {
        /// Relative half-width asked for, a fraction.
        wanted: f64,
        /// Relative half-width reached, a fraction.
        reached: f64,
    },
    /// The calibration used is old, so its interval was widened by the drift.
    OldCalibration {
        /// Age in seconds.
        age_s: f64,
        /// Relative widening, a fraction.
        drift: f64,
    },
    /// Cost per sample depends on the rate.
    NotLinear {
        /// Relative difference between the highest and the lowest rate's cost, a fraction.
        curvature: f64,
    },
    /// The profile belongs to another machine, kernel or boot configuration.
    ForeignProfile {
        /// The profile's machine.
        profile: String,
        /// What was expected.
        here: String,
    },
    /// Events were multiplexed: the counter ran only part of the time.
    Multiplexed {
        /// Event name.
        event: String,
        /// time_running / time_enabled, a fraction.
        running: f64,
    },
    /// Debug exceptions came without a reason (a hypervisor that loses DR6), each for a breakpoint's hit that was missed.
    StrayTraps {
        /// How many.
        traps: u64,
    },
    /// Anything a command wants to say that has no variant yet.
    Other {
        /// What it is.
        message: String,
        /// What to do.
        remedy: String,
    },
}

impl Warning {
    /// What the reader can do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::HighVariation { .. } => {
                format!("quieten the machine, pin the program, or lengthen its run; ask for more runs with {}", Setting::Runs)
            }
            Self::LostRecords { .. } => {
                format!("enlarge the ring buffer ({}) or the period ({})", Setting::RingPages, Setting::Period)
            }
            Self::Throttled { .. } => {
                "raise the limit: sysctl kernel.perf_event_max_sample_rate=1000000, then kernel.perf_cpu_time_max_percent=0"
                    .into()
            }
            Self::MissingSamples { .. } => {
                format!(
                    "{} shows what holds samples back: limits of the kernel's, timers without high resolution, a hypervisor that delays them; \
                     a longer period ({}) may get them all",
                    Operation::Diagnose,
                    Setting::Period
                )
            }
            Self::DiscardedRounds { .. } => {
                "quieten the machine; the raw observations in the document show each discarded round".into()
            }
            Self::PrecisionNotReached { .. } => {
                format!(
                    "give it more time ({}; for verify also {}) or accept the wider interval",
                    Setting::Time,
                    Setting::MaxRounds
                )
            }
            Self::OldCalibration { .. } => Operation::Calibrate(Calibrated::All).to_string(),
            Self::NotLinear { .. } => {
                format!(
                    "predict only between the calibrated periods, or calibrate with {} near the period you want",
                    Setting::Period
                )
            }
            Self::ForeignProfile { .. } => {
                format!(
                    "{} on the machine in question, or name its profile with {}",
                    Operation::Calibrate(Calibrated::All),
                    Setting::Profile
                )
            }
            Self::Multiplexed { .. } => {
                "end other profilers; sysctl kernel.nmi_watchdog=0 frees a counter; or measure fewer events".into()
            }
            Self::StrayTraps { .. } => {
                "on bare metal, or another hypervisor: a program that is watched there can die of SIGTRAP".into()
            }
            Self::Other { remedy, .. } => remedy.clone(),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HighVariation { what, variation } => {
                write!(f, "{what} varies by {:.1} % between runs (limit 10 %)", variation * 100.0)
            }
            Self::LostRecords { lost } => write!(f, "{lost} records were lost"),
            Self::Throttled { throttled } => write!(f, "the kernel throttled the event {throttled} times"),
            Self::MissingSamples { came, expected } => {
                write!(
                    f,
                    "only {came} of {expected:.0} samples came: what an interrupt costs without one is not to be had from this"
                )
            }
            Self::DiscardedRounds { discarded, of, reason } => {
                write!(f, "{discarded} of {of} rounds were discarded ({reason}) and left out")
            }
            Self::PrecisionNotReached { wanted, reached } => {
                write!(
                    f,
                    "the interval is ±{:.2} %, not the ±{:.2} % asked for: the time or the rounds ran out",
                    reached * 100.0,
                    wanted * 100.0
                )
            }
            Self::OldCalibration { age_s, drift } => {
                write!(
                    f,
                    "the calibration is {:.0} minutes old; its interval carries ±{:.1} % of drift",
                    age_s / 60.0,
                    drift * 100.0
                )
            }
            Self::NotLinear { curvature } => {
                write!(f, "the cost of a sample changes by {:.0} % over the calibrated periods", curvature * 100.0)
            }
            Self::ForeignProfile { profile, here } => write!(f, "the profile is of '{profile}', not of '{here}'"),
            Self::Multiplexed { event, running } => {
                write!(f, "{event} was counted only {:.0} % of the time (multiplexed)", running * 100.0)
            }
            Self::StrayTraps { traps } => {
                write!(f, "{traps} hits of breakpoints were missed: their debug exceptions came without a reason (DR6 was empty)")
            }
            Self::Other { message, .. } => f.write_str(message),
        }
    }
}
