//! Messages from the contexts that tracing systems publish by thread (OpenTelemetry's thread context, OTEP 4947): which trace a thread works on, and since when.
//!
//! A message is what a process does for one trace: it begins when the first thread of the process has the trace's context, and is over with the last moment at which one had it. That it was the last is
//! known later only.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::mark::{Kind, Mark, TraceIdentity};
use crate::marked::Relation;
use crate::said::Said;

/// A thread's context was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// When.
    pub time_ns: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The record that the thread's variable points to, or that was changed in place; 0: none.
    pub record: u64,
    /// The record was changed. Where the variable does not point to it, it is being made, or was freed.
    pub is_in_place: bool,
    /// The trace and the span; none: it works for none.
    pub identity: Option<TraceIdentity>,
}

/// The record that a thread's variable points to: trace and span in the order of W3C's text, whether it is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextRecord(pub [u8; ContextRecord::BYTES]);

impl ContextRecord {
    /// Bytes of it that are looked at.
    pub const BYTES: usize = 28;
    /// Where the byte is that says whether it is valid.
    pub const VALID_AT: u64 = 24;

    /// What it says; none where it is not valid, or of no trace.
    pub fn identity(&self) -> Option<TraceIdentity> {
        let trace = u128::from_be_bytes(self.0[..16].try_into().ok()?);
        let span = u64::from_be_bytes(self.0[16..24].try_into().ok()?);
        (self.0[Self::VALID_AT as usize] == 1 && trace != 0 && span != 0).then_some(TraceIdentity { trace, span })
    }
}

/// A message under way.
#[derive(Clone, Copy, Debug)]
struct Worked {
    number: u64,
    /// Threads that have its context.
    threads: u32,
    /// When the last one left it, and who that was.
    left_ns: u64,
    left_by: u32,
}

/// How well messages were seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContextSight {
    /// Times that a thread's context was written, or what had been its record.
    pub changes: u64,
    /// Messages begun.
    pub begun: u64,
    /// Messages that ended.
    pub ended: u64,
    /// Traces that were worked on again after their message was taken to be over: another message of the same trace.
    pub resumed: u64,
    /// What others call each message: its trace, and the span that it began with.
    pub relations: BTreeMap<u64, Relation>,
    /// Threads that began and ended while all was recorded, and showed no context: what one publishes before it is found is not seen.
    pub unseen: u64,
    /// Threads whose variable was watched.
    pub threads: u64,
    /// Threads that could not be watched, and why the last of them could not.
    pub unwatched: u64,
    /// Why.
    pub why: Option<String>,
}

/// Who works for which trace.
#[derive(Debug, Default)]
pub struct Contexts {
    /// The record that each thread's variable points to.
    records: FxHashMap<u32, u64>,
    /// What each thread has.
    at: FxHashMap<u32, (u32, u128)>,
    under_way: FxHashMap<(u32, u128), Worked>,
    over: FxHashSet<(u32, u128)>,
    /// Threads that began meanwhile, and have shown no context.
    born: FxHashSet<u32>,
    said: Said,
    /// How well it went.
    pub sight: ContextSight,
}

impl Contexts {
    /// A trace that no thread of a process has the context of for so long is over, ns. A request that waits longer for others, in an event loop, becomes two messages.
    pub const PATIENCE_NS: u64 = 3_000_000_000;
    /// Messages whose trace is remembered: some 300 MB.
    const MAX_TOLD: usize = 4 << 20;
    /// Traces that are remembered after their messages are over, to be told again.
    const MAX_OVER: usize = 1 << 20;

