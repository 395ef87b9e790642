//! A measured workload.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Estimate;
use crate::code::CodeFootprint;
use crate::observation::Run;
use crate::tasks::Tasks;

/// What a program does when nobody looks, from several runs of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkloadProfile {
    /// The command.
    pub command: Vec<String>,
    /// The process that was looked at while it ran; none where the command was run. Runs are looks of equal length then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
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
    /// How wide its code is; none where it was not sampled, or too rarely to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<CodeFootprint>,
    /// Context switches a run.
    pub switches: Estimate,
    /// Page faults a run.
    pub faults: Estimate,
    /// Largest resident set.
    pub max_rss_bytes: u64,
    /// Event counts a run, by event name.
    pub counts: BTreeMap<String, Estimate>,
    /// Coefficient of variation of the elapsed time, a fraction; of a process that was looked at, of its CPU time.
    pub variation: f64,
    /// The raw observations.
    pub runs: Vec<Run>,
}

/// Fewer usable runs than these say less than all of them do.
const MIN_USABLE: usize = 2;

/// What the command of a profile is called that is of all CPUs, whoever runs there.
const ALL_CPUS: &str = "(all CPUs)";

impl WorkloadProfile {
    /// The command of a profile of all CPUs.
    pub fn all_cpus() -> Vec<String> {
        vec![ALL_CPUS.into()]
    }

    /// Whether it is of all CPUs, and of no program.
    pub fn is_of_all_cpus(&self) -> bool {
        self.pid.is_none() && self.command == [ALL_CPUS]
    }

    /// Pages of code that it effectively goes through; none where nobody looked.
    pub fn code_pages(&self) -> Option<&Estimate> {
        self.code.as_ref().map(|code| &code.pages)
    }

    /// The unmonitored runs that its estimates are of.
    pub fn measured_runs(&self) -> Vec<&Run> {
        Self::measured(&self.runs)
    }

    /// Of some runs, the unmonitored ones that are to be measured by: a discarded one is somebody else's measurement; where hardly any is left, all must
    /// do, and the variation tells.
    pub fn measured(runs: &[Run]) -> Vec<&Run> {
        let of_period = || runs.iter().filter(|run| run.period == 0);
        let usable: Vec<&Run> = of_period().filter(|run| run.discarded.is_none()).collect();
        if usable.len() >= MIN_USABLE { usable } else { of_period().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discarded_runs_count_only_where_there_is_hardly_another() {
        let run =
            |round: u32, is_discarded: bool| Run { discarded: is_discarded.then(String::new), ..Run::nothing("off", round) };
        let rounds = |discarded: [bool; 3]| -> Vec<u32> {
            let runs: Vec<Run> = (0..).zip(discarded).map(|(round, is_discarded)| run(round, is_discarded)).collect();
            WorkloadProfile::measured(&runs).into_iter().map(|run| run.round).collect()
        };
        assert_eq!(rounds([false, true, false]), [0, 2]);
        assert_eq!(rounds([true, true, false]), [0, 1, 2]);
        assert_eq!(rounds([true, true, true]), [0, 1, 2]);
    }
}
