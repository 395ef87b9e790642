//! Reading what is long: broken off where the user wants it, and summed on the way.

use std::io::Read;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// Ends with an error once the user has broken it off.
pub(super) struct UntilInterrupted<R> {
    pub(super) reader: R,
    pub(super) interrupted: fn() -> bool,
}

impl<R: Read> Read for UntilInterrupted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        // Not `Interrupted`: readers try again after that.
        if (self.interrupted)() { Err(std::io::Error::other("interrupted")) } else { self.reader.read(buffer) }
    }
}

/// What a read error is: that the user wanted no more, which leaves `left`, or what `failed` makes of it.
pub(super) fn stopped_or(
    interrupted: fn() -> bool,
    left: String,
    failed: impl Fn(std::io::Error) -> Error,
) -> impl Fn(std::io::Error) -> Error {
    move |error| if interrupted() { Error::Stopped { left: left.clone() } } else { failed(error) }
}

/// Reads to the end, each part to `each`: how many bytes there were, and their SHA-256, hexadecimal.
pub(super) fn summed(
    reader: &mut dyn Read,
    failed: impl Fn(std::io::Error) -> Error,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<(u64, String)> {
    let (mut hasher, mut bytes) = (Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = reader.read(&mut buffer).map_err(&failed)?;
        if read == 0 {
            return Ok((bytes, hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()));
        }
        hasher.update(&buffer[..read]);
        bytes += read as u64;
        each(&buffer[..read])?;
    }
}
