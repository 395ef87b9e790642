//! Messages of servers that answer one request at a time on a connection: from the read that brings it to the write that answers it.
//!
//! A message begins when a read returns something on a connection that had been answered, and ends when the last write returns before the next such read, or before the
//! connection is closed. That an answer is over is known only behind it: marks lie in the past by [`Connections::PATIENCE_NS`] at most.

mod call;
mod passed;

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::mark::Mark;
use crate::said::Said;
pub use call::{Action, Call, Moment, action, may_act};
pub use passed::Passed;

/// A connection, by its process and descriptor.
type At = (u32, i32);

/// A connection that is served.
#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    state: State,
    /// Writes on it that have not returned.
    writers: u32,
    /// Requests one after the other that were read while an answer was being written.
    overlapping: u32,
    /// More than one request is under way on it: nothing is told of it any more.
    is_refused: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// Nothing is asked.
    #[default]
    Idle,
    /// This message has come, in part or whole.
    Asked(u64),
    /// It has been answered, in part or whole: when the last write returned, and whose that was.
    Answered { number: u64, last_ns: u64, by: u32 },
}

impl State {
    /// The message that is under way; 0 where none is.
    fn number(self) -> u64 {
        match self {
            Self::Idle => 0,
            Self::Asked(number) | Self::Answered { number, .. } => number,
        }
    }
}

/// What became of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// Connections that were served.
    pub connections: u64,
    /// Messages begun.
    pub begun: u64,
    /// Messages answered.
    pub answered: u64,
    /// Messages whose connection was closed without an answer.
    pub unanswered: u64,
    /// Writes on connections of which nothing was asked: an answer went on after a pause, or nobody had asked.
    pub unasked: u64,
    /// Connections on which requests overlapped: of them nothing more was told.
    pub refused: u64,
    /// Work was handed over by io_uring, where no call tells of it.
    pub rings: u64,
}

/// What is asked of connections while they are there.
pub trait Asking {
    /// Whether connections of a socket that listens, of a process, are asked for.
    fn is_served(&mut self, pid: u32, fd: i32) -> bool;

    /// Which process has the other end of a connection, by which descriptor; none where that is not known.
    fn peer(&mut self, _pid: u32, _fd: i32) -> Option<(u32, i32)> {
        None
    }
}

impl<F: FnMut(u32, i32) -> bool> Asking for F {
    fn is_served(&mut self, pid: u32, fd: i32) -> bool {
        self(pid, fd)
    }
}

/// The connections that are served, and what is under way on them.
#[derive(Debug, Default)]
pub struct Connections {
    /// By process, and by descriptor.
    all: FxHashMap<u32, FxHashMap<i32, Connection>>,
    /// What each thread is in, and the message of which that was when it came in.
    inside: FxHashMap<u32, (Call, u64)>,
    /// The connection of each message that is under way.
    places: FxHashMap<u64, At>,
    /// Answers that may not be over, by when the last write returned.
    undecided: BTreeSet<(u64, u32, i32)>,
    said: Said,
    /// Messages that were passed on from one to another.
    pub passed: Passed,
    /// What became of them.
    pub sight: Sight,
}

impl Connections {
    /// An answer is over when nothing was heard of it for so long, ns.
    pub const PATIENCE_NS: u64 = 50_000_000;
    /// So many requests in a row that are read while an answer is being written, and it is no connection of one request at a time. One may be: its client can have had the
    /// answer before the write has returned.
    const OVERLAPPING: u32 = 3;

    /// A connection is served that was there before.
    pub fn serve(&mut self, pid: u32, fd: i32) {
        self.sight.connections += 1;
        self.forget((pid, fd));
        self.all.entry(pid).or_default().insert(fd, Connection::default());
    }

    /// Nothing was heard of any of them for a while: what was under way is told no further, and these are served now, with those that were before and are `open`. What overlapped on one still does.
    pub fn resume(&mut self, served: &[At], open: &[At]) {
        self.inside.clear();
        self.undecided.clear();
        self.said = Said::default();
        self.passed.forget();
        self.places.clear();
        let before = std::mem::take(&mut self.all);
        let is_known = |(pid, fd): &&At| before.get(pid).is_some_and(|own| own.contains_key(fd));
        for &(pid, fd) in served.iter().chain(open.iter().filter(is_known)) {
            let known = before.get(&pid).and_then(|own| own.get(&fd));
            self.sight.connections += u64::from(known.is_none());
            let is_refused = known.is_some_and(|known| known.is_refused);
            self.all.entry(pid).or_default().insert(fd, Connection { is_refused, ..Connection::default() });
        }
    }

