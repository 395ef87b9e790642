//! Instructions and cycles that a trace counts of each message, by which more work is told from slower work.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Estimate;

/// How well instructions and cycles were counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecutionSight {
    /// Readings of CPUs' counters: whenever a thread left one, and at probes.
    pub readings_of_cpus: u64,
    /// Readings by threads themselves, in their marks.
    pub readings_in_marks: u64,
    /// Marks in which a counter did not count: others held it.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub marks_without_count: u64,
    /// Somebody else took the counters of CPUs meanwhile: nothing was read of those from then on, and no probe beside them was seen.
    #[serde(default)]
    pub are_taken: bool,
    /// Processes with a filter of system calls, which might have killed them for opening counters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filtered: Vec<u32>,
    /// Threads that read their counters in their marks.
    pub threads: usize,
    /// Threads whose marks come without: what they are built with knows nothing of it.
    pub threads_without: usize,
    /// Threads that were refused their counters, by the kernel's word.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, usize>,
    /// What a reading in a mark takes on this machine, ns: the median of nine timings, from the least to the most of them; none where none was taken, or it cannot be had here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading_ns: Option<Estimate>,
}

/// Whether slow messages had more work to do than the others, or did it more slowly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlamedExecution {
    /// Slow messages of which it is known what they executed.
    pub messages: u64,
    /// Slow messages of which it is not.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub unknown: u64,
    /// Instructions of a message that is not slow, in user mode, the mean.
    pub usual_instructions: f64,
    /// Its cycles.
    pub usual_cycles: f64,
    /// Its time on the CPU, ns.
    pub usual_on_cpu_ns: f64,
    /// Instructions of a slow message beyond that, the mean; 95 % by bootstrap over messages, as all of these.
    pub extra_instructions: Estimate,
    /// Cycles.
    pub extra_cycles: Estimate,
    /// Time on the CPU, ns; the three that follow add up to it.
    pub extra_on_cpu_ns: Estimate,
    /// Of it more work, ns: the additional instructions, at the usual cycles for each and the usual time for each of those.
    pub more_work_ns: Estimate,
    /// Of it slower work, ns: the additional cycles for each instruction, at the usual time for each.
    pub slower_work_ns: Estimate,
    /// Of it neither, ns: cycles that took longer, and what is not the program's own code.
    pub rest_ns: Estimate,
}

/// What one message executed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessageExecution {
    /// Instructions in user mode.
    pub instructions: u64,
    /// Cycles in user mode.
    pub cycles: u64,
    /// Instructions: at least, at most; where part of them was counted for several messages together, and is shared out by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions_between: Option<(u64, u64)>,
    /// Cycles: at least, at most, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles_between: Option<(u64, u64)>,
    /// Against the others' mean; none where nothing is known of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against_usual: Option<LongerExecution>,
}

/// Why a message was longer on the CPU than others are on average.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LongerExecution {
    /// Instructions of a message that is not slow, the mean.
    pub usual_instructions: f64,
    /// Its cycles.
    pub usual_cycles: f64,
    /// Time on the CPU beyond theirs by more work, ns.
    pub more_work_ns: f64,
    /// By slower work, ns.
    pub slower_work_ns: f64,
    /// By neither, ns.
    pub rest_ns: f64,
}
