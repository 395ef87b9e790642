//! Messages: what the tracker knows of each when it is over.

mod overlap;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::cause::{Cause, Shares};
use crate::executed::ExecutedOfMessage;
use crate::spot::Spot;
use overlap::one_at_a_time;

/// A piece of time that went to one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The thread; 0 where none worked on the message.
    pub tid: u32,
    /// From when.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
    /// What it went to.
    pub cause: Cause,
    /// Which, by cause: a system call's number and 1 (blocked: the one it waits in, or [`Piece::IN_FAULT`]; 0 for none), an irq's line, a
    /// softirq's or vector's number, the thread that had the CPU meanwhile (preempted, runnable; 0: nobody, or not known); else 0.
    pub which: u32,
}

impl Piece {
    /// Blocked in a page fault: no system call has this number.
    pub const IN_FAULT: u32 = u32::MAX;
}

/// Who ended a thread's waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waker {
    /// The thread; 0 where an interrupt did, and where a CPU that idled was interrupted for it.
    pub tid: u32,
    /// The message that the thread was at; none where it was at none, or an interrupt did.
    pub id: Option<u64>,
    /// What it was in: an interruption, a system call, a page fault; and which, as [`Piece::which`] has it.
    pub at: Option<(Cause, u32)>,
    /// What that is called together ([`crate::Kinds`]); 0 where it is not known.
    pub kind: u32,
}

/// What a thread worked on while a message waited for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meanwhile {
    /// From when the message was on no thread.
    pub from_ns: u64,
    /// Until this one came to it.
    pub to_ns: u64,
    /// The thread.
    pub tid: u32,
    /// Stretches in which it was at other messages.
    pub stretches: u32,
    /// How long they were together, ns.
    pub ns: u64,
    /// There were more of them than are remembered.
    pub is_partial: bool,
    /// The message that had the longest of the last ones.
    pub most: u64,
    /// What they are called together ([`crate::Kinds`]) where all are of one kind, else what that one is called; 0 where it is not known.
    pub kind: u32,
    /// How long those of the kind were that are known to be of it, ns.
    pub kind_ns: u64,
}

/// A thread that waited for a message was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waking {
    /// When: there its blocked piece ends.
    pub time_ns: u64,
    /// Who waited.
    pub tid: u32,
    /// Who ended that.
    pub by: Waker,
}

/// A sample taken while a thread worked on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// When.
    pub time_ns: u64,
    /// The thread.
    pub tid: u32,
    /// The function, as the trace's symbols number them.
    pub function: u32,
    /// What the thread was at, interruptions aside.
    pub cause: Cause,
}

/// A message that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// As the program named it.
    pub id: u64,
    /// When it began.
    pub begin_ns: u64,
    /// When it ended; none where the program never said so.
    pub end_ns: Option<u64>,
    /// Its time by cause; adds up to its latency.
    pub shares: Shares,
    /// Its pieces, by thread in order of time; two of one thread do not overlap. At most [`Message::MAX`]: `left_out` counts the others.
    pub pieces: Vec<Piece>,
    /// The same where several threads were at it at once: one piece for each instant, in order of time. Empty where none were.
    pub told: Vec<Piece>,
    /// Its samples. At most [`Message::MAX`].
    pub hits: Vec<Hit>,
    /// Samples of the events that are counted, by place.
    pub events: FxHashMap<Spot, u64>,
    /// Instructions and cycles.
    pub executed: ExecutedOfMessage,
    /// How often a thread came to it, or was moved to another CPU while at it: from one to the next samples are counted anew.
    pub stints: u32,
    /// The threads that worked on it.
    pub threads: Vec<u32>,
    /// Who ended its threads' waiting, in order of time. At most [`Message::MAX_WAKINGS`].
    pub wakings: Vec<Waking>,
    /// What threads worked on while it waited for them, in order of time. At most [`Message::MAX_WAKINGS`].
    pub meanwhiles: Vec<Meanwhile>,
    /// Until when a thread was at it last.
    pub(crate) attended_ns: u64,
    /// Page faults.
    pub faults: u32,
    /// Times that a thread was moved to another CPU while at it.
    pub migrations: u32,
    /// Pieces and samples that were not kept.
    pub left_out: u64,
    /// Recording was on all the time: what it went to is known.
    pub is_watched: bool,
}

