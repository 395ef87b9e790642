//! Rows of a trace.

use crate::executed::Reading;
use crate::kernel::KernelEvent;
use crate::mark::Mark;

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleRow {
    /// When.
    pub time_ns: u64,
    /// On which CPU.
    pub cpu: u32,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The instruction.
    pub ip: u64,
    /// What the tag's register held; 0 where none is sampled.
    pub tag: u64,
}

/// A sample of an event that is counted by message ([`crate::events`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// When.
    pub time_ns: u64,
    /// On which CPU.
    pub cpu: u32,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Which event, in the order in which they were asked for.
    pub event: u16,
    /// What lies at the address, by its number; 0 where that is not known.
    pub object: u16,
    /// The instruction.
    pub ip: u64,
    /// What it is about: the data's address; 0 where the event has none.
    pub address: u64,
}

/// A row of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// What the program said.
    Mark(Mark),
    /// Where it was.
    Sample(SampleRow),
    /// An event that is counted.
    Event(EventRow),
    /// What hardware has counted of a thread.
    Executed(Reading),
    /// What the kernel did.
    Kernel(KernelEvent),
}

impl Row {
    /// When.
    pub fn time_ns(&self) -> u64 {
        match self {
            Self::Mark(mark) => mark.time_ns,
            Self::Sample(sample) => sample.time_ns,
            Self::Event(event) => event.time_ns,
            Self::Executed(reading) => reading.time_ns,
            Self::Kernel(event) => event.time_ns,
        }
    }
}
