//! Writes records byte by byte, as the kernel's headers lay them out. Knows nothing of the decoder.

#![allow(dead_code)] // each test uses its part

/// Little-endian fields one after the other.
#[derive(Clone, Default)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub fn u16(mut self, value: u16) -> Self {
        self.0.extend([value as u8, (value >> 8) as u8]);
        self
    }

    pub fn u32(self, value: u32) -> Self {
        self.u16(value as u16).u16((value >> 16) as u16)
    }

    pub fn u64(self, value: u64) -> Self {
        self.u32(value as u32).u32((value >> 32) as u32)
    }

    pub fn u64s(self, values: &[u64]) -> Self {
        values.iter().fold(self, |bytes, value| bytes.u64(*value))
    }

    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A string with its NUL, padded with NULs to `room` bytes.
    pub fn text(mut self, text: &str, room: usize) -> Self {
        assert!(text.len() < room);
        let end = self.0.len() + room;
        self.0.extend_from_slice(text.as_bytes());
        self.0.resize(end, 0);
        self
    }

    /// With the eight bytes of a header in front.
    pub fn record(self, kind: u32, misc: u16) -> Vec<u8> {
        let size = u16::try_from(self.0.len() + 8).unwrap();
        Self::new().u32(kind).u16(misc).u16(size).raw(&self.0).0
    }
}
