//! Branches that an emulated machine tells of.

/// What a branch is, by the bit of MSR_LBR_SELECT that leaves it out (SDM volume 3, table 18-13; AMD's LbrSelect has the same, APM volume 2, 13.1.1.9).
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
    pub fn asks_where_it_is(&self) -> bool {
        self.kind == Kind::RelativeCall && self.to == self.from.wrapping_add(5)
    }
}
