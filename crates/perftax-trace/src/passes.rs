//! Messages from probes: a thread passes the place where they begin and, later, the one where they end.
//!
//! What carries a message from the one to the other is a number that both places have, else the thread, in Go the goroutine, which may be now on this thread and now on
//! that one.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::label::Labels;
use crate::mark::{Kind, Mark};
use crate::said::Said;

/// A thread passes a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// When.
    pub time_ns: u64,
    /// Whose thread.
    pub pid: u32,
    /// Who.
    pub tid: u32,
    /// The goroutine that is on the thread, comes to it, or can go on.
    pub goroutine: Option<u64>,
    /// How deep in its stack the thread is, bytes; where a message is a call.
    pub depth: Option<u64>,
    /// Which.
    pub at: Place,
}

/// Which probe it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where a message begins.
    Start {
        /// Its text.
        text: Option<String>,
        /// What the program tells it by.
        id: Option<u64>,
    },
    /// Where it ends.
    Done {
        /// What the program tells it by; none: the one that the thread is at.
        id: Option<u64>,
    },
    /// A goroutine comes to the thread.
    Comes,
    /// It leaves the thread.
    Leaves,
    /// It has ended.
    Gone,
    /// It can go on, by what the thread does: another one is on that.
    Readies,
}

/// Who works on a message: of a process, a thread or a goroutine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Carrier {
    Thread(u32),
    Goroutine(u32, u64),
}

/// What somebody is at.
#[derive(Clone, Debug)]
struct Current {
    /// The message.
    number: u64,
    /// What the program tells it by, in its process.
    key: Option<(u32, u64)>,
    /// Where a message is a call: how deep it is in the stack, and the function's calls within it, each deeper than the one before.
    calls: Vec<u64>,
}

impl Current {
    /// Whether a call goes on that is less deep. Those that are as deep or deeper are over, however they were left: a return, an exception, a panic, longjmp.
    fn is_beneath(&mut self, depth: u64) -> bool {
        self.calls.retain(|call| *call < depth);
        !self.calls.is_empty()
    }
}

/// What became of passes; a message's number is the count of those begun so far. Others may run the same program: passes count of one process
/// and its descendants alone.
#[derive(Debug, Default)]
pub struct Passes {
    family: FxHashSet<u32>,
    at: FxHashMap<Carrier, Current>,
    /// Messages under way that the program has numbers for, and who began them.
    by_key: FxHashMap<(u32, u64), (u64, Carrier)>,
    said: Said,
    /// A message is a call of a function, which may call itself.
    is_a_call: bool,
    /// Passes of the process and its descendants.
    pub hits: u64,
    /// Messages begun.
    pub started: u64,
    /// Messages ended.
    pub done: u64,
    /// Messages after which their thread, or their number, was another one's without their having ended.
    pub broken_off: u64,
    /// Ends of none.
    pub done_without_start: u64,
    /// Their texts.
    pub labels: Labels,
}

impl Passes {
    /// Of processes and their descendants.
    pub fn of(pids: &[u32]) -> Self {
        Self { family: pids.iter().copied().collect(), ..Self::default() }
    }

    /// The same where a message is a call of a function: what it calls itself is of it.
    pub fn of_calls(pids: &[u32]) -> Self {
        Self { is_a_call: true, ..Self::of(pids) }
    }

    /// A process has been created.
    pub fn born(&mut self, pid: u32, parent: u32) {
        if self.family.contains(&parent) {
            self.family.insert(pid);
        }
    }

    /// Nothing was heard of any for a while: what was under way is told no further, and these processes are there now.
    pub fn resume(&mut self, pids: &[u32]) {
        self.at.clear();
        self.by_key.clear();
        self.said = Said::default();
        self.family.extend(pids);
    }

    /// Takes the next pass, in order of time.
    pub fn take(&mut self, pass: Pass, out: &mut dyn FnMut(Mark)) {
        if !self.family.contains(&pass.pid) {
            return;
        }
        self.hits += 1;
        let carrier = match pass.goroutine {
            Some(goroutine) => Carrier::Goroutine(pass.pid, goroutine),
            None => Carrier::Thread(pass.tid),
        };
        match pass.at {
            Place::Start { ref text, id } => self.start(&pass, carrier, text.as_deref(), id, out),
            Place::Done { id } => self.end(&pass, carrier, id, out),
            Place::Comes => {
                let number = self.at.get(&carrier).map_or(0, |current| current.number);
                self.said.turn(pass.time_ns, pass.tid, number, out);
            }
            Place::Readies => {
                if let Some(current) = self.at.get(&carrier) {
                    let (time_ns, tid, id) = (pass.time_ns, pass.tid, current.number);
                    out(Mark { time_ns, tid, id, kind: Kind::Wake });
                }
            }
            Place::Leaves => self.said.turn(pass.time_ns, pass.tid, 0, out),
            Place::Gone => {
                // Another one may have its number next.
                if let Some(Current { key, .. }) = self.at.remove(&carrier) {
                    // Where it has a number of its own, somebody else may end it.
                    self.broken_off += u64::from(key.is_none());
                    self.said.turn(pass.time_ns, pass.tid, 0, out);
                }
            }
        }
    }

