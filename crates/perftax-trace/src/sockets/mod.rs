//! Messages of servers that answer one request at a time on a connection: from the read that brings it to the write that answers it.
//!
//! A message begins when a read returns something on a connection that had been answered, and ends when the last write returns before the next such read, before the
//! thread that wrote waits for whatever is next, or before the connection is closed. That an answer is over is known only behind it: marks lie in the past by
//! [`Connections::PATIENCE_NS`] at most.

mod call;

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::mark::Mark;
use crate::said::Said;
pub use call::{Action, Call, Moment, action, may_act};

/// A connection, by its process and descriptor.
type At = (u32, i32);

/// A connection that is served.
#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    state: State,
    /// When its last answer was over; 0 where there was none.
    over_ns: u64,
    /// Requests one after the other that were there before their client can have had the answer to the one before.
    hasty: u32,
    /// Writes on it that have not returned.
    writers: u32,
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
    /// Connections on which requests overlapped: of them nothing more was told.
    pub refused: u64,
    /// Work was handed over by io_uring, where no call tells of it.
    pub rings: u64,
}

/// The connections that are served, and what is under way on them.
#[derive(Debug, Default)]
pub struct Connections {
    all: FxHashMap<At, Connection>,
    /// What each thread is in, since when.
    inside: FxHashMap<u32, (Action, u64)>,
    /// Answers that may not be over, by when the last write returned.
    undecided: BTreeSet<(u64, u32, i32)>,
    /// Those that each thread wrote last.
    written: FxHashMap<u32, Vec<At>>,
    said: Said,
    /// What became of them.
    pub sight: Sight,
}

impl Connections {
    /// An answer is over when nothing was heard of it for so long, ns.
    pub const PATIENCE_NS: u64 = 50_000_000;
    /// From the end of an answer to the next request, ns: shorter than any client's way from the one to the other, through two sockets and a scheduler.
    const HASTE_NS: u64 = 5_000;
    /// So many hasty requests in a row, and a connection is one on which requests follow each other unasked (pipelining).
    const HASTY: u32 = 3;

    /// A connection is served that was there before.
    pub fn serve(&mut self, pid: u32, fd: i32) {
        self.sight.connections += 1;
        self.forget((pid, fd));
        self.all.insert((pid, fd), Connection::default());
    }

    /// A process was created: it has its parent's descriptors.
    pub fn born(&mut self, pid: u32, parent: u32) {
        let of_parent: Vec<i32> = self.all.keys().filter(|(pid, _)| *pid == parent).map(|(_, fd)| *fd).collect();
        self.all.extend(of_parent.into_iter().map(|fd| ((pid, fd), Connection::default())));
    }

    /// Takes the next call, in order of time. `is_served` says whether connections of a socket that listens, of a process, are asked for. Marks may be of before.
    pub fn take(&mut self, call: &Call, is_served: &mut dyn FnMut(u32, i32) -> bool, out: &mut dyn FnMut(Mark)) {
        match call.at {
            Moment::Enter(action) => self.enter(call, action, out),
            Moment::Exit(returned) => {
                if let Some((action, since_ns)) = self.inside.remove(&call.tid) {
                    self.exit(call, action, since_ns, returned, is_served, out);
                }
            }
        }
    }

    /// Nothing before this may be handed out yet: an answer may have ended then.
    pub fn undecided_ns(&self) -> Option<u64> {
        self.undecided.first().map(|(last_ns, ..)| *last_ns)
    }

    /// Time has come to `now_ns`: answers of which nothing was heard for long are over.
    pub fn lose_patience(&mut self, now_ns: u64, out: &mut dyn FnMut(Mark)) {
        while let Some(&(last_ns, pid, fd)) = self.undecided.first() {
            if now_ns.saturating_sub(last_ns) < Self::PATIENCE_NS {
                break;
            }
            self.decide((pid, fd), out);
        }
    }

    fn enter(&mut self, call: &Call, action: Action, out: &mut dyn FnMut(Mark)) {
        let Call { time_ns, pid, tid, .. } = *call;
        self.inside.insert(tid, (action, time_ns));
        match action {
            // Who asks for the next has answered.
            Action::Reads(fd) => {
                let is_own =
                    matches!(self.all.get(&(pid, fd)), Some(Connection { state: State::Answered { by, .. }, .. }) if *by == tid);
                if is_own {
                    self.said.turn(time_ns, tid, 0, out);
                }
            }
            Action::Writes(fd) | Action::Moves(_, fd) => {
                if let Some(connection) = self.all.get_mut(&(pid, fd)) {
                    connection.writers += 1;
                    if let State::Asked(number) | State::Answered { number, .. } = connection.state {
                        self.said.turn(time_ns, tid, number, out);
                    }
                }
            }
            Action::Closes(first, last) => {
                let closed: Vec<At> = match first == last {
                    true => vec![(pid, first)],
                    false => self.all.keys().filter(|(of, fd)| *of == pid && (first..=last).contains(fd)).copied().collect(),
                };
                for at in closed {
                    self.decide(at, out);
                    self.forget(at);
                }
            }
            Action::ShutsDown(fd) => self.decide((pid, fd), out),
            Action::Waits => {
                for at in self.written.remove(&tid).unwrap_or_default() {
                    if matches!(self.all.get(&at), Some(Connection { state: State::Answered { by, .. }, .. }) if *by == tid) {
                        self.decide(at, out);
                    }
                }
                self.said.turn(time_ns, tid, 0, out);
            }
            Action::Rings => self.sight.rings += 1,
            Action::Accepts(_) => {}
        }
    }

