//! Static kernel tracepoints: `sched:sched_switch`, with the number that tracefs gives it.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use perftax_doc::Mechanism;
use perftax_doc::steps::Operation;

use crate::error::{Error, Result};

use super::catalog::{Catalog, entries, number_in};
use super::modifiers::MODIFIER_LETTERS;
use super::nearest;
use super::scan::syntax;
use super::{Event, pmu_types};

/// Resolves `system:name`.
///
/// # Errors
/// `Unsupported` where tracefs is not mounted, `Permission` where it cannot be read, `UnknownEvent` otherwise.
pub(super) fn resolve(text: &str, at: usize, system: &str, name: &str, catalog: &Catalog) -> Result<Event> {
    let full = format!("{system}:{name}");
    if name.contains('*') || name.contains('?') || system.contains('*') {
        let why = format!("a pattern would open many events at once: name each ({} shows them)", Operation::ListEvents);
        return Err(syntax(text, at, &why));
    }
    if !is_name(system) || !is_name(name) {
        return Err(unknown(system, name, catalog));
    }
    let Some(tracefs) = catalog.tracefs() else { return Err(not_mounted(system, name, catalog)) };
    let id = tracefs.join("events").join(system).join(name).join("id");
    match number_in(&id) {
        Ok(id) => Ok(Event::bare(&full, pmu_types::TRACEPOINT, id, Mechanism::Tracepoint)),
        Err(Error::File { source, .. }) if source.kind() == ErrorKind::NotFound => Err(unknown(system, name, catalog)),
        Err(Error::File { source, .. }) if source.kind() == ErrorKind::PermissionDenied => Err(unreadable(&full, tracefs)),
        Err(other) => Err(other),
    }
}

/// Every tracepoint as (system, name), sorted; none where tracefs is not mounted.
pub(super) fn all(catalog: &Catalog) -> Vec<(String, String)> {
    let Some(events) = catalog.tracefs().map(|tracefs| tracefs.join("events")) else { return Vec::new() };
    let of_system = |system: String| {
        let dir = events.join(&system);
        // Each event is a directory; the files beside them (enable, filter) are the system's own knobs.
        let knobs = ["enable", "filter", "format", "hist"];
        let names = entries(&dir).into_iter().filter(move |name| !knobs.contains(&name.as_str()));
        names.map(move |name| (system.clone(), name))
    };
    // Events of ftrace itself are records of its tracers: they have no id that perf_event_open takes.
    let knobs = ["enable", "header_event", "header_page", "ftrace"];
    entries(&events).into_iter().filter(|system| !knobs.contains(&system.as_str())).flat_map(of_system).collect()
}

/// What a tracepoint records, in order, without what all of them record.
pub(super) fn fields(system: &str, name: &str, catalog: &Catalog) -> Vec<String> {
    let Some(tracefs) = catalog.tracefs() else { return Vec::new() };
    let format = fs::read_to_string(tracefs.join("events").join(system).join(name).join("format")).unwrap_or_default();
    let declarations = format.lines().filter_map(|line| line.trim().strip_prefix("field:")?.split(';').next());
    let names = declarations.filter_map(|declaration| {
        let name = declaration.rsplit([' ', '*']).next()?.split('[').next()?;
        (!name.starts_with("common_") && !name.starts_with("__syscall")).then(|| name.to_string())
    });
    names.collect()
}

/// Where the fields of a tracepoint's record lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordFormat {
    fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    name: String,
    offset: usize,
    bytes: usize,
    is_signed: bool,
    /// It holds where in the record the text lies (`__data_loc`): offset, and length above.
    is_location: bool,
}

impl RecordFormat {
    /// Reads the text of a `format` file of tracefs.
    pub fn parse(text: &str) -> Self {
        let field = |line: &str| {
            let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
            let declaration = parts.next()?;
            let name = declaration.rsplit([' ', '*']).next()?.split('[').next()?.to_string();
            let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
            let (offset, bytes) = (number("offset:")?, number("size:")?);
            let is_location = declaration.starts_with("__data_loc");
            Some(Field { name, offset, bytes, is_signed: number("signed:")? != 0, is_location })
        };
        Self { fields: text.lines().filter_map(field).collect() }
    }

    /// Bytes of a record without its texts, and how many texts it has: a text lies behind, of whatever length it is.
    pub fn bytes(&self) -> (usize, usize) {
        let end = self.fields.iter().map(|field| field.offset + field.bytes).max().unwrap_or(0);
        (end, self.fields.iter().filter(|field| field.is_location).count())
    }

