//! `perftax comm`, `perftax sim --comm`: which threads share which cache lines.

use serde::{Deserialize, Serialize};

use crate::Estimate;
use crate::Origin;

/// Transfers of cache lines between threads.
///
/// A transfer is a line that a thread fetches because another wrote it since the thread had it last: writer → reader. It is true sharing
/// where the access that needs it touches bytes that others wrote since, else false sharing (docs/guide/comm.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comm {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The program and its arguments; the process's own where one was attached to.
    pub program: Vec<String>,
    /// How it was seen.
    pub way: CommWay,
    /// From the start of watching to its end, s; simulated: 0.
    pub elapsed_s: f64,
    /// Threads, by number.
    pub threads: Vec<CommThread>,
    /// All transfers.
    pub total: CommShare,
    /// Between threads, the most first; pairs without any are left out.
    pub pairs: Vec<CommPair>,
    /// Between cores, likewise, `from` and `to` being cores; empty where cores are not known.
    pub core_pairs: Vec<CommPair>,
    /// The lines, those with the most transfers first.
    pub lines: Vec<CommLine>,
    /// What it rests on, and what was lost.
    pub evidence: CommEvidence,
    /// What it cost the program; none where it was simulated.
    pub cost: Option<CommCost>,
}

/// How accesses were seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "way")]
pub enum CommWay {
    /// Every access, in a simulation.
    Every,
    /// Samples of accesses, and debug registers on the lines that they name.
    Sampled {
        /// The events sampled.
        events: Vec<String>,
        /// Events between samples; between those of stores, where loads have a period of their own.
        period: u64,
        /// Loads between samples of them, where they have a period of their own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        loads_period: Option<u64>,
        /// Debug registers of each thread that were used.
        watchpoints: u32,
    },
    /// Debug registers on what the user named; nothing else is seen.
    Watched {
        /// What was watched.
        places: Vec<CommPlace>,
        /// Debug registers of each thread that were used.
        watchpoints: u32,
    },
}

/// A place in memory that was watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommPlace {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// What the user called it.
    pub name: String,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommThread {
    /// Its number, in the order in which it was met.
    pub number: u32,
    /// Process, where there is a kernel.
    pub process: Option<i32>,
    /// Thread id, where there is a kernel.
    pub tid: Option<i32>,
    /// Its name.
    pub name: String,
    /// The core that it ran on (the most, where it moved); none where that is not known.
    pub core: Option<u32>,
}

/// Transfers, by kind of sharing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommShare {
    /// All.
    pub total: Estimate,
    /// Of them true sharing.
    pub true_sharing: Estimate,
    /// Of them false sharing.
    pub false_sharing: Estimate,
    /// Independent observations that the estimate rests on; transfers themselves where every access was seen.
    pub evidence: u64,
    /// What every access says, where they were seen beside an estimate.
    pub exact: Option<CommExact>,
}

impl CommShare {
    /// Which share of the transfers is false sharing; none where there are no transfers. True and false sharing are taken as moving
    /// against each other as far as their intervals allow, so the interval is rather too wide than too narrow.
    pub fn false_share(&self) -> Option<Estimate> {
        let (of, rest) = (&self.false_sharing, &self.true_sharing);
        let share = |part: f64, rest: f64| {
            let (part, rest) = (part.max(0.0), rest.max(0.0));
            (part + rest > 0.0).then(|| part / (part + rest))
        };
        let estimate = share(of.estimate, rest.estimate)?;
        let (low, high) = (share(of.low, rest.high)?, share(of.high, rest.low)?);
        Some(Estimate { estimate, low, high, confidence: of.confidence.min(rest.confidence) })
    }
}

impl CommExact {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.true_sharing + self.false_sharing
    }

    /// By loads that found the line modified in another core's cache.
    pub fn by_first_loads(&self) -> u64 {
        self.total().saturating_sub(self.by_stores + self.by_later_loads)
    }
}

impl Comm {
    /// The thread with this number.
    pub fn thread(&self, number: u32) -> Option<&CommThread> {
        self.threads.iter().find(|thread| thread.number == number)
    }

    /// Whether every access was seen: then transfers are counted, not estimated.
    pub fn is_exact(&self) -> bool {
        self.way == CommWay::Every
    }

    /// Pairs of which every access was seen beside the estimate, and those of them whose interval holds what it says.
    pub fn covered(&self) -> (usize, usize) {
        let known = || self.pairs.iter().filter_map(|pair| Some((pair.share.total, pair.share.exact?)));
        (known().count(), known().filter(|(total, exact)| total.contains(exact.total() as f64)).count())
    }
}

