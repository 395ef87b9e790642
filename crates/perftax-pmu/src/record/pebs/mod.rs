//! Intel PEBS: the records that the hardware writes into the DS buffer, before a kernel makes samples of them.
//!
//! Three families: fixed records (formats 0 to 3, Core 2 to Skylake), adaptive ones (formats 4 to 6, from Ice Lake), which
//! say of themselves which groups they hold, and those of architectural PEBS (Clearwater Forest and later), with a header and fragments. Source: SDM volume 3B, "Processor Event Based Sampling"; `struct pebs_record_*` in
//! arch/x86/events/intel/ds.c, `struct pebs_basic` and others in arch/x86/include/asm/perf_event.h.

mod adaptive;
mod architectural;
mod counters;
mod fixed;

pub use adaptive::{Adaptive, AdaptiveStream, Basic, LbrEntry, MemoryInfo, adaptive};
pub use architectural::{Architectural, ArchitecturalBasic, ArchitecturalStream, architectural};
pub use counters::Counted;
pub use fixed::{Fixed, Format, MemoryAccess};

/// General registers, flags and the instruction pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // named as the machine names them
pub struct GeneralRegisters {
    pub flags: u64,
    pub ip: u64,
    pub ax: u64,
    pub bx: u64,
    pub cx: u64,
    pub dx: u64,
    pub si: u64,
    pub di: u64,
    pub bp: u64,
    pub sp: u64,
    /// R8 to R15.
    pub r8_to_r15: [u64; 8],
}

/// What a transaction was when the record was written (`tsx_tuning`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TsxTuning(pub u64);

impl TsxTuning {
    /// Cycles of the last transaction or elided lock.
    pub fn cycles(self) -> u32 {
        self.0 as u32
    }

    /// The abort's flags, where they stand in [`super::Transaction`] too (bits 0 to 7).
    pub fn flags(self) -> u8 {
        (self.0 >> 32) as u8
    }
}