    /// Takes the next change, in order of time.
    pub fn take(&mut self, context: &Context, out: &mut dyn FnMut(Mark)) {
        let Context { time_ns, pid, tid, record, is_in_place, identity } = *context;
        self.sight.changes += 1;
        if is_in_place && self.records.get(&tid) != Some(&record) {
            return;
        }
        self.records.insert(tid, record);
        self.born.remove(&tid);
        let key = identity.map(|identity| (pid, identity.trace));
        let before = self.at.get(&tid).copied();
        if before == key {
            return;
        }
        if let Some(worked) = before.and_then(|before| self.under_way.get_mut(&before)) {
            worked.threads = worked.threads.saturating_sub(1);
            (worked.left_ns, worked.left_by) = (time_ns, tid);
        }
        let (Some(key), Some(identity)) = (key, identity) else {
            self.at.remove(&tid);
            return self.said.turn(time_ns, tid, 0, out);
        };
        self.at.insert(tid, key);
        if let Some(worked) = self.under_way.get_mut(&key) {
            worked.threads += 1;
            return self.said.turn(time_ns, tid, worked.number, out);
        }
        self.sight.begun += 1;
        self.sight.resumed += u64::from(self.over.remove(&key));
        let number = self.sight.begun;
        if self.sight.relations.len() < Self::MAX_TOLD {
            self.sight.relations.insert(number, Relation { parent: 0, identity });
        }
        self.under_way.insert(key, Worked { number, threads: 1, left_ns: 0, left_by: tid });
        self.said.begin(time_ns, tid, number, out);
    }

    /// A thread has begun.
    pub fn born(&mut self, tid: u32) {
        self.born.insert(tid);
    }

    /// A thread has ended.
    pub fn gone(&mut self, time_ns: u64, pid: u32, tid: u32, out: &mut dyn FnMut(Mark)) {
        if self.at.contains_key(&tid) {
            self.take(&Context { time_ns, pid, tid, record: 0, is_in_place: false, identity: None }, out);
        }
        self.records.remove(&tid);
        self.sight.unseen += u64::from(self.born.remove(&tid));
    }

    /// Nothing was heard for a while: what was under way is told no further, and what nobody worked on when that began is over.
    pub fn forget(&mut self, out: &mut dyn FnMut(Mark)) {
        self.lose_patience(u64::MAX, out);
        self.records.clear();
        self.born.clear();
        self.at.clear();
        self.under_way.clear();
        self.said = Said::default();
    }

    /// Time has come to `now_ns`: what nobody has worked on for long is over; with [`u64::MAX`] everything that nobody works on.
    pub fn lose_patience(&mut self, now_ns: u64, out: &mut dyn FnMut(Mark)) {
        let until_ns = if now_ns == u64::MAX { now_ns } else { now_ns.saturating_sub(Self::PATIENCE_NS) };
        let is_over = |worked: &Worked| worked.threads == 0 && worked.left_ns < until_ns;
        let mut over: Vec<((u32, u128), Worked)> =
            self.under_way.iter().filter(|(_, worked)| is_over(worked)).map(|(key, worked)| (*key, *worked)).collect();
        over.sort_unstable_by_key(|(_, worked)| (worked.left_ns, worked.number));
        for (key, worked) in over {
            self.under_way.remove(&key);
            if self.over.len() >= Self::MAX_OVER {
                self.over.clear();
            }
            self.over.insert(key);
            self.sight.ended += 1;
            out(Mark { time_ns: worked.left_ns, tid: worked.left_by, id: worked.number, kind: Kind::End });
        }
    }

