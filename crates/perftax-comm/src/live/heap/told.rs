//! What a document says of heaps.

use perftax_doc::steps::Operation;
use perftax_doc::{CommCost, CommEvidence, Warning};

use super::feed::Heaps;
use crate::live::warnings::warning;

impl Heaps {
    /// What is known of heaps, beside what all rests on.
    pub fn add_to_evidence(&self, evidence: CommEvidence) -> CommEvidence {
        let seen = self.evidence();
        let lost_allocations = self.lost() + seen.lost_returns + seen.lost_calls;
        CommEvidence { allocations: seen.allocated, lost_allocations, ..evidence }
    }

    /// What probes cost is told by how often they were hit.
    pub fn add_to_cost(&self, cost: CommCost) -> CommCost {
        CommCost { probes: self.hits(), ..cost }
    }

    /// What weakens what is said of heaps; of a program that ran before we came where it `is_joined`.
    pub fn warnings(&self, is_joined: bool) -> Vec<Warning> {
        let mut all = Vec::new();
        if self.lost() > 0 {
            let message = format!(
                "{} records of the allocator were lost: objects that were allocated before are said with 'perhaps', others may be unknown",
                self.lost()
            );
            all.push(warning(message, "fewer other programs on this machine, or a real-time priority for perftax (chrt -f 1)"));
        }
        if !self.is_whole() {
            let message =
                "this kernel may take probes off threads when others end: objects that they allocate then are not known".into();
            all.push(warning(message, "Linux 6.12 or later"));
        }
        if is_joined {
            let message = "objects that were allocated before perftax came are not known".into();
            all.push(warning(message, format!("start the program under perftax: {}", Operation::WatchHeap)));
        }
        all
    }
}
