//! What programs say of their messages beyond marks, and whom carriers (goroutines, fibres) take them along with.
//!
//! A carrier that goes to another thread takes its messages along: the thread that it leaves is at none of them any more, the one that it comes to is at the last one.

mod usage;

use std::collections::BTreeMap;
use std::ops::Deref;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::guests::{End, Guests};
use crate::label::Labels;
use crate::mark::{Kind, Mark, Saying, TraceIdentity};
use crate::said::Said;
use usage::Usages;

/// What is known of a message beyond when it was worked on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relation {
    /// The message that it is part of; 0: none.
    pub parent: u64,
    /// What others call it; zeros: nothing.
    pub identity: TraceIdentity,
}

/// A message goes to another process, or comes from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    /// When.
    pub time_ns: u64,
    /// The message.
    pub id: u64,
    /// The thread.
    pub tid: u32,
    /// Whether it goes.
    pub is_sent: bool,
}

/// A hop, and what its message was called just then: a number may be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedHop {
    /// The hop.
    pub hop: Hop,
    /// What others called its message when it went; zeros: nothing. None where that was not looked for: as its message was called last.
    pub identity: Option<TraceIdentity>,
    /// Nobody said so: a process began or ended a message that another one has begun. It need not have read or written it just then.
    pub is_inferred: bool,
}

impl From<Hop> for NamedHop {
    fn from(hop: Hop) -> Self {
        Self { hop, identity: None, is_inferred: false }
    }
}

impl Deref for NamedHop {
    type Target = Hop;

    fn deref(&self) -> &Hop {
        &self.hop
    }
}

/// Messages and hops that are remembered, at most: some 400 MB.
const MAX: usize = 4 << 20;

/// Hops among which one is looked for that says the same.
const NEAR: usize = 64;

/// What was said.
#[derive(Debug, Default)]
pub struct Marked {
    /// Texts.
    pub labels: Labels,
    /// By message.
    pub relations: BTreeMap<u64, Relation>,
    /// In order of time.
    pub hops: Vec<NamedHop>,
    /// What was said and not remembered, since there was so much.
    pub forgotten: u64,
    /// The carrier on each thread that has any: its process and its number.
    threads: FxHashMap<u32, (u32, u64)>,
    /// The thread that each carrier is on.
    places: FxHashMap<(u32, u64), u32>,
    /// The messages that a carrier is at, the last one on top.
    carried: FxHashMap<(u32, u64), Vec<u64>>,
    /// Those of them that have not ended.
    under_way: FxHashSet<u64>,
    said: Said,
    guests: Guests,
    usages: Usages,
}

impl Marked {
    /// Takes what a thread says, in order of time.
    pub fn take(&mut self, time_ns: u64, (pid, tid): (u32, u32), saying: Saying, out: &mut dyn FnMut(Mark)) {
        let has_room = self.relations.len().max(self.hops.len()).max(self.labels.len()) < MAX;
        match saying {
            Saying::Carrier(carrier) => {
                let before = self.threads.insert(tid, (pid, carrier)).filter(|before| *before != (pid, carrier));
                if let Some(before) = before {
                    self.places.remove(&before);
                }
                // Where it was before nobody said that it left.
                if carrier != 0
                    && let Some(place) = self.places.insert((pid, carrier), tid).filter(|place| *place != tid)
                {
                    self.threads.insert(place, (pid, 0));
                    self.said.turn(time_ns, place, 0, out);
                }
                self.go_on(time_ns, tid, out);
            }
            _ if !has_room => self.forgotten += 1,
            Saying::Child { id, parent } => self.relations.entry(id).or_default().parent = parent,
            Saying::Identity { id, identity } => {
                self.relations.entry(id).or_default().identity = identity;
                self.usages.name(id, identity, &mut self.hops);
            }
            Saying::Name { id, text } => self.labels.add(id, &text),
            Saying::Send(id) => {
                self.push(Hop { time_ns, id, tid, is_sent: true }, false);
                if self.guests.send(pid, id) {
                    self.at(Mark { time_ns, tid, id: 0, kind: Kind::Switch }, out);
                }
            }
            Saying::Receive(id) => {
                self.push(Hop { time_ns, id, tid, is_sent: false }, false);
                if self.guests.receive(pid, id) {
                    self.at(Mark { time_ns, tid, id, kind: Kind::Switch }, out);
                }
            }
        }
    }

