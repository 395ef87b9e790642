//! What threads were last said to be at, so that nothing is said twice.

use rustc_hash::FxHashMap;

use crate::mark::{Kind, Mark};

/// What each thread was last said to be at; no message is 0.
#[derive(Debug, Default)]
pub(crate) struct Said(FxHashMap<u32, u64>);

impl Said {
    /// The message that a thread was last said to be at; 0: none.
    pub fn of(&self, tid: u32) -> u64 {
        self.0.get(&tid).copied().unwrap_or(0)
    }

    /// A thread is at a message from now on, or at none: says so, where it was at something else.
    pub fn turn(&mut self, time_ns: u64, tid: u32, id: u64, out: &mut dyn FnMut(Mark)) {
        let before = if id == 0 { self.0.remove(&tid) } else { self.0.insert(tid, id) };
        if before.unwrap_or(0) != id {
            out(Mark { time_ns, tid, id, kind: Kind::Switch });
        }
    }

    /// It begins a message, and is at that alone.
    pub fn begin(&mut self, time_ns: u64, tid: u32, id: u64, out: &mut dyn FnMut(Mark)) {
        self.turn(time_ns, tid, 0, out);
        self.0.insert(tid, id);
        out(Mark { time_ns, tid, id, kind: Kind::Begin });
    }

    /// It ends a message, and is at none, where it was at that one.
    pub fn end(&mut self, time_ns: u64, tid: u32, id: u64, out: &mut dyn FnMut(Mark)) {
        if self.0.get(&tid) == Some(&id) {
            self.0.remove(&tid);
        }
        out(Mark { time_ns, tid, id, kind: Kind::End });
    }
}
