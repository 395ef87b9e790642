//! Probes in programs: `uprobe:PATH:SYMBOL[+0xOFFSET]`, `uprobe:PATH+0xOFFSET`, and `uretprobe:` for returns.

use std::path::{Path, PathBuf};

use perftax_doc::Mechanism;
use perftax_symbols::elf::{CodeSymbol, Elf};

use crate::error::{Error, Result};

use super::catalog::Catalog;
use super::parse::Resolved;
use super::pmu_event::number;
use super::scan::{Item, syntax};
use super::{ABSENT_PMU, Event, UprobeTarget, nearest};

/// `format/retprobe` of every kernel so far: bit 0 of config (kernel/events/core.c, Linux 4.17).
const RETURN_BIT: u64 = 1;

/// Resolves a probe, which stands at the item.
///
/// # Errors
/// `EventSyntax` for a text of another shape, an unknown symbol (with the nearest) or a place that is no code; `File` or
/// `Malformed` for the program.
pub(super) fn resolve(text: &str, item: &Item, catalog: &Catalog) -> Result<Resolved> {
    let written = &text[item.start..item.end];
    let on_return = written.starts_with("uretprobe:");
    let body_at = item.start + written.find(':').map_or(0, |colon| colon + 1);
    let body = &text[body_at..item.end];
    let path_end = body.find(':').unwrap_or(body.len());
    let (path_text, is_offset) = match body[..path_end].rsplit_once("+0x") {
        Some((path, _)) => (path, true),
        None => (&body[..path_end], false),
    };
    if path_text.is_empty() {
        return Err(syntax(text, body_at, "a program's path is missing: uprobe:PATH:SYMBOL or uprobe:PATH+0xOFFSET"));
    }
    let path = find_program(path_text)?;
    let (place_at, place) = if is_offset {
        (body_at + path_text.len(), &body[path_text.len()..path_end])
    } else if path_end == body.len() {
        return Err(syntax(text, item.end, "expected :SYMBOL or +0xOFFSET behind the program"));
    } else {
        let rest = &body[path_end + 1..];
        (body_at + path_end + 1, rest.split(':').next().unwrap_or_default())
    };
    let offset = resolve_place(text, place_at, place, path_text, &path)?;
    let behind = place_at + place.len();
    let pmu = catalog.pmu("uprobe");
    let mut event = Event::bare(written, pmu.map_or(ABSENT_PMU, |pmu| pmu.pmu_type), 0, Mechanism::Uprobe);
    if on_return {
        let field = pmu.and_then(|pmu| pmu.formats.get("retprobe"));
        event.config = field.map_or(RETURN_BIT, |field| field.deposit(0, 1));
    }
    event.config2 = offset;
    event.uprobe = Some(UprobeTarget { path, offset, on_return });
    Ok(Resolved::of(event, "uprobe", ((behind + 1).min(item.end), item.end)))
}

/// A probe on the first byte of our own program: its header, where no instruction stands and nothing ever passes. Whether it opens says whether probes
/// may be had.
///
/// # Errors
/// Where this machine has no uprobes, or our own program's path cannot be read.
pub(crate) fn harmless(catalog: &Catalog) -> Result<Event> {
    let link = Path::new("/proc/self/exe");
    let path = std::fs::read_link(link).map_err(Error::file(link))?;
    let pmu_type = catalog.pmu("uprobe").map_or(ABSENT_PMU, |pmu| pmu.pmu_type);
    let mut event = Event::bare("a uprobe", pmu_type, 0, Mechanism::Uprobe);
    event.uprobe = Some(UprobeTarget { path, offset: 0, on_return: false });
    event.check_supported(catalog)?;
    Ok(event)
}

/// The whole path: the kernel resolves what it is given from its own current directory at open, ours may change.
fn find_program(path: &str) -> Result<PathBuf> {
    Path::new(path).canonicalize().map_err(Error::file(path))
}

/// `SYMBOL`, `SYMBOL+0x4` or `+0x1234`, to an offset in the file.
fn resolve_place(text: &str, at: usize, place: &str, path_text: &str, path: &Path) -> Result<u64> {
    let elf = Elf::open(path)?;
    let code = elf.segments().code();
    let is_code = |offset: &u64| code.iter().any(|(from, to)| (from..to).contains(&offset));
    let (symbol, extra) = place.split_once('+').map_or((place, None), |(symbol, extra)| (symbol, Some(extra)));
    let extra_at = at + symbol.len() + 1;
    let extra = match extra {
        None => 0,
        Some(extra) => number(extra).ok_or_else(|| syntax(text, extra_at, &format!("'{extra}' is not an offset such as 0x4")))?,
    };
    let start = if symbol.is_empty() && place.starts_with('+') { 0 } else { start_of(text, at, symbol, path_text, &elf)? };
    let offset = start.checked_add(extra).filter(is_code);
    offset.ok_or_else(|| {
        let code: Vec<String> = code.iter().map(|(from, to)| format!("{from:#x} to {to:#x}")).collect();
        let why = format!("no code is there: the program's code stands at file offsets {}", code.join(", "));
        syntax(text, at, &why)
    })
}

fn start_of(text: &str, at: usize, symbol: &str, path_text: &str, elf: &Elf) -> Result<u64> {
    let functions = elf.code_symbols();
    let found: Vec<&CodeSymbol> = functions.iter().filter(|function| function.name == symbol).collect();
    match found.as_slice() {
        [] if functions.is_empty() => {
            let why = format!("{path_text} has no symbols (stripped): give the place as uprobe:{path_text}+0xOFFSET");
            Err(syntax(text, at, &why))
        }
        [] => {
            let near = nearest::among(symbol, functions.iter().map(|function| function.name.clone()));
            let hint = if near.is_empty() { String::new() } else { format!("; nearest: {}", near.join(", ")) };
            let count = functions.len();
            let why =
                format!("{path_text} names no such function ({count} in its symbol tables, stripped ones not among them){hint}");
            Err(syntax(text, at, &why))
        }
        [only] if only.is_indirect => {
            let why = format!(
                "{symbol} is an indirect function: the probe would sit on its resolver, which runs once, at {:#x}; \
                 name the variant that runs, by its file offset",
                only.offset
            );
            Err(syntax(text, at, &why))
        }
        [only] => Ok(only.offset),
        several => {
            let places: Vec<String> =
                several.iter().map(|function| format!("uprobe:{path_text}+{:#x}", function.offset)).collect();
            Err(syntax(text, at, &format!("{symbol} stands in several places: write one of {}", places.join(", "))))
        }
    }
}
