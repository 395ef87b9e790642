//! How wide a program's code is, from samples of where it was.

use serde::{Deserialize, Serialize};

use crate::Estimate;

/// Pages of code that a program's time goes to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CodeFootprint {
    /// How many pages of the same share each would meet as often as its own do: one over the probability that two samples of a process are of one page.
    pub pages: Estimate,
    /// Whether the kernel's code is left out, for whoever may not sample it.
    pub is_of_user_mode: bool,
    /// The period of the samples, ns of CPU time.
    pub period_ns: u64,
    /// The raw observations: of each process, how many samples each of its pages had, most first.
    pub samples: Vec<Vec<u64>>,
}

impl CodeFootprint {
    /// Samples of all processes.
    pub fn total(&self) -> u64 {
        self.samples.iter().flatten().sum()
    }
}
