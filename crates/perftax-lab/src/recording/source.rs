//! A stream of bytes that knows its place. Nothing is allocated before the bytes for it have come.

use std::io::{BufReader, Read, Result, copy, sink};

/// Buffered, counted input.
pub struct Source<R> {
    inner: BufReader<R>,
    position: u64,
}

const BUFFER_BYTES: usize = 1 << 18;

impl<R: Read> Source<R> {
    /// At the start of `inner`.
    pub fn new(inner: R) -> Self {
        Self { inner: BufReader::with_capacity(BUFFER_BYTES, inner), position: 0 }
    }

    /// Byte of the stream that comes next.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Replaces the content of `into` by the next `n` bytes; fewer only at the end of the stream. Tells whether all came.
    pub fn fill(&mut self, n: u64, into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let got = (&mut self.inner).take(n).read_to_end(into)? as u64;
        self.position += got;
        Ok(got == n)
    }

    /// Passes over `n` bytes. Tells whether all were there.
    pub fn skip(&mut self, n: u64) -> Result<bool> {
        let got = copy(&mut (&mut self.inner).take(n), &mut sink())?;
        self.position += got;
        Ok(got == n)
    }
}
