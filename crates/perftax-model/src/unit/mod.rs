//! Sampling hardware: what counts events of one class and acts at some of them.

mod buffer;
mod counter;
mod ibs;
mod interrupt;
mod pebs;
mod record;
mod spe;

pub use buffer::Buffer;
pub use counter::{Counter, LONGEST_PERIOD};
pub use ibs::{Ibs, IbsKind};
pub use interrupt::Interrupt;
pub use pebs::Pebs;
pub use record::RecordFormat;
pub use spe::Spe;

/// A range of bytes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Records that are read out of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Where they are.
    pub span: Span,
    /// How many.
    pub records: u64,
}

/// What a unit does at an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// A sample is taken.
    pub sampled: bool,
    /// Instructions retired between the event and the one that the sample names.
    pub skid: u32,
    /// A record is written here by the hardware.
    pub written: Option<Span>,
    /// An interrupt is taken.
    pub interrupted: bool,
    /// Its handler reads these records.
    pub drained: Option<Drained>,
    /// The sample could not be kept: buffer full, tag discarded, collision.
    pub lost: bool,
}

/// A sampling mechanism at work.
#[derive(Clone, Debug)]
pub enum Unit {
    /// Nothing samples.
    Off,
    /// Intel's precise event-based sampling.
    Pebs(Pebs),
    /// AMD's instruction-based sampling.
    Ibs(Ibs),
    /// A counter that interrupts.
    Interrupt(Interrupt),
    /// ARM's statistical profiling extension.
    Spe(Spe),
}

impl Unit {
    /// At which event from now on it acts: 1 for the very next one.
    pub fn until_action(&self) -> u64 {
        match self {
            Self::Off => u64::MAX,
            Self::Pebs(pebs) => pebs.until_action(),
            Self::Ibs(ibs) => ibs.until_action(),
            Self::Interrupt(interrupt) => interrupt.until_action(),
            Self::Spe(spe) => spe.until_action(),
        }
    }

    /// So many events pass at which it does not act: fewer than [`Self::until_action`].
    pub fn pass(&mut self, events: u64) {
        debug_assert!(events < self.until_action());
        match self {
            Self::Off => {}
            Self::Pebs(pebs) => pebs.pass(events),
            Self::Ibs(ibs) => ibs.pass(events),
            Self::Interrupt(interrupt) => interrupt.pass(events),
            Self::Spe(spe) => spe.pass(events),
        }
    }

    /// The event at which it acts; `cycle` is now and `latency_cycles` how long the operation takes.
    pub fn act(&mut self, cycle: u64, latency_cycles: u64) -> Action {
        debug_assert_eq!(self.until_action(), 1);
        match self {
            Self::Off => Action::default(),
            Self::Pebs(pebs) => pebs.act(),
            Self::Ibs(ibs) => ibs.act(),
            Self::Interrupt(interrupt) => interrupt.act(),
            Self::Spe(spe) => spe.act(cycle, latency_cycles),
        }
    }

    /// Sampling ends: what is left in the buffer is read.
    pub fn stop(&mut self) -> Option<Drained> {
        match self {
            Self::Pebs(pebs) => pebs.buffer.drain(),
            Self::Spe(spe) => spe.buffer.drain(),
            Self::Off | Self::Ibs(_) | Self::Interrupt(_) => None,
        }
    }
}
