//! From what was recorded to marks: which message a thread is at, where the program does not mark it itself.

use std::collections::BTreeMap;

use perftax_pmu::Result;
use perftax_pmu::sampler::Payload;

use super::contexts;
use super::cpu_counters::CpuReading;
use super::hold::Hold;
use super::served::Served;
use super::{Recording, Row};
use crate::contexts::{Context, ContextSight};
use crate::label::Labels;
use crate::mark::{Mark, Saying};
use crate::marked::{Marked, Relation};
use crate::passes::{Pass, Passes};
use crate::register::{Look, Occasion, Rule, Sight};
use crate::sockets::{self, Call, Passed};
use crate::tag::{Tag, TagRegister};
use perftax_doc::Mechanism;

/// What waits to be put in order of time.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Held {
    /// A row of the trace.
    Row(Row),
    /// A program's mark: the process, and what it says.
    Mark(u32, Mark),
    /// What a program says beyond marks: when, the process and the thread.
    Saying(u64, (u32, u32), Saying),
    /// A thread has another context: becomes marks.
    Context(Context),
    /// A look at a register: becomes marks.
    Look(Look),
    /// A probe was passed: becomes a mark.
    Pass(Pass),
    /// A thread was created, of a new process or of its creator's: its process, its number, and its creator's process.
    Birth(u32, u32, u32),
    /// A thread has ended: when, its process and its number.
    Death(u64, u32, u32),
    /// A system call that has to do with sockets: becomes marks.
    Call(Call),
    /// Nothing was recorded before it.
    Gap(Gap),
    /// What a CPU has executed.
    Reading(CpuReading),
    /// Readings are missing.
    ReadingsLost,
}

/// What is known anew after a time in which nothing was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gap {
    /// Processes that are recorded.
    pub pids: Vec<u32>,
    /// Connections that are served: process and descriptor.
    pub served: Vec<(u32, i32)>,
    /// Sockets that are open: what was served of them before still is.
    pub open: Vec<(u32, i32)>,
}

/// Who says which message a thread is at.
pub(super) enum Identity {
    /// The program, by marks.
    Marks(Box<Marked>),
    /// A register.
    Register(Box<Hold>),
    /// Probes in the program.
    Probes(Box<Passes>),
    /// Contexts that threads publish.
    Contexts(Box<contexts::Held>),
    /// Connections of a server.
    Sockets(Box<Served>),
}

impl Identity {
    /// For the program, by its processes.
    pub fn new(recording: &Recording, pids: &[u32]) -> Self {
        match &recording.tag {
            Tag::Register(_) => Self::Register(Box::new(Hold::new(rule(recording)))),
            Tag::Functions(functions) if functions.is_a_call() => Self::Probes(Box::new(Passes::of_calls(pids))),
            Tag::Probes(_) | Tag::Functions(_) => Self::Probes(Box::new(Passes::of(pids))),
            Tag::Sockets(port) => Self::Sockets(Box::new(Served::new(*port))),
            Tag::Marks => Self::Marks(Box::default()),
            Tag::Otel => Self::Contexts(Box::new(contexts::Held::new())),
        }
    }

    /// Events are on for a process that ran before.
    pub fn join(&mut self, pid: u32) {
        if let Self::Sockets(served) = self {
            served.join(pid);
        }
    }

    /// What is known anew of processes, of which nothing was recorded for a while.
    pub fn anew(&self, pids: Vec<u32>) -> Gap {
        match self {
            Self::Sockets(served) => served.now(pids),
            _ => Gap { pids, ..Gap::default() },
        }
    }

    /// Somebody accepts connections just now, of this process, by this descriptor.
    pub fn accepts(&mut self, pid: u32, fd: i32) {
        if let Self::Sockets(served) = self {
            served.accepts(pid, fd);
        }
    }

