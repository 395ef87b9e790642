//! Cutting a list of events into items, and pointing at the place where a text is wrong.

use crate::error::{Error, Result};

/// Longest text that an error repeats in full, in characters; beyond it, the neighbourhood of the place is shown.
const SHOWN_CHARS: usize = 100;

/// An error that shows the text with a mark under byte `at`.
pub(super) fn syntax(text: &str, at: usize, why: &str) -> Error {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let column = text.char_indices().take_while(|(byte, _)| *byte < at).count();
    let skipped = column.saturating_sub(SHOWN_CHARS / 2);
    let shown: String = line.chars().skip(skipped).take(SHOWN_CHARS).collect();
    let mark = " ".repeat(column - skipped);
    Error::EventSyntax { text: shown.clone(), why: format!("{why}\n  {shown}\n  {mark}^") }
}

/// One event of the list, as byte ranges of the whole text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// First byte of the item.
    pub(super) start: usize,
    /// One behind the last byte, modifiers included.
    pub(super) end: usize,
    /// For `pmu/terms/mods`: the places of the two slashes.
    pub(super) slashes: Option<(usize, usize)>,
}

/// A group in braces, or one event alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cluster {
    pub(super) items: Vec<Item>,
    pub(super) braces: bool,
    /// Modifiers behind the closing brace: start and end.
    pub(super) modifiers: (usize, usize),
}

/// Prefixes whose events hold slashes that do not enclose terms.
const FREE_FORM: &[&str] = &["mem:", "uprobe:", "uretprobe:"];

/// Cuts the whole text.
///
/// # Errors
/// `EventSyntax` for an empty item, an unbalanced brace or slash, or a stray character.
pub(super) fn clusters(text: &str) -> Result<Vec<Cluster>> {
    let mut found = Vec::new();
    let mut at = skip_blank(text, 0);
    loop {
        let (cluster, next) = if text[at..].starts_with('{') { group(text, at)? } else { single(text, at)? };
        found.push(cluster);
        at = skip_blank(text, next);
        match text[at..].chars().next() {
            None => return Ok(found),
            Some(',') => at = skip_blank(text, at + 1),
            Some('}') => return Err(syntax(text, at, "no '{' opens this group")),
            Some(_) => return Err(syntax(text, at, "expected ',' or the end")),
        }
    }
}

fn single(text: &str, at: usize) -> Result<(Cluster, usize)> {
    let item = item(text, at)?;
    let next = item.end;
    Ok((Cluster { items: vec![item], braces: false, modifiers: (next, next) }, next))
}

fn group(text: &str, open: usize) -> Result<(Cluster, usize)> {
    let mut items = Vec::new();
    let mut at = skip_blank(text, open + 1);
    loop {
        if text[at..].starts_with('{') {
            return Err(syntax(text, at, "groups do not nest"));
        }
        let item = item(text, at)?;
        at = skip_blank(text, item.end);
        items.push(item);
        match text[at..].chars().next() {
            Some(',') => at = skip_blank(text, at + 1),
            Some('}') => break,
            Some(_) => return Err(syntax(text, at, "expected ',' or '}'")),
            None => return Err(syntax(text, open, "no '}' closes this group")),
        }
    }
    at += 1;
    let mut modifiers = (at, at);
    if text[at..].starts_with(':') {
        modifiers = (at + 1, item_end(text, at + 1));
    }
    Ok((Cluster { items, braces: true, modifiers }, modifiers.1))
}

fn item(text: &str, start: usize) -> Result<Item> {
    let rest = &text[start..];
    let mut slashes = None;
    let mut end = item_end(text, start);
    let is_free_form = FREE_FORM.iter().any(|prefix| rest.starts_with(prefix));
    if !is_free_form && let Some(open) = text[start..end].find('/').map(|i| start + i) {
        let close = closing_slash(text, open)?;
        slashes = Some((open, close));
        end = item_end(text, close + 1);
    }
    let end = start + text[start..end].trim_end().len();
    if end == start {
        return Err(syntax(text, start, "an event is missing here"));
    }
    Ok(Item { start, end, slashes })
}

/// The slash that closes the one at `open`; quoted text does not count.
fn closing_slash(text: &str, open: usize) -> Result<usize> {
    let mut quote: Option<(usize, char)> = None;
    for (offset, c) in text[open + 1..].char_indices() {
        match (quote, c) {
            (None, '/') => return Ok(open + 1 + offset),
            (None, '\'' | '"') => quote = Some((open + 1 + offset, c)),
            (Some((_, opened)), c) if c == opened => quote = None,
            _ => {}
        }
    }
    Err(match quote {
        Some((at, _)) => syntax(text, at, "no quote closes this one"),
        None => syntax(text, open, "no '/' closes these terms"),
    })
}

fn item_end(text: &str, from: usize) -> usize {
    text[from..].find([',', '{', '}']).map_or(text.len(), |i| from + i)
}

fn skip_blank(text: &str, from: usize) -> usize {
    text.len() - text[from..].trim_start().len()
}
