//! Changes of the kernel's own code: symbols, BPF programs, patches.

use super::cursor::Cursor;
use super::header::Header;
use super::sample_id::SampleId;
use crate::Result;
use perf_event_open_sys::bindings as abi;

/// `PERF_RECORD_KSYMBOL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ksymbol<'a> {
    /// First address.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// `PERF_RECORD_KSYMBOL_TYPE_*`: 0 unknown, 1 BPF, 2 out of line.
    pub kind: u16,
    /// It went away; else it came.
    pub unregistered: bool,
    /// Its name, without NUL.
    pub name: &'a [u8],
    /// Whose record it is.
    pub sample_id: SampleId,
}

/// `PERF_RECORD_BPF_EVENT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpfEvent {
    /// `PERF_BPF_EVENT_*`: 1 loaded, 2 unloaded.
    pub kind: u16,
    /// None are defined.
    pub flags: u16,
    /// The program's id.
    pub id: u32,
    /// The program's tag.
    pub tag: [u8; 8],
    /// Whose record it is.
    pub sample_id: SampleId,
}

/// `PERF_RECORD_TEXT_POKE`: kernel code was rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPoke<'a> {
    /// Where.
    pub address: u64,
    /// The bytes before; empty where something was added.
    pub old: &'a [u8],
    /// The bytes after; empty where something was removed.
    pub new: &'a [u8],
    /// Whose record it is.
    pub sample_id: SampleId,
}

impl<'a> Ksymbol<'a> {
    pub(super) fn decode(header: Header, body: &'a [u8], sample_id: SampleId) -> Result<Self> {
        let cursor = &mut Cursor::new(header.kind_name(), Header::BYTES, body);
        Ok(Self {
            address: cursor.u64("address")?,
            length: cursor.u32("length")?,
            kind: cursor.u16("type")?,
            unregistered: u32::from(cursor.u16("flags")?) & abi::PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER != 0,
            name: cursor.text("name")?,
            sample_id,
        })
    }
}

impl BpfEvent {
    pub(super) fn decode(header: Header, body: &[u8], sample_id: SampleId) -> Result<Self> {
        let cursor = &mut Cursor::new(header.kind_name(), Header::BYTES, body);
        let kind = cursor.u16("type")?;
        let flags = cursor.u16("flags")?;
        let id = cursor.u32("id")?;
        let tag = cursor.u64("tag")?.to_le_bytes();
        cursor.finish()?;
        Ok(Self { kind, flags, id, tag, sample_id })
    }
}

impl<'a> TextPoke<'a> {
    pub(super) fn decode(header: Header, body: &'a [u8], sample_id: SampleId) -> Result<Self> {
        let cursor = &mut Cursor::new(header.kind_name(), Header::BYTES, body);
        let address = cursor.u64("address")?;
        let old_bytes = cursor.u16("old length")?;
        let new_bytes = cursor.u16("new length")?;
        let old = cursor.bytes(u64::from(old_bytes), "old bytes")?;
        let new = cursor.bytes(u64::from(new_bytes), "new bytes")?;
        // The record is padded to whole words.
        match cursor.rest().len() {
            0..8 => Ok(Self { address, old, new, sample_id }),
            left => Err(cursor.malformed(format!("{left} bytes are left over"))),
        }
    }
}
