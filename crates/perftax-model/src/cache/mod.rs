//! Caches: what they hold, and what takes whose place.

mod hierarchy;
mod policy;
mod set_associative;

pub use hierarchy::{Hierarchy, Level, Traffic, Who};
pub use policy::Policy;
pub use set_associative::{Evicted, SetAssociative};

/// Bytes of a cache line, on every machine modelled.
pub const LINE_BYTES: u64 = 64;
/// Bits of a line number that a cache tells apart: 64 GiB of addresses, half of them for what the machine itself writes.
pub const LINE_BITS: u32 = 30;
/// The first line of the half that programs do not reach: buffers of records lie there.
pub const FIRST_RECORD_LINE: u32 = 1 << (LINE_BITS - 1);

/// A line number of an address.
pub fn line_of(address: u64) -> u32 {
    (address / LINE_BYTES) as u32 & ((1 << LINE_BITS) - 1)
}
