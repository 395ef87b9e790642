//! Records one after the other: a drained ring, Replay's bytes, the data of a perf.data file.

use super::cursor::Cursor;
use super::header::Header;
use crate::Result;

/// A record whose body has not been looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// Where its header begins in the stream, bytes.
    pub offset: usize,
    /// Its header.
    pub header: Header,
    /// What its size covers after the header.
    pub body: &'a [u8],
    /// What follows outside of its size, as in two of perf's own kinds: trace after `AUXTRACE`, tracepoint formats after
    /// `TRACING_DATA` in pipe mode. Empty else.
    pub attachment: &'a [u8],
}

/// Walks a contiguous slice of records. Ends after the last byte or after the first error.
///
/// This is also Replay's byte format: records as the kernel wrote them into the ring, unwrapped, nothing between them.
#[derive(Clone, Debug)]
pub struct Stream<'a> {
    bytes: &'a [u8],
    offset: usize,
    piped: bool,
}

/// The records in `bytes`, a ring's content or a file's data section.
pub fn stream(bytes: &[u8]) -> Stream<'_> {
    Stream { bytes, offset: 0, piped: false }
}

impl Stream<'_> {
    /// The records are those of a pipe: there `TRACING_DATA` is followed by the data it announces.
    pub fn piped(self) -> Self {
        Self { piped: true, ..self }
    }
}

/// `PERF_RECORD_HEADER_TRACING_DATA`, `PERF_RECORD_AUXTRACE`: perf's own (tools/lib/perf/include/perf/event.h).
const TRACING_DATA: u32 = 66;
const AUXTRACE: u32 = 71;

impl<'a> Stream<'a> {
    /// Bytes walked so far; where the bad record begins, after an error.
    pub fn offset(&self) -> usize {
        self.offset
    }

    fn read(&self) -> Result<RawRecord<'a>> {
        let rest = self.bytes.get(self.offset..).unwrap_or(&[]);
        let error = |why| Cursor::new("the stream of records", self.offset, rest).malformed(why);
        let Some(head) = rest.first_chunk() else {
            return Err(error(format!("a header needs 8 bytes, {} are left", rest.len())));
        };
        let header = Header::parse(head);
        if usize::from(header.size) < Header::BYTES {
            return Err(error(format!("{} says its size is {}, at least 8 needed", header.kind_name(), header.size)));
        }
        let Some((record, after)) = rest.split_at_checked(usize::from(header.size)) else {
            let name = header.kind_name();
            return Err(error(format!("{name} says its size is {}, {} bytes are left", header.size, rest.len())));
        };
        let body = record.get(Header::BYTES..).unwrap_or(&[]);
        let attached = match header.kind {
            AUXTRACE => body.first_chunk().map_or(0, |size| u64::from_le_bytes(*size)),
            // Padded to whole words.
            TRACING_DATA if self.piped => {
                body.first_chunk().map_or(0, |size| u64::from(u32::from_le_bytes(*size)).next_multiple_of(8))
            }
            _ => 0,
        };
        match usize::try_from(attached).ok().and_then(|attached| after.get(..attached)) {
            Some(attachment) => Ok(RawRecord { offset: self.offset, header, body, attachment }),
            None => Err(error(format!("it announces {attached} bytes after it, {} are left", after.len()))),
        }
    }
}

impl<'a> Iterator for Stream<'a> {
    type Item = Result<RawRecord<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.bytes.len() {
            return None;
        }
        let record = self.read();
        match &record {
            Ok(record) => self.offset += usize::from(record.header.size) + record.attachment.len(),
            Err(_) => self.bytes = &[],
        }
        Some(record)
    }
}