    /// Takes a mark of a process's, in order of time. A message that another one has begun, and that is under way, is that one's: this process is at it from its begin to its end.
    pub fn mark(&mut self, pid: u32, mark: Mark, out: &mut dyn FnMut(Mark)) {
        let Mark { time_ns, tid, id, kind } = mark;
        let at = |id| Mark { time_ns, tid, id, kind: Kind::Switch };
        match kind {
            Kind::Begin if self.guests.begin(pid, id) => {
                self.hop(Hop { time_ns, id, tid, is_sent: false });
                self.at(at(id), out);
            }
            Kind::Begin => {
                // Whatever had the number before is another one.
                let is_talkative = !self.relations.is_empty() || !self.hops.is_empty();
                self.usages.begin(id, is_talkative, &mut self.hops);
                self.at(mark, out);
            }
            Kind::End => match self.guests.end(pid, id) {
                End::Its => {
                    self.usages.end(id);
                    self.at(mark, out);
                }
                End::Guests => {
                    self.hop(Hop { time_ns, id, tid, is_sent: true });
                    self.at(at(0), out);
                }
                End::Over => self.at(at(0), out),
            },
            _ => self.at(mark, out),
        }
    }

    /// A process is no more.
    pub fn gone(&mut self, pid: u32) {
        self.guests.gone(pid);
    }

    /// A message has come to a process or leaves it, and the program may have said so itself just before.
    fn hop(&mut self, hop: Hop) {
        let is_same = |other: &&NamedHop| (other.id, other.tid) == (hop.id, hop.tid);
        let said = self.hops.iter().rev().take(NEAR).find(is_same).is_some_and(|other| other.is_sent == hop.is_sent);
        match self.hops.len() < MAX {
            _ if said => {}
            true => self.push(hop, true),
            false => self.forgotten += 1,
        }
    }

    /// Takes a hop with the name that its message has then.
    fn push(&mut self, hop: Hop, is_inferred: bool) {
        let last = || self.relations.get(&hop.id).map(|relation| relation.identity).unwrap_or_default();
        let identity = self.usages.hop(&hop, self.hops.len(), last);
        self.hops.push(NamedHop { hop, identity: Some(identity), is_inferred });
    }

    /// The same of messages whose ends are theirs.
    fn at(&mut self, mark: Mark, out: &mut dyn FnMut(Mark)) {
        let carrier = self.threads.get(&mark.tid).copied().filter(|(_, carrier)| *carrier != 0);
        let Some(carrier) = carrier else {
            // A message that a carrier is at may be ended by whoever is on none.
            if mark.kind == Kind::End && !self.under_way.is_empty() {
                self.under_way.remove(&mark.id);
            }
            return out(mark);
        };
        let Mark { time_ns, tid, id, kind } = mark;
        match kind {
            // Whoever begins so many and ends none is told as threads are.
            Kind::Begin | Kind::Switch if self.under_way.len().max(self.carried.len()) >= MAX => {
                self.forgotten += 1;
                out(mark);
            }
            Kind::Begin => {
                self.under_way.insert(id);
                self.carried.entry(carrier).or_default().push(id);
                self.said.begin(time_ns, tid, id, out);
            }
            Kind::End => {
                self.under_way.remove(&id);
                self.said.end(time_ns, tid, id, out);
                self.go_on(time_ns, tid, out);
            }
            Kind::Switch => {
                let carried = self.carried.entry(carrier).or_default();
                carried.clear();
                if id != 0 {
                    self.under_way.insert(id);
                    carried.push(id);
                }
                self.go_on(time_ns, tid, out);
            }
            Kind::Wake => out(mark),
        }
    }

