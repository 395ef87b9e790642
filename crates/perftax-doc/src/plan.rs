//! `perftax plan`: which settings keep within a budget.

use serde::{Deserialize, Serialize};

use crate::{Estimate, Mechanism};
use crate::{Origin, WorkloadProfile};

/// Recommended settings, or the plain word that there are none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The same as a fraction of the CPU time of the task that uses the most; none where nobody told it from the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_busiest_overhead: Option<Estimate>,
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
    /// What a piece of work is, and what sampling makes of one; none where nobody said what counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Why each setting is as it is.
    pub reasons: Vec<Reason>,
    /// The command to paste; empty where not feasible.
    pub perf_record: Vec<String>,
    /// The workload.
    pub workload: WorkloadProfile,
}

/// A piece of work (a request, a packet, a line), as an event counts them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Work {
    /// The event that comes once in each.
    pub event: String,
    /// Pieces in a run.
    pub pieces: Estimate,
    /// CPU time that a piece uses, s: the program's in all, so that what it does besides is in it.
    pub cpu_s: f64,
    /// CPU time that sampling adds to a piece, s.
    pub extra_cpu_s: Estimate,
    /// Samples that a piece gets.
    pub samples: f64,
}

impl Work {
    /// Shares a program's CPU time, and what sampling adds to it (a share of that), among the pieces that were counted. None where none was, or nobody
    /// counted.
    pub fn of(workload: &WorkloadProfile, event: &str, cpu_overhead: &Estimate, samples: f64) -> Option<Self> {
        let pieces = workload.counts.get(event).copied().filter(|pieces| pieces.estimate > 0.0)?;
        let cpu_s = workload.cpu_s.estimate / pieces.estimate;
        let extra_cpu_s = cpu_overhead.scaled(cpu_s);
        Some(Self { event: event.into(), pieces, cpu_s, extra_cpu_s, samples: samples / pieces.estimate })
    }
}

/// Why one setting is as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reason {
    /// The setting: `event`, `mechanism`, `period`, `buffer`, `feasible`.
    pub setting: String,
    /// Why.
    pub why: String,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_piece_has_its_share_of_everything() {
        let workload = WorkloadProfile {
            command: Vec::new(),
            pid: None,
            elapsed_s: Estimate::exact(10.0),
            cpu_s: Estimate::exact(2.0),
            cpu_s_per_cpu: Vec::new(),
            threads: 1,
            tasks: None,
            code: None,
            switches: Estimate::exact(0.0),
            faults: Estimate::exact(0.0),
            max_rss_bytes: 0,
            counts: BTreeMap::from([
                ("requests".to_string(), Estimate::exact(1000.0)),
                ("none".to_string(), Estimate::exact(0.0)),
            ]),
            variation: 0.0,
            runs: Vec::new(),
        };
        let work = Work::of(&workload, "requests", &Estimate::new(0.01, 0.008, 0.012), 250.0).unwrap();
        assert_eq!((work.pieces.estimate, work.samples), (1000.0, 0.25));
        assert!((work.cpu_s - 2e-3).abs() < 1e-12 && (work.extra_cpu_s.high - 24e-6).abs() < 1e-12, "{work:?}");
        let of = |event| Work::of(&workload, event, &Estimate::exact(0.01), 250.0);
        assert_eq!((of("none"), of("nobody counted")), (None, None));
    }
}
