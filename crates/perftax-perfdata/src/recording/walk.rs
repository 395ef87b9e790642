//! Walking through a recording, record by record.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use perftax_pmu::{Error, Result};

use super::bytes::{Cursor, Order};
use super::compressed::Decompressor;
use super::counts::Counter;
use super::feature::TRACING_DATA;
use super::features::Features;
use super::header::{self, Header};
use super::kind;
use super::observer::Observer;
use super::source::Source;
use super::{Fault, Recording};

/// Length of `struct perf_event_header`.
const RECORD_HEADER_BYTES: usize = 8;
/// All sections together: kernels' symbols and memory maps are the longest.
const MAX_SECTIONS_BYTES: u64 = 1 << 32;
/// A header feature that a bill uses is longer than this only where the file is damaged.
const MAX_FEATURE_BYTES: u64 = 16 << 20;

/// Reads a recording from a stream; `file`: the same, where it can be read anywhere.
pub fn stream(input: impl Read, file: Option<&File>, name: &str, observer: Option<&mut dyn Observer>) -> Result<Recording> {
    let mut source = Source::new(input);
    let (counter, piped, fault) = whole(&mut source, file, name, observer)?;
    Ok(recording(counter, name, piped, fault))
}

/// Reads the directory of `perf record --threads`: `data` with the header, `data.0`, `data.1` … with records only.
pub fn directory(path: &Path, name: &str, observer: Option<&mut dyn Observer>) -> Result<Recording> {
    let open = |file: &Path| File::open(file).map_err(Error::file(file));
    let head = path.join("data");
    let file = open(&head)?;
    let mut source = Source::new(&file);
    let (mut counter, piped, mut fault) = whole(&mut source, Some(&file), &head.display().to_string(), observer)?;
    let parts = parts(path)?;
    for (number, part) in &parts {
        let in_part = records(&mut Source::new(open(part)?), &mut counter, None).map_err(Error::file(part))?;
        fault = fault.or(in_part.map(|f| Fault { why: format!("{} (in data.{number})", f.why), ..f }));
    }
    // They are numbered from 0 on.
    let missing = (0..).zip(&parts).find(|(expected, (number, _))| expected != number).map(|(expected, _)| expected);
    if let Some(number) = missing {
        fault = fault.or(Some(Fault { at_byte: 0, why: format!("its part data.{number} is missing") }));
    }
    Ok(recording(counter, name, piped, fault))
}

/// The numbered files of a folder, in the order of their numbers.
fn parts(folder: &Path) -> Result<Vec<(u32, PathBuf)>> {
    let entries =
        std::fs::read_dir(folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>).map_err(Error::file(folder))?;
    let numbered = |entry: std::fs::DirEntry| {
        let number = entry.file_name().to_str()?.strip_prefix("data.")?.parse().ok()?;
        Some((number, entry.path()))
    };
    let mut parts: Vec<_> = entries.into_iter().filter_map(numbered).collect();
    parts.sort_unstable();
    Ok(parts)
}

fn recording(counter: Counter<'_>, name: &str, piped: bool, fault: Option<Fault>) -> Recording {
    let (mut events, counts, features) = counter.finish();
    events.iter_mut().for_each(|event| event.is_finished = fault.is_none());
    Recording { name: name.into(), piped, events, counts, features, fault }
}

fn whole<'a, R: Read>(
    source: &mut Source<R>,
    file: Option<&File>,
    name: &str,
    observer: Option<&'a mut dyn Observer>,
) -> Result<(Counter<'a>, bool, Option<Fault>)> {
    let Header { order, piped, data_bytes, features, attributes } = header::read(source, name, file)?;
    let mut counter = Counter::new(order, observer);
    for (attribute, ids) in attributes {
        counter.add_event(attribute, ids);
    }
    let mut fault = records(source, &mut counter, data_bytes).map_err(Error::file(name))?;
    if !piped && data_bytes.is_none() {
        let why = "the header gives the records no length: perf record was killed before it finished the file".into();
        fault = Some(fault.unwrap_or(Fault { at_byte: source.position(), why }));
    }
    if fault.is_none() && !piped {
        fault = sections(source, order, &features, &mut counter.features).map_err(Error::file(name))?;
    }
    Ok((counter, piped, fault))
}

