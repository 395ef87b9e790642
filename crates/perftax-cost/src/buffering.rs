//! The cost of a sample of a mechanism that fills a buffer before it interrupts (multi-record PEBS), term by term.
//!
//! What the hardware does for a record delays the work itself; the kernel's work for it falls either into an interrupt, when the
//! buffer is full, or behind the work, when the event is stopped. So blocks whose buffer never filled tell the two apart by the
//! moment at which their time passes, without any knowledge of either; and what full buffers add is the interrupt's.

use std::collections::BTreeMap;

use crate::bootstrap::{REPLICATES, SEED, joint_bootstrap};
use crate::sums::{Clock, Sums, Unit, beyond, sums_where};
use perftax_doc::CONFIDENCE;
use perftax_doc::Estimate;
use perftax_doc::observation::{Block, Settling};

/// The hardware's share of a sample ([`Split::assist_ns`]) among the terms of a calibration.
pub const ASSIST_TERM: &str = "assist";
/// The kernel's work for a record ([`Split::copy_ns`]).
pub const COPY_TERM: &str = "copy";
/// What an interrupt costs by itself ([`Split::interrupt_ns`]): per interrupt, not per sample.
pub const INTERRUPT_TERM: &str = "interrupt";

/// α and its terms: α = assist + copy + interrupt / records per interrupt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// What a record delays the work by (the assist, and what it evicts), ns a sample.
    pub assist_ns: Estimate,
    /// The kernel's work for each record that it reads out of the buffer, ns a sample.
    pub copy_ns: Estimate,
    /// What an interrupt costs beside the records that it finds, ns an interrupt; none where the buffer never filled.
    pub interrupt_ns: Option<Estimate>,
    /// Records to an interrupt, as counted.
    pub records_per_interrupt: Option<f64>,
    /// All of it, ns a sample, as a program pays it that runs for longer than a buffer takes to fill.
    pub alpha_ns: Estimate,
}

/// One session's sums.
#[derive(Clone, Copy, Default)]
struct Session {
    /// Blocks whose buffer did not fill, and so was read by the stop alone: the work alone, and up to the last record.
    quiet_work: Sums,
    quiet: Sums,
    /// Blocks whose buffer filled.
    busy: Sums,
    interrupts: f64,
    interrupted: f64,
}

impl Session {
    fn total(sessions: &[&Self]) -> Self {
        let sums = |of: fn(&Self) -> &Sums| Sums::total(sessions.iter().map(|session| of(session)));
        Self {
            quiet_work: sums(|s| &s.quiet_work),
            quiet: sums(|s| &s.quiet),
            busy: sums(|s| &s.busy),
            interrupts: sessions.iter().map(|s| s.interrupts).sum(),
            interrupted: sessions.iter().map(|s| s.interrupted).sum(),
        }
    }

    /// Assist, copy, interrupt and α.
    fn terms_ns(&self) -> [f64; 4] {
        let (assist, sample) = (self.quiet_work.cost_ns(), self.quiet.cost_ns());
        if self.interrupts == 0.0 {
            return [assist, sample - assist, 0.0, sample];
        }
        let interrupt = (self.busy.extra_ns - self.busy.units * sample) / self.interrupts;
        [assist, sample - assist, interrupt, sample + interrupt * self.interrupts / self.interrupted]
    }
}

/// The split, from blocks of arm `idle` (the event runs, and no sample is due) and of the arms that `on` picks; `None` where no buffer
/// held anything at the end of its block, where none stayed below its threshold, or where fewer than two sessions were made.
pub fn split(blocks: &[Block], idle: &str, on: impl Fn(&Block) -> bool) -> Option<Split> {
    // Nothing had reached the ring when the work ended; something had, and interrupts brought it.
    let quiet = |b: &Block, s: Settling| s.waiting > 0 && s.waiting == b.samples;
    let busy = |b: &Block, s: Settling| s.interrupts > 0 && s.waiting < b.samples;
    let mut sessions: BTreeMap<u32, Session> = BTreeMap::new();
    let mut add = |kind: fn(&Block, Settling) -> bool, unit: Unit, clock: Clock, into: fn(&mut Session, Sums)| {
        for (session, sums) in sums_where(blocks, idle, |b| on(b) && b.settling.is_some_and(|s| kind(b, s)), unit, clock) {
            into(sessions.entry(session).or_default(), sums);
        }
    };
    add(quiet, Unit::Samples, Clock::Work, |session, sums| session.quiet_work = sums);
    add(quiet, Unit::Samples, Clock::Wall, |session, sums| session.quiet = sums);
    add(busy, Unit::Samples, Clock::Wall, |session, sums| session.busy = sums);
    add(busy, Unit::Interrupts, Clock::Wall, |session, sums| session.interrupts = sums.units);
    add(busy, Unit::Interrupted, Clock::Wall, |session, sums| session.interrupted = sums.units);
    let sessions: Vec<Session> = sessions.into_values().filter(|session| session.quiet.units > 0.0).collect();
    let all = Session::total(&sessions.iter().collect::<Vec<_>>());
    let [assist, copy, interrupt, alpha] =
        joint_bootstrap(&sessions, |sample| Session::total(sample).terms_ns(), REPLICATES, CONFIDENCE, SEED)?;
    let resolution = all.quiet.resolution_ns();
    let fills = all.interrupts > 0.0;
    Some(Split {
        assist_ns: beyond(&assist, resolution),
        copy_ns: beyond(&copy, 2.0 * resolution),
        interrupt_ns: fills.then(|| beyond(&interrupt, resolution * all.busy.units / all.interrupts)),
        records_per_interrupt: fills.then(|| all.interrupted / all.interrupts),
        alpha_ns: beyond(&alpha, resolution),
    })
}
