//! Breakpoints and watchpoints: `mem:ADDRESS[/LENGTH][:rwx]`.

use perftax_doc::Mechanism;

use crate::error::Result;

use super::parse::Resolved;
use super::pmu_event::number;
use super::scan::{Item, syntax};
use super::{Event, pmu_types};

/// `HW_BREAKPOINT_R`, `_W`, `_X` (linux/hw_breakpoint.h).
const ACCESS: &[(char, u32)] = &[('r', 1), ('w', 2), ('x', 4)];

/// Execution only.
const EXECUTE: u32 = 4;

/// What perf watches where nothing is said: reads and writes, of four bytes (perf-record(1)).
const DEFAULT_ACCESS: u32 = 1 | 2;
const DEFAULT_DATA_BYTES: u64 = 4;

/// The kernel takes `sizeof(long)` for execution, whatever the instruction's length.
const EXECUTE_BYTES: u64 = size_of::<libc::c_long>() as u64;

/// Lengths that debug registers can watch (SDM vol. 3, 17.2.4; powers of two elsewhere too).
const LENGTHS: [u64; 4] = [1, 2, 4, 8];

/// Resolves `mem:…`, which stands at the item.
///
/// # Errors
/// `EventSyntax` for an address, length or access that no debug register takes.
pub(super) fn resolve(text: &str, item: &Item) -> Result<Resolved> {
    let written = &text[item.start..item.end];
    let body_at = item.start + "mem:".len();
    let body = &text[body_at..item.end];
    let place_end = body.find(':').unwrap_or(body.len());
    let place = &body[..place_end];
    let (address, length) = place.split_once('/').map_or((place, None), |(address, length)| (address, Some(length)));
    let Some(address_value) = number(address) else {
        return Err(syntax(text, body_at, &format!("'{address}' is not an address (decimal, or hexadecimal with 0x)")));
    };
    let mut rest = (body_at + (place_end + 1).min(body.len()), item.end);
    let mut kinds = 0;
    // As in perf: letters behind the first colon are the access if they are r, w, x; otherwise modifiers.
    let letters = text[rest.0..rest.1].split(':').next().unwrap_or_default();
    if !letters.is_empty() && letters.chars().all(|c| "rwx".contains(c)) {
        for (offset, letter) in letters.char_indices() {
            let bit = ACCESS.iter().find(|(known, _)| *known == letter).map_or(0, |(_, bit)| *bit);
            if kinds & bit != 0 {
                return Err(syntax(text, rest.0 + offset, &format!("'{letter}' twice")));
            }
            kinds |= bit;
        }
        rest.0 = (rest.0 + letters.len() + 1).min(item.end);
    }
    if kinds & EXECUTE != 0 && kinds != EXECUTE {
        return Err(syntax(text, rest.0.min(item.end), "x does not go with r or w: a debug register watches code or data"));
    }
    let kinds = if kinds == 0 { DEFAULT_ACCESS } else { kinds };
    let length_at = body_at + address.len() + 1;
    let default = if kinds == EXECUTE { EXECUTE_BYTES } else { DEFAULT_DATA_BYTES };
    let bytes = match length {
        None => default,
        Some(length) => match number(length).filter(|bytes| LENGTHS.contains(bytes)) {
            Some(bytes) => bytes,
            None => return Err(syntax(text, length_at, &format!("length '{length}' cannot be watched: 1, 2, 4 or 8 bytes"))),
        },
    };
    let mut event = Event::bare(written, pmu_types::BREAKPOINT, 0, Mechanism::Breakpoint);
    (event.config1, event.config2, event.breakpoint_type) = (address_value, bytes, kinds);
    Ok(Resolved::of(event, "breakpoint", rest))
}