    /// A number of a record, with its sign extended where it has one; `None` where the record has no such field, or is too short.
    pub fn number(&self, field: &str, record: &[u8]) -> Option<u64> {
        let field = self.fields.iter().find(|known| known.name == field)?;
        let bytes = record.get(field.offset..field.offset.checked_add(field.bytes)?)?;
        let mut word = [0u8; 8];
        word.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let unused = 64 - 8 * bytes.len() as u32;
        let value = u64::from_le_bytes(word);
        Some(if field.is_signed && unused < 64 { ((value << unused) as i64 >> unused) as u64 } else { value })
    }

    /// A word of a field that holds several, of 64 bits each; `None` where the record has no such field, or fewer.
    pub fn word(&self, field: &str, at: usize, record: &[u8]) -> Option<u64> {
        let field = self.fields.iter().find(|known| known.name == field).filter(|field| at < field.bytes / 8)?;
        let begin = field.offset.checked_add(8 * at)?;
        let bytes = record.get(begin..begin.checked_add(8)?)?;
        Some(u64::from_le_bytes(std::array::from_fn(|i| bytes[i])))
    }

    /// A text of a record, up to its NUL; `None` where the record has no such field, or is too short.
    pub fn text<'a>(&self, field: &str, record: &'a [u8]) -> Option<&'a [u8]> {
        let known = self.fields.iter().find(|known| known.name == field)?;
        let (offset, bytes) = match known.is_location {
            true => self.number(field, record).map(|word| ((word & 0xffff) as usize, (word >> 16 & 0xffff) as usize))?,
            false => (known.offset, known.bytes),
        };
        let bytes = record.get(offset..offset.checked_add(bytes)?)?;
        bytes.split(|byte| *byte == 0).next()
    }
}

impl Catalog {
    /// Where the fields of a tracepoint's record lie.
    ///
    /// # Errors
    /// Where tracefs does not say.
    pub fn record_format(&self, system: &str, name: &str) -> Result<RecordFormat> {
        let Some(tracefs) = self.tracefs() else { return Err(not_mounted(system, name, self)) };
        let path = tracefs.join("events").join(system).join(name).join("format");
        Ok(RecordFormat::parse(&fs::read_to_string(&path).map_err(Error::file(&path))?))
    }
}

fn is_name(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    !text.is_empty() && !text.starts_with('.') && text.chars().all(is_allowed)
}

/// An event that is no tracepoint: `cycels:u` is a mistyped name with a modifier, `shed:sched_switch` a mistyped system.
fn unknown(system: &str, name: &str, catalog: &Catalog) -> Error {
    if name.chars().all(|letter| MODIFIER_LETTERS.contains(letter)) {
        return nearest::unknown(system, catalog);
    }
    nearest::unknown(&format!("{system}:{name}"), catalog)
}

/// A name with a colon may be a tracepoint or a typing error; only the first needs tracefs.
fn not_mounted(system: &str, name: &str, catalog: &Catalog) -> Error {
    let near = nearest::near(system, catalog);
    let is_typing_error = near.first().is_some_and(|close| strsim::damerau_levenshtein(system, close) <= 2);
    if is_typing_error || name.chars().all(|letter| MODIFIER_LETTERS.contains(letter)) {
        return unknown(system, name, catalog);
    }
    Error::Unsupported {
        what: format!("look up tracepoint {system}:{name}"),
        why: "tracefs is not mounted at /sys/kernel/tracing".into(),
        remedy: "sudo mount -t tracefs tracefs /sys/kernel/tracing".into(),
    }
}

fn unreadable(full: &str, tracefs: &Path) -> Error {
    Error::Permission {
        what: format!("look up tracepoint {full}"),
        knob: format!("the mode of {}", tracefs.display()),
        value: "closed to this user".into(),
        needed: "read access (or root)".into(),
        // Its files are its group's to read, and nobody else's (fs/tracefs, TRACE_MODE_READ): opening the folder alone is not enough.
        command: format!("sudo mount -o remount,mode=750,gid={} {}", rustix::process::getegid().as_raw(), tracefs.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::RecordFormat;

    #[test]
    fn numbers_lie_where_the_format_says() {
        let text = "name: x\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                    \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:pid_t pid;\toffset:4;\tsize:4;\tsigned:1;\n";
        let format = RecordFormat::parse(text);
        let mut record = [0u8; 24];
        record[..2].copy_from_slice(&300u16.to_le_bytes());
        record[4..8].copy_from_slice(&(-2i32).to_le_bytes());
        assert_eq!(format.number("common_type", &record), Some(300));
        assert_eq!(format.number("pid", &record), Some(-2i64 as u64));
        assert_eq!(format.number("pid", &record[..6]), None);
        assert_eq!((format.number("comm", &record), format.number("other", &record)), (None, None));
    }
}
