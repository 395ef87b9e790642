//! What counters count.

/// A class of events that counters count. An instruction is of several at once. The numbers are perftax_engine.h's: branches and
/// instructions side by side, so that whoever executes blocks subtracts both at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// Branches.
    Branches = 0,
    /// Instructions retired.
    Instructions = 1,
    /// Micro-operations retired, estimated.
    Uops = 2,
    /// Cycles: one an instruction, and those of assists and misses.
    Cycles = 3,
    /// Instructions that load.
    Loads = 4,
    /// Instructions that store.
    Stores = 5,
    /// Branches that were taken.
    Taken = 6,
    /// Branches that were mispredicted.
    Mispredicted = 7,
    /// Calls.
    Calls = 8,
    /// Returns.
    Returns = 9,
    /// Loads with a lock.
    LockedLoads = 10,
    /// Loads that missed the first level.
    L1Misses = 11,
    /// Loads that missed the second level.
    L2Misses = 12,
    /// Loads that missed the last level.
    LlcMisses = 13,
    /// Loads that took as long as the latency register asks.
    SlowLoads = 14,
    /// Conditional branches.
    Conditional = 15,
    /// Fetches: instructions that are the first in their aligned 64 bytes since the latest fetch, or that follow a taken branch, an
    /// exception or an interrupt.
    Fetches = 16,
    /// Loads whose page the second-level TLB did not have.
    StlbMisses = 17,
    /// Accesses to data: an instruction that loads and stores is two.
    Accesses = 18,
    /// Conditional branches that were taken.
    ConditionalTaken = 19,
    /// Conditional branches that were not.
    ConditionalNotTaken = 20,
}

impl Class {
    /// Its bit.
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// Micro-operations of instructions, some of which load and store: an estimate, the emulators' (`pmu_retire` in vm/qemu/pmu.c).
    pub const fn uops(instructions: i64, loads: i64, stores: i64) -> i64 {
        instructions + loads + 2 * stores
    }

    /// How many of one an instruction is at most, where a block tells of them; `None` where only each instruction does.
    pub(super) const fn most_in_blocks(self) -> Option<u64> {
        match self {
            Self::Instructions | Self::Branches | Self::Loads | Self::Stores => Some(1),
            class if class.bit() & Self::OF_BRANCHES != 0 => Some(1),
            Self::Accesses => Some(2),
            Self::Uops => Some(Self::uops(1, 1, 1) as u64),
            _ => None,
        }
    }

    /// What a branch is beside.
    pub const OF_BRANCHES: u32 = Self::Taken.bit()
        | Self::Mispredicted.bit()
        | Self::Calls.bit()
        | Self::Returns.bit()
        | Self::Conditional.bit()
        | Self::ConditionalTaken.bit()
        | Self::ConditionalNotTaken.bit();

    /// Those that only simulated caches can tell.
    pub const OF_CACHES: u32 =
        Self::L1Misses.bit() | Self::L2Misses.bit() | Self::LlcMisses.bit() | Self::SlowLoads.bit() | Self::StlbMisses.bit();
}
