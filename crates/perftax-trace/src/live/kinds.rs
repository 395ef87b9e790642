//! Kinds of messages that are told apart while they come.

use rustc_hash::FxHashMap;

use crate::label::normal;

/// Kinds that are told apart in a recording; what comes when there are so many is of [`OTHER`].
const MAX: usize = 1 << 12;
const OTHER: &str = "(other)";
/// Texts whose kind is remembered.
const MAX_TEXTS: usize = 1 << 14;

/// Kinds by number, from 0.
#[derive(Default)]
pub(super) struct LiveKinds {
    names: Vec<String>,
    numbers: FxHashMap<String, u32>,
    by_text: FxHashMap<String, u32>,
}

impl LiveKinds {
    /// Of messages that are called so, values aside.
    pub fn of_text(&mut self, text: &str) -> u32 {
        if let Some(number) = self.by_text.get(text) {
            return *number;
        }
        let number = self.number(normal(text));
        if self.by_text.len() >= MAX_TEXTS {
            self.by_text.clear();
        }
        self.by_text.insert(text.into(), number);
        number
    }

    /// Of messages without a text: by the thread that began them.
    pub fn of_thread(&mut self, name: &str) -> u32 {
        match self.numbers.get(name) {
            Some(number) => *number,
            None => self.number(name.into()),
        }
    }

    /// What a kind is called.
    pub fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or(OTHER, String::as_str)
    }

    fn number(&mut self, name: String) -> u32 {
        let name = if self.names.len() >= MAX && !self.numbers.contains_key(&name) { OTHER.into() } else { name };
        let names = &mut self.names;
        *self.numbers.entry(name).or_insert_with_key(|name| {
            names.push(name.clone());
            names.len() as u32 - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_kinds_than_are_told_apart() {
        let mut kinds = LiveKinds::default();
        let first = kinds.of_text("GET /a?n=1");
        assert_eq!(kinds.of_text("GET /a?n=2"), first);
        for i in 0..2 * MAX {
            let text: String = i.to_string().chars().map(|digit| char::from(b'a' + digit as u8 - b'0')).collect();
            kinds.of_text(&text);
        }
        assert_eq!(kinds.names.len(), MAX + 1);
        let other = kinds.of_thread("somebody");
        assert_eq!((kinds.name(other), kinds.name(first)), (OTHER, "GET /a?n=?"));
    }
}
