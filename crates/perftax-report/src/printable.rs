//! Texts of others that must not steer a terminal.

/// The text without control characters: names in documents and recordings come from anywhere, and must not steer a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
