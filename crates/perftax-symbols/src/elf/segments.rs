//! Where the parts of a program or library that are loaded stand in the file, and at which addresses of its own.

use object::elf::PF_X;
use object::{Object, ObjectSegment, SegmentFlags};

/// Pages that segments are mapped in (x86-64 psABI, "Program Loading").
const PAGE_BYTES: u64 = 4096;

/// A file's loaded parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments(Vec<Segment>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    /// Where it begins in the file, and how many bytes of it stand there.
    offset: u64,
    file_bytes: u64,
    /// Its address without where the file is loaded, and how many bytes it takes there: more than the file has of it where .bss is in it.
    address: u64,
    bytes: u64,
    is_code: bool,
}

impl Segments {
    /// Those of a file.
    pub(super) fn of<'data>(file: &object::File<'data, impl object::ReadRef<'data>>) -> Self {
        let segment = |segment: object::Segment<'data, '_, _>| {
            let (offset, file_bytes) = segment.file_range();
            let is_code = matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.0 & PF_X.0 != 0);
            Segment { offset, file_bytes, address: segment.address(), bytes: segment.size(), is_code }
        };
        Self(file.segments().map(segment).collect())
    }

    /// The address of what stands at an offset.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let holds = |segment: &&Segment| offset >= segment.offset && offset - segment.offset < segment.file_bytes;
        self.0.iter().find(holds).map(|segment| offset - segment.offset + segment.address)
    }

    /// The offset at which stands what has an address.
    pub fn offset(&self, address: u64) -> Option<u64> {
        self.offset_in(address, |_| true)
    }

    /// The offset of code at an address; none where no code stands.
    pub fn code_offset(&self, address: u64) -> Option<u64> {
        self.offset_in(address, |segment| segment.is_code)
    }

    fn offset_in(&self, address: u64, is_meant: impl Fn(&Segment) -> bool) -> Option<u64> {
        let holds = |segment: &&Segment| address >= segment.address && address - segment.address < segment.file_bytes;
        let found = self.0.iter().filter(|segment| is_meant(segment)).find(holds)?;
        found.offset.checked_add(address - found.address)
    }

    /// Parts of the file that are mapped as code: first offset, and one behind the last.
    pub fn code(&self) -> Vec<(u64, u64)> {
        let code = self.0.iter().filter(|segment| segment.is_code);
        code.map(|segment| (segment.offset, segment.offset.saturating_add(segment.file_bytes))).collect()
    }

    /// Whether one of the file's own addresses is loaded at all, also beyond what the file holds of it (.bss).
    pub fn is_loaded(&self, address: u64) -> bool {
        self.0.iter().any(|segment| segment.address <= address && address - segment.address < segment.bytes)
    }

    /// What is added to the file's own addresses where its first part is mapped at `start`.
    pub fn bias_of_first(&self, start: u64) -> u64 {
        let first = self.0.iter().map(|segment| segment.address).min().unwrap_or(0);
        start.wrapping_sub(first - first % PAGE_BYTES)
    }

    /// What is added to the file's own addresses where code of it is mapped: `start` for the file's `offset`. A mapping begins at a page's start, which may
    /// still be of the segment before.
    pub fn bias_of_code(&self, start: u64, offset: u64) -> Option<u64> {
        Self(self.0.iter().filter(|segment| segment.is_code).copied().collect()).bias(start, offset, None)
    }

    /// What is added to the file's own addresses where a part of it is mapped: `start` for the file's `offset`. A page in which one segment
    /// ends and the next begins is mapped for both: then it is `like` the others, else the one that begins there.
    pub fn bias(&self, start: u64, offset: u64, like: Option<u64>) -> Option<u64> {
        let first_page = |segment: &Segment| segment.offset - segment.offset % PAGE_BYTES;
        let holds = |segment: &&Segment| first_page(segment) <= offset && offset < segment.offset + segment.file_bytes.max(1);
        let bias = |segment: &Segment| start.wrapping_sub(offset).wrapping_add(segment.offset).wrapping_sub(segment.address);
        let candidates = || self.0.iter().filter(holds);
        candidates()
            .map(bias)
            .find(|bias| Some(*bias) == like)
            .or_else(|| candidates().rfind(|segment| first_page(segment) == offset).map(bias))
            .or_else(|| candidates().next().map(bias))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_addresses_are_each_other_s() {
        let text = Segment { offset: 0x1000, file_bytes: 0x500, address: 0x40_1000, bytes: 0x500, is_code: true };
        let data = Segment { offset: 0x1500, file_bytes: 0x100, address: 0x40_2500, bytes: 0x300, is_code: false };
        let segments = Segments(vec![text, data]);
        for (offset, address) in [(0x1000, 0x40_1000), (0x14ff, 0x40_14ff), (0x1500, 0x40_2500)] {
            assert_eq!((segments.address(offset), segments.offset(address)), (Some(address), Some(offset)));
        }
        assert_eq!((segments.address(0xfff), segments.address(0x1600)), (None, None));
        assert_eq!((segments.offset(0x40_1500), segments.offset(0x40_2600)), (None, None));
        assert_eq!((segments.code_offset(0x40_1004), segments.code_offset(0x40_2500)), (Some(0x1004), None));
        assert_eq!(segments.code(), [(0x1000, 0x1500)]);
        assert!(segments.is_loaded(0x40_2700) && !segments.is_loaded(0x40_2800));
        assert_eq!(segments.bias_of_first(0x7f00_0000), 0x7f00_0000 - 0x40_1000);
    }

    /// As lld lays programs out: code begins within the page in which constants end, at another distance from its addresses.
    #[test]
    fn code_that_begins_within_a_page_lies_where_its_own_segment_says() {
        let constants = Segment { offset: 0, file_bytes: 0xe65_880, address: 0, bytes: 0xe65_880, is_code: false };
        let code = Segment { offset: 0xe65_880, file_bytes: 0x1000, address: 0xe66_880, bytes: 0x1000, is_code: true };
        let segments = Segments(vec![constants, code]);
        assert_eq!(segments.bias_of_code(0x5555_0000 + 0xe66_000, 0xe65_000), Some(0x5555_0000));
        assert_eq!(segments.bias_of_code(0x5555_0000, 0), None, "no code is there");
    }

    /// As `readelf -lW` has it of a small program that is not position-independent: data begin in the page where the code's constants end.
    #[test]
    fn a_page_of_two_segments_is_of_the_one_that_lies_like_the_others() {
        let segment = |offset, file_bytes, address, bytes| Segment { offset, file_bytes, address, bytes, is_code: false };
        let segments = Segments(vec![
            segment(0, 0x5b0, 0x40_0000, 0x5b0),
            segment(0x1000, 0x200, 0x40_1000, 0x200),
            segment(0x2000, 0xd00, 0x40_2000, 0xd00),
            segment(0x2df8, 0x240, 0x40_3df8, 0x500),
        ]);
        assert_eq!(segments.bias(0x40_1000, 0x1000, None), Some(0));
        assert_eq!(segments.bias(0x40_2000, 0x2000, Some(0)), Some(0));
        assert_eq!(segments.bias(0x40_3000, 0x2000, Some(0)), Some(0), "the data, not the constants");
        assert_eq!(segments.bias(0x40_3000, 0x2000, None), Some(0), "of two that begin there, the later one");
        assert_eq!(segments.bias(0x40_4000, 0x3000, None), Some(0), "what mprotect made a mapping of its own");
        assert_eq!(segments.bias(0x40_4000, 0x7000, None), None);
        assert!(segments.is_loaded(0x40_42f7) && !segments.is_loaded(0x40_42f8) && !segments.is_loaded(0x40_5b1));
    }
}
