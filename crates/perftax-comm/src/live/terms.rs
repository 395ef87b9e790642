//! What is agreed before a program is watched, whichever lines are looked for.

use std::collections::HashMap;
use std::time::Duration;

use perftax_doc::Estimate;
use perftax_target::Subject;

use super::price::Price;

/// Who is watched, for how long, and at what cost.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Who.
    pub subject: Subject,
    /// Debug registers to use of each thread, 1 to 4.
    pub registers: u32,
    /// The share of the program's CPU time that watching may take.
    pub budget: Option<f64>,
    /// What a trap costs, ns; needed where there is a budget.
    pub trap_ns: Option<Estimate>,
    /// For how long; none: until the program ends, or we are interrupted.
    pub at_most: Option<Duration>,
    /// Pages of each CPU's ring; a power of two.
    pub ring_pages: usize,
    /// The core of each CPU that the program may run on.
    pub core_of: HashMap<u32, u32>,
    /// Whether objects of the heap are told, by probes on the allocator.
    pub is_heap_told: bool,
}

impl Terms {
    /// CPUs that the program may run on, in order.
    pub(super) fn cpus(&self) -> Vec<u32> {
        let mut cpus: Vec<u32> = self.core_of.keys().copied().collect();
        cpus.sort_unstable();
        cpus
    }

    /// Whether it runs before we come.
    pub(super) fn is_joined(&self) -> bool {
        matches!(self.subject, Subject::Processes(_))
    }

    /// What traps cost, and what they may.
    pub(super) fn price(&self) -> Price {
        Price { trap_ns: self.trap_ns, budget: self.budget }
    }
}