    /// A process was created: it has its parent's descriptors. A thread has them anyhow.
    pub fn born(&mut self, pid: u32, parent: u32) {
        if pid != parent
            && let Some(of_parent) = self.all.get(&parent)
        {
            let own = of_parent.keys().map(|fd| (*fd, Connection::default())).collect();
            self.all.insert(pid, own);
        }
    }

    /// A process is no more.
    pub fn gone(&mut self, pid: u32, out: &mut dyn FnMut(Mark)) {
        let fds: Vec<i32> = self.all.get(&pid).into_iter().flat_map(FxHashMap::keys).copied().collect();
        for fd in fds {
            self.decide((pid, fd), out);
            self.forget((pid, fd));
        }
        self.all.remove(&pid);
        self.passed.closed(pid, 0, i32::MAX);
    }

    /// Takes the next call, in order of time. Marks may be of before.
    pub fn take(&mut self, call: &Call, asking: &mut dyn Asking, out: &mut dyn FnMut(Mark)) {
        let entered = self.inside.remove(&call.tid);
        match (call.at, entered) {
            (Moment::Enter(action), lost) => {
                // Whose return was lost.
                if let Some((Call { pid, at: Moment::Enter(Action::Writes(fd) | Action::Moves(_, fd)), .. }, _)) = lost {
                    self.has_written((pid, fd));
                }
                self.enter(call, action, out);
            }
            (Moment::Exit(returned), Some((Call { at: Moment::Enter(action), .. }, number))) => {
                self.exit(call, action, number, returned, asking, out);
            }
            _ => {}
        }
    }

    /// Nothing before this may be handed out yet: an answer may have ended then.
    pub fn undecided_ns(&self) -> Option<u64> {
        self.undecided.first().map(|(last_ns, ..)| *last_ns)
    }

    /// Time has come to `now_ns`: answers of which nothing was heard for long are over.
    pub fn lose_patience(&mut self, now_ns: u64, out: &mut dyn FnMut(Mark)) {
        while let Some(&(last_ns, pid, fd)) = self.undecided.first()
            && now_ns.saturating_sub(last_ns) >= Self::PATIENCE_NS
        {
            self.undecided.pop_first();
            self.decide((pid, fd), out);
        }
    }

    fn get(&mut self, (pid, fd): At) -> Option<&mut Connection> {
        self.all.get_mut(&pid)?.get_mut(&fd)
    }

    fn enter(&mut self, call: &Call, action: Action, out: &mut dyn FnMut(Mark)) {
        let Call { time_ns, pid, tid, .. } = *call;
        let mut of = 0;
        match action {
            Action::Writes(fd) | Action::Moves(_, fd) => {
                let at = self.said.of(tid);
                if let Some(connection) = self.get((pid, fd)) {
                    connection.writers += 1;
                    of = connection.state.number();
                    if of != 0 {
                        self.said.turn(time_ns, tid, of, out);
                    }
                } else {
                    // What a thread does behind an answer is for somebody else, whom nobody names.
                    let place = self.places.get(&at).copied();
                    let is_asked = place.and_then(|place| self.get(place)).is_some_and(|of| matches!(of.state, State::Asked(_)));
                    self.passed.writes((pid, fd), time_ns, tid, if is_asked { at } else { 0 });
                }
            }
            Action::Closes(first, last) => {
                self.passed.closed(pid, first, last);
                let closed: Vec<i32> = match first == last {
                    true => vec![first],
                    false => self.all.get(&pid).into_iter().flat_map(FxHashMap::keys).copied().collect(),
                };
                for fd in closed.into_iter().filter(|fd| (first..=last).contains(fd)) {
                    self.decide((pid, fd), out);
                    self.forget((pid, fd));
                }
            }
            Action::ShutsDown(fd) => self.decide((pid, fd), out),
            // Whoever serves one connection and owes an answer on it waits for that.
            Action::Waits if self.serves_alone(pid, self.said.of(tid)) => {}
            Action::Waits => self.said.turn(time_ns, tid, 0, out),
            Action::Rings => self.sight.rings += 1,
            Action::Reads(_) | Action::Accepts(_) => {}
        }
        self.inside.insert(tid, (*call, of));
    }

