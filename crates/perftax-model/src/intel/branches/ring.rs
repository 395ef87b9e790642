//! Branch records in a ring (SDM volume 3, 18.9 to 18.12).

use super::super::{KERNEL, msr};
use super::{Branch, Kind, MAX_CYCLES, MISPREDICTED};

/// Branches taken last, in a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
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

impl Ring {
    /// As after a reset: so many, with a register for particulars or without.
    pub fn new(depth: usize, has_info: bool) -> Self {
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
                Kind::RelativeCall if branch.asks_where_it_is() => return false,
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

    /// How many there are.
    pub fn depth(&self) -> usize {
        self.from.len()
    }

    /// The latest but so many.
    pub fn entry(&self, back: usize) -> [u64; 3] {
        let depth = self.depth();
        let at = (self.top as usize + depth - back) % depth;
        [self.from[at], self.to[at], self.info[at]]
    }

    /// See [`super::Branches::register`].
    pub fn register(&mut self, number: u32) -> Option<&mut u64> {
        let depth = self.depth() as u32;
        let nth = |first: u32| (first..first + depth).contains(&number).then(|| (number - first) as usize);
        if let Some(at) = nth(msr::LBR_FROM0) {
            return self.from.get_mut(at);
        }
        if let Some(at) = nth(msr::LBR_TO0) {
            return self.to.get_mut(at);
        }
        if let Some(at) = nth(msr::LBR_INFO0) {
            return self.info.get_mut(at);
        }
        match number {
            msr::LBR_SELECT => Some(&mut self.select),
            msr::LBR_TOS => Some(&mut self.top),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intel::USER;

    /// Of Skylake and Ice Lake, and of those before.
    fn skylake() -> Ring {
        Ring::new(32, true)
    }

    fn haswell() -> Ring {
        Ring::new(16, false)
    }

    /// The latest so many, newest first.
    fn newest(ring: &Ring, count: usize) -> Vec<[u64; 3]> {
        (0..count).map(|back| ring.entry(back)).collect()
    }

    fn branch(from: u64, kind: Kind) -> Branch {
        Branch { from, to: from + 100, kind, mode: USER, mispredicted: false, cycles: 1 }
    }

    #[test]
    fn the_newest_come_first_and_kernel_ones_can_be_left_out() {
        let mut branches = skylake();
        branches.select = LEAVE_OUT_KERNEL;
        for i in 0..40 {
            assert!(branches.record(&Branch { mispredicted: i == 39, ..branch(i, Kind::RelativeJump) }));
            assert!(!branches.record(&Branch { mode: KERNEL, ..branch(7777, Kind::Far) }));
        }
        assert_eq!(branches.depth(), 32);
        let newest = newest(&branches, 32);
        assert_eq!((newest[0], newest[31]), ([39, 139, 1 | MISPREDICTED], [8, 108, 1]));
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
            let mut branches = skylake();
            branches.select = SELECTS & !CALL_STACK & !3 & !(1 << kept as u8);
            let recorded: Vec<bool> = kinds.iter().map(|kind| branches.record(&branch(1, *kind))).collect();
            assert_eq!(recorded, (0..7).map(|i| i == at).collect::<Vec<_>>(), "{kept:?}");
            assert_eq!(Kind::of(kept as u32), kept);
        }
    }

    /// main calls a, which calls b, which returns, and c: what is left are the calls that have not returned.
    #[test]
    fn a_call_stack_has_the_calls_that_have_not_returned() {
        let mut branches = haswell();
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
        let stack: Vec<u64> = newest(&branches, 16).into_iter().map(|[from, ..]| from).take_while(|from| *from != 0).collect();
        assert_eq!(stack, [5, 1]);
    }

    #[test]
    fn before_skylake_the_source_tells_of_the_misprediction() {
        let mut branches = haswell();
        let kernel = 0xffff_ffff_8100_0000;
        branches.record(&Branch { mispredicted: true, ..branch(0x1000, Kind::Conditional) });
        branches.record(&Branch { from: kernel, to: kernel + 1, mode: KERNEL, ..branch(0, Kind::Conditional) });
        let [predicted, mispredicted] = [0, 1].map(|back| branches.entry(back)[0]);
        // As lbr_read_64 has it: the flag, and the sign from the bit below.
        assert_eq!((predicted >> 63, ((predicted << 1) as i64 >> 1) as u64), (0, kernel));
        assert_eq!(mispredicted, 0x1000 | MISPREDICTED);
    }
}
