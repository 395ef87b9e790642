//! `perftax predict`: what sampling would cost a program.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Estimate, Mechanism};
use crate::{Origin, WorkloadProfile};

/// A table of predictions over sampling periods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Prediction {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The event.
    pub event: String,
    /// Cost of one sample used, drift included.
    pub alpha_ns: Estimate,
    /// The machine that α belongs to: this one, or the published or saved one asked for.
    pub cost_machine: String,
    /// The workload.
    pub workload: WorkloadProfile,
    /// One row a period, most expensive first.
    pub rows: Vec<PredictionRow>,
}

/// What sampling at one period would cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PredictionRow {
    /// Sampling period: events, or nanoseconds for time-driven sources.
    pub period: u64,
    /// Samples a run.
    pub samples: f64,
    /// Samples a second of monitored run.
    pub samples_per_s: f64,
    /// Bytes a second into the ring.
    pub bytes_per_s: f64,
    /// Expected overhead, a fraction of the unmonitored elapsed time.
    pub overhead: Estimate,
    /// The same as a fraction of its unmonitored CPU time: what each thing that it does takes longer, where it waits for the most of its time. None where it
    /// used none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_overhead: Option<Estimate>,
    /// The same as a fraction of the CPU time of the task that uses the most: a thread whose time is more expensive than that of the others is not hidden by them. None
    /// where nobody told it from the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest_overhead: Option<Estimate>,
    /// Expected elapsed time, monitored.
    pub elapsed_s: Estimate,
    /// The overhead split by term of the model, each a fraction.
    pub terms: BTreeMap<String, Estimate>,
    /// Extra time on each CPU, for multi-threaded programs.
    pub extra_s_per_cpu: Vec<Estimate>,
}

impl PredictionRow {
    /// The most that it may cost, of elapsed time, of CPU time, or of the busiest task's, whichever is more: what a budget binds.
    pub fn most(&self) -> f64 {
        [self.cpu_overhead, self.busiest_overhead].into_iter().flatten().fold(self.overhead.high, |most, cpu| most.max(cpu.high))
    }
}

/// What is to be said of CPU time beside elapsed time: nothing where the two are about the same, as in a program that never waits.
pub fn cpu_time_tells(overhead: &Estimate, cpu_overhead: Option<Estimate>) -> Option<Estimate> {
    cpu_overhead.filter(|cpu| cpu.high > overhead.high * MUCH_MORE)
}

/// What is to be said of the busiest task beside both: nothing where it pays about what the others do.
pub fn busiest_tells(overhead: &Estimate, cpu_overhead: Option<Estimate>, busiest: Option<Estimate>) -> Option<Estimate> {
    let most = cpu_overhead.map_or(overhead.high, |cpu| cpu.high.max(overhead.high));
    busiest.filter(|busiest| busiest.high > most * MUCH_MORE)
}

/// So many times as much is worth a word.
const MUCH_MORE: f64 = 1.2;
