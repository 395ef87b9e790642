//! What messages are called: texts, each kept once, and their normal forms.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

/// Texts of messages. Equal ones are kept once.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    texts: Vec<String>,
    numbers: FxHashMap<String, u32>,
    by_message: BTreeMap<u64, u32>,
    bytes: usize,
    /// Texts of which the normal form alone was kept, since so many different ones came.
    pub shortened: u64,
}

impl Labels {
    /// Of a text so many characters are kept.
    pub const LONGEST: usize = 1024;
    /// Different texts are kept up to this size, bytes; of others the normal form.
    pub const MAX_BYTES: usize = 64 << 20;

    /// Calls a message by a text.
    pub fn add(&mut self, id: u64, text: &str) {
        let end = text.char_indices().nth(Self::LONGEST).map_or(text.len(), |(end, _)| end);
        let text = &text[..end];
        let number = match self.numbers.get(text) {
            Some(number) => *number,
            None if self.bytes + text.len() <= Self::MAX_BYTES => self.keep(text),
            None => {
                self.shortened += 1;
                let text = normal(text);
                self.numbers.get(&text).copied().unwrap_or_else(|| self.keep(&text))
            }
        };
        self.by_message.insert(id, number);
    }

    fn keep(&mut self, text: &str) -> u32 {
        let number = self.texts.len() as u32;
        self.bytes += text.len();
        self.texts.push(text.into());
        self.numbers.insert(text.into(), number);
        number
    }

    /// What a message is called.
    pub fn get(&self, id: &u64) -> Option<&String> {
        self.number(*id).map(|number| &self.texts[number as usize])
    }

    /// The number of a message's text.
    pub fn number(&self, id: u64) -> Option<u32> {
        self.by_message.get(&id).copied()
    }

    /// A text by its number.
    pub fn text(&self, number: u32) -> Option<&str> {
        self.texts.get(number as usize).map(String::as_str)
    }

    /// Messages that have one.
    pub fn len(&self) -> usize {
        self.by_message.len()
    }

    /// Whether no message has one.
    pub fn is_empty(&self) -> bool {
        self.by_message.is_empty()
    }

    /// Messages with their texts, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &str)> {
        self.by_message.iter().map(|(id, number)| (*id, self.texts[*number as usize].as_str()))
    }
}

/// A statement without what differs from one time to the next: ? for each number and quoted text, one for a list of them, blanks made one.
/// Names stay, also such with digits, and those in double quotes.
pub fn normal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.trim().char_indices().peekable();
    let text = text.trim();
    while let Some((at, c)) = rest.next() {
        let follows_name = out.chars().next_back().is_some_and(is_of_name);
        match c {
            '\'' => {
                // A quote within is written twice, or after a backslash where E stands before.
                let mut before = out.chars().rev();
                let escapes = matches!(before.next(), Some('e' | 'E')) && !before.next().is_some_and(is_of_name);
                if escapes {
                    out.pop();
                }
                while let Some((_, c)) = rest.next() {
                    match c {
                        '\\' if escapes => drop(rest.next()),
                        '\'' if rest.next_if(|(_, next)| *next == '\'').is_none() => break,
                        _ => {}
                    }
                }
                value(&mut out);
            }
            '"' => {
                out.push(c);
                for (_, c) in rest.by_ref() {
                    out.push(c);
                    if c == '"' {
                        break;
                    }
                }
            }
            '0'..='9' if !follows_name => {
                let mut last = c;
                // 1e-5, 0x1f, 3.14.
                while let Some((_, c)) = rest.next_if(|(_, c)| {
                    is_of_name(*c)
                        || *c == '.'
                        || (matches!(c, '+' | '-') && matches!(last, 'e' | 'E') && !text[at..].starts_with("0x"))
                }) {
                    last = c;
                }
                value(&mut out);
            }
            c if c.is_whitespace() => {
                if !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            c => out.push(c),
        }
    }
    out
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// A value; in a list of values the list has one already. A sign belongs to it where nothing stands before that it could be taken from.
fn value(out: &mut String) {
    if out.ends_with('-') && out[..out.len() - 1].trim_end().ends_with(['(', ',', '=', '<', '>', '+', '*', '/']) {
        out.pop();
    }
    match out.trim_end().strip_suffix(',').map(str::trim_end) {
        Some(before) if before.ends_with('?') => out.truncate(before.len()),
        _ => out.push('?'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_left_out() {
        for (text, wanted) in [
            ("UPDATE t1 SET a = a + -48 WHERE id = 17;", "UPDATE t1 SET a = a + ? WHERE id = ?;"),
            ("SELECT  a-5,\n b FROM x WHERE n = 'it''s' AND m=E'a\\'b'", "SELECT a-?, b FROM x WHERE n = ? AND m=?"),
            ("INSERT INTO h VALUES (1, 2.5e-3, 'x', -7, NULL)", "INSERT INTO h VALUES (?, NULL)"),
            ("SELECT \"col 9\", $1, x2 FROM \"it's\" LIMIT 0x1F", "SELECT \"col 9\", $1, x2 FROM \"it's\" LIMIT ?"),
            ("SELECT 'open", "SELECT ?"),
            ("a LIKE'x\\' ORDER BY 2", "a LIKE? ORDER BY ?"),
            ("  END ", "END"),
            ("", ""),
        ] {
            assert_eq!(normal(text), wanted, "{text}");
        }
    }

    #[test]
    fn equal_texts_are_kept_once_and_long_ones_are_cut() {
        let mut labels = Labels::default();
        labels.add(3, "a");
        labels.add(1, "a");
        labels.add(2, &"ü".repeat(2000));
        assert_eq!((labels.number(1), labels.number(3), labels.number(4)), (Some(0), Some(0), None));
        assert_eq!(labels.get(&2).map(|text| text.chars().count()), Some(Labels::LONGEST));
        assert_eq!(labels.iter().map(|(id, _)| id).collect::<Vec<_>>(), [1, 2, 3]);
    }
}