    /// Takes what is next in order of time, and hands out rows in order of time.
    pub fn take(&mut self, held: Held, keep: &mut dyn FnMut(&Row) -> Result<()>) -> Result<()> {
        match (self, held) {
            (Self::Register(hold), Held::Row(row)) => hold.row(row),
            (Self::Register(hold), Held::Look(look)) => hold.look(&look),
            (Self::Sockets(served), Held::Row(row)) => served.row(row),
            (Self::Contexts(held), Held::Row(row)) => held.row(row),
            (Self::Contexts(held), Held::Context(context)) => held.context(&context),
            (Self::Contexts(held), Held::Birth(_, tid, _)) => held.contexts.born(tid),
            (Self::Contexts(held), Held::Death(time_ns, pid, tid)) => held.gone(time_ns, pid, tid),
            (Self::Contexts(held), Held::Gap(_)) => held.forget(),
            (Self::Sockets(served), Held::Call(call)) => served.call(&call),
            (Self::Sockets(served), Held::Birth(pid, _, parent)) => served.born(pid, parent),
            // A process has the number of its first thread.
            (Self::Sockets(served), Held::Death(_, pid, tid)) if pid == tid => served.gone(pid),
            (Self::Sockets(served), Held::Gap(gap)) => served.resume(&gap.served, &gap.open),
            (Self::Probes(passes), Held::Gap(gap)) => passes.resume(&gap.pids),
            (Self::Marks(marked), Held::Mark(pid, mark)) => said(keep, |out| marked.mark(pid, mark, out))?,
            (Self::Marks(marked), Held::Saying(time_ns, who, saying)) => {
                said(keep, |out| marked.take(time_ns, who, saying, out))?
            }
            (Self::Marks(marked), Held::Death(_, pid, tid)) if pid == tid => marked.gone(pid),
            (_, Held::Row(row)) => keep(&row)?,
            (Self::Probes(passes), Held::Pass(pass)) => said(keep, |out| passes.take(pass, out))?,
            (Self::Probes(passes), Held::Birth(pid, _, parent)) => passes.born(pid, parent),
            _ => {}
        }
        Ok(())
    }

    /// Everything before `now_ns` has been taken; [`u64::MAX`]: everything. Returns until when all has been handed out.
    pub fn release(&mut self, now_ns: u64, keep: &mut dyn FnMut(&Row) -> Result<()>) -> Result<u64> {
        match self {
            Self::Register(hold) if now_ns == u64::MAX => hold.finish(keep).map(|()| now_ns),
            Self::Register(hold) => hold.release(now_ns, keep),
            Self::Contexts(held) => held.release(now_ns, keep),
            Self::Sockets(served) => served.release(now_ns, keep),
            Self::Marks(_) | Self::Probes(_) => Ok(now_ns),
        }
    }

    /// Messages' texts, where any are told.
    pub fn labels(&mut self) -> Option<&mut Labels> {
        match self {
            Self::Marks(marked) => Some(&mut marked.labels),
            Self::Probes(passes) => Some(&mut passes.labels),
            Self::Register(_) | Self::Contexts(_) | Self::Sockets(_) => None,
        }
    }

    /// What else is said of messages, where anything is.
    pub fn relations(&mut self) -> Option<&mut BTreeMap<u64, Relation>> {
        match self {
            Self::Marks(marked) => {
                // Nobody asks for hops while they come.
                marked.hops.clear();
                Some(&mut marked.relations)
            }
            Self::Contexts(held) => Some(&mut held.contexts.sight.relations),
            Self::Sockets(served) => {
                let passed = served.passed();
                passed.hops.clear();
                Some(&mut passed.relations)
            }
            Self::Register(_) | Self::Probes(_) => None,
        }
    }

    /// How well messages were seen.
    pub fn finish(self) -> Seen {
        match self {
            Self::Marks(marked) => Seen::Marks(marked),
            Self::Register(hold) => Seen::Register(hold.into_sight()),
            Self::Probes(passes) => Seen::Probes(*passes),
            Self::Contexts(held) => Seen::Contexts(Box::new(held.contexts.sight)),
            Self::Sockets(served) => {
                let (sight, passed) = served.into_sight();
                Seen::Sockets(sight, Box::new(passed))
            }
        }
    }
}

