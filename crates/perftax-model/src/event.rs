//! What can be counted.

use serde::{Deserialize, Serialize};

/// A class of events, as the model counts them. Vendors' names for them are understood by [`Event::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Event {
    /// Instructions retired.
    Instructions,
    /// Micro-operations retired, estimated from the instruction: one for the operation, one for each load, two for each store
    /// (address and data).
    Uops,
    /// Macro-operations dispatched, as AMD counts them: one an instruction, memory operand included.
    DispatchedOps,
    /// 64-byte lines of instructions fetched: one at every taken branch and one at every line entered in sequence.
    Fetches,
    /// Cycles by the machine's cost model: operations at its sustained rate, misses at their latency.
    Cycles,
    /// Instructions that read memory.
    Loads,
    /// Instructions that write memory.
    Stores,
    /// Branch instructions of every kind.
    Branches,
    /// Branch instructions that were taken.
    TakenBranches,
    /// Calls, direct and indirect.
    Calls,
    /// Returns.
    Returns,
    /// Instructions with a locked access.
    LockedOps,
    /// Accesses that missed the first-level data cache.
    L1Misses,
    /// Accesses that missed the second-level cache.
    L2Misses,
    /// Accesses that missed the last-level cache.
    LlcMisses,
    /// Accesses to another page than the access before.
    PageCrossings,
}

/// Names understood, lower case: the model's own first, then perf's generic and the vendors'.
const NAMES: &[(Event, &[&str])] = &[
    (Event::Instructions, &["instructions", "inst_retired.any", "inst_retired.any_p", "inst_retired.prec_dist"]),
    (Event::Uops, &["uops", "uops_retired.all", "uops_retired.retire_slots"]),
    (Event::DispatchedOps, &["dispatched-ops", "ibs_op", "ex_ret_ops", "ex_ret_cops"]),
    (Event::Fetches, &["fetches", "ibs_fetch"]),
    (Event::Cycles, &["cycles", "cpu-cycles", "cpu_clk_unhalted.thread"]),
    (Event::Loads, &["loads", "mem-loads", "mem_inst_retired.all_loads", "mem_uops_retired.all_loads"]),
    (Event::Stores, &["stores", "mem-stores", "mem_inst_retired.all_stores", "mem_uops_retired.all_stores"]),
    (Event::Branches, &["branches", "branch-instructions", "br_inst_retired.all_branches", "ex_ret_brn"]),
    (Event::TakenBranches, &["taken-branches", "br_inst_retired.near_taken", "ex_ret_brn_tkn"]),
    (Event::Calls, &["calls", "br_inst_retired.near_call"]),
    (Event::Returns, &["returns", "br_inst_retired.near_return"]),
    (Event::LockedOps, &["locked-ops", "mem_inst_retired.lock_loads", "mem_uops_retired.lock_loads"]),
    (Event::L1Misses, &["l1-misses", "l1-dcache-load-misses", "mem_load_retired.l1_miss", "mem_load_uops_retired.l1_miss"]),
    (Event::L2Misses, &["l2-misses", "mem_load_retired.l2_miss", "mem_load_uops_retired.l2_miss"]),
    (Event::LlcMisses, &["llc-misses", "cache-misses", "mem_load_retired.l3_miss", "longest_lat_cache.miss"]),
    (Event::PageCrossings, &["page-crossings"]),
];

impl Event {
    /// Number of classes.
    pub const COUNT: usize = 16;

    /// All classes, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(event, _)| *event)
    }

    /// The model's own name.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1[0]
    }

    /// Understands the model's names, perf's generic ones and the vendors', in any case of letters.
    ///
    /// # Errors
    /// The names that are understood, where this one is not.
    pub fn parse(text: &str) -> Result<Self, UnknownEvent> {
        let wanted = text.to_lowercase();
        let found = NAMES.iter().find(|(_, names)| names.contains(&wanted.as_str()));
        found.map(|(event, _)| *event).ok_or_else(|| UnknownEvent { name: text.into() })
    }

    /// Whether it can only be told by simulating the caches.
    pub fn needs_caches(self) -> bool {
        matches!(self, Self::L1Misses | Self::L2Misses | Self::LlcMisses | Self::PageCrossings | Self::Cycles)
    }
}

/// An event that the model does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the model does not count {name}: it counts {}", Event::all().map(Event::name).collect::<Vec<_>>().join(", "))]
pub struct UnknownEvent {
    /// What was asked for.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_agree() {
        for (number, event) in Event::all().enumerate() {
            assert_eq!(event as usize, number);
            assert_eq!(Event::parse(event.name()), Ok(event));
        }
        assert_eq!(Event::all().count(), Event::COUNT);
        assert_eq!(Event::parse("MEM_LOAD_RETIRED.L1_MISS"), Ok(Event::L1Misses));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = Event::parse("frobs").unwrap_err().to_string();
        assert!(error.contains("frobs") && error.contains("page-crossings"), "{error}");
    }
}