    fn start(&mut self, pass: &Pass, carrier: Carrier, text: Option<&str>, id: Option<u64>, out: &mut dyn FnMut(Mark)) {
        if let (true, Some(depth), Some(current)) = (self.is_a_call, pass.depth, self.at.get_mut(&carrier))
            && current.is_beneath(depth)
        {
            current.calls.push(depth);
            return;
        }
        self.started += 1;
        let (number, key) = (self.started, id.map(|id| (pass.pid, id)));
        if let Some((old, by)) = key.and_then(|key| self.by_key.insert(key, (number, carrier))) {
            self.broken_off += 1;
            self.leave(by, old);
        }
        if let Some(before) = self.at.insert(carrier, Current { number, key, calls: pass.depth.into_iter().collect() }) {
            // Whatever became of it, it is worked on no longer; one with a number may be taken up again.
            self.broken_off += u64::from(before.key.is_none());
        }
        if let Some(text) = text {
            self.labels.add(number, text);
        }
        self.said.begin(pass.time_ns, pass.tid, number, out);
    }

    fn end(&mut self, pass: &Pass, carrier: Carrier, id: Option<u64>, out: &mut dyn FnMut(Mark)) {
        let number = match id {
            Some(id) => self.by_key.remove(&(pass.pid, id)).map(|(number, by)| {
                self.leave(by, number);
                number
            }),
            None => {
                if let (true, Some(depth), Some(current)) = (self.is_a_call, pass.depth, self.at.get_mut(&carrier))
                    && current.is_beneath(depth)
                {
                    return;
                }
                let current = self.at.remove(&carrier);
                if let Some(key) = current.as_ref().and_then(|current| current.key) {
                    self.by_key.remove(&key);
                }
                current.map(|current| current.number)
            }
        };
        let Some(number) = number else {
            self.done_without_start += 1;
            return;
        };
        self.done += 1;
        // Whoever ends it works on it.
        self.said.turn(pass.time_ns, pass.tid, number, out);
        self.said.end(pass.time_ns, pass.tid, number, out);
    }