    fn exit(
        &mut self,
        call: &Call,
        action: Action,
        since_ns: u64,
        returned: i64,
        is_served: &mut dyn FnMut(u32, i32) -> bool,
        out: &mut dyn FnMut(Mark),
    ) {
        let Call { time_ns, pid, tid, .. } = *call;
        match action {
            Action::Accepts(listens) => {
                if let Ok(fd) = i32::try_from(returned)
                    && fd >= 0
                    && is_served(pid, listens)
                {
                    self.serve(pid, fd);
                }
            }
            Action::Reads(fd) if returned > 0 => self.asked(call, fd, since_ns, out),
            Action::Writes(fd) => self.answered(call, fd, returned > 0),
            Action::Moves(from, to) => {
                if returned > 0 {
                    self.asked(call, from, since_ns, out);
                }
                self.answered(call, to, returned > 0);
            }
            // Nothing had come, or nothing ever will: nobody is asked.
            Action::Reads(fd) => {
                let at = (pid, fd);
                if matches!(self.all.get(&at), Some(Connection { state: State::Answered { by, .. }, .. }) if *by == tid) {
                    self.decide(at, out);
                    self.said.turn(time_ns, tid, 0, out);
                }
            }
            _ => {}
        }
    }

    /// A read has brought something.
    fn asked(&mut self, call: &Call, fd: i32, since_ns: u64, out: &mut dyn FnMut(Mark)) {
        let Call { time_ns, pid, tid, .. } = *call;
        let at = (pid, fd);
        let Some(connection) = self.all.get_mut(&at).filter(|connection| !connection.is_refused) else { return };
        let over_ns = match connection.state {
            State::Asked(number) => {
                self.said.turn(time_ns, tid, number, out);
                return;
            }
            State::Answered { last_ns, .. } => last_ns,
            State::Idle => connection.over_ns,
        };
        let is_hasty = over_ns > 0 && since_ns >= over_ns && time_ns.saturating_sub(over_ns) < Self::HASTE_NS;
        connection.hasty = if is_hasty { connection.hasty + 1 } else { 0 };
        let overlaps = connection.writers > 0 || connection.hasty >= Self::HASTY;
        connection.is_refused = overlaps;
        self.sight.refused += u64::from(overlaps);
        self.decide(at, out);
        if overlaps {
            return;
        }
        self.sight.begun += 1;
        let number = self.sight.begun;
        if let Some(connection) = self.all.get_mut(&at) {
            connection.state = State::Asked(number);
        }
        self.said.begin(time_ns, tid, number, out);
    }

    /// A write has returned.
    fn answered(&mut self, call: &Call, fd: i32, is_sent: bool) {
        let Call { time_ns, pid, tid, .. } = *call;
        let at = (pid, fd);
        let Some(connection) = self.all.get_mut(&at) else { return };
        connection.writers = connection.writers.saturating_sub(1);
        let number = match connection.state {
            _ if !is_sent => return,
            State::Idle => return,
            State::Asked(number) => number,
            State::Answered { number, last_ns, .. } => {
                self.undecided.remove(&(last_ns, pid, fd));
                number
            }
        };
        connection.state = State::Answered { number, last_ns: time_ns, by: tid };
        self.undecided.insert((time_ns, pid, fd));
        let written = self.written.entry(tid).or_default();
        if !written.contains(&at) {
            written.push(at);
        }
    }

    /// An answer is over.
    fn decide(&mut self, at: At, out: &mut dyn FnMut(Mark)) {
        let Some(connection) = self.all.get_mut(&at) else { return };
        if let State::Answered { number, last_ns, by } = connection.state {
            (connection.state, connection.over_ns) = (State::Idle, last_ns);
            self.undecided.remove(&(last_ns, at.0, at.1));
            self.sight.answered += 1;
            self.said.end(last_ns, by, number, out);
        }
    }

    /// A connection is no more.
    fn forget(&mut self, at: At) {
        if let Some(Connection { state: State::Asked(_), .. }) = self.all.remove(&at) {
            self.sight.unanswered += 1;
        }
    }
}

#[cfg(test)]
mod tests;