    /// The thread is at the last message of its carrier that has not ended.
    fn go_on(&mut self, time_ns: u64, tid: u32, out: &mut dyn FnMut(Mark)) {
        let Some(carrier) = self.threads.get(&tid).copied() else { return };
        let mut at = 0;
        if let Some(carried) = self.carried.get_mut(&carrier) {
            while let Some(last) = carried.last().copied() {
                if self.under_way.contains(&last) {
                    at = last;
                    break;
                }
                carried.pop();
            }
            if at == 0 {
                self.carried.remove(&carrier);
            }
        }
        self.said.turn(time_ns, tid, at, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Told {
        marked: Marked,
        now_ns: u64,
        marks: Vec<(u32, u64, Kind)>,
    }

    impl Told {
        fn carrier(&mut self, tid: u32, carrier: u64) -> &mut Self {
            self.now_ns += 1;
            let marks = &mut self.marks;
            self.marked
                .take(self.now_ns, (1, tid), Saying::Carrier(carrier), &mut |mark| marks.push((mark.tid, mark.id, mark.kind)));
            self
        }

        fn mark(&mut self, tid: u32, id: u64, kind: Kind) -> &mut Self {
            self.now_ns += 1;
            let (marks, mark) = (&mut self.marks, Mark { time_ns: self.now_ns, tid, id, kind });
            self.marked.mark(1, mark, &mut |mark| marks.push((mark.tid, mark.id, mark.kind)));
            self
        }
    }

    fn told() -> Told {
        Told { marked: Marked::default(), now_ns: 0, marks: Vec::new() }
    }

    #[test]
    fn a_carrier_takes_its_messages_along() {
        let mut told = told();
        told.carrier(10, 7).mark(10, 100, Kind::Begin).mark(10, 101, Kind::Begin);
        // Another one comes to the thread, which begins one of its own; the first goes on elsewhere, and ends both there.
        told.carrier(10, 8).mark(10, 200, Kind::Begin).carrier(10, 0);
        told.carrier(11, 7).mark(11, 101, Kind::End).mark(11, 100, Kind::End).carrier(11, 8).carrier(11, 7);
        use Kind::{Begin, End, Switch};
        let expected = [
            (10, 100, Begin),
            (10, 0, Switch),
            (10, 101, Begin),
            (10, 0, Switch),
            (10, 200, Begin),
            (10, 0, Switch),
            (11, 101, Switch),
            (11, 101, End),
            (11, 100, Switch),
            (11, 100, End),
            (11, 200, Switch),
            (11, 0, Switch),
        ];
        assert_eq!(told.marks, expected);
        assert_eq!(told.marked.under_way.len(), 1);
    }

    /// A request goes to another process and back: its number is one message's.
    #[test]
    fn a_message_goes_to_another_process_and_back() {
        let (mut marked, mut marks) = (Marked::default(), Vec::new());
        let mut out = |mark: Mark| marks.push((mark.tid, mark.id, mark.kind));
        let mark = |time_ns, tid, kind| Mark { time_ns, tid, id: 7, kind };
        marked.mark(1, mark(1, 10, Kind::Begin), &mut out);
        marked.take(2, (1, 10), Saying::Send(7), &mut out);
        marked.mark(2, mark(3, 20, Kind::Begin), &mut out);
        marked.take(4, (2, 20), Saying::Send(7), &mut out);
        marked.take(5, (3, 30), Saying::Receive(7), &mut out);
        marked.take(6, (3, 30), Saying::Send(7), &mut out);
        marked.mark(2, mark(7, 20, Kind::End), &mut out);
        marked.mark(1, mark(8, 10, Kind::End), &mut out);
        use Kind::{Begin, End, Switch};
        assert_eq!(marks, [(10, 7, Begin), (20, 7, Switch), (30, 7, Switch), (30, 0, Switch), (20, 0, Switch), (10, 7, End)]);
        let hops: Vec<(u64, u32, bool)> = marked.hops.iter().map(|hop| (hop.time_ns, hop.tid, hop.is_sent)).collect();
        assert_eq!(hops, [(2, 10, true), (3, 20, false), (4, 20, true), (5, 30, false), (6, 30, true)]);
        // The second one never said that it received it: it began it.
        assert_eq!(marked.hops.iter().map(|hop| hop.is_inferred).collect::<Vec<_>>(), [false, true, false, false, false]);
    }

    #[test]
    fn a_carrier_is_on_one_thread() {
        let mut told = told();
        told.carrier(10, 7).mark(10, 100, Kind::Begin).carrier(11, 7).mark(11, 100, Kind::End).carrier(10, 8);
        use Kind::{Begin, End, Switch};
        assert_eq!(told.marks, [(10, 100, Begin), (10, 0, Switch), (11, 100, Switch), (11, 100, End)]);
    }

    #[test]
    fn threads_without_carriers_say_what_they_say() {
        let mut told = told();
        let marks = [(10, 5, Kind::Begin), (10, 6, Kind::Begin), (11, 6, Kind::Switch), (11, 6, Kind::End), (10, 5, Kind::End)];
        for (tid, id, kind) in marks {
            told.mark(tid, id, kind);
        }
        assert_eq!(told.marks, marks);
    }

    #[test]
    fn somebody_else_may_end_what_a_carrier_is_at() {
        let mut told = told();
        told.carrier(10, 7).mark(10, 100, Kind::Begin).carrier(10, 0).mark(12, 100, Kind::End).carrier(10, 7);
        assert_eq!(told.marks.last(), Some(&(12, 100, Kind::End)));
    }
}