    /// Whoever began a message is at it no longer, where it still is.
    fn leave(&mut self, carrier: Carrier, number: u64) {
        if self.at.get(&carrier).is_some_and(|current| current.number == number) {
            self.at.remove(&carrier);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::{Begin, End, Switch, Wake};

    fn start(text: &str) -> Place {
        Place::Start { text: Some(text.into()), id: None }
    }

    fn begins(id: u64) -> Place {
        Place::Start { text: None, id: Some(id) }
    }

    fn ends(id: u64) -> Place {
        Place::Done { id: Some(id) }
    }

    const START: Place = Place::Start { text: None, id: None };
    const DONE: Place = Place::Done { id: None };

    /// Marks of passes: when, by which thread (its process has the same number), of which goroutine, where.
    fn marks(passes: &mut Passes, all: &[(u64, u32, Option<u64>, Place)]) -> Vec<(u64, u32, u64, Kind)> {
        let mut marks = Vec::new();
        for (time_ns, tid, goroutine, at) in all {
            let pid = if goroutine.is_some() { 1 } else { *tid };
            let pass = Pass { time_ns: *time_ns, pid, tid: *tid, goroutine: *goroutine, depth: None, at: at.clone() };
            passes.take(pass, &mut |mark| marks.push((mark.time_ns, mark.tid, mark.id, mark.kind)));
        }
        marks
    }

    fn counts(passes: &Passes) -> (u64, u64, u64, u64) {
        (passes.started, passes.done, passes.broken_off, passes.done_without_start)
    }

    #[test]
    fn messages_are_told_apart_by_thread_and_one_that_never_ended_is_broken_off() {
        let mut passes = Passes::of(&[1]);
        passes.born(2, 1);
        passes.born(4, 3);
        let all = [
            (10, 1, None, start("a")),
            (11, 2, None, start("b")),
            (12, 1, None, DONE),
            (13, 1, None, DONE),
            (14, 2, None, start("a")),
            (15, 4, None, start("c")),
        ];
        let wanted = [(10, 1, 1, Begin), (11, 2, 2, Begin), (12, 1, 1, End), (14, 2, 0, Switch), (14, 2, 3, Begin)];
        assert_eq!(marks(&mut passes, &all), wanted);
        assert_eq!(counts(&passes), (3, 1, 1, 1));
        assert_eq!(passes.labels.iter().collect::<Vec<_>>(), [(1, "a"), (2, "b"), (3, "a")]);
    }

    /// Nothing was heard for a while: calls that went on are not ended by what comes then, and processes may have come.
    #[test]
    fn after_a_gap_nothing_of_before_goes_on() {
        let mut passes = Passes::of(&[1]);
        assert_eq!(marks(&mut passes, &[(10, 1, None, START)]).len(), 1);
        passes.resume(&[1, 2]);
        let all = [(20, 1, None, DONE), (30, 2, None, START), (40, 2, None, DONE)];
        assert_eq!(marks(&mut passes, &all), [(30, 2, 2, Begin), (40, 2, 2, End)]);
        assert_eq!(counts(&passes), (2, 1, 0, 1));
    }

    /// One thread has two under way, another one ends the first; a number that comes again is another message's.
    #[test]
    fn messages_with_numbers_go_from_thread_to_thread() {
        let mut passes = Passes::of(&[1]);
        passes.born(2, 1);
        let all = [
            (10, 1, None, begins(700)),
            (20, 1, None, begins(800)),
            (30, 1, None, ends(700)),
            (40, 1, None, begins(700)),
            (50, 1, None, begins(700)),
            (60, 1, None, ends(900)),
        ];
        let wanted = [
            (10, 1, 1, Begin),
            (20, 1, 0, Switch),
            (20, 1, 2, Begin),
            (30, 1, 1, Switch),
            (30, 1, 1, End),
            (40, 1, 3, Begin),
            (50, 1, 0, Switch),
            (50, 1, 4, Begin),
        ];
        assert_eq!(marks(&mut passes, &all), wanted);
        // 700's second one was never ended, 800 is under way.
        assert_eq!(counts(&passes), (4, 1, 1, 1));
        // Numbers of another process are others.
        assert_eq!(marks(&mut passes, &[(70, 2, None, ends(700))]), []);
        assert_eq!(counts(&passes), (4, 1, 1, 2));
        let goes_on = [(80, 1, None, DONE), (90, 1, None, ends(700))];
        assert_eq!(marks(&mut passes, &goes_on), [(80, 1, 4, End)], "an end without a number ends what its thread is at");
    }

    /// Calls of calls; one that is left by an exception within another, and one that is left with all that was within.
    #[test]
    fn a_call_within_its_own_call_is_of_it() {
        let mut passes = Passes::of_calls(&[1]);
        let all = [
            (10, 100, START),
            (20, 200, START),
            (30, 200, DONE),
            (40, 100, DONE),
            (50, 100, DONE),
            (60, 100, START),
            (70, 200, START),
            (80, 180, START),
            (90, 180, DONE),
            (100, 100, DONE),
            (110, 100, START),
            (120, 300, START),
            (130, 90, START),
            (140, 90, DONE),
        ];
        let mut marks = Vec::new();
        for (time_ns, depth, at) in all {
            let pass = Pass { time_ns, pid: 1, tid: 1, goroutine: None, depth: Some(depth), at };
            passes.take(pass, &mut |mark| marks.push((mark.time_ns, mark.id, mark.kind)));
        }
        let wanted = [
            (10, 1, Begin),
            (40, 1, End),
            (60, 2, Begin),
            (100, 2, End),
            (110, 3, Begin),
            (130, 0, Switch),
            (130, 4, Begin),
            (140, 4, End),
        ];
        assert_eq!(marks, wanted);
        assert_eq!((counts(&passes), passes.hits), ((4, 3, 1, 1), 14));
    }

    /// Two goroutines take turns on one thread; one goes on on another thread, and one ends without having ended its message.
    #[test]
    fn messages_follow_their_goroutines() {
        let mut passes = Passes::of(&[1]);
        let (a, b) = (Some(0xa0), Some(0xb0));
        let all = [
            (10, 5, a, START),
            (20, 5, a, Place::Leaves),
            (21, 5, b, Place::Comes),
            (30, 5, b, START),
            (40, 5, b, Place::Leaves),
            (41, 6, b, Place::Comes),
            (42, 5, a, Place::Comes),
            (45, 5, b, Place::Readies),
            (46, 5, Some(0xc0), Place::Readies),
            (50, 6, b, DONE),
            (60, 5, a, Place::Gone),
            (61, 5, a, Place::Leaves),
            (62, 5, a, Place::Comes),
            (70, 5, a, DONE),
        ];
        let wanted = [
            (10, 5, 1, Begin),
            (20, 5, 0, Switch),
            (30, 5, 2, Begin),
            (40, 5, 0, Switch),
            (41, 6, 2, Switch),
            (42, 5, 1, Switch),
            (45, 5, 2, Wake),
            (50, 6, 2, End),
            (60, 5, 0, Switch),
        ];
        assert_eq!(marks(&mut passes, &all), wanted);
        assert_eq!(counts(&passes), (2, 1, 1, 1));
    }
}