    fn exit(
        &mut self,
        call: &Call,
        action: Action,
        number: u64,
        returned: i64,
        asking: &mut dyn Asking,
        out: &mut dyn FnMut(Mark),
    ) {
        match action {
            Action::Accepts(listens) => {
                if let Ok(fd) = i32::try_from(returned)
                    && fd >= 0
                    && asking.is_served(call.pid, listens)
                {
                    self.serve(call.pid, fd);
                }
            }
            Action::Reads(fd) if returned > 0 => self.asked(call, fd, asking, out),
            Action::Writes(fd) => self.answered(call, fd, number, returned > 0),
            Action::Moves(from, to) => {
                if returned > 0 {
                    self.asked(call, from, asking, out);
                }
                self.answered(call, to, number, returned > 0);
            }
            _ => {}
        }
    }

    /// A read has brought something.
    fn asked(&mut self, call: &Call, fd: i32, asking: &mut dyn Asking, out: &mut dyn FnMut(Mark)) {
        let Call { time_ns, pid, tid, .. } = *call;
        let at = (pid, fd);
        let Some(connection) = self.get(at).filter(|connection| !connection.is_refused) else { return };
        let is_answering = connection.writers > 0 && connection.state.number() != 0;
        if let State::Asked(number) = connection.state {
            if !is_answering {
                self.said.turn(time_ns, tid, number, out);
                return;
            }
            // Its answer was there before the write has returned.
            connection.state = State::Answered { number, last_ns: time_ns, by: tid };
        }
        connection.overlapping = if is_answering { connection.overlapping + 1 } else { 0 };
        let is_refused = connection.overlapping >= Self::OVERLAPPING;
        connection.is_refused = is_refused;
        self.decide(at, out);
        if is_refused {
            self.sight.refused += 1;
            return;
        }
        self.sight.begun += 1;
        let number = self.sight.begun;
        if let Some(connection) = self.get(at) {
            connection.state = State::Asked(number);
        }
        self.places.insert(number, at);
        self.said.begin(time_ns, tid, number, out);
        if let Some(from) = asking.peer(pid, fd) {
            self.passed.begins(number, from, time_ns, tid);
        }
    }

    /// A write has returned that was of this message; 0 for none.
    fn answered(&mut self, call: &Call, fd: i32, number: u64, is_sent: bool) {
        let Call { time_ns, pid, tid, .. } = *call;
        self.has_written((pid, fd));
        let Some(connection) = self.get((pid, fd)).filter(|_| is_sent) else { return };
        if number == 0 {
            self.sight.unasked += 1;
            return;
        }
        // Another one may be under way by now.
        if connection.state.number() != number {
            return;
        }
        let before = std::mem::replace(&mut connection.state, State::Answered { number, last_ns: time_ns, by: tid });
        if let State::Answered { last_ns, .. } = before {
            self.undecided.remove(&(last_ns, pid, fd));
        }
        self.undecided.insert((time_ns, pid, fd));
    }

    /// Whether a process serves one connection, on which this message is not answered.
    fn serves_alone(&self, pid: u32, id: u64) -> bool {
        let own = self.all.get(&pid).filter(|own| own.len() == 1);
        own.into_iter().flat_map(|own| own.values()).any(|of| matches!(of.state, State::Asked(number) if number == id))
    }

    fn has_written(&mut self, at: At) {
        if let Some(connection) = self.get(at) {
            connection.writers = connection.writers.saturating_sub(1);
        }
    }

    /// An answer is over.
    fn decide(&mut self, at: At, out: &mut dyn FnMut(Mark)) {
        let Some(connection) = self.get(at) else { return };
        if let State::Answered { number, last_ns, by } = connection.state {
            connection.state = State::Idle;
            self.undecided.remove(&(last_ns, at.0, at.1));
            self.sight.answered += 1;
            self.places.remove(&number);
            self.said.end(last_ns, by, number, out);
        }
    }

    /// A connection is no more.
    fn forget(&mut self, (pid, fd): At) {
        let state = self.all.get_mut(&pid).and_then(|own| own.remove(&fd)).map(|connection| connection.state);
        if let Some(state) = state {
            self.places.remove(&state.number());
        }
        match state {
            Some(State::Asked(_)) => self.sight.unanswered += 1,
            Some(State::Answered { last_ns, .. }) => {
                self.undecided.remove(&(last_ns, pid, fd));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
