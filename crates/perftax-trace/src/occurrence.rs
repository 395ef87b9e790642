//! One message among the others of a trace: where its id occurs, and which messages its threads handled around it.

use std::collections::BTreeMap;

use perftax_pmu::Result;

use crate::message::Message;
use crate::store::Store;
use crate::tracker::{Record, Tracker};

/// A message of the id that was asked for, by its marks alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// When it began.
    pub begin_ns: u64,
    /// From its beginning to its end; none where it never ended.
    pub latency_ns: Option<u64>,
    /// The threads that worked on it.
    pub threads: Vec<u32>,
}

impl Occurrence {
    /// Whether it is this message.
    pub fn is(&self, id: u64, message: &Message) -> bool {
        message.id == id && message.begin_ns == self.begin_ns
    }

    /// When it ended; where it never did, the end of time.
    fn end_ns(&self) -> u64 {
        self.latency_ns.map_or(u64::MAX, |ns| self.begin_ns + ns)
    }
}

/// Where an id occurs in a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The messages of this id, in order of their beginnings.
    pub all: Vec<Occurrence>,
    /// The next smaller id that occurs.
    pub below: Option<u64>,
    /// The next larger one.
    pub above: Option<u64>,
    /// The smallest and the largest one.
    pub range: Option<(u64, u64)>,
    /// Messages of the trace.
    pub messages: u64,
}

impl Found {
    /// Looks for an id in the marks of a trace.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn of(store: &Store, id: u64) -> Result<Self> {
        let mut tracker = Tracker::default();
        let mut found = Self::default();
        let mut over = |message: &Message| found.take(id, message);
        store.marks(|mark| tracker.take(&Record::Mark(*mark), &mut over))?;
        tracker.finish(&mut over);
        found.all.sort_by_key(|occurrence| occurrence.begin_ns);
        Ok(found)
    }

    fn take(&mut self, id: u64, message: &Message) {
        self.messages += 1;
        let (low, high) = self.range.unwrap_or((message.id, message.id));
        self.range = Some((low.min(message.id), high.max(message.id)));
        match message.id.cmp(&id) {
            std::cmp::Ordering::Less => self.below = self.below.max(Some(message.id)),
            std::cmp::Ordering::Greater => self.above = Some(self.above.map_or(message.id, |above| above.min(message.id))),
            std::cmp::Ordering::Equal => self.all.push(Occurrence {
                begin_ns: message.begin_ns,
                latency_ns: message.latency_ns(),
                threads: message.threads.clone(),
            }),
        }
    }

    /// The slowest of them, by its place; one that never ended is slower than all others.
    pub fn slowest(&self) -> Option<usize> {
        (0..self.all.len()).rev().max_by_key(|at| self.all[*at].latency_ns.unwrap_or(u64::MAX))
    }
}

/// Messages around one, on its threads: of each thread the last before, the first after, and those that overlap.
#[derive(Clone, Debug)]
pub struct Around {
    id: u64,
    occurrence: Occurrence,
    before: BTreeMap<u32, Message>,
    during: Vec<(u32, Message)>,
    after: BTreeMap<u32, Message>,
    /// Overlapping ones that were not kept.
    pub left_out: u64,
}

impl Around {
    /// Overlapping messages that are kept.
    pub const MAX: usize = 8;

    /// Around this one.
    pub fn new(id: u64, occurrence: Occurrence) -> Self {
        Self { id, occurrence, before: BTreeMap::new(), during: Vec::new(), after: BTreeMap::new(), left_out: 0 }
    }

    /// Looks at a message that is over.
    pub fn take(&mut self, message: &Message) {
        let Some(latency_ns) = message.latency_ns() else { return };
        if self.occurrence.is(self.id, message) {
            return;
        }
        for tid in self.occurrence.threads.iter().copied().filter(|tid| message.threads.contains(tid)) {
            if message.begin_ns + latency_ns <= self.occurrence.begin_ns {
                let is_later = |last: &Message| last.end_ns < message.end_ns;
                if self.before.get(&tid).is_none_or(is_later) {
                    self.before.insert(tid, brief(message));
                }
            } else if message.begin_ns >= self.occurrence.end_ns() {
                let is_earlier = |first: &Message| message.begin_ns < first.begin_ns;
                if self.after.get(&tid).is_none_or(is_earlier) {
                    self.after.insert(tid, brief(message));
                }
            } else if self.during.len() < Self::MAX {
                self.during.push((tid, brief(message)));
            } else {
                self.left_out += 1;
            }
        }
    }

    /// Those before, those that overlap, those after, each with the thread that both have.
    pub fn finish(mut self) -> [Vec<(u32, Message)>; 3] {
        self.during.sort_by_key(|(_, message)| message.begin_ns);
        [self.before.into_iter().collect(), self.during, self.after.into_iter().collect()]
    }
}

/// Without its lists: only what it took and when counts.
fn brief(message: &Message) -> Message {
    Message { pieces: Vec::new(), hits: Vec::new(), threads: Vec::new(), wakings: Vec::new(), ..message.clone() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn message(id: u64, begin_ns: u64, end_ns: u64, tid: u32) -> Message {
        let mut message = Message::beginning(id, begin_ns);
        message.end_ns = Some(end_ns);
        message.threads.push(tid);
        message
    }

    #[test]
    fn an_id_is_found_with_its_neighbours_in_number() {
        let mut found = Found::default();
        for (id, begin, end) in [(5, 0, 10), (9, 20, 90), (7, 100, 140), (7, 200, 220), (12, 300, 310)] {
            found.take(7, &message(id, begin, end, 1));
        }
        assert_eq!((found.all.len(), found.slowest()), (2, Some(0)));
        assert_eq!((found.below, found.above, found.range, found.messages), (Some(5), Some(9), Some((5, 12)), 5));
        let mut none = Found::default();
        none.take(7, &message(3, 0, 1, 1));
        assert_eq!((none.slowest(), none.below, none.above), (None, Some(3), None));
    }

    #[test]
    fn neighbours_are_those_of_its_threads() {
        let occurrence = Occurrence { begin_ns: 100, latency_ns: Some(50), threads: vec![1] };
        let mut around = Around::new(7, occurrence);
        let others = [
            (1, 0, 40, 1),
            (2, 50, 90, 1),
            (3, 60, 95, 2),
            (7, 100, 150, 1),
            (4, 90, 160, 1),
            (5, 150, 170, 1),
            (6, 180, 190, 1),
        ];
        for (id, begin, end, tid) in others {
            around.take(&message(id, begin, end, tid));
        }
        let ids = around.finish().map(|some| some.iter().map(|(_, message)| message.id).collect::<Vec<_>>());
        assert_eq!(ids, [vec![2], vec![4], vec![5]]);
    }
}
