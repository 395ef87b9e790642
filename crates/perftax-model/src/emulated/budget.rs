//! How many events may pass before the PMU must be told.

use super::Class;

/// Number of classes ([`Class`]), rounded up.
pub const CLASSES: usize = 24;
/// Index of kernel mode.
pub const KERNEL: usize = 0;
/// Index of user mode.
pub const USER: usize = 1;

/// How closely the program must be followed in one mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Granularity {
    /// Not at all.
    #[default]
    Off = 0,
    /// Instructions and branches are subtracted a block at a time.
    Block = 1,
    /// Every instruction is told of.
    Instruction = 2,
}

/// Shared with whoever executes, who subtracts; the PMU writes everything else. Arrays are by mode ([`KERNEL`], [`USER`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Budget {
    /// Events that may still pass without a word, by class; below 0: the PMU must be told at once. While blocks are followed, that of
    /// instructions is at most that of branches, every branch being an instruction.
    pub left: [[i32; CLASSES]; 2],
    /// Classes that some counter counts, a bit each.
    pub watched: [u32; 2],
    /// How closely to follow.
    pub granularity: [u8; 2],
    /// Every access goes through the simulated caches.
    pub watches_memory: u8,
    /// Every taken branch is recorded.
    pub records_branches: u8,
}

impl Budget {
    /// Events of a class that have passed in a mode since this was the budget.
    pub fn passed(&self, now: &Self, mode: usize, class: Class) -> i64 {
        i64::from(self.left[mode][class as usize]) - i64::from(now.left[mode][class as usize])
    }
}
