//! `perftax verify`: did the prediction hold?

use serde::{Deserialize, Serialize};

use super::{Calibration, Control, Origin};
use crate::observation::Run;
use crate::{Estimate, Mechanism};

/// Measured against expected elapsed times, over workloads and periods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The event.
    pub event: String,
    /// One cell a workload and period.
    pub cells: Vec<Cell>,
    /// Median of |E| over the cells, a fraction.
    pub median_abs_error: f64,
    /// Share of the cells whose interval of E covers 0.
    pub coverage: f64,
    /// Measured extra time against predicted extra time over all cells.
    pub regression: Option<Regression>,
    /// Off against off, per workload.
    pub controls: Vec<WorkloadControl>,
    /// Whether the prediction held.
    pub held: bool,
    /// The calibrations measured inside the rounds (their blocks are the raw observations).
    pub calibrations: Vec<Calibration>,
}

/// The A/A control of one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadControl {
    /// The workload.
    pub workload: String,
    /// The control.
    #[serde(flatten)]
    pub control: Control,
}

/// One workload at one period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The workload's name.
    pub workload: String,
    /// The event where cells differ in it.
    pub event: String,
    /// Sampling period.
    pub period: u64,
    /// How the events were attached: `inherited`, `per-thread`, `per-cpu`.
    pub attach: String,
    /// The CPU that the cell speaks of, where cells are per core.
    pub cpu: Option<u32>,
    /// Unmonitored elapsed time (CPU time where the cell is per core).
    pub unmonitored_s: Estimate,
    /// Expected elapsed time.
    pub expected_s: Estimate,
    /// Measured elapsed time.
    pub measured_s: Estimate,
    /// E = (measured − expected)/expected, a fraction, with its interval.
    pub error: Estimate,
    /// Whether E's interval covers 0.
    pub covered: bool,
    /// Predicted overhead, a fraction of the unmonitored time.
    pub predicted_overhead: Estimate,
    /// Measured overhead, a fraction of the unmonitored time.
    pub measured_overhead: Estimate,
    /// Rounds used.
    pub rounds: u32,
    /// Samples delivered, mean a run.
    pub samples: f64,
    /// Samples expected, mean a run.
    pub expected_samples: f64,
    /// Lost records, all runs.
    pub lost: u64,
    /// THROTTLE records, all runs.
    pub throttled: u64,
    /// The raw observations: unmonitored and monitored runs.
    pub runs: Vec<Run>,
}

/// Measured extra time regressed on predicted extra time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regression {
    /// Slope: 1 where the model holds.
    pub slope: Estimate,
    /// Intercept, seconds.
    pub intercept_s: Estimate,
    /// Cells used.
    pub cells: u32,
}