impl Message {
    /// Pieces, and samples, that are kept of one message.
    pub const MAX: usize = 1 << 16;
    /// Wakings that are kept of one message.
    pub const MAX_WAKINGS: usize = 1 << 10;

    /// Stretches in each of which a clock that samples CPUs counts anew: one that goes on while the message is off them.
    pub fn stretches_on_cpus(&self) -> u64 {
        let is_off = |piece: &&Piece| !piece.cause.is_running() && !piece.cause.is_interruption();
        1 + self.pieces.iter().filter(is_off).count() as u64 + u64::from(self.migrations) + self.left_out
    }

    pub(crate) fn beginning(id: u64, begin_ns: u64) -> Self {
        Self {
            id,
            begin_ns,
            end_ns: None,
            shares: Shares::default(),
            pieces: Vec::new(),
            told: Vec::new(),
            hits: Vec::new(),
            events: FxHashMap::default(),
            executed: ExecutedOfMessage::default(),
            stints: 0,
            threads: Vec::new(),
            wakings: Vec::new(),
            meanwhiles: Vec::new(),
            attended_ns: begin_ns,
            faults: 0,
            migrations: 0,
            left_out: 0,
            is_watched: true,
        }
    }

    /// Another one in the same place; its lists keep their room.
    pub(crate) fn restart(&mut self, id: u64, begin_ns: u64) {
        // All by name: one that is added must be thought of here.
        let Self {
            id: own_id,
            begin_ns: began_ns,
            end_ns,
            shares,
            pieces,
            told,
            hits,
            events,
            executed,
            stints,
            threads,
            wakings,
            meanwhiles,
            attended_ns,
            faults,
            migrations,
            left_out,
            is_watched,
        } = self;
        (*own_id, *began_ns, *attended_ns, *end_ns, *shares) = (id, begin_ns, begin_ns, None, Shares::default());
        *executed = ExecutedOfMessage::default();
        (*stints, *faults, *migrations, *left_out, *is_watched) = (0, 0, 0, 0, true);
        pieces.clear();
        told.clear();
        hits.clear();
        events.clear();
        threads.clear();
        wakings.clear();
        meanwhiles.clear();
    }

    /// Adds a piece; one that goes on where the last one of the same kind ended makes that one longer.
    pub(crate) fn add(&mut self, piece: Piece) {
        self.shares.add(piece.cause, piece.to_ns - piece.from_ns);
        self.attended_ns = self.attended_ns.max(piece.to_ns);
        let is_full = self.pieces.len() >= Self::MAX;
        match self.pieces.last_mut() {
            Some(last)
                if (last.tid, last.to_ns, last.cause, last.which) == (piece.tid, piece.from_ns, piece.cause, piece.which) =>
            {
                last.to_ns = piece.to_ns;
            }
            _ if is_full => self.left_out += 1,
            _ => self.pieces.push(piece),
        }
    }

    /// Who ended a piece of a thread's waiting, also where that waits for a CPU since, or of the message's while no thread was at it, where that is known.
    pub fn woken(&self, piece: &Piece) -> Option<&Waker> {
        self.waking(piece).map(|waking| &waking.by)
    }

    /// The same, with when that was.
    pub fn waking(&self, piece: &Piece) -> Option<&Waking> {
        // They are in order of time.
        let at = |time_ns: u64| {
            let first = self.wakings.partition_point(|waking| waking.time_ns < time_ns);
            self.wakings[first..]
                .iter()
                .take_while(move |waking| waking.time_ns == time_ns)
                .find(|waking| waking.tid == piece.tid)
        };
        match piece.cause {
            Cause::Blocked => at(piece.to_ns),
            Cause::Runnable => at(self.runnable_since(piece)),
            // From there on it waited for a thread. Who woke it before that did so in vain.
            Cause::Unattended => {
                let is_within = |waking: &&Waking| waking.tid == 0 && (piece.from_ns..=piece.to_ns).contains(&waking.time_ns);
                self.wakings.iter().rev().find(is_within)
            }
            _ => None,
        }
    }

    /// Since when the thread of a piece in which it waits for a CPU has done so: others may have had that one in turn.
    fn runnable_since(&self, piece: &Piece) -> u64 {
        let mut since_ns = piece.from_ns;
        let is_one = |other: &&Piece| other.tid == piece.tid && other.cause == piece.cause && other.from_ns < piece.from_ns;
        for before in self.pieces.iter().rev().filter(is_one) {
            if before.to_ns != since_ns {
                break;
            }
            since_ns = before.from_ns;
        }
        since_ns
    }