/// How well messages were seen.
#[derive(Debug)]
pub enum Seen {
    /// As the program marked them: with what else it said.
    Marks(Box<Marked>),
    /// By a register.
    Register(Sight),
    /// By probes in the program: with their texts.
    Probes(Passes),
    /// By the contexts that threads publish.
    Contexts(Box<ContextSight>),
    /// By the system calls of a server on its connections; with what was passed on from one to another.
    Sockets(sockets::Sight, Box<Passed>),
}

/// Keeps the marks that somebody says.
fn said(keep: &mut dyn FnMut(&Row) -> Result<()>, who: impl FnOnce(&mut dyn FnMut(Mark))) -> Result<()> {
    let mut kept = Ok(());
    who(&mut |mark| {
        if kept.is_ok() {
            kept = keep(&Row::Mark(mark));
        }
    });
    kept
}

/// The register that is sampled, and of which moment: a PEBS record holds those of its instruction.
pub(super) fn register(recording: &Recording) -> Option<TagRegister> {
    match recording.tag {
        Tag::Register(register) => Some(register),
        _ => None,
    }
}

/// What samples of the event carry of it.
pub(super) fn with_register(payload: Payload, recording: &Recording, is_precise: bool) -> Payload {
    match register(recording) {
        Some(register) if is_precise => payload.with_interrupt_register(register.number),
        Some(register) => payload.with_user_register(register.number),
        None => payload,
    }
}

/// What a record came with.
pub(super) fn occasion(meaning: super::events::Meaning) -> Occasion {
    match meaning {
        super::events::Meaning::Sample => Occasion::Sample,
        super::events::Meaning::Leaving => Occasion::Leaving,
        _ => Occasion::Kernel,
    }
}

/// The interrupt of a clock comes when it does; the others' distance is not known.
fn rule(recording: &Recording) -> Rule {
    let mechanism = recording.event.mechanism;
    Rule {
        gap_ns: (mechanism == Mechanism::CpuClock).then_some(recording.period),
        is_late: matches!(mechanism, Mechanism::IbsOp | Mechanism::IbsFetch),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::mark::Kind;
    use crate::sockets::{Action, Moment};

    /// Whether an answer was the whole of it is known when the next request comes, or when its process, not one of its threads, has ended.
    #[test]
    fn the_last_answer_of_a_process_ends_with_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _client = TcpStream::connect(address).unwrap();
        let (server, _) = listener.accept().unwrap();
        let (pid, fd) = (std::process::id(), server.as_raw_fd());
        let mut identity = Identity::Sockets(Box::new(Served::new(Some(address.port()))));
        identity.join(pid);
        let ends = std::cell::RefCell::new(Vec::new());
        let mut keep = |row: &Row| {
            ends.borrow_mut().extend(matches!(row, Row::Mark(mark) if mark.kind == Kind::End).then_some(row.time_ns()));
            Ok(())
        };
        let calls = [Moment::Enter(Action::Reads(fd)), Moment::Exit(10), Moment::Enter(Action::Writes(fd)), Moment::Exit(10)];
        for (time_ns, at) in (10..).step_by(10).zip(calls) {
            identity.take(Held::Call(Call { time_ns, pid, tid: pid, at }), &mut keep).unwrap();
        }
        identity.take(Held::Death(50, pid, pid + 1), &mut keep).unwrap();
        identity.release(50, &mut keep).unwrap();
        assert!(ends.borrow().is_empty());
        identity.take(Held::Death(50, pid, pid), &mut keep).unwrap();
        identity.release(50, &mut keep).unwrap();
        assert_eq!(*ends.borrow(), [40]);
    }
}