impl CommEvidence {
    /// What was lost, of any kind: each of it is a transfer that may be missing.
    pub fn lost(&self) -> u64 {
        self.lost_samples + self.lost_traps + self.throttled + self.unwatched_threads + self.evicted + self.undecoded
    }
}

/// Transfers as they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommExact {
    /// True sharing.
    pub true_sharing: u64,
    /// False sharing.
    pub false_sharing: u64,
    /// Of both, by stores.
    #[serde(default)]
    pub by_stores: u64,
    /// Of both, by loads of threads after the first one to fetch the line since it was written: it is clean by then. What is left of the total are loads
    /// that find it modified in another core's cache (HITM), the only ones that hardware's samples of loads show.
    #[serde(default)]
    pub by_later_loads: u64,
}

/// Transfers from one thread (or core) to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommPair {
    /// Who wrote.
    pub from: u32,
    /// Who fetched.
    pub to: u32,
    /// How many.
    #[serde(flatten)]
    pub share: CommShare,
}

/// One cache line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommLine {
    /// Address of its first byte.
    pub address: u64,
    /// What lies there, as far as it is known: `symbol+0x8 [program]`, `heap`, `stack of thread 3`, …
    pub name: String,
    /// Where the object was allocated, innermost first; empty where that is not known. Of several objects, the first one.
    pub allocated_at: Vec<String>,
    /// The objects of the heap that lay there, by address; empty where they are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<CommObject>,
    /// How many transfers.
    #[serde(flatten)]
    pub share: CommShare,
    /// Between whom, the most first; (from, to, transfers).
    pub pairs: Vec<(u32, u32, f64)>,
    /// Instructions that touch it, the most often seen first.
    pub sites: Vec<CommSite>,
    /// What to do about it.
    pub advice: CommAdvice,
    /// The observations that an estimate from samples rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<CommRest>,
}

/// A sampled line's observations: its transfers are `stores_per_sample` × `store_samples` × the mean of `transfers_per_store`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommRest {
    /// Stores of the program for each sample of one.
    pub stores_per_sample: f64,
    /// Samples of stores to the line.
    pub store_samples: u64,
    /// Transfers that followed a store, in the mean of each follow of the line.
    pub transfers_per_store: Vec<f64>,
}

/// An object of the heap, or several that lay in one place one after the other, all allocated by the same callers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommObject {
    /// Bytes that were asked for.
    pub bytes: u64,
    /// The line's first byte, counted from the object's: below 0 where the object begins in the line.
    pub offset: i64,
    /// It is that many-th that its callers allocated, from 1 on; of several objects, the first.
    pub number: u64,
    /// How many lay there one after the other.
    pub times: u64,
    /// Where it was allocated, innermost first.
    pub allocated_at: Vec<String>,
    /// Whether no record of an allocation was lost from its own on: else another may have lain there.
    pub is_sure: bool,
}

impl CommObject {
    /// What it is called: `object of 4096 bytes+0x40`, `object #3 of 24 bytes`, `212 objects of 64 bytes`.
    pub fn name(&self) -> String {
        let perhaps = if self.is_sure { "" } else { "perhaps " };
        let many = if self.times > 1 { format!("{} ", self.times) } else { String::new() };
        format!("{perhaps}{many}{}", self.name_in_any_run())
    }

    /// Likewise, without what differs from run to run.
    pub(super) fn name_in_any_run(&self) -> String {
        let offset = if self.offset > 0 { format!("+{:#x}", self.offset) } else { String::new() };
        match (self.times, self.number) {
            (2.., _) => format!("objects of {} bytes{offset}", self.bytes),
            (_, 2..) => format!("object #{} of {} bytes{offset}", self.number, self.bytes),
            _ => format!("object of {} bytes{offset}", self.bytes),
        }
    }
}

/// An instruction that touches a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommSite {
    /// Its address.
    pub ip: u64,
    /// `function+0x12 [file]`, as far as it is known.
    pub function: String,
    /// `file.c:12` from debug information; none where there is none.
    pub source: Option<String>,
    /// Whether it writes.
    pub is_store: bool,
    /// Offset in the line of the first byte that it touches.
    pub offset: u32,
    /// Bytes that it touches.
    pub bytes: u32,
    /// Threads that execute it.
    pub threads: Vec<u32>,
    /// Times that it was seen.
    pub seen: u64,
}

/// What a line's sharing asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CommAdvice {
    /// False sharing of what lies side by side: align or pad each thread's part to a line.
    Pad,
    /// Something read by many shares a line with something written often: move them apart.
    Split,
    /// Truly shared: fewer hand-overs, a copy each, or threads on cores that share a cache.
    Move,
    /// Too little to say.
    None,
}

