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
    /// So are those that load and those that store; what follows from the three is not told.
    BlockAndData = 4,
    /// So is what the branch at a block's end is beside ([`Class::OF_BRANCHES`]), where that led.
    BlockAndBranches = 5,
}

impl Granularity {
    /// Whether a budget's number means that blocks with their loads and stores are.
    const fn tells_data(number: u8) -> bool {
        number == Self::BlockAndData as u8 || number == Self::BlockAndBranches as u8
    }

    /// Whether a budget's number means that blocks are subtracted.
    pub const fn is_of_blocks(number: u8) -> bool {
        number == Self::Block as u8 || Self::tells_data(number)
    }
}

/// Shared with whoever executes, who subtracts; the PMU writes everything else. Arrays are by mode ([`KERNEL`], [`USER`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Budget {
    /// Events that may still pass without a word, by class; below 0: the PMU must be told at once. While blocks are followed so many instructions
    /// may pass at most as use up no other class.
    pub left: [[i32; CLASSES]; 2],
    /// Classes that some counter counts, a bit each.
    pub watched: [u32; 2],
    /// How closely to follow.
    pub granularity: [u8; 2],
    /// Every access goes through the simulated caches.
    pub watches_memory: u8,
    /// Every taken branch is recorded.
    pub records_branches: u8,
    /// What the instruction leaves in registers is asked for when a budget is used up: a record may hold it.
    pub wants_registers: u8,
}

impl Budget {
    /// Events of a class that have passed in a mode since this was the budget.
    pub fn passed(&self, now: &Self, mode: usize, class: Class) -> i64 {
        let told = |class: Class| i64::from(self.left[mode][class as usize]) - i64::from(now.left[mode][class as usize]);
        let [instructions, loads, stores] = [Class::Instructions, Class::Loads, Class::Stores].map(told);
        match class {
            Class::Uops if Granularity::tells_data(self.granularity[mode]) => Class::uops(instructions, loads, stores),
            Class::Accesses if Granularity::tells_data(self.granularity[mode]) => loads + stores,
            class => told(class),
        }
    }
}
