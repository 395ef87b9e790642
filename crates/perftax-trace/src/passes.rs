//! Messages from static probes: a thread passes the one where they begin and, later, the one where they end.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::label::Labels;
use crate::mark::{Kind, Mark};

/// A thread passes a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// When.
    pub time_ns: u64,
    /// Whose thread.
    pub pid: u32,
    /// Who.
    pub tid: u32,
    /// Which.
    pub at: Place,
}

/// Which probe it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where a message begins, with its text.
    Start(Option<String>),
    /// Where it ends.
    Done,
}

/// What became of passes; a message's number is the count of those begun so far. Others may run the same program: passes count of one process
/// and its descendants alone.
#[derive(Debug, Default)]
pub struct Passes {
    family: FxHashSet<u32>,
    at: FxHashMap<u32, u64>,
    /// Messages begun.
    pub started: u64,
    /// Messages ended.
    pub done: u64,
    /// Messages after which their thread began the next without having ended them.
    pub broken_off: u64,
    /// Ends of none.
    pub done_without_start: u64,
    /// Their texts.
    pub labels: Labels,
}

impl Passes {
    /// Of a process and its descendants.
    pub fn of(pid: u32) -> Self {
        Self { family: FxHashSet::from_iter([pid]), ..Self::default() }
    }

    /// A process has been created.
    pub fn born(&mut self, pid: u32, parent: u32) {
        if self.family.contains(&parent) {
            self.family.insert(pid);
        }
    }

    /// Takes the next pass, in order of time.
    pub fn take(&mut self, pass: Pass, out: &mut dyn FnMut(Mark)) {
        let Pass { time_ns, pid, tid, at } = pass;
        if !self.family.contains(&pid) {
            return;
        }
        let mark = |id, kind| Mark { time_ns, tid, id, kind };
        match at {
            Place::Start(text) => {
                self.started += 1;
                if self.at.insert(tid, self.started).is_some() {
                    // Whatever became of it, the thread works on it no longer.
                    self.broken_off += 1;
                    out(mark(0, Kind::Switch));
                }
                if let Some(text) = text {
                    self.labels.add(self.started, &text);
                }
                out(mark(self.started, Kind::Begin));
            }
            Place::Done => match self.at.remove(&tid) {
                Some(id) => {
                    self.done += 1;
                    out(mark(id, Kind::End));
                }
                None => self.done_without_start += 1,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::{Begin, End, Switch};

    #[test]
    fn messages_are_told_apart_by_thread_and_one_that_never_ended_is_broken_off() {
        let mut passes = Passes::of(1);
        passes.born(2, 1);
        passes.born(4, 3);
        let mut marks = Vec::new();
        let start = |text: &str| Place::Start(Some(text.into()));
        let all = [
            (10, 1, start("a")),
            (11, 2, start("b")),
            (12, 1, Place::Done),
            (13, 1, Place::Done),
            (14, 2, start("a")),
            (15, 4, start("c")),
        ];
        for (time_ns, tid, at) in all {
            passes
                .take(Pass { time_ns, pid: tid, tid, at }, &mut |mark| marks.push((mark.time_ns, mark.tid, mark.id, mark.kind)));
        }
        let wanted = [(10, 1, 1, Begin), (11, 2, 2, Begin), (12, 1, 1, End), (14, 2, 0, Switch), (14, 2, 3, Begin)];
        assert_eq!(marks, wanted);
        assert_eq!((passes.started, passes.done, passes.broken_off, passes.done_without_start), (3, 1, 1, 1));
        assert_eq!(passes.labels.iter().collect::<Vec<_>>(), [(1, "a"), (2, "b"), (3, "a")]);
    }
}
