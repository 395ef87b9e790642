//! The registers of Intel's PMU (architectural performance monitoring, SDM volume 3, chapter 20): what a driver writes and reads, and
//! what happens when instructions retire.
//!
//! Whoever executes the instructions (an emulated machine) keeps a [`Budget`]: so many events of each class may pass before the
//! [`Pmu`] must be told. Between two such moments an event costs one subtraction there and nothing here.

mod branches;
mod budget;
mod debug_store;
mod generation;
pub mod msr;
mod pmu;
mod select;

pub use branches::Branches;
pub use budget::{Budget, CLASSES, Granularity, KERNEL, USER};
pub use debug_store::Memory;
pub use generation::Generation;
pub use pmu::{Actions, Arm, Pmu, Settings, Tally};
pub use select::{Class, class_of};

/// An instruction that has retired, and the state of the core right after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Retired {
    /// Its address.
    pub ip: u64,
    /// Address of the one that follows.
    pub next_ip: u64,
    /// RFLAGS.
    pub flags: u64,
    /// General registers: ax, cx, dx, bx, sp, bp, si, di, r8 to r15 (their numbers in instructions).
    pub registers: [u64; 16],
    /// Time stamp.
    pub tsc: u64,
    /// Address that it loaded from last.
    pub load_address: u64,
    /// Address that it stored to last.
    pub store_address: u64,
    /// Classes that it counts as, a bit each ([`Class`]).
    pub classes: u32,
    /// Micro-operations.
    pub uops: u32,
    /// Where its load was found: 0 the first level, 1 the second, 2 the last, 3 memory.
    pub level: u8,
    /// [`KERNEL`] or [`USER`].
    pub privilege: u8,
    /// Cycles that its load took.
    pub latency_cycles: u16,
    /// XMM registers, of which 16 bytes each, where the adaptive record holds them.
    pub xmm: [[u64; 2]; 16],
}
