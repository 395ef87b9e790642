//! Cache lines, and bytes within one.

use serde::{Deserialize, Serialize};

/// Bytes of a cache line: what x86-64 processors transfer between cores.
pub const LINE_BYTES: u64 = 64;

/// Bits of a line's number: addresses have 57 bits at most and the sign (SDM volume 1, 3.3.7.1), lines six less.
const NUMBER_BITS: u32 = 52;

/// A cache line, by number: its address over [`LINE_BYTES`], and above [`NUMBER_BITS`] bits the address space that it lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Line(pub u64);

impl Line {
    /// The line of an address.
    pub fn of(address: u64) -> Self {
        Self((address / LINE_BYTES) & (u64::MAX >> (u64::BITS - NUMBER_BITS)))
    }

    /// Its first byte's address.
    pub fn address(self) -> u64 {
        let above = u64::BITS - NUMBER_BITS;
        // The kernel's half of the addresses begins with ones.
        ((self.0 << above).cast_signed() >> above).cast_unsigned().wrapping_mul(LINE_BYTES)
    }

    /// The same address in another address space, of which there are [`Self::SPACES`]; [`Line::of`] gives those of number 0.
    #[must_use]
    pub fn in_space(self, space: u16) -> Self {
        Self(Self::of(self.address()).0 | u64::from(space % Self::SPACES) << NUMBER_BITS)
    }

    /// The number of its address space.
    pub fn space(self) -> u16 {
        (self.0 >> NUMBER_BITS) as u16
    }

    /// Address spaces that are told apart.
    pub const SPACES: u16 = 1 << (u64::BITS - NUMBER_BITS);
}

/// Bytes of one line: bit `i` for byte `i`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Bytes(pub u64);

impl Bytes {
    /// So many from an offset on; what lies behind the line's end is left out.
    pub fn new(offset: u64, bytes: u64) -> Self {
        let all = if bytes >= LINE_BYTES { u64::MAX } else { (1 << bytes) - 1 };
        Self(if offset >= LINE_BYTES { 0 } else { all << offset })
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether any is in both.
    pub fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Those in either.
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The lowest, and how far from it the highest lies, in bytes; none where it is empty.
    pub fn extent(self) -> Option<(u64, u64)> {
        let first = u64::from(self.0.trailing_zeros());
        (!self.is_empty()).then(|| (first, LINE_BYTES - u64::from(self.0.leading_zeros()) - first))
    }
}

/// The lines that an access touches, and which bytes of each: two where it straddles.
pub fn lines_of(address: u64, bytes: u64) -> impl Iterator<Item = (Line, Bytes)> {
    let first = Line::of(address);
    let last = Line::of(address.saturating_add(bytes.max(1) - 1));
    (first.0..=last.0).map(Line).map(move |line| {
        let from = address.max(line.address());
        let to = address.saturating_add(bytes).min(line.address().saturating_add(LINE_BYTES));
        (line, Bytes::new(from - line.address(), to.saturating_sub(from)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_two_address_spaces_are_two() {
        for address in [0, 0x7fff_ffff_f040, 0x00ff_ffff_ffff_ffc0, 0xffff_ffff_8100_0040, 0xff00_0000_0000_0000] {
            let line = Line::of(address);
            assert_eq!((line.address(), line.space()), (address, 0));
            let other = line.in_space(4095);
            assert_eq!((other.address(), other.space()), (address, 4095));
            assert!(other != line && other.in_space(0) == line);
        }
    }

    #[test]
    fn bytes_of_a_line() {
        assert_eq!(Bytes::new(0, 64).0, u64::MAX);
        assert_eq!(Bytes::new(8, 8).0, 0xff00);
        assert_eq!(Bytes::new(62, 8).0, 0b11 << 62, "cut at the line's end");
        assert_eq!(Bytes::new(8, 4).with(Bytes::new(20, 1)).extent(), Some((8, 13)));
        assert_eq!(Bytes::default().extent(), None);
        assert!(Bytes::new(0, 8).overlaps(Bytes::new(7, 1)) && !Bytes::new(0, 8).overlaps(Bytes::new(8, 8)));
    }

    #[test]
    fn an_access_that_straddles_touches_two_lines() {
        let touched: Vec<_> = lines_of(0x103c, 8).collect();
        assert_eq!(touched, [(Line(0x40), Bytes::new(60, 4)), (Line(0x41), Bytes::new(0, 4))]);
        assert_eq!(lines_of(0x1040, 64).count(), 1);
        assert_eq!(lines_of(0x1040, 0).collect::<Vec<_>>(), [(Line(0x41), Bytes(0))]);
    }
}
