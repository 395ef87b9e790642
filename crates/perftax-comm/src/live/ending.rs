//! How watching ended, whichever lines were looked for, and what all documents say of it.

use perftax_doc::{CommCost, CommEvidence, Warning};
use perftax_pmu::sys::Ended;

use super::heap::Heaps;
use super::image::Images;
use super::price::Price;

/// What is known of every watching when it is over.
pub struct Ending {
    /// How the program ended.
    pub ended: Ended,
    /// Its first process.
    pub pid: u32,
    /// Whether it ran before we came.
    pub is_joined: bool,
    /// From the start of watching to its end, ns.
    pub elapsed_ns: u64,
    /// CPU time that we took ourselves meanwhile, ns.
    pub own_ns: u64,
    /// CPU time that the program used meanwhile, ns; none where it was not told.
    pub cpu_ns: Option<u64>,
    /// What came, and what was lost.
    pub records: CommEvidence,
    /// Entries that came late, and counted as of when they came.
    pub late: u64,
    /// What processes had mapped.
    pub images: Images,
    /// What lay where; none where that was not asked for.
    pub heaps: Option<Heaps>,
    /// What traps cost, and what they may.
    pub price: Price,
}

impl Ending {
    /// What watching cost, with registers on for so long, ns.
    pub fn cost(&self, on_ns: u64) -> CommCost {
        let cost = self.price.cost(self.records.traps, self.own_ns, self.cpu_ns, on_ns, self.elapsed_ns);
        self.heaps.as_ref().map_or(cost, |heaps| heaps.add_to_cost(cost))
    }

    /// What a result rests on, with what is known of heaps.
    pub fn with_heaps(&self, evidence: CommEvidence) -> CommEvidence {
        self.heaps.as_ref().map_or(evidence, |heaps| heaps.add_to_evidence(evidence))
    }

    /// What weakens what is said of heaps.
    pub fn warnings_of_heaps(&self) -> Vec<Warning> {
        self.heaps.as_ref().map(|heaps| heaps.warnings(self.is_joined)).unwrap_or_default()
    }
}
