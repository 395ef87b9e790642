//! Raw observations: what was measured, before any statistics.

use serde::{Deserialize, Serialize};

/// One timed block of fixed work, in one arm of a calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Block {
    /// Which session (cluster of adjacent rounds; sessions are spread in time) the block belongs to, from 0.
    pub session: u32,
    /// Which round (one pass over all arms in random order) within the session, from 0.
    pub round: u32,
    /// Name of the arm: `off`, `off2` (the A/A control), `on`, `counting`, `callchain` …
    pub arm: String,
    /// Sampling period of the arm (events, or nanoseconds for time-driven sources); 0 where nothing was sampled.
    pub period: u64,
    /// Samples delivered into the ring during the block.
    pub samples: u64,
    /// Samples that the truth by construction (or the period) says should have come.
    pub expected: f64,
    /// Records that the kernel reported lost during the block.
    pub lost: u64,
    /// THROTTLE records during the block.
    pub throttled: u64,
    /// Elapsed time of the block.
    pub wall_ns: u64,
    /// CPU time of the thread during the block (user and system).
    pub cpu_ns: u64,
    /// Involuntary context switches of the thread during the block.
    pub involuntary_switches: u64,
    /// Time stolen by the hypervisor from this CPU during the block (from /proc/stat: resolution of one tick).
    pub steal_ns: u64,
    /// What was left to do when the work had ended; only where the mechanism keeps records in a buffer of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settling: Option<Settling>,
    /// Why the block must not be used, if it was discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "spoiled")]
    pub discarded: Option<String>,
}

/// What a mechanism that keeps its records in a buffer of the hardware's (PEBS) left to do at the end of a block's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settling {
    /// Records that were still in that buffer.
    pub waiting: u64,
    /// Elapsed time of stopping the event, in which the kernel reads them; not part of the block's times.
    pub stop_ns: u64,
    /// Performance interrupts on the CPU during the work (/proc/interrupts, or as our module counted them): each emptied the buffer once.
    pub interrupts: u64,
    /// Time in the handler of those interrupts, where it is our module's.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub handler_ns: u64,
    /// Size of the buffer, where it was chosen.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub buffer_bytes: u64,
    /// Records to an interrupt, where it was chosen.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub capacity: u64,
}

/// How fast the machine was during a run: a fixed piece of work, slipped in on the program's CPU again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReferenceLoop {
    /// How often it was done.
    pub passes: u32,
    /// Mean time of one pass: independent arithmetic and first-level loads.
    pub throughput_ns: f64,
    /// CPU time that it took away from the program.
    pub cpu_s: f64,
}

/// One run of a whole program, in one arm of a workload measurement or verification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    /// Which round (one pass over all arms in random order) the run belongs to, from 0.
    pub round: u32,
    /// Sampling period; 0 for an unmonitored run.
    pub period: u64,
    /// Name of the arm: `off`, `off2` (the A/A control), `on`.
    pub arm: String,
    /// Elapsed time from exec to exit.
    pub elapsed_s: f64,
    /// Elapsed time without the reference loop's and at the mean speed of the machine over all runs; none where no reference loop ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adjusted_s: Option<f64>,
    /// The reference loops of the CPUs that the program may run on, in the order of CPU numbers; empty where none ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "yardsticks")]
    pub reference_loops: Vec<ReferenceLoop>,
    /// User CPU time of the program and its descendants.
    pub user_s: f64,
    /// System CPU time of the program and its descendants.
    pub system_s: f64,
    /// Samples delivered.
    pub samples: u64,
    /// Samples delivered on each CPU, in the order of CPU numbers.
    #[serde(default)]
    pub samples_per_cpu: Vec<u64>,
    /// CPU time of the program on each CPU, in the order of CPU numbers (task-clock opened per CPU). Where reference loops ran, at the
    /// mean speed of that CPU over all runs once `adjusted_s` is set.
    #[serde(default)]
    pub cpu_s_per_cpu: Vec<f64>,
    /// Samples that the period and the run's own CPU time or event count say should have come.
    pub expected_samples: f64,
    /// Records lost.
    pub lost: u64,
    /// THROTTLE records.
    pub throttled: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
    /// Minor page faults.
    pub minor_faults: u64,
    /// Major page faults.
    pub major_faults: u64,
    /// Largest resident set.
    pub max_rss_bytes: u64,
    /// Time stolen by the hypervisor during the run, all CPUs (from /proc/stat).
    pub steal_s: f64,
    /// Events counted beside the sampling, by event name.
    #[serde(default)]
    pub counts: std::collections::BTreeMap<String, u64>,
    /// Why the run must not be used, if it was discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "spoiled")]
    pub discarded: Option<String>,
}

impl Run {
    /// One of an arm in which nothing was seen to happen.
    pub fn nothing(arm: &str, round: u32) -> Self {
        Self {
            round,
            period: 0,
            arm: arm.into(),
            elapsed_s: 0.0,
            adjusted_s: None,
            reference_loops: Vec::new(),
            user_s: 0.0,
            system_s: 0.0,
            samples: 0,
            samples_per_cpu: Vec::new(),
            cpu_s_per_cpu: Vec::new(),
            expected_samples: 0.0,
            lost: 0,
            throttled: 0,
            voluntary_switches: 0,
            involuntary_switches: 0,
            minor_faults: 0,
            major_faults: 0,
            max_rss_bytes: 0,
            steal_s: 0.0,
            counts: std::collections::BTreeMap::new(),
            discarded: None,
        }
    }
}