/// Counts records up to the end of the data section, or of the input where its length is not known.
fn records<R: Read>(
    source: &mut Source<R>,
    counter: &mut Counter<'_>,
    data_bytes: Option<u64>,
) -> std::io::Result<Option<Fault>> {
    let order = counter.order();
    let end = data_bytes.map(|n| source.position().saturating_add(n));
    let mut decompressor = Decompressor::new();
    let mut inline = Vec::new();
    while end.is_none_or(|end| source.position() < end) {
        let at_byte = source.position();
        let fault = |why: String| Ok(Some(Fault { at_byte, why }));
        let head = source.take(RECORD_HEADER_BYTES)?;
        let (Some(kind), Some(misc), Some(size)) = (order.u32(head, 0), order.u16(head, 4), order.u16(head, 6)) else {
            return match (head.is_empty(), end) {
                (true, None) => Ok(pending(&decompressor, at_byte)),
                (true, Some(end)) => fault(format!("the file ends here, its records should go on to byte {end}")),
                (false, _) => fault("the file ends inside the head of a record".into()),
            };
        };
        let size = usize::from(size);
        if size < RECORD_HEADER_BYTES {
            return fault(format!("a record of type {kind} says it is {size} bytes long, needs at least 8"));
        }
        if end.is_some_and(|end| at_byte + size as u64 > end) {
            return fault(format!("a record of type {kind} says it is {size} bytes long, more than the data section still has"));
        }
        let body = source.take(size - RECORD_HEADER_BYTES)?;
        if body.len() < size - RECORD_HEADER_BYTES {
            return fault(format!("the file ends inside a record of {size} bytes (type {kind})"));
        }
        counter.record(kind, misc, body);
        // What else there may be of a record.
        let compressed = match kind {
            kind::COMPRESSED => Some(body),
            kind::COMPRESSED2 => Cursor::new(order, body).u64().and_then(|n| body[8..].get(..usize::try_from(n).ok()?)),
            kind::HEADER_TRACING_DATA | kind::AUXTRACE => {
                let (fields_bytes, stated) = match kind {
                    kind::AUXTRACE => (kind::AUXTRACE_BYTES, order.u64(body, 0)),
                    _ => (4, order.u32(body, 0).map(u64::from)),
                };
                let inline_bytes = behind(body, fields_bytes, stated);
                if kind == kind::HEADER_TRACING_DATA && inline_bytes == 0 {
                    counter.features.take(order, TRACING_DATA, body.get(4..).unwrap_or(&[]));
                }
                if !data_behind(source, counter, kind, inline_bytes, &mut inline)? {
                    return fault(format!("the file ends inside the {inline_bytes} bytes that follow a record of type {kind}"));
                }
                continue;
            }
            _ => continue,
        };
        let Some(compressed) = compressed else {
            return fault("a compressed record says that it holds more than its own length".into());
        };
        if let Err(why) = decompressor.feed(compressed, order, |kind, misc, body| counter.record(kind, misc, body)) {
            return fault(why);
        }
    }
    Ok(pending(&decompressor, source.position()))
}

/// Reads the data that follow a record, or passes over them; tells whether all were there.
fn data_behind<R: Read>(
    source: &mut Source<R>,
    counter: &mut Counter<'_>,
    kind: u32,
    bytes: u64,
    into: &mut Vec<u8>,
) -> std::io::Result<bool> {
    let is_wanted = bytes <= MAX_FEATURE_BYTES && (kind == kind::HEADER_TRACING_DATA || counter.has_spe());
    if !is_wanted {
        if kind == kind::AUXTRACE {
            counter.aux(None);
        }
        return source.skip(bytes);
    }
    let is_read = source.fill(bytes, into)?;
    match kind {
        kind::AUXTRACE => counter.aux(Some(into)),
        _ if bytes > 0 => counter.features.take(counter.order(), TRACING_DATA, into),
        _ => {}
    }
    Ok(is_read)
}

/// Bytes of data that follow a record, of so many as it states: none where the record itself has room for them (simpleperf writes tracing data so, perf behind
/// the record).
fn behind(body: &[u8], fields_bytes: u64, stated_bytes: Option<u64>) -> u64 {
    let stated_bytes = stated_bytes.unwrap_or(0);
    if body.len() as u64 >= fields_bytes.saturating_add(stated_bytes) { 0 } else { stated_bytes }
}

fn pending(decompressor: &Decompressor, at_byte: u64) -> Option<Fault> {
    decompressor.has_pending().then(|| Fault { at_byte, why: "the compressed records end inside a record".into() })
}

/// Reads the sections of header features, which follow the records in a file.
fn sections<R: Read>(
    source: &mut Source<R>,
    order: Order,
    numbers: &[u32],
    features: &mut Features,
) -> std::io::Result<Option<Fault>> {
    let cut = |at_byte| Ok(Some(Fault { at_byte, why: "the file ends inside its header features".into() }));
    let mut table = Vec::new();
    if !source.fill(numbers.len() as u64 * 16, &mut table)? {
        return cut(source.position());
    }
    let mut cursor = Cursor::new(order, &table);
    let mut places: Vec<_> = numbers.iter().filter_map(|&n| Some((cursor.u64()?, cursor.u64()?, n))).collect();
    places.sort_unstable();
    let mut section = Vec::new();
    for &(at, bytes, number) in &places {
        if !Features::wants(number) || bytes > MAX_FEATURE_BYTES {
            continue;
        }
        // Sections overlap only where the table is damaged: such a one is left out.
        let Some(gap) = at.checked_sub(source.position()) else { continue };
        if !source.skip(gap)? || !source.fill(bytes, &mut section)? {
            return cut(source.position());
        }
        features.take(order, number, &section);
    }
    // Those that nobody looks at are to be there, too.
    let end = places.iter().map(|(at, bytes, _)| at.saturating_add(*bytes)).max().unwrap_or(0);
    let rest = end.saturating_sub(source.position());
    if rest > MAX_SECTIONS_BYTES || !source.skip(rest)? {
        return cut(source.position());
    }
    Ok(None)
}
