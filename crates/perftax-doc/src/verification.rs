//! `perftax verify`: did the prediction hold?

use serde::{Deserialize, Serialize};

use crate::observation::Run;
use crate::{Calibration, Control, Origin};
use crate::{Estimate, Mechanism};

/// Measured against expected elapsed times, over workloads and periods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The same three for the model without the pollution term, where probes measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_pollution: Option<Totals>,
    /// Off against off, per workload.
    pub controls: Vec<WorkloadControl>,
    /// What the reference loop took out of each workload's times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "yardsticks")]
    pub reference_loops: Vec<WorkloadReferenceLoop>,
    /// Runs that were made and not used, in the order in which they were made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOutRun>,
    /// Runs that were made, all together; 0 in documents of versions that did not say.
    #[serde(default)]
    pub runs_made: u64,
    /// Whether the prediction held.
    pub held: bool,
    /// The calibrations measured inside the rounds (their blocks are the raw observations).
    pub calibrations: Vec<Calibration>,
}

/// What all cells say together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Totals {
    /// Median of |E| over the cells, a fraction. NaN without cells.
    pub median_abs_error: f64,
    /// Share of the cells whose interval of E covers 0. NaN without cells.
    pub coverage: f64,
    /// Measured extra time against predicted extra time over all cells.
    pub regression: Option<Regression>,
}

/// A run that is in no cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOutRun {
    /// The workload.
    pub workload: String,
    /// Its round, from 0.
    pub round: u32,
    /// The arm: `off`, `off2`, `on`, `probe`.
    pub arm: String,
    /// The sampling period; 0 where nothing was sampled.
    pub period: u64,
    /// Why: what was lost, throttled, stolen or missing.
    pub why: String,
}

/// The A/A control of one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkloadControl {
    /// The workload.
    pub workload: String,
    /// The control.
    #[serde(flatten)]
    pub control: Control,
}

/// How the reference loop explains one workload's variation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkloadReferenceLoop {
    /// The workload.
    pub workload: String,
    /// The fit.
    #[serde(flatten)]
    pub fit: Fit,
}

/// One workload at one period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// What a sample costs this program beyond the calibrated α, where probes measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pollution: Option<Pollution>,
    /// The raw observations: unmonitored and monitored runs, probes included.
    pub runs: Vec<Run>,
}

/// The pollution term of one cell: what an interruption makes this program lose in caches and TLBs, beyond what the calibrated
/// work loses. Measured by probes, monitored runs at periods that no cell has, and interpolated along the period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pollution {
    /// Cost of a sample at the cell's period beyond α, nanoseconds.
    pub extra_ns: Estimate,
    /// Expected elapsed time without it: from α alone.
    pub expected_without_s: Estimate,
    /// E without it.
    pub error_without: Estimate,
}

/// Measured extra time regressed on predicted extra time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Regression {
    /// Slope: 1 where the model holds.
    pub slope: Estimate,
    /// Intercept, seconds.
    pub intercept_s: Estimate,
    /// Cells used.
    pub cells: u32,
}

/// What the fit of one program found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fit {
    /// The exponent β.
    pub exponent: f64,
    /// Scatter of ln T within the arms before.
    pub scatter_before: f64,
    /// Scatter of ln T within the arms after.
    pub scatter_after: f64,
    /// What was taken out of each monitored arm beyond the unmonitored ones. Were it not near 0 in the mean, the reference loop would
    /// measure the sampling and hide a part of its cost.
    pub shift_by_arm: Vec<ArmShift>,
}

/// What the reference loop took out of one arm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArmShift {
    /// The arm's sampling period.
    pub period: u64,
    /// Mean ln of what was taken out, relative to the unmonitored arms.
    pub shift: f64,
}
