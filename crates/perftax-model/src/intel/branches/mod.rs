//! Last branch records (SDM volume 3, chapters 18 and 19).

mod architectural;
mod ring;

use architectural::Architectural;
use ring::Ring;

pub use ring::SELECTS;

use super::{Generation, msr};

/// What a branch is, by the bit of MSR_LBR_SELECT that leaves it out (SDM volume 3, table 18-13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A conditional branch.
    Conditional = 2,
    /// A near call to a place that the instruction names.
    RelativeCall = 3,
    /// A near call to a place in a register or in memory.
    IndirectCall = 4,
    /// A near return.
    Return = 5,
    /// A jump to a place in a register or in memory.
    IndirectJump = 6,
    /// A jump to a place that the instruction names.
    RelativeJump = 7,
    /// Between rings or segments: system calls, interrupts, exceptions, and returns from them.
    Far = 8,
}

impl Kind {
    /// By its number; a far branch where it is none.
    pub fn of(number: u32) -> Self {
        match number {
            2 => Self::Conditional,
            3 => Self::RelativeCall,
            4 => Self::IndirectCall,
            5 => Self::Return,
            6 => Self::IndirectJump,
            7 => Self::RelativeJump,
            _ => Self::Far,
        }
    }
}

/// A branch that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Where it came from.
    pub from: u64,
    /// Where it went.
    pub to: u64,
    /// What it is.
    pub kind: Kind,
    /// The mode that it led to.
    pub mode: usize,
    /// It was mispredicted.
    pub mispredicted: bool,
    /// Cycles since a branch was recorded last.
    pub cycles: u64,
}

impl Branch {
    /// Whether it is a call of the instruction that follows (e8 and four bytes of zero), which asks where it is, and does not return.
    fn asks_where_it_is(&self) -> bool {
        self.kind == Kind::RelativeCall && self.to == self.from.wrapping_add(5)
    }
}

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
