//! Messages from a register: looks at each thread's tag in, in order of time; marks out.
//!
//! A message is a run of looks that show the same id. It began between the last look before the run and its first one, and ended between its
//! last one and the first after: the middle is taken, and how far apart the two looks were is kept ([`Sight`]).
//!
//! Code that uses the register for something else (a library that was not built for it) shows no tag. What it shows is *filled* where the
//! tags before and after agree, and *unknown* between differing ones: it belongs to no message then. A thread that has shown no tag for
//! [`Runs::PATIENCE_NS`] is taken off its message (mark: switch to none) until it shows it again; if it shows another one first, when the
//! message ended is not known, and it counts as one that never ended.
//!
//! Only each thread's last look is held. Marks lie in the past of the look that they came from, at most [`Runs::PATIENCE_NS`]: whoever writes
//! rows in order of time holds them for so long (`record/hold.rs`).

mod extent;
mod thread;

use rustc_hash::FxHashMap;

use crate::distribution::Distribution;
use crate::mark::{Kind, Mark};
pub use extent::between_ns;
use thread::Thread;

/// What a register held at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// When.
    pub time_ns: u64,
    /// Whose.
    pub tid: u32,
    /// What.
    pub word: u64,
    /// What it came with.
    pub at: Occasion,
}

/// What a look came with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// A sample.
    Sample,
    /// A system call or page fault.
    Kernel,
    /// The thread leaves its CPU: nothing changes until it is back.
    Leaving,
    /// The thread has ended, and its message with it. The word says nothing.
    Exit,
}

/// How far two clocks are apart that are compared now and then, ns.
pub(crate) const SLACK_NS: u64 = 5_000;
/// `PERFTAX_REGISTER_MAGIC` of perftax_tag_register.h.
const MAGIC: u64 = 0xd3a5;

/// The message that a register's word names; 0: none. `None` where it holds no tag.
pub fn message(word: u64) -> Option<u64> {
    (word >> 48 == MAGIC).then_some(word & ((1 << 48) - 1))
}

/// How looks become marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// From one sample to the next of a thread that runs, ns, where the event is a clock.
    pub gap_ns: Option<u64>,
    /// The registers are those of the interrupt, not of the instruction that the sample is about (AMD's IBS): the first sample of a run may
    /// be about an instruction of before, and is left to no message. Every later one is about an instruction that came after the interrupt
    /// of the one before it, and so belongs to the run.
    pub is_late: bool,
}

/// How well messages were seen.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// Looks that showed a tag, and looks without one: filled, unknown.
    pub valid: u64,
    /// Looks without a tag between two of one message.
    pub filled: u64,
    /// Looks without a tag between differing ones, before the first or after the last.
    pub unknown: u64,
    /// By thread: samples, and those of them that showed a tag.
    pub samples: FxHashMap<u32, (u64, u64)>,
    /// From the last look before a change to the first after it.
    pub gaps: Distribution,
    /// How long before a change no tag had been seen, while others came; 0 where there was none.
    pub unseen: Distribution,
    /// Messages whose end was not seen, since a thread showed no tag for long.
    pub abandoned: u64,
}

/// Runs of equal tags, by thread.
#[derive(Default)]
pub struct Runs {
    threads: FxHashMap<u32, Thread>,
    rule: Rule,
    /// How well they were seen so far.
    pub sight: Sight,
}

impl Runs {
    /// For how long a thread may show no tag and still count as at its message, ns. Long against a library call, short against a person's
    /// patience and what rows cost that are held meanwhile.
    pub const PATIENCE_NS: u64 = 200_000_000;

    /// With none so far.
    pub fn new(rule: Rule) -> Self {
        Self { rule, ..Self::default() }
    }

    /// Takes the next look; hands out marks that lie before it, or with it.
    pub fn take(&mut self, look: &Look, out: &mut dyn FnMut(Mark)) {
        if look.at == Occasion::Exit {
            if let Some(mut thread) = self.threads.remove(&look.tid) {
                self.sight.unknown += thread.doubted();
                thread.exit(look, &mut self.sight, out);
            }
            return;
        }
        let found = message(look.word);
        if look.at == Occasion::Sample {
            let (all, valid) = self.sight.samples.entry(look.tid).or_default();
            *all += 1;
            *valid += u64::from(found.is_some());
        }
        let thread = self.threads.entry(look.tid).or_default();
        match found {
            None => thread.doubt(look.time_ns),
            Some(id) => {
                self.sight.valid += 1;
                thread.tag(look, id, &self.rule, &mut self.sight, out);
            }
        }
        // Hardware's samples have a clock of their own: one that seems to come just after is one of before.
        let is_of_before = |left_ns: u64| look.at == Occasion::Sample && look.time_ns < left_ns.saturating_add(SLACK_NS);
        match look.at {
            Occasion::Leaving => (thread.left_ns, thread.arrived_ns) = (Some(look.time_ns), None),
            _ if thread.arrived_ns.is_none() && thread.left_ns.is_some_and(is_of_before) => {}
            _ => (thread.left_ns, thread.arrived_ns) = (None, None),
        }
    }

    /// A thread has got a CPU.
    pub fn arrive(&mut self, tid: u32, now_ns: u64) {
        if let Some(thread) = self.threads.get_mut(&tid).filter(|thread| thread.left_ns.is_some()) {
            thread.arrived_ns = Some(now_ns);
        }
    }

    /// Takes threads off their messages that have shown no tag for long. Time has come so far.
    pub fn lose_patience(&mut self, now_ns: u64, out: &mut dyn FnMut(Mark)) {
        for (tid, thread) in &mut self.threads {
            thread.lose_patience(*tid, now_ns, out);
        }
    }

    /// The end: what is under way has no end.
    pub fn finish(&mut self) {
        for (_, thread) in self.threads.drain() {
            self.sight.unknown += thread.doubted();
        }
    }
}

/// A mark of a message.
fn mark(time_ns: u64, tid: u32, id: u64, kind: Kind) -> Mark {
    Mark { time_ns, tid, id, kind }
}

#[cfg(test)]
mod tests;
