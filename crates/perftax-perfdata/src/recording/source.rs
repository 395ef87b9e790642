//! A stream of bytes that knows its place. Nothing is allocated before the bytes for it have come.

use std::io::{Read, Result, copy, sink};

/// Buffered, counted input.
pub struct Source<R> {
    inner: R,
    buffer: Box<[u8]>,
    /// What of the buffer was read and not yet taken.
    from: usize,
    to: usize,
    position: u64,
}

const BUFFER_BYTES: usize = 1 << 18;

impl<R: Read> Source<R> {
    /// At the start of `inner`.
    pub fn new(inner: R) -> Self {
        Self { inner, buffer: vec![0; BUFFER_BYTES].into(), from: 0, to: 0, position: 0 }
    }

    /// Byte of the stream that comes next.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next `n` bytes in place, at most [`BUFFER_BYTES`]; fewer only at the end of the stream.
    pub fn take(&mut self, n: usize) -> Result<&[u8]> {
        if self.to - self.from < n {
            self.refill(n)?;
        }
        let from = self.from;
        let got = n.min(self.to - from);
        self.from += got;
        self.position += got as u64;
        Ok(&self.buffer[from..from + got])
    }

    /// Replaces the content of `into` by the next `n` bytes; fewer only at the end of the stream. Tells whether all came.
    pub fn fill(&mut self, n: u64, into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let buffered = usize::try_from(n).unwrap_or(usize::MAX).min(self.to - self.from);
        into.extend_from_slice(&self.buffer[self.from..self.from + buffered]);
        self.from += buffered;
        (&mut self.inner).take(n - buffered as u64).read_to_end(into)?;
        self.position += into.len() as u64;
        Ok(into.len() as u64 == n)
    }

    /// Passes over `n` bytes. Tells whether all were there.
    pub fn skip(&mut self, n: u64) -> Result<bool> {
        let buffered = usize::try_from(n).unwrap_or(usize::MAX).min(self.to - self.from);
        self.from += buffered;
        let got = buffered as u64 + copy(&mut (&mut self.inner).take(n - buffered as u64), &mut sink())?;
        self.position += got;
        Ok(got == n)
    }

    /// Reads until `n` bytes are there, or the stream ends.
    fn refill(&mut self, n: usize) -> Result<()> {
        self.buffer.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        while self.to < n.min(self.buffer.len()) {
            match self.inner.read(&mut self.buffer[self.to..]) {
                Ok(0) => break,
                Ok(got) => self.to += got,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time, as a pipe may.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, into: &mut [u8]) -> Result<usize> {
            let many = self.1.min(into.len()).min(self.0.len());
            into[..many].copy_from_slice(&self.0[..many]);
            self.0 = &self.0[many..];
            Ok(many)
        }
    }

    #[test]
    fn every_byte_comes_once_and_in_order() {
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|i| (i % 251) as u8).collect();
        let mut random = fastrand::Rng::with_seed(2);
        for drops in [7, 4096, 1 << 20] {
            let mut source = Source::new(Drops(&bytes, drops));
            let (mut at, mut filled) = (0, Vec::new());
            while at < bytes.len() {
                let n = random.usize(1..3000).min(bytes.len() - at);
                match random.u8(..3) {
                    0 => assert_eq!(source.take(n).unwrap_or(&[]), &bytes[at..at + n]),
                    1 => {
                        assert!(source.fill(n as u64, &mut filled).unwrap_or(false));
                        assert_eq!(filled, bytes[at..at + n]);
                    }
                    _ => assert!(source.skip(n as u64).unwrap_or(false)),
                }
                at += n;
                assert_eq!(source.position(), at as u64);
            }
            assert!(source.take(5).is_ok_and(<[u8]>::is_empty) && !source.fill(1, &mut filled).unwrap_or(true));
        }
    }
}
