//! From what was recorded to marks: which message a thread is at, where the program does not mark it itself.

use perftax_pmu::Result;
use perftax_pmu::sampler::Payload;

use super::hold::Hold;
use super::{Recording, Row};
use crate::passes::{Pass, Passes};
use crate::register::{Look, Occasion, Rule, Sight};
use crate::tag::{Tag, TagRegister};
use perftax_doc::Mechanism;

/// What waits to be put in order of time.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Held {
    /// A row of the trace.
    Row(Row),
    /// A look at a register: becomes marks.
    Look(Look),
    /// A static probe was passed: becomes a mark.
    Pass(Pass),
    /// A process was created: when, its number and its parent's.
    Birth(u64, u32, u32),
}

/// Who says which message a thread is at.
pub(super) enum Identity {
    /// The program, by marks.
    Marks,
    /// A register.
    Register(Box<Hold>),
    /// Static probes.
    Probes(Box<Passes>),
}

impl Identity {
    /// For the program, by its process.
    pub fn new(recording: &Recording, pid: i32) -> Self {
        match &recording.tag {
            Tag::Register(_) => Self::Register(Box::new(Hold::new(rule(recording)))),
            Tag::Probes(_) => Self::Probes(Box::new(Passes::of(pid.unsigned_abs()))),
            Tag::Marks => Self::Marks,
        }
    }

    /// Takes what is next in order of time, and hands out rows in order of time.
    pub fn take(&mut self, held: Held, keep: &mut dyn FnMut(&Row) -> Result<()>) -> Result<()> {
        match (self, held) {
            (Self::Register(hold), Held::Row(row)) => hold.row(row),
            (Self::Register(hold), Held::Look(look)) => hold.look(&look),
            (_, Held::Row(row)) => keep(&row)?,
            (Self::Probes(passes), Held::Pass(pass)) => {
                let mut kept = Ok(());
                passes.take(pass, &mut |mark| {
                    if kept.is_ok() {
                        kept = keep(&Row::Mark(mark));
                    }
                });
                kept?;
            }
            (Self::Probes(passes), Held::Birth(_, pid, parent)) => passes.born(pid, parent),
            _ => {}
        }
        Ok(())
    }

    /// Everything before `now_ns` has been taken; [`u64::MAX`]: everything.
    pub fn release(&mut self, now_ns: u64, keep: &mut dyn FnMut(&Row) -> Result<()>) -> Result<()> {
        match self {
            Self::Register(hold) if now_ns == u64::MAX => hold.finish(keep),
            Self::Register(hold) => hold.release(now_ns, keep),
            Self::Marks | Self::Probes(_) => Ok(()),
        }
    }

    /// How well messages were seen.
    pub fn finish(self) -> Seen {
        match self {
            Self::Marks => Seen::Marks,
            Self::Register(hold) => Seen::Register(hold.into_sight()),
            Self::Probes(passes) => Seen::Probes(*passes),
        }
    }
}

/// How well messages were seen.
#[derive(Debug)]
pub enum Seen {
    /// As the program marked them.
    Marks,
    /// By a register.
    Register(Sight),
    /// By static probes: with their texts.
    Probes(Passes),
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
