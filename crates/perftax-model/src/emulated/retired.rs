//! What retires.

/// [`Retired::level`] of a line that one other core has, and has not written to.
pub const CLEAN: u8 = 4;
/// [`Retired::level`] of a line that another core has written to, and that was fetched out of its cache.
pub const MODIFIED: u8 = 5;

/// An instruction that has retired, and the state of the core right after it. Flags, registers and time are told where the budget wants registers
/// ([`super::Budget::wants_registers`]) alone.
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
    /// Classes that it counts as, a bit each ([`super::Class`]).
    pub classes: u32,
    /// Micro-operations.
    pub uops: u32,
    /// Where its load was found: 0 the first level, 1 the second, 2 the last, 3 memory, [`CLEAN`], [`MODIFIED`].
    pub level: u8,
    /// [`super::KERNEL`] or [`super::USER`].
    pub privilege: u8,
    /// Cycles that its load took.
    pub latency_cycles: u16,
    /// Width of its load, or else of its store: 1 + the base-2 logarithm of its bytes; 0 where it is not known.
    pub width: u16,
    /// Its store, or a part of it, found no good copy of the line in the core's own cache.
    pub store_missed: bool,
    /// Where its store was found, as [`Self::level`] has it.
    pub store_level: u8,
    /// XMM registers, of which 16 bytes each, where the adaptive record holds them.
    pub xmm: [[u64; 2]; 16],
}
