//! Where the parts of an executable or library that are loaded stand in the file, and at which addresses of its own.

use object::{Object, ObjectSegment};

/// A file's loaded parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments(Vec<Segment>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    /// Where it begins in the file, and how many bytes of it stand there.
    offset: u64,
    bytes: u64,
    /// Its address, without where the file is loaded.
    address: u64,
}

impl Segments {
    /// Those of a file.
    pub fn of<'data>(file: &object::File<'data, impl object::ReadRef<'data>>) -> Self {
        let segment = |segment: object::Segment<'data, '_, _>| {
            let (offset, bytes) = segment.file_range();
            Segment { offset, bytes, address: segment.address() }
        };
        Self(file.segments().map(segment).collect())
    }

    /// The address of what stands at an offset.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let holds = |segment: &&Segment| offset >= segment.offset && offset - segment.offset < segment.bytes;
        self.0.iter().find(holds).map(|segment| offset - segment.offset + segment.address)
    }

    /// The offset at which stands what has an address.
    pub fn offset(&self, address: u64) -> Option<u64> {
        let holds = |segment: &&Segment| address >= segment.address && address - segment.address < segment.bytes;
        self.0.iter().find(holds).map(|segment| address - segment.address + segment.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_addresses_are_each_other_s() {
        let text = Segment { offset: 0x1000, bytes: 0x500, address: 0x40_1000 };
        let data = Segment { offset: 0x1500, bytes: 0x100, address: 0x40_2500 };
        let segments = Segments(vec![text, data]);
        for (offset, address) in [(0x1000, 0x40_1000), (0x14ff, 0x40_14ff), (0x1500, 0x40_2500)] {
            assert_eq!((segments.address(offset), segments.offset(address)), (Some(address), Some(offset)));
        }
        assert_eq!((segments.address(0xfff), segments.address(0x1600)), (None, None));
        assert_eq!((segments.offset(0x40_1500), segments.offset(0x40_2600)), (None, None));
    }
}
