//! Caches: what they hold, and what takes whose place.

mod coherence;
mod hierarchy;
mod policy;
mod set_associative;
mod spec;

pub use coherence::{Coherence, Holder, MAX_CORES};
pub use hierarchy::{Hierarchy, Level, Traffic, Who};
pub use policy::Policy;
pub use set_associative::{Evicted, SetAssociative};
pub use spec::{CacheSpec, Inclusion};

/// Bytes of a cache line, on every machine modelled.
pub const LINE_BYTES: u64 = 64;
/// Bits of a line number that a cache tells apart.
pub const LINE_BITS: u32 = 30;
/// Bits of an address within each of the two halves of a program's memory: 16 GiB.
const HALF_BITS: u32 = 28;
/// Where the upper half begins: qemu-user maps what the program does not place itself from here on (`TASK_UNMAPPED_BASE`).
const UPPER_HALF_SHIFT: u32 = 38;
/// What the machine itself writes has this bit, so that it never falls on a program's lines.
const RECORD_LINE: u32 = 1 << (LINE_BITS - 1);

/// Line of an address of a program. Addresses 16 GiB apart within a half fall on one line; the two halves never do.
#[inline]
pub fn line_of(address: u64) -> u32 {
    let low = (address / LINE_BYTES) as u32 & ((1 << HALF_BITS) - 1);
    low | ((address >> UPPER_HALF_SHIFT) as u32 & 1) << HALF_BITS
}

/// First address of a program's line.
pub fn address_of(line: u32) -> u64 {
    let upper = u64::from(line >> HALF_BITS & 1) << UPPER_HALF_SHIFT;
    upper | (u64::from(line & ((1 << HALF_BITS) - 1)) * LINE_BYTES)
}

/// Line of an address among those that the machine itself writes to: they have an address space of their own.
pub fn record_line(address: u64) -> u32 {
    RECORD_LINE | ((address / LINE_BYTES) as u32 & (RECORD_LINE - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_addresses_go_both_ways() {
        for address in [0x40_0000, 0x40_0000_0000, 0x40_0080_1240, 0x3_ffff_ffc0] {
            assert_eq!(address_of(line_of(address)), address, "{address:#x}");
        }
        assert_ne!(line_of(0x40_0000), line_of(0x40_0040_0000), "a fixed executable and what is mapped above");
        assert_ne!(record_line(0x40_0000), line_of(0x40_0000));
        assert!(record_line(u64::MAX) < 1 << LINE_BITS && line_of(u64::MAX) < 1 << LINE_BITS);
    }
}
