//! What may be set, what is to be done, what was done.

use super::{Class, Counted};

/// Which event PEBS records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arm {
    /// The one after the overflow, as the SDM says: one sample in period + 1 events.
    #[default]
    Next,
    /// The one that overflowed: one in period.
    Same,
}

/// What a processor lacks, as those of guests in clouds do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Without {
    /// Branch records.
    pub branches: bool,
    /// PEBS.
    pub precise: bool,
}

/// What the manuals leave to the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Time that an assist takes, ns.
    pub assist_ns: u64,
    /// Time from the overflow of a buffer or counter to the handler's first instruction, ns.
    pub interrupt_ns: u64,
    /// Instructions from an ordinary counter's overflow to its interrupt.
    pub skid: u32,
    /// Which event PEBS records.
    pub arm: Arm,
    /// Whether the caches are simulated.
    pub caches: bool,
    /// Whether the low bits of AMD's sampling counters start at random, from a seed of the core's own, instead of at 0.
    pub ibs_random: bool,
    /// What is missing.
    pub without: Without,
    /// Whether a load that misses the first level takes the time that it takes to where it is found. All instructions are followed for that.
    pub miss_time: bool,
    /// Cycles of an access by the place where it is found, as [`super::Retired::level`] has it; 0: not known.
    pub latency_cycles: [u16; 6],
}

impl Settings {
    /// Whether a machine with these settings counts such: misses are told by simulated caches alone.
    pub fn tells(&self, counted: Counted) -> bool {
        const OF_MISSES: u32 = Class::OF_CACHES & !Class::SlowLoads.bit();
        self.caches || counted.class().is_none_or(|class| class.bit() & OF_MISSES == 0)
    }
}

/// What whoever executes must do now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Actions {
    /// The core stands still for so long, ns.
    pub stall_ns: u64,
    /// Raise the performance interrupt.
    pub interrupt: bool,
    /// Raise the interrupt of instruction-based sampling.
    pub sampling_interrupt: bool,
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Tally {
    /// Records written, samples taken.
    pub records: u64,
    /// Records that could not be written.
    pub lost: u64,
    /// Interrupts raised.
    pub interrupts: u64,
}
