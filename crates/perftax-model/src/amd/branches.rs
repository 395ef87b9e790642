//! Branch records from Zen 4 on (LbrExtV2; AMD64 APM volume 2, 13.1.1.9): record 0 is the newest.

use super::generation::BRANCHES;
use super::msr;
use crate::emulated::{Branch, KERNEL};

/// LbrSelect's bits that leave a mode out; kinds have the bits of [`crate::emulated::Kind`].
const LEAVE_OUT_KERNEL: u64 = 1;
const LEAVE_OUT_USER: u64 = 2;
/// All that may be set.
const SELECTS: u64 = 0x1ff;
/// DebugExtnCtl: branches are recorded.
const ON: u64 = 1 << 6;
/// Of a source: the branch was mispredicted.
const MISPREDICTED: u64 = 1 << 63;
/// Of a target: the record is of a branch that retired. None is speculative here (bit 62).
const VALID: u64 = 1 << 63;
/// What of a target is its address.
const TARGET: u64 = (1 << 61) - 1;

/// The branches taken last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branches {
    select: u64,
    extension: u64,
    /// Source and target of each, in a ring.
    entries: [[u64; 2]; BRANCHES],
    newest: usize,
}

impl Branches {
    /// Whether branches are recorded.
    pub fn are_on(&self) -> bool {
        self.extension & ON != 0
    }

    fn entry(&mut self, number: u32) -> Option<&mut u64> {
        let at = number.checked_sub(msr::LBR_FROM0)? as usize;
        let back = at / 2;
        if back >= BRANCHES {
            return None;
        }
        let position = (self.newest + BRANCHES - back) % BRANCHES;
        self.entries[position].get_mut(at % 2)
    }

    /// Reads a register; `None` where it is not one of these.
    pub fn read(&mut self, number: u32) -> Option<u64> {
        match number {
            msr::LBR_SELECT => Some(self.select),
            msr::DEBUG_EXTENSION => Some(self.extension),
            _ => self.entry(number).copied(),
        }
    }

    /// Writes a register; false where it is not one of these or refuses the value.
    pub fn write(&mut self, number: u32, value: u64) -> bool {
        match number {
            msr::LBR_SELECT if value & !SELECTS == 0 => self.select = value,
            msr::DEBUG_EXTENSION if value & !ON == 0 => self.extension = value,
            msr::LBR_SELECT | msr::DEBUG_EXTENSION => return false,
            _ => {
                let Some(entry) = self.entry(number) else { return false };
                *entry = value;
            }
        }
        true
    }

    /// A branch was taken. Whether the records changed.
    pub fn record(&mut self, branch: &Branch) -> bool {
        let left_out = if branch.mode == KERNEL { LEAVE_OUT_KERNEL } else { LEAVE_OUT_USER };
        if self.select & left_out != 0 || self.select >> branch.kind as u8 & 1 == 1 {
            return false;
        }
        let mispredicted = if branch.mispredicted { MISPREDICTED } else { 0 };
        self.newest = (self.newest + 1) % BRANCHES;
        self.entries[self.newest] = [branch.from & !MISPREDICTED | mispredicted, branch.to & TARGET | VALID];
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulated::{Kind, USER};

    fn branch(from: u64, mode: usize) -> Branch {
        Branch { from, to: from + 100, kind: Kind::Conditional, mode, mispredicted: false, cycles: 1 }
    }

    #[test]
    fn record_0_is_the_newest_and_modes_are_left_out() {
        let mut branches = Branches::default();
        assert!(branches.write(msr::LBR_SELECT, LEAVE_OUT_KERNEL) && !branches.write(msr::LBR_SELECT, 1 << 9));
        for i in 0..20 {
            assert!(branches.record(&Branch { mispredicted: i == 19, ..branch(i, USER) }));
            assert!(!branches.record(&branch(7777, KERNEL)));
        }
        let mut read = |number| branches.read(number).unwrap();
        assert_eq!((read(msr::LBR_FROM0), read(msr::LBR_FROM0 + 1)), (19 | 1 << 63, 119 | 1 << 63));
        assert_eq!((read(msr::LBR_FROM0 + 30), read(msr::LBR_FROM0 + 31)), (4, 104 | 1 << 63));
        assert_eq!(branches.read(msr::LBR_FROM0 + 32), None);
    }

    /// As amd_pmu_lbr_read has it: 58 bits of address, whose sign the driver extends; bit 61 is an erratum's.
    #[test]
    fn a_kernels_addresses_are_told_from_the_flags() {
        let mut branches = Branches::default();
        let kernel = 0xffff_ffff_8100_0000;
        branches.record(&Branch { from: kernel, to: kernel + 8, ..branch(0, KERNEL) });
        let [from, to] = [0, 1].map(|at| branches.read(msr::LBR_FROM0 + at).unwrap());
        let address = |word: u64| ((word << 6) as i64 >> 6) as u64;
        assert_eq!((address(from), address(to)), (kernel, kernel + 8));
        assert_eq!((from >> 63, to >> 61), (0, 0b100));
    }
}