/// What an estimate rests on, and what was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommEvidence {
    /// Accesses that were sampled; all where every access was seen.
    pub samples: u64,
    /// Accesses that the samples stand for: what the counters counted.
    pub accesses: u64,
    /// Traps of debug registers.
    pub traps: u64,
    /// Samples whose line was watched.
    pub followed: u64,
    /// Samples that found the registers taken.
    pub unfollowed: u64,
    /// Lines watched until patience ran out, nothing having happened.
    pub silent: u64,
    /// Samples lost by the kernel.
    pub lost_samples: u64,
    /// Traps lost by the kernel.
    pub lost_traps: u64,
    /// Times that the kernel throttled.
    pub throttled: u64,
    /// Threads that could not be watched.
    pub unwatched_threads: u64,
    /// Entries dropped from the board for want of room.
    pub evicted: u64,
    /// Traps whose instruction could not be told, and so not whether it wrote.
    pub undecoded: u64,
    /// Sampled loads that found their line modified in another core's cache, where such were sampled.
    #[serde(default)]
    pub fetches: u64,
    /// Sampled stores that missed the first-level cache, where such loads were sampled.
    #[serde(default)]
    pub missed_stores: u64,
    /// Of both those of lines that nobody is known to write: left out.
    #[serde(default)]
    pub untold_fetches: u64,
    /// Of both those of lines that nobody but the thread itself is known to write, which had moved to another core, or whose line was evicted: left
    /// out.
    #[serde(default)]
    pub moved_fetches: u64,
    /// Objects of the heap whose allocation was seen.
    #[serde(default)]
    pub allocations: u64,
    /// Records of the heap that were lost, or whose other half was: objects are not known, or not surely, for them.
    #[serde(default)]
    pub lost_allocations: u64,
    /// Mappings of memory of no file that were more than are remembered: lines there are called by their addresses.
    #[serde(default)]
    pub unnamed_mappings: u64,
}

/// What it cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommCost {
    /// One trap of a debug register, ns.
    pub trap_ns: Option<Estimate>,
    /// Share of the elapsed time for which registers were armed.
    pub armed: f64,
    /// The budget, a share of the program's time; none where none was given.
    pub budget: Option<f64>,
    /// What it took beside the program's own CPU time, as a share of that: traps, and perftax's own CPU time; probes are not in it.
    pub overhead: Option<Estimate>,
    /// CPU time that perftax itself took while it watched, s: reading what traps say, switching registers, looking. None in documents before it was
    /// counted, whose overhead lacks it.
    #[serde(default)]
    pub own_s: Option<f64>,
    /// Times that a probe on the allocator was hit.
    #[serde(default)]
    pub probes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(true_sharing: Estimate, false_sharing: Estimate) -> CommShare {
        CommShare { total: true_sharing.plus(&false_sharing), true_sharing, false_sharing, evidence: 7, exact: None }
    }

    #[test]
    fn objects_are_called_by_what_tells_them_apart() {
        let object = CommObject { bytes: 64, offset: 0, number: 1, times: 1, allocated_at: Vec::new(), is_sure: true };
        assert_eq!(object.name(), "object of 64 bytes");
        let third = CommObject { bytes: 4096, offset: 0x40, number: 3, ..object.clone() };
        assert_eq!(third.name(), "object #3 of 4096 bytes+0x40");
        let many = CommObject { offset: -16, number: 2, times: 212, is_sure: false, ..object };
        assert_eq!(
            (many.name().as_str(), many.name_in_any_run().as_str()),
            ("perhaps 212 objects of 64 bytes", "objects of 64 bytes")
        );
    }

    #[test]
    fn the_share_of_false_sharing_reaches_as_far_as_both_allow() {
        let found = share(Estimate::new(25.0, 20.0, 30.0), Estimate::new(75.0, 70.0, 80.0)).false_share().unwrap();
        assert_eq!((found.estimate, found.low, found.high), (0.75, 0.7, 0.8));
        let found = share(Estimate::new(0.0, 0.0, 10.0), Estimate::new(30.0, -10.0, 70.0)).false_share().unwrap();
        assert_eq!((found.estimate, found.low, found.high), (1.0, 0.0, 1.0), "what lies below nothing is nothing");
        assert_eq!(share(Estimate::exact(0.0), Estimate::exact(0.0)).false_share(), None);
        let exact = share(Estimate::exact(1.0), Estimate::exact(3.0)).false_share().unwrap();
        assert_eq!(exact, Estimate::exact(0.75));
    }
}
