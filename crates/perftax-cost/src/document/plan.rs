//! `perftax plan`: which settings keep within a budget.

use serde::{Deserialize, Serialize};

use super::{Origin, WorkloadProfile};
use crate::{Estimate, Mechanism};

/// Recommended settings, or the plain word that there are none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// Whether a period fits the budget and the wishes.
    pub feasible: bool,
    /// The budget, a fraction: the upper end of the interval stays below it.
    pub budget: f64,
    /// The event.
    pub event: String,
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Sampling period: events, or nanoseconds for time-driven sources. 0 where not feasible.
    pub period: u64,
    /// Ring buffer, bytes a CPU.
    pub buffer_bytes: u64,
    /// Cost of one sample used, drift included.
    pub alpha_ns: Estimate,
    /// Expected overhead, a fraction of elapsed time.
    pub expected_overhead: Estimate,
    /// The same as a fraction of its CPU time; none where it used none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_cpu_overhead: Option<Estimate>,
    /// Whether whole CPUs are to be watched, and not the program and what it creates.
    #[serde(default)]
    pub whole_cpus: bool,
    /// Samples expected in a run.
    pub samples: f64,
    /// The smallest share of the CPU time that this many samples resolve, a fraction (95 % half-width at most half of it).
    pub resolves_share: f64,
    /// Stoker's optimum number of samples for the share asked for (or the share resolved), and its period.
    pub stoker_samples: f64,
    /// The period that gives `stoker_samples`.
    pub stoker_period: u64,
    /// Why each setting is as it is.
    pub reasons: Vec<Reason>,
    /// The command to paste; empty where not feasible.
    pub perf_record: Vec<String>,
    /// The workload.
    pub workload: WorkloadProfile,
}

/// Why one setting is as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The setting: `event`, `mechanism`, `period`, `buffer`, `feasible`.
    pub setting: String,
    /// Why.
    pub why: String,
}
