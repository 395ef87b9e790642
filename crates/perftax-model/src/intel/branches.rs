//! Last branch records (SDM volume 3, 18.9 to 18.12).

use super::{Generation, KERNEL};

/// Branches taken last, in a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branches {
    /// LBR_SELECT: set bits leave branches out.
    pub select: u64,
    /// The latest one.
    pub top: u64,
    /// Where each came from.
    pub from: Vec<u64>,
    /// Where each went.
    pub to: Vec<u64>,
    /// Cycles since the one before, and whether it was mispredicted (bit 63).
    pub info: Vec<u64>,
}

/// What a branch is, as far as LBR_SELECT tells them apart.
const LEAVE_OUT_KERNEL: u64 = 1;
const LEAVE_OUT_USER: u64 = 2;
const MISPREDICTED: u64 = 1 << 63;

impl Branches {
    /// Of a generation.
    pub fn new(generation: Generation) -> Self {
        let depth = generation.branches();
        Self { select: 0, top: 0, from: vec![0; depth], to: vec![0; depth], info: vec![0; depth] }
    }

    /// A branch was taken.
    pub fn record(&mut self, from: u64, to: u64, privilege: usize, mispredicted: bool, cycles: u64) {
        let left_out = if privilege == KERNEL { LEAVE_OUT_KERNEL } else { LEAVE_OUT_USER };
        if self.select & left_out != 0 {
            return;
        }
        let at = (self.top as usize + 1) % self.from.len();
        self.top = at as u64;
        self.from[at] = from;
        self.to[at] = to;
        self.info[at] = cycles.min(0xffff) | if mispredicted { MISPREDICTED } else { 0 };
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

    #[test]
    fn the_newest_come_first_and_kernel_ones_can_be_left_out() {
        let mut branches = Branches::new(Generation::Broadwell);
        branches.select = LEAVE_OUT_KERNEL;
        for i in 0..20 {
            branches.record(i, 100 + i, USER, i == 19, 1);
            branches.record(7777, 7777, KERNEL, false, 1);
        }
        let newest: Vec<_> = branches.newest(99).collect();
        assert_eq!(newest.len(), 16);
        assert_eq!((newest[0], newest[15]), ((19, 119, 1 | MISPREDICTED), (4, 104, 1)));
    }
}
