//! What remains of a slice of time.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::blame::{Brief, Usual};
use crate::cause::Cause;
use crate::distribution::{Distribution, Population};
use crate::mark::TraceIdentity;
use crate::message::{Message, Waker};

/// Slow messages of a slice that are kept, the slowest; the others count as slow and no more.
const MAX_SLOW: usize = 1 << 11;
/// Kinds of a slice that have histograms of their own; the others count together.
const MAX_KINDS: usize = 32;

/// A slow message.
#[derive(Clone, Debug, PartialEq)]
pub struct Slow {
    /// What its time went to.
    pub brief: Brief,
    /// Its kind.
    pub kind: u32,
    /// Its text, where it has one.
    pub text: Option<String>,
    /// The message that it is part of; 0: none.
    pub parent: u64,
    /// What others call it; zeros: nothing.
    pub identity: TraceIdentity,
    /// Who worked on it.
    pub threads: Vec<u32>,
    /// Who ended its longest waiting.
    pub woken_by: Option<Waker>,
    /// Stretches of it in each of which a clock of CPUs counts anew.
    pub stretches: u32,
    /// Page faults.
    pub faults: u32,
    /// Times that a thread was moved to another CPU while at it.
    pub migrations: u32,
}

/// A slice of time.
pub struct Slice {
    /// From when.
    pub from_ns: u64,
    /// The latency from which on messages counted as slow in it, ns; 0: nobody knew, and all did.
    pub threshold_ns: u64,
    /// Until when; 0 while it goes on.
    pub to_ns: u64,
    /// All messages that ended in it.
    pub population: Population,
    /// Those that recording was on for and that were not slow.
    pub usual: Usual,
    /// The slow ones, by number.
    pub slow: BTreeMap<u64, Slow>,
    /// Slow messages that were not kept.
    pub slow_left_out: u64,
    /// Latencies by kind.
    pub(super) kinds: FxHashMap<u32, Distribution>,
    pub(super) other_kinds: u64,
    numbered: u64,
    /// For how long recording was on in it, ns.
    pub on_ns: u64,
}

impl Slice {
    pub(super) fn beginning(now_ns: u64) -> Self {
        Self {
            threshold_ns: 0,
            from_ns: now_ns,
            to_ns: 0,
            population: Population::coarse(),
            usual: Usual::default(),
            slow: BTreeMap::new(),
            slow_left_out: 0,
            kinds: FxHashMap::default(),
            other_kinds: 0,
            numbered: 0,
            on_ns: 0,
        }
    }

    /// A message has ended. Returns its number where it is kept for being slow.
    pub(super) fn take(&mut self, message: &Message, latency_ns: u64) -> Option<u64> {
        if !message.is_watched {
            self.population.latency.add(latency_ns);
            return None;
        }
        self.population.add(latency_ns, &message.shares);
        if latency_ns < self.threshold_ns {
            self.usual.add(message);
            return None;
        }
        let brief = Brief::of(message)?;
        let waits = message.instants().iter().filter(|piece| matches!(piece.cause, Cause::Blocked | Cause::Runnable));
        let woken_by = waits.max_by_key(|piece| piece.to_ns - piece.from_ns).and_then(|piece| message.woken(piece)).copied();
        self.numbered += 1;
        let slow = Slow {
            brief,
            kind: 0,
            text: None,
            parent: 0,
            identity: TraceIdentity::default(),
            threads: message.threads.clone(),
            woken_by,
            stretches: u32::try_from(message.stretches_on_cpus()).unwrap_or(u32::MAX),
            faults: message.faults,
            migrations: message.migrations,
        };
        self.slow.insert(self.numbered, slow);
        if self.slow.len() >= 2 * MAX_SLOW {
            self.keep_slowest();
        }
        Some(self.numbered)
    }

    fn keep_slowest(&mut self) {
        let mut order: Vec<(u64, u64)> = self.slow.iter().map(|(number, slow)| (slow.brief.latency_ns, *number)).collect();
        order.sort_unstable_by(|a, b| b.cmp(a));
        for (_, number) in order.into_iter().skip(MAX_SLOW) {
            self.slow.remove(&number);
            // Where all counted as slow those were not.
            self.slow_left_out += u64::from(self.threshold_ns > 0);
        }
    }

    /// A message that has ended is of a kind.
    pub(super) fn kind(&mut self, kind: u32, latency_ns: u64) {
        if self.kinds.len() >= MAX_KINDS && !self.kinds.contains_key(&kind) {
            self.other_kinds += 1;
            return;
        }
        self.kinds.entry(kind).or_insert_with(Distribution::coarse).add(latency_ns);
    }

    pub(super) fn renumber(&mut self, of: impl Fn(u32) -> u32) {
        self.usual.renumber(&of);
        self.slow.values_mut().for_each(|slow| slow.brief.renumber(&of));
    }

    pub(super) fn end(&mut self, now_ns: u64) {
        self.to_ns = now_ns;
        if self.slow.len() > MAX_SLOW {
            self.keep_slowest();
        }
    }
}
