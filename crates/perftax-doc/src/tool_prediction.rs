//! `perftax predict --tool`: what another tool would cost a program.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Estimate, Mechanism, Origin, WorkloadProfile};

/// What a tool would cost a program, term by term.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolPrediction {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The tool, its subcommand with it.
    pub tool: String,
    /// Its line, without the command that it may end with.
    pub line: Vec<String>,
    /// The program.
    pub workload: WorkloadProfile,
    /// What it samples, event by event; empty where it samples nothing that is recorded.
    pub samplers: Vec<ToolSampler>,
    /// What each thing costs that has a price, the most expensive first.
    pub terms: Vec<ToolTerm>,
    /// What all of them cost together, a fraction of the elapsed time without the tool: the least that it costs where `unpriced` is not empty.
    pub priced_overhead: Estimate,
    /// The same as a fraction of the program's CPU time; none where it used none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priced_cpu_overhead: Option<Estimate>,
    /// What costs the program something and has no price here.
    pub unpriced: Vec<Unpriced>,
    /// Options that cost the tool's own time, beside the program.
    pub beside: Vec<String>,
    /// Events that are opened, one for each CPU and thread; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opens: Option<u64>,
    /// What the tool itself takes before the program begins and after it has ended, s; none where it was not tried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub around_s: Option<Estimate>,
    /// The trial that prices come from; none where a calibration has them all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<ToolTrial>,
}

/// An event that a tool samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolSampler {
    /// The event, as it would be opened here.
    pub event: String,
    /// How it is sampled.
    pub mechanism: Mechanism,
    /// Of so many events one, or after so many nanoseconds; where the line gives a frequency, the period that comes to it.
    pub period: u64,
    /// Samples of a run.
    pub samples: Estimate,
    /// Bytes of a sample's record.
    pub bytes_per_sample: Estimate,
    /// Bytes that its samples put into rings and file, a second of the run.
    pub bytes_per_s: Estimate,
}

/// A thing that costs the program time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolTerm {
    /// What it is: `samples of cpu-clock`, `system calls`.
    pub what: String,
    /// How often it comes in a run; none where it is a share of something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<Estimate>,
    /// What each costs, ns; none where it is a share of something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each_ns: Option<Estimate>,
    /// All together, a fraction of the elapsed time without the tool.
    pub overhead: Estimate,
    /// Where the price comes from.
    pub source: PriceSource,
}

/// Where a price comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PriceSource {
    /// A calibration of this machine.
    Calibration,
    /// The tool itself, tried out on known work.
    Trial,
}

impl PriceSource {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Calibration => "calibrated",
            Self::Trial => "tried out",
        }
    }
}

/// What has no price.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unpriced {
    /// The option, event or probe, as the line has it.
    pub what: String,
    /// Why, or what of it.
    pub why: String,
}

/// A tool tried out on work whose number of events is known: with it and without, in turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolTrial {
    /// The words that ran, but for the work's own.
    pub line: Vec<String>,
    /// Samples a second that it was tried out with, where it samples by a clock; the line's own may be too few to be seen in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hz: Option<f64>,
    /// Pages of code that the work of the stages of wide code effectively has ([`crate::code::CodeFootprint`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wide_code_pages: Option<f64>,
    /// What each stage did, in its own units, by its name.
    pub done: BTreeMap<TrialStage, u64>,
    /// What each run took.
    pub runs: Vec<TrialRun>,
}

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TrialStage {
    /// Computing: operations.
    Computing,
    /// System calls that take nothing (getppid).
    Calls,
    /// System calls that take a path (newfstatat), of 600 files in turn.
    Paths,
    /// System calls that fill a buffer (read).
    Reads,
    /// Page faults.
    Faults,
    /// Passes of a token between two processes on one CPU: a context switch, a read and a write each.
    Switches,
    /// Processes that are created and end at once.
    Tasks,
    /// Calls of a function that the tool's probe of a program's function sits on, where it has one.
    Probed,
    /// Work that lives off its second-level cache, where the tool samples by a clock: steps.
    CachedWork,
    /// Work of wide code, where the tool samples by a clock: calls of functions.
    WideCode,
    /// System calls that take nothing, a stretch of wide code after each.
    SpreadCalls,
}

impl TrialStage {
    /// In their order.
    pub const ALL: [Self; 11] = [
        Self::Computing,
        Self::Calls,
        Self::Paths,
        Self::Reads,
        Self::Faults,
        Self::Switches,
        Self::Tasks,
        Self::Probed,
        Self::CachedWork,
        Self::WideCode,
        Self::SpreadCalls,
    ];
}

/// On which CPUs a tool and the work that it is tried out on run. Handing control from one CPU to another wakes that one up: on a guest of a hypervisor that
/// takes several times as long as a switch between two tasks of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TrialPlacement {
    /// Where the scheduler puts them.
    #[default]
    Free,
    /// Both on one CPU.
    Together,
    /// Each on one of its own.
    Apart,
}

impl TrialPlacement {
    /// Whether the scheduler decides.
    pub fn is_free(&self) -> bool {
        *self == Self::Free
    }
}

/// One run of the work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialRun {
    /// Its round; each has a run with the tool and one without.
    pub round: u32,
    /// Whether the tool was there.
    pub with_tool: bool,
    /// On which CPUs it ran.
    #[serde(default, skip_serializing_if = "TrialPlacement::is_free")]
    pub placement: TrialPlacement,
    /// From its start to its end, the tool's own time with it, s.
    pub elapsed_s: f64,
    /// Of that each stage, ns.
    pub stages_ns: BTreeMap<TrialStage, u64>,
}
