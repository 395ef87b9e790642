//! The head of a recording: which byte order, pipe or file, where the records are, and the events.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

use perftax_pmu::{Error, Result};

use super::attribute::Attribute;
use super::bytes::Order;
use super::source::Source;

/// Size of the header of a pipe (`struct perf_pipe_file_header`).
const PIPE_BYTES: u64 = 16;
/// Size of the header of a file (`struct perf_file_header`).
const FILE_BYTES: u64 = 104;
/// Attributes and ids that stand before the records. A machine with 1,024 CPUs and 100 events has under 1 MiB of ids.
const MAX_HEAD_BYTES: u64 = 64 << 20;

/// What stands before the first record.
#[derive(Debug, Default)]
pub struct Header {
    /// Byte order.
    pub order: Order,
    /// Whether metadata come as records, as from a pipe.
    pub piped: bool,
    /// Length of the data section; None where it runs to the end of the input.
    pub data_bytes: Option<u64>,
    /// Numbers of the features whose sections follow the records.
    pub features: Vec<u32>,
    /// The events and their ids.
    pub attributes: Vec<(Attribute, Vec<u64>)>,
}

/// Whether a file begins as a recording does.
pub fn begins_recording(path: &std::path::Path) -> bool {
    let mut magic = [0; 8];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && [b"PERFILE2", b"2ELIFREP", b"PERFFILE"].contains(&&magic)
}

/// Reads everything up to the first record. What stands behind the records (as `perf inject` of a pipe leaves the events) is read from `file`, where the input is
/// one.
///
/// # Errors
/// [`Error::Malformed`] where this is not a recording, or its header is cut off or contradicts itself.
pub fn read<R: Read>(source: &mut Source<R>, name: &str, file: Option<&File>) -> Result<Header> {
    let io = |e| Error::file(name)(e);
    let malformed = |offset: u64, why: String| Error::Malformed { what: name.into(), offset, why };
    let cut = |at: u64, needed: u64| malformed(at, format!("the file ends inside its header, which is {needed} bytes long"));
    let mut head = Vec::new();
    let complete = source.fill(PIPE_BYTES, &mut head).map_err(io)?;
    let order = match head.first_chunk::<8>() {
        Some(b"PERFILE2") => Order::Little,
        Some(b"2ELIFREP") => Order::Big,
        // Version 1 has one magic for both orders; perf tells them by the size that follows.
        Some(b"PERFFILE") => match Order::Little.u64(&head, 8) {
            Some(PIPE_BYTES | FILE_BYTES) => Order::Little,
            _ => Order::Big,
        },
        _ => return Err(malformed(0, foreign(&head))),
    };
    if !complete {
        return Err(cut(source.position(), PIPE_BYTES));
    }
    let size = order.u64(&head, 8).unwrap_or(0);
    if size == PIPE_BYTES {
        return Ok(Header { order, piped: true, ..Header::default() });
    }
    let mut rest = Vec::new();
    if !source.fill(FILE_BYTES - PIPE_BYTES, &mut rest).map_err(io)? {
        return Err(cut(source.position(), FILE_BYTES));
    }
    head.append(&mut rest);
    let word = |at| order.u64(&head, at).unwrap_or(0);
    let (entry_bytes, attrs_at, attrs_bytes, data_at, data_bytes) = (word(16), word(24), word(32), word(40), word(48));
    if !(FILE_BYTES..=MAX_HEAD_BYTES).contains(&data_at) {
        return Err(malformed(
            40,
            format!("the records are said to begin at byte {data_at}, needs {FILE_BYTES} to {MAX_HEAD_BYTES}"),
        ));
    }
    let features = (0..256).filter(|&f| word(72 + f as usize / 64 * 8) >> (f % 64) & 1 == 1).collect();
    let complete = source.fill(data_at - FILE_BYTES, &mut rest).map_err(io)?;
    if !complete {
        return Err(cut(source.position(), data_at));
    }
    head.append(&mut rest);
    let places = Places { head: &head, file };
    let attributes = sections(order, &places, entry_bytes, attrs_at, attrs_bytes).ok_or_else(|| {
        let is_behind = attrs_at >= head.len() as u64 && file.is_none();
        let why =
            if is_behind { ": they stand behind the records, and a pipe cannot be read back; give the file itself" } else { "" };
        malformed(24, format!("{attrs_bytes} bytes of event attributes at byte {attrs_at} cannot be read{why}"))
    })?;
    // A recorder that was killed leaves 0: the records then go on to the end of the file.
    Ok(Header { order, piped: false, data_bytes: (data_bytes > 0).then_some(data_bytes), features, attributes })
}

/// Where attributes and ids may stand.
struct Places<'a> {
    /// What stands before the records.
    head: &'a [u8],
    /// All of it.
    file: Option<&'a File>,
}

impl Places<'_> {
    fn bytes(&self, at: u64, bytes: u64) -> Option<Vec<u8>> {
        let end = at.checked_add(bytes)?;
        if let Some(in_head) = self.head.get(usize::try_from(at).ok()?..usize::try_from(end).ok()?) {
            return Some(in_head.to_vec());
        }
        let file = self.file.filter(|file| bytes <= MAX_HEAD_BYTES && file.metadata().is_ok_and(|it| end <= it.len()))?;
        let mut behind = vec![0; usize::try_from(bytes).ok()?];
        file.read_exact_at(&mut behind, at).ok()?;
        Some(behind)
    }
}

/// The attribute section: attributes of `entry_bytes`, each with the place of its ids at its end.
fn sections(order: Order, places: &Places<'_>, entry_bytes: u64, at: u64, bytes: u64) -> Option<Vec<(Attribute, Vec<u64>)>> {
    let entry_bytes = usize::try_from(entry_bytes).ok().filter(|&n| n > 16)?;
    let section = places.bytes(at, bytes)?;
    // All of them together: each may name the same place again.
    let mut ids_left = MAX_HEAD_BYTES;
    let mut entry = |entry: &[u8]| {
        let (attribute, _) = Attribute::parse(order, entry)?;
        let (ids_at, ids_bytes) = (order.u64(entry, entry_bytes - 16)?, order.u64(entry, entry_bytes - 8)?);
        ids_left = ids_left.checked_sub(ids_bytes)?;
        let ids = places.bytes(ids_at, ids_bytes)?.chunks_exact(8).filter_map(|id| order.u64(id, 0)).collect();
        Some((attribute, ids))
    };
    section.chunks_exact(entry_bytes).map(&mut entry).collect()
}

/// Why these first bytes are not a recording.
fn foreign(head: &[u8]) -> String {
    if head.is_empty() {
        return "the file is empty, not a recording by perf record".into();
    }
    let compressed: [(&[u8], &str, &str); 4] = [
        (&[0x1f, 0x8b], "gzip", "zcat"),
        (&[0xfd, b'7', b'z', b'X', b'Z'], "xz", "xzcat"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd", "zstdcat"),
        (b"BZh", "bzip2", "bzcat"),
    ];
    if let Some((_, format, cat)) = compressed.iter().find(|(magic, ..)| head.starts_with(magic)) {
        return format!("it is compressed by {format}: decompress it first, or give standard input what {cat} writes");
    }
    let first = &head[..head.len().min(8)];
    let hex: Vec<_> = first.iter().map(|b| format!("{b:02x}")).collect();
    let shown: String = first.iter().map(|&b| if b.is_ascii_graphic() { char::from(b) } else { '.' }).collect();
    format!("it is not a recording by perf record: it begins with {} ({shown}), not with PERFILE2", hex.join(" "))
}
