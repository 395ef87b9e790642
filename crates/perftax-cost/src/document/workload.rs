//! A measured workload.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Estimate;
use crate::observation::Run;
use crate::tasks::Tasks;

/// What a program does when nobody looks, from several runs of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadProfile {
    /// The command.
    pub command: Vec<String>,
    /// Elapsed time.
    pub elapsed_s: Estimate,
    /// CPU time, user and system, all threads.
    pub cpu_s: Estimate,
    /// CPU time on each CPU, in the order of CPU numbers.
    pub cpu_s_per_cpu: Vec<Estimate>,
    /// Threads (and processes) that the program had.
    pub threads: u32,
    /// Which tasks it creates, and what each does; none where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Tasks>,
    /// Context switches a run.
    pub switches: Estimate,
    /// Page faults a run.
    pub faults: Estimate,
    /// Largest resident set.
    pub max_rss_bytes: u64,
    /// Event counts a run, by event name.
    pub counts: BTreeMap<String, Estimate>,
    /// Coefficient of variation of the elapsed time, a fraction.
    pub variation: f64,
    /// The raw observations.
    pub runs: Vec<Run>,
}
