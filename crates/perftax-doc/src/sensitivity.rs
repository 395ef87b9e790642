//! `perftax sensitivity`: how much a program loses with its caches.

use serde::{Deserialize, Serialize};

use crate::Estimate;
use crate::Origin;

/// How cache-sensitive a program is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sensitivity {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The program and its arguments.
    pub program: Vec<String>,
    /// How the caches were taken away: `eviction`, by somebody who writes a working set on the same CPU; `resctrl`, by the kernel,
    /// which leaves fewer ways of the last level.
    pub method: String,
    /// The CPU that it ran on.
    pub cpu: u32,
    /// From one eviction to the next, s; 0 where nobody evicts.
    pub interval_s: f64,
    /// One row a size, smallest first.
    pub rows: Vec<SensitivityRow>,
    /// The largest buffer of records that the program does not feel, bytes: the largest size whose loss stays below
    /// `tolerance` at the upper end of its interval; none where even the smallest is felt.
    pub buffer_bytes: Option<u64>,
    /// A share of the CPU time.
    pub tolerance: f64,
    /// The raw observations.
    pub runs: Vec<SensitivityRun>,
}

/// The loss at one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SensitivityRow {
    /// Bytes taken away: written at each visit, or not left to the program.
    pub taken_bytes: u64,
    /// CPU time that the program takes more, a share of that where nothing is taken.
    pub loss: Estimate,
    /// The same for one visit, ns, where somebody visits.
    pub loss_ns_per_visit: Option<Estimate>,
    /// Bytes to and from memory a run, where the machine counts them.
    pub memory_bytes: Option<Estimate>,
    /// Rounds that it comes from.
    pub rounds: u32,
}

/// One run with so much taken away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SensitivityRun {
    /// The round.
    pub round: u32,
    /// Bytes taken away; 0: the evictor only woke up, or everything was left.
    pub taken_bytes: u64,
    /// Visits.
    pub visits: u64,
    /// Bytes to and from memory, where the machine counts them.
    pub memory_bytes: Option<u64>,
    /// The program's CPU time, s.
    pub cpu_s: f64,
    /// Its elapsed time, the evictor's included, s.
    pub elapsed_s: f64,
    /// Why it does not count, where it does not.
    #[serde(rename = "spoiled")]
    pub discarded: Option<String>,
}

impl Sensitivity {
    /// The largest size whose loss stays below the tolerance, those below it too.
    pub fn unfelt(rows: &[SensitivityRow], tolerance: f64) -> Option<u64> {
        rows.iter().take_while(|row| row.loss.high <= tolerance).last().map(|row| row.taken_bytes)
    }
}
