//! A bounds-checked reader over bytes that others wrote.

use crate::{Error, Result};

/// Bytes of `perf_event_header`, which precede every body: errors count from the start of the record.
pub(super) const HEADER_BYTES: usize = 8;

/// Reads little-endian fields one after the other and knows where it stands.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    what: &'static str,
    base: usize,
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    /// Over `bytes`, which begin `base` bytes into `what`.
    pub(super) fn new(what: &'static str, base: usize, bytes: &'a [u8]) -> Self {
        Self { what, base, bytes, position: 0 }
    }

    #[inline]
    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N]> {
        match self.bytes.get(self.position..).and_then(<[u8]>::first_chunk::<N>) {
            Some(chunk) => {
                self.position += N;
                Ok(*chunk)
            }
            None => Err(self.truncated(N as u64, field)),
        }
    }

    #[inline]
    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array(field)?))
    }

    #[inline]
    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array(field)?))
    }

    #[inline]
    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(field)?))
    }

    #[inline]
    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    /// The next `count` bytes as they are.
    #[inline]
    pub(super) fn bytes(&mut self, count: u64, field: &'static str) -> Result<&'a [u8]> {
        let rest = self.rest();
        match usize::try_from(count).ok().and_then(|count| rest.get(..count)) {
            Some(bytes) => {
                self.position += bytes.len();
                Ok(bytes)
            }
            None => Err(self.truncated(count, field)),
        }
    }

    /// The next `count` elements of `N` bytes each.
    #[inline]
    pub(super) fn chunks<const N: usize>(&mut self, count: u64, field: &'static str) -> Result<&'a [[u8; N]]> {
        // A count that overflows is as impossible as one beyond the end.
        let bytes = self.bytes(count.saturating_mul(N as u64), field)?;
        Ok(bytes.as_chunks::<N>().0)
    }

    /// Everything not read yet, without reading it.
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.position..).unwrap_or(&[])
    }

    /// A NUL-terminated string that fills what is left up to its padding. Not checked for UTF-8: paths need not be.
    pub(super) fn text(&mut self, field: &'static str) -> Result<&'a [u8]> {
        let rest = self.rest();
        match rest.iter().position(|&byte| byte == 0) {
            Some(end) => {
                self.position = self.bytes.len();
                Ok(rest.get(..end).unwrap_or(&[]))
            }
            None => Err(self.malformed(format!("{field} does not end with NUL"))),
        }
    }

    /// An error at the present position.
    #[cold]
    pub(super) fn malformed(&self, why: String) -> Error {
        Error::Malformed { what: self.what.into(), offset: (self.base + self.position) as u64, why }
    }

    #[cold]
    fn truncated(&self, needed: u64, field: &'static str) -> Error {
        self.malformed(format!("{field} needs {needed} bytes, {} are left", self.rest().len()))
    }

    /// Refuses bytes that nothing has read.
    #[inline]
    pub(super) fn finish(&self) -> Result<()> {
        match self.rest().len() {
            0 => Ok(()),
            left => Err(self.malformed(format!("{left} bytes are left over"))),
        }
    }
}
