//! Mappings of code: which file was where in whose address space.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use perf_event_open_sys::bindings as abi;
use perftax_symbols::{FileId, Mapping};

use super::cursor::Cursor;
use super::header::Header;
use super::sample_id::{SampleId, Task};
use crate::Result;

/// `PERF_RECORD_MMAP`, and the part that `MMAP2` shares with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmap<'a> {
    /// Whose; pid `u32::MAX` for the kernel's.
    pub task: Task,
    /// First address.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Offset in the file, bytes.
    pub file_offset: u64,
    /// Path as the kernel wrote it, without NUL; `[vdso]`, `//anon` and the like where there is no file.
    pub path: &'a [u8],
    /// Mapped as data (perf writes code mappings only, unless asked).
    pub is_data: bool,
    /// Whose record it is.
    pub sample_id: SampleId,
}

/// `PERF_RECORD_MMAP2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmap2<'a> {
    /// What `MMAP` has too.
    pub mapping: Mmap<'a>,
    /// Which version of the file.
    pub file: MappedFile<'a>,
    /// `PROT_*`.
    pub protection: u32,
    /// `MAP_*`.
    pub flags: u32,
}

/// How the file of a mapping is told from others of the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappedFile<'a> {
    /// By where it lies.
    Inode {
        /// Device, major.
        major: u32,
        /// Device, minor.
        minor: u32,
        /// Inode.
        inode: u64,
        /// Inode's generation.
        generation: u64,
    },
    /// By its build id (`PERF_RECORD_MISC_MMAP_BUILD_ID`): at most 20 bytes.
    BuildId(&'a [u8]),
}

impl<'a> Mmap<'a> {
    pub(super) fn decode(header: Header, body: &'a [u8], sample_id: SampleId) -> Result<Self> {
        let cursor = &mut Cursor::new(header.kind_name(), Header::BYTES, body);
        Ok(Self {
            task: Task::decode(cursor)?,
            address: cursor.u64("address")?,
            length: cursor.u64("length")?,
            file_offset: cursor.u64("file offset")?,
            path: cursor.text("path")?,
            is_data: header.has(abi::PERF_RECORD_MISC_MMAP_DATA),
            sample_id,
        })
    }
}

impl From<&Mmap<'_>> for Mapping {
    /// Which file it is nobody told.
    fn from(map: &Mmap<'_>) -> Self {
        Self {
            from: map.address,
            to: map.address.saturating_add(map.length),
            is_code: !map.is_data,
            file_offset: map.file_offset,
            path: OsStr::from_bytes(map.path).into(),
            ..Self::default()
        }
    }
}

impl From<&Mmap2<'_>> for Mapping {
    fn from(map: &Mmap2<'_>) -> Self {
        let file_id = match map.file {
            MappedFile::Inode { major, minor, inode, .. } => FileId::new((major, minor), inode),
            MappedFile::BuildId(_) => None,
        };
        Self { file_id, ..Self::from(&map.mapping) }
    }
}

impl<'a> Mmap2<'a> {
    pub(super) fn decode(header: Header, body: &'a [u8], sample_id: SampleId) -> Result<Self> {
        let cursor = &mut Cursor::new(header.kind_name(), Header::BYTES, body);
        let task = Task::decode(cursor)?;
        let address = cursor.u64("address")?;
        let length = cursor.u64("length")?;
        let file_offset = cursor.u64("file offset")?;
        let file = if header.has(abi::PERF_RECORD_MISC_MMAP_BUILD_ID) {
            build_id(cursor)?
        } else {
            MappedFile::Inode {
                major: cursor.u32("device's major")?,
                minor: cursor.u32("device's minor")?,
                inode: cursor.u64("inode")?,
                generation: cursor.u64("inode's generation")?,
            }
        };
        let protection = cursor.u32("protection")?;
        let flags = cursor.u32("flags")?;
        let path = cursor.text("path")?;
        let is_data = header.has(abi::PERF_RECORD_MISC_MMAP_DATA);
        let mapping = Mmap { task, address, length, file_offset, path, is_data, sample_id };
        Ok(Self { mapping, file, protection, flags })
    }
}

/// A length, three reserved bytes, then room for twenty.
fn build_id<'a>(cursor: &mut Cursor<'a>) -> Result<MappedFile<'a>> {
    let before = cursor.clone();
    let size = cursor.u8("build id's size")?;
    cursor.bytes(3, "build id's reserved bytes")?;
    let room = cursor.bytes(20, "build id")?;
    match room.get(..usize::from(size)) {
        Some(id) => Ok(MappedFile::BuildId(id)),
        None => Err(before.malformed(format!("build id's size is {size}, at most 20 fit"))),
    }
}
