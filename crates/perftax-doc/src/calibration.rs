//! `perftax calibrate`: what one sample costs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Origin;
use crate::observation::Block;
use crate::{Estimate, Mechanism};

/// The cost of one sample by one mechanism and event on one machine, with the blocks it was estimated from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Calibration {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The mechanism calibrated.
    pub mechanism: Mechanism,
    /// The event, in perf's syntax.
    pub event: String,
    /// α, the ambient cost: expected elapsed time that one sample adds, as the machine was during the calibration.
    pub alpha_ns: Estimate,
    /// The floor: the cost on an undisturbed machine (5th percentile).
    pub floor_ns: Option<Estimate>,
    /// Samples behind `alpha_ns`.
    pub samples: u64,
    /// Samples that should have come, by construction or by the period.
    pub expected_samples: f64,
    /// Records lost.
    pub lost: u64,
    /// THROTTLE records.
    pub throttled: u64,
    /// The split of the cost, ns a sample (or ns a context switch for `switch-*`), by term. Payload terms come on top of α.
    pub terms: BTreeMap<String, Estimate>,
    /// Pages of code that the work of the term `wide-code` effectively has ([`crate::code::CodeFootprint`]); none without that term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wide_code_pages: Option<f64>,
    /// Cost by period.
    pub linearity: Option<Linearity>,
    /// Off against off: relative difference of two unmonitored arms.
    pub control: Option<Control>,
    /// A second, independent look at the cost.
    #[serde(rename = "witness")]
    pub cross_check: Option<CrossCheck>,
    /// What our own kernel module found beside it; only by `pebs-direct`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct: Option<DirectCost>,
    /// Relative spread of α between sessions beyond what their intervals explain: how much it drifts, a fraction.
    pub drift: f64,
    /// Number of sessions (clusters).
    pub sessions: u32,
    /// Elapsed time that the calibration took.
    pub elapsed_s: f64,
    /// Why it stopped.
    pub stopped: StopReason,
    /// The raw observations.
    pub blocks: Vec<Block>,
}

/// The cost of a record that is thrown away, apart from perf (`pebs-direct`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DirectCost {
    /// By size of the buffer.
    pub buffers: Vec<RecordCost>,
    /// The straight line through extra time of a block against its samples, interrupts taken out: figure 2 of ROSS'17.
    pub line: Option<Line>,
    /// What a sample by perf is made of; none where perf's own PEBS could not be measured beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decomposition: Option<Decomposition>,
    /// What the same line was on published machines.
    pub published: Vec<PublishedSlope>,
}

/// The cost of a record with a buffer of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordCost {
    /// Size asked for, bytes a CPU.
    pub buffer_bytes: u64,
    /// Records to an interrupt.
    pub records_per_interrupt: u64,
    /// Samples behind `record_ns`.
    pub samples: u64,
    /// What a record delays the work by, without its share of an interrupt.
    pub record_ns: Estimate,
    /// With it.
    pub alpha_ns: Estimate,
}

/// What a sample by perf's PEBS is made of, ns a sample: `sample = record + interrupt + software`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Decomposition {
    /// All of it.
    pub sample_ns: Estimate,
    /// Records that share an interrupt of perf's.
    pub records_per_interrupt: f64,
    /// The hardware's: writing the record.
    pub record_ns: Estimate,
    /// Its share of an interrupt that finds records and does nothing with them.
    pub interrupt_ns: Estimate,
    /// Perf's software: all else.
    pub software_ns: Estimate,
}

/// A straight line: extra time = intercept + slope · samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Line {
    /// Extra time of a block without a sample, ns; 0 where nothing but samples takes time.
    pub intercept_ns: Estimate,
    /// Time of a sample, ns.
    pub slope_ns: Estimate,
}

/// The published cost of a record on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PublishedSlope {
    /// The CPU.
    pub machine: String,
    /// Where it stands.
    pub source: String,
    /// Its cost, ns.
    pub alpha_ns: Estimate,
}

/// Why a calibration ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// The interval was as narrow as asked.
    Precision,
    /// The time limit came first.
    TimeLimit,
}

/// The cost of a sample at one period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeriodCost {
    /// Sampling period: events, or nanoseconds for time-driven sources.
    pub period: u64,
    /// Samples behind the estimate.
    pub samples: u64,
    /// Cost of one sample at this period.
    pub alpha_ns: Estimate,
}

/// Is elapsed time linear in the number of samples?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Linearity {
    /// One estimate per period.
    pub periods: Vec<PeriodCost>,
    /// Theil–Sen slope of extra time against samples over all blocks: robust, kept as a check.
    pub theil_sen_ns: Estimate,
    /// Relative difference of the cost at the shortest and at the longest period, with its interval.
    pub curvature: Estimate,
}

/// The A/A control: two arms without monitoring, compared as the monitored arm is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Control {
    /// Relative difference (off2 − off)/off, a fraction.
    pub difference: Estimate,
    /// Whether the interval contains 0, or (of whole programs) nothing that would matter: if not, the result is refused.
    pub passed: bool,
    /// The smallest relative bias that this control can tell from 0: its half-width.
    pub detects: f64,
}

/// Time spent inside the interrupt handler per sample, seen by the kernel's own tracepoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CrossCheck {
    /// Which tracepoints.
    pub source: String,
    /// Handler time of one sample. A lower bound of α: interrupt delivery itself is outside of it.
    pub handler_ns: Estimate,
    /// Samples behind it.
    pub samples: u64,
}
