//! Last branch records (SDM volume 3, 18.9 to 18.12).

use super::{Generation, KERNEL};

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

/// Branches taken last, in a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branches {
    /// LBR_SELECT: set bits leave branches out.
    pub select: u64,
    /// The latest one.
    pub top: u64,
    /// Where each came from; before Skylake with [`MISPREDICTED`].
    pub from: Vec<u64>,
    /// Where each went.
    pub to: Vec<u64>,
    /// Cycles since the one before, and [`MISPREDICTED`]; a register from Skylake on.
    pub info: Vec<u64>,
    /// There is a register for particulars.
    has_info: bool,
}

const LEAVE_OUT_KERNEL: u64 = 1;
const LEAVE_OUT_USER: u64 = 2;
/// Calls are pushed and returns pop them (SDM volume 3, 18.11).
const CALL_STACK: u64 = 1 << 9;
/// All that may be set.
pub const SELECTS: u64 = CALL_STACK | 0x1ff;
/// The branch was mispredicted: of particulars, or of where it came from in format 4.
pub const MISPREDICTED: u64 = 1 << 63;
/// The most cycles that a record tells.
const MAX_CYCLES: u64 = 0xffff;

impl Branches {
    /// Of a generation.
    pub fn new(generation: Generation) -> Self {
        let depth = generation.branches();
        let has_info = generation.freezes_by_status();
        Self { select: 0, top: 0, from: vec![0; depth], to: vec![0; depth], info: vec![0; depth], has_info }
    }

    /// A branch was taken. Whether the records changed: cycles are counted from there.
    pub fn record(&mut self, branch: &Branch) -> bool {
        let left_out = if branch.mode == KERNEL { LEAVE_OUT_KERNEL } else { LEAVE_OUT_USER };
        if self.select & left_out != 0 || self.select >> branch.kind as u8 & 1 == 1 {
            return false;
        }
        if self.select & CALL_STACK != 0 {
            match branch.kind {
                Kind::Return => return self.pop(),
                // A call of the instruction that follows (e8 and four bytes of zero) asks where it is, and does not return.
                Kind::RelativeCall if branch.to == branch.from.wrapping_add(5) => return false,
                _ => {}
            }
        }
        let at = (self.top as usize + 1) % self.from.len();
        self.top = at as u64;
        let mispredicted = if branch.mispredicted { MISPREDICTED } else { 0 };
        self.from[at] = if self.has_info { branch.from } else { branch.from & !MISPREDICTED | mispredicted };
        self.to[at] = branch.to;
        self.info[at] = branch.cycles.min(MAX_CYCLES) | mispredicted;
        true
    }

    /// The latest record goes.
    fn pop(&mut self) -> bool {
        let at = self.top as usize;
        (self.from[at], self.to[at], self.info[at]) = (0, 0, 0);
        self.top = ((at + self.from.len() - 1) % self.from.len()) as u64;
        true
    }

    /// The latest so many, newest first: source, target, particulars.
    pub fn newest(&self, count: usize) -> impl Iterator<Item = (u64, u64, u64)> {
        let depth = self.from.len();
        let top = self.top as usize;
        (0..count.min(depth)).map(move |back| {
            let at = (top + depth - back) % depth;
            (self.from[at], self.to[at], self.info[at])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intel::USER;

    fn branch(from: u64, kind: Kind) -> Branch {
        Branch { from, to: from + 100, kind, mode: USER, mispredicted: false, cycles: 1 }
    }

    #[test]
    fn the_newest_come_first_and_kernel_ones_can_be_left_out() {
        let mut branches = Branches::new(Generation::Skylake);
        branches.select = LEAVE_OUT_KERNEL;
        for i in 0..40 {
            assert!(branches.record(&Branch { mispredicted: i == 39, ..branch(i, Kind::RelativeJump) }));
            assert!(!branches.record(&Branch { mode: KERNEL, ..branch(7777, Kind::Far) }));
        }
        let newest: Vec<_> = branches.newest(99).collect();
        assert_eq!(newest.len(), 32);
        assert_eq!((newest[0], newest[31]), ((39, 139, 1 | MISPREDICTED), (8, 108, 1)));
    }

    #[test]
    fn kinds_are_left_out_by_their_bits() {
        let kinds = [
            Kind::Conditional,
            Kind::RelativeCall,
            Kind::IndirectCall,
            Kind::Return,
            Kind::IndirectJump,
            Kind::RelativeJump,
            Kind::Far,
        ];
        for (at, kept) in kinds.into_iter().enumerate() {
            let mut branches = Branches::new(Generation::IceLake);
            branches.select = SELECTS & !CALL_STACK & !3 & !(1 << kept as u8);
            let recorded: Vec<bool> = kinds.iter().map(|kind| branches.record(&branch(1, *kind))).collect();
            assert_eq!(recorded, (0..7).map(|i| i == at).collect::<Vec<_>>(), "{kept:?}");
            assert_eq!(Kind::of(kept as u32), kept);
        }
    }

    /// main calls a, which calls b, which returns, and c: what is left are the calls that have not returned.
    #[test]
    fn a_call_stack_has_the_calls_that_have_not_returned() {
        let mut branches = Branches::new(Generation::Haswell);
        branches.select = CALL_STACK | 1 << Kind::Conditional as u8 | 1 << Kind::RelativeJump as u8;
        for (from, kind) in [
            (1, Kind::RelativeCall),
            (2, Kind::RelativeCall),
            (3, Kind::Conditional),
            (4, Kind::Return),
            (5, Kind::IndirectCall),
            (6, Kind::RelativeJump),
        ] {
            branches.record(&branch(from, kind));
        }
        assert!(!branches.record(&Branch { to: 12, ..branch(7, Kind::RelativeCall) }), "it asks where it is");
        let stack: Vec<u64> = branches.newest(16).map(|(from, ..)| from).take_while(|from| *from != 0).collect();
        assert_eq!(stack, [5, 1]);
    }

    #[test]
    fn before_skylake_the_source_tells_of_the_misprediction() {
        let mut branches = Branches::new(Generation::Broadwell);
        let kernel = 0xffff_ffff_8100_0000;
        branches.record(&Branch { mispredicted: true, ..branch(0x1000, Kind::Conditional) });
        branches.record(&Branch { from: kernel, to: kernel + 1, mode: KERNEL, ..branch(0, Kind::Conditional) });
        let [(predicted, ..), (mispredicted, ..)] = *branches.newest(2).collect::<Vec<_>>() else { unreachable!() };
        // As lbr_read_64 has it: the flag, and the sign from the bit below.
        assert_eq!((predicted >> 63, ((predicted << 1) as i64 >> 1) as u64), (0, kernel));
        assert_eq!(mispredicted, 0x1000 | MISPREDICTED);
    }
}
