//! Messages that are passed on: a process writes on a connection of its own while it is at one, and who serves that connection reads another one there.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::At;
use crate::marked::{Hop, Relation};

/// Messages and hops that are remembered, at most.
const MAX: usize = 1 << 20;
/// What was written longer ago than this, ns, is not what is read: 10 s.
const OLD_NS: u64 = 10_000_000_000;

/// Who wrote last on a connection that it does not serve, and for which message.
#[derive(Clone, Copy, Debug)]
struct Asked {
    time_ns: u64,
    tid: u32,
    id: u64,
}

/// Which messages are part of which.
#[derive(Debug, Default)]
pub struct Passed {
    asked: FxHashMap<At, Asked>,
    /// By message.
    pub relations: BTreeMap<u64, Relation>,
    /// Where each was sent and received, in order of time.
    pub hops: Vec<Hop>,
    /// Relations that were not remembered, since there were so many.
    pub forgotten: u64,
}

impl Passed {
    /// A thread that is at a message writes on a connection that its process does not serve, or on a file; 0: for which one is not known.
    pub(super) fn writes(&mut self, at: At, time_ns: u64, tid: u32, id: u64) {
        if id == 0 {
            self.asked.remove(&at);
        } else {
            self.asked.insert(at, Asked { time_ns, tid, id });
        }
    }

    /// Descriptors are given up, from the first to the last.
    pub(super) fn closed(&mut self, pid: u32, first: i32, last: i32) {
        if first == last {
            self.asked.remove(&(pid, first));
        } else {
            self.asked.retain(|at, _| at.0 != pid || !(first..=last).contains(&at.1));
        }
    }

    /// Nothing was heard of any for a while.
    pub(super) fn forget(&mut self) {
        self.asked.clear();
    }

    /// A message begins with what came from a connection's other end.
    pub(super) fn begins(&mut self, id: u64, from: At, time_ns: u64, tid: u32) {
        let Some(asked) = self.asked.remove(&from).filter(|asked| asked.time_ns <= time_ns && time_ns - asked.time_ns <= OLD_NS)
        else {
            return;
        };
        if self.relations.len() >= MAX || self.hops.len() >= MAX {
            self.forgotten += 1;
            return;
        }
        self.relations.entry(id).or_default().parent = asked.id;
        self.hops.push(Hop { time_ns: asked.time_ns, id, tid: asked.tid, is_sent: true });
        self.hops.push(Hop { time_ns, id, tid, is_sent: false });
    }
}
