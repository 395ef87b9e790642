//! Last branch records (SDM volume 3, chapters 18 and 19).

mod architectural;
mod ring;

use architectural::Architectural;
use ring::Ring;

pub use ring::SELECTS;

use super::{Generation, msr};

pub use crate::emulated::{Branch, Kind};

/// The branch was mispredicted: of particulars, or of where it came from in format 4.
const MISPREDICTED: u64 = 1 << 63;
/// The most cycles that a record tells.
const MAX_CYCLES: u64 = 0xffff;
/// DEBUGCTL's bit that has a ring's branches recorded.
const DEBUGCTL_BRANCHES: u64 = 1;

/// The branches taken last, as a generation keeps them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Branches {
    /// In a ring, whose top is told: before Sapphire Rapids.
    Ring(Ring),
    /// The newest first.
    Architectural(Architectural),
}

/// The same call of whichever it is.
macro_rules! of_either {
    ($branches:expr, $bound:ident => $call:expr) => {
        match $branches {
            Branches::Ring($bound) => $call,
            Branches::Architectural($bound) => $call,
        }
    };
}

impl Branches {
    /// Of a generation, as after a reset.
    pub fn new(generation: Generation) -> Self {
        if generation.is_architectural() {
            Self::Architectural(Architectural::new(generation.branches()))
        } else {
            Self::Ring(Ring::new(generation.branches(), generation.freezes_by_status()))
        }
    }

    /// Whether branches are recorded, with this in IA32_DEBUGCTL: its bit 0 means nothing to architectural records.
    pub fn are_on(&self, debugctl: u64) -> bool {
        match self {
            Self::Ring(_) => debugctl & DEBUGCTL_BRANCHES != 0,
            Self::Architectural(records) => records.are_on(),
        }
    }

    /// Recording begins, by an instruction of the kernel: what was before it nobody has followed.
    pub fn begin(&mut self) {
        if let Self::Architectural(records) = self {
            records.begin();
        }
    }

    /// A branch was taken. Whether the records changed: cycles are counted from there.
    pub fn record(&mut self, branch: &Branch) -> bool {
        of_either!(self, records => records.record(branch))
    }

    /// The latest so many, newest first: source, target, particulars.
    pub fn newest(&self, count: usize) -> impl Iterator<Item = [u64; 3]> + '_ {
        let depth = of_either!(self, records => records.depth());
        (0..count.min(depth)).map(|back| of_either!(self, records => records.entry(back)))
    }

    /// What they are asked for by: IA32_LBR_CTL, of architectural ones.
    pub fn control(&self) -> u64 {
        match self {
            Self::Ring(_) => 0,
            Self::Architectural(records) => records.control(),
        }
    }

    /// A register, where it belongs to these records and is there now.
    pub fn register(&mut self, number: u32) -> Option<&mut u64> {
        of_either!(self, records => records.register(number))
    }

    /// Whether a register of the generation is there now: fewer records may have been asked for.
    pub fn have(&self, number: u32) -> bool {
        match self {
            Self::Ring(_) => true,
            Self::Architectural(records) => {
                let beyond = |first: u32| (first + records.depth() as u32..first + 32).contains(&number);
                ![msr::ARCH_LBR_FROM0, msr::ARCH_LBR_TO0, msr::ARCH_LBR_INFO0].into_iter().any(beyond)
            }
        }
    }

    /// IA32_LBR_DEPTH is written, be it with what it holds: so many records from now on, all of them empty.
    pub fn set_depth(&mut self, depth: u64) {
        if let Self::Architectural(records) = self {
            records.set_depth(depth);
        }
    }
}