    /// What the thread that came to it then had worked on while it was on none.
    pub fn meanwhile(&self, piece: &Piece) -> Option<&Meanwhile> {
        if piece.cause != Cause::Unattended {
            return None;
        }
        let first = self.meanwhiles.partition_point(|meanwhile| meanwhile.to_ns < piece.to_ns);
        self.meanwhiles.get(first).filter(|meanwhile| meanwhile.to_ns == piece.to_ns)
    }

    /// A stretch of a thread's time lost `ns` to the hypervisor. When within it cannot be known: its end is taken.
    pub(crate) fn steal(&mut self, tid: u32, from_ns: u64, to_ns: u64, cause: Cause, ns: u64) {
        let ns = self.shares.shift(cause, Cause::Steal, ns.min(to_ns - from_ns));
        let holds = |piece: &Piece| piece.tid == tid && piece.cause == cause && piece.from_ns <= from_ns && to_ns <= piece.to_ns;
        let Some(at) = self.pieces.iter().position(holds) else { return };
        let whole = self.pieces[at];
        let parts = [
            Piece { to_ns: to_ns - ns, ..whole },
            Piece { tid, from_ns: to_ns - ns, to_ns, cause: Cause::Steal, which: 0 },
            Piece { from_ns: to_ns, ..whole },
        ];
        self.pieces.splice(at..=at, parts.into_iter().filter(|part| part.to_ns > part.from_ns));
    }

    /// Its time in pieces of which no two overlap, where that is known.
    pub fn instants(&self) -> &[Piece] {
        if self.told.is_empty() { &self.pieces } else { &self.told }
    }

    /// It is over: what several threads were at at once counts once.
    pub(crate) fn tell(&mut self) {
        let is_whole = self.end_ns.is_some() && self.left_out == 0 && self.threads.len() > 1;
        if let Some(told) = is_whole.then(|| one_at_a_time(&self.pieces, &self.threads)).flatten() {
            self.shares = Shares::default();
            told.iter().for_each(|piece| self.shares.add(piece.cause, piece.to_ns - piece.from_ns));
            self.told = told;
        }
    }

    /// Adds pieces for the time in which no thread was at it. Returns how long that was.
    pub(crate) fn fill_gaps(&mut self, end_ns: u64) -> u64 {
        let mut unattended_ns = 0;
        let mut order: Vec<(u64, u64)> = self.pieces.iter().map(|piece| (piece.from_ns, piece.to_ns)).collect();
        order.sort_unstable();
        let mut covered_ns = self.begin_ns;
        for (from_ns, to_ns) in order.into_iter().chain([(end_ns, end_ns)]) {
            if from_ns > covered_ns {
                unattended_ns += from_ns - covered_ns;
                if self.pieces.len() < Self::MAX {
                    let gap = Piece { tid: 0, from_ns: covered_ns, to_ns: from_ns, cause: Cause::Unattended, which: 0 };
                    self.pieces.push(gap);
                }
            }
            covered_ns = covered_ns.max(to_ns);
        }
        unattended_ns
    }

    /// From its beginning to its end.
    pub fn latency_ns(&self) -> Option<u64> {
        self.end_ns.map(|end| end.saturating_sub(self.begin_ns))
    }
}

/// What was odd about the marks. Nothing of it stops the rest from being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Messages that never ended.
    pub never_ended: u64,
    /// Messages under way when recording was switched off, with all that says when they end.
    pub cut_off: u64,
    /// Ends of messages that had not begun, or had ended.
    pub ended_without_begin: u64,
    /// Messages that began while one of the same id was under way: the older one counts as never ended.
    pub reused: u64,
    /// Switches to messages that were not under way.
    pub switched_to_unknown: u64,
    /// Records that came after later ones of their thread, and were taken as of then.
    pub late: u64,
}

impl Trouble {
    /// What there was of each, in words: what happened to a message or a record.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let all = [
            ("never ended", self.never_ended),
            ("under way while nothing was recorded, to check its price", self.cut_off),
            ("ended without having begun", self.ended_without_begin),
            ("began while one of the same id was under way", self.reused),
            ("switched to without having begun", self.switched_to_unknown),
            ("records out of order", self.late),
        ];
        all.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| (name.into(), n)).collect()
    }
}