    /// The earliest moment at which a message may have been over of which that is not known; none where there is no such one.
    pub fn undecided_ns(&self) -> Option<u64> {
        self.under_way.values().filter(|worked| worked.threads == 0).map(|worked| worked.left_ns).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::{Begin, End, Switch};

    const SECOND: u64 = 1_000_000_000;

    fn told(changes: &[(u64, u32, u128)], at_ns: &[u64]) -> (Vec<(u64, u32, u64, Kind)>, ContextSight) {
        let (mut contexts, mut marks) = (Contexts::default(), Vec::new());
        let mut out = |mark: Mark| marks.push((mark.time_ns, mark.tid, mark.id, mark.kind));
        for (time_ns, tid, trace) in changes {
            contexts.lose_patience(*time_ns, &mut out);
            let identity = (*trace != 0).then_some(TraceIdentity { trace: *trace, span: 1 });
            let record = u64::from(identity.is_some());
            contexts.take(&Context { time_ns: *time_ns, pid: 1, tid: *tid, record, is_in_place: false, identity }, &mut out);
        }
        at_ns.iter().for_each(|now_ns| contexts.lose_patience(*now_ns, &mut out));
        (marks, contexts.sight)
    }

    #[test]
    fn a_message_is_over_with_the_last_moment_at_which_somebody_worked_on_it() {
        // Two tasks of a loop in turn, one of which goes on in another thread.
        let (marks, sight) =
            told(&[(10, 7, 100), (20, 7, 0), (21, 7, 200), (30, 7, 100), (40, 7, 0), (45, 8, 200), (50, 8, 0)], &[60, u64::MAX]);
        let expected = [
            (10, 7, 1, Begin),
            (20, 7, 0, Switch),
            (21, 7, 2, Begin),
            (30, 7, 1, Switch),
            (40, 7, 0, Switch),
            (45, 8, 2, Switch),
            (50, 8, 0, Switch),
            (40, 7, 1, End),
            (50, 8, 2, End),
        ];
        assert_eq!(marks, expected);
        assert_eq!((sight.begun, sight.ended, sight.resumed), (2, 2, 0));
    }

    #[test]
    fn a_trace_that_comes_again_after_long_is_another_message() {
        let (marks, sight) = told(&[(SECOND, 7, 100), (2 * SECOND, 7, 0), (6 * SECOND, 7, 100), (7 * SECOND, 7, 0)], &[u64::MAX]);
        let ends: Vec<(u64, u64)> = marks.iter().filter(|mark| mark.3 == End).map(|mark| (mark.0, mark.2)).collect();
        assert_eq!(ends, [(2 * SECOND, 1), (7 * SECOND, 2)]);
        assert_eq!((sight.begun, sight.resumed), (2, 1));
        // Spans of one trace are one message.
        assert_eq!(told(&[(1, 7, 100), (2, 7, 100)], &[]).0.len(), 1);
    }

    /// A writer frees a record when it lets go of it, and makes the next one in the same place.
    #[test]
    fn a_record_that_no_variable_points_to_is_none() {
        let (mut contexts, mut marks) = (Contexts::default(), 0);
        let mut take = |record, is_in_place, trace| {
            let identity = (trace != 0).then_some(TraceIdentity { trace, span: 1 });
            contexts.take(&Context { time_ns: 5, pid: 1, tid: 7, record, is_in_place, identity }, &mut |_| marks += 1);
        };
        take(0x1000, true, 9);
        take(0x1000, false, 1);
        take(0x1000, true, 2);
        take(0, false, 0);
        take(0x1000, true, 9);
        assert_eq!((contexts.sight.begun, contexts.at.len()), (2, 0));
        assert!(marks > 0);
        // Of threads that began meanwhile one showed a context.
        [8, 9].into_iter().for_each(|tid| contexts.born(tid));
        let context = Context { time_ns: 6, pid: 1, tid: 8, record: 0x2000, is_in_place: false, identity: None };
        contexts.take(&context, &mut |_| ());
        [7, 8, 9].into_iter().for_each(|tid| contexts.gone(7, 1, tid, &mut |_| ()));
        assert_eq!((contexts.sight.unseen, contexts.records.len()), (1, 0));
    }

    #[test]
    fn what_was_over_when_nothing_was_heard_any_more_is_over() {
        let (mut contexts, mut ends) = (Contexts::default(), Vec::new());
        let context = |time_ns, tid, trace| {
            let identity = (trace != 0).then_some(TraceIdentity { trace, span: 1 });
            Context { time_ns, pid: 1, tid, record: trace as u64, is_in_place: false, identity }
        };
        for (time_ns, tid, trace) in [(1, 7, 100), (2, 8, 200), (3, 7, 0)] {
            contexts.take(&context(time_ns, tid, trace), &mut |_| ());
        }
        contexts.forget(&mut |mark| ends.push((mark.time_ns, mark.id, mark.kind)));
        assert_eq!((ends, contexts.undecided_ns()), (vec![(3, 1, End)], None));
        // The other one may be worked on yet: when it is heard of again it is another message.
        contexts.take(&context(9, 8, 200), &mut |_| ());
        assert_eq!(contexts.sight.begun, 3);
    }

    #[test]
    fn what_is_not_valid_is_no_context() {
        let mut bytes = [0; ContextRecord::BYTES];
        bytes[0] = 0x4b;
        bytes[15] = 0x36;
        bytes[23] = 7;
        assert_eq!(ContextRecord(bytes).identity(), None);
        bytes[24] = 1;
        assert_eq!(ContextRecord(bytes).identity(), Some(TraceIdentity { trace: 0x4b << 120 | 0x36, span: 7 }));
        bytes[24] = 2;
        assert_eq!(ContextRecord(bytes).identity(), None);
    }
}
