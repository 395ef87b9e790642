//! A document without what tells whose machine it is: command lines, paths, names of host and user.

use std::collections::BTreeSet;

use serde_json::Value;

/// What must not be in a file for others.
#[derive(Clone, Debug, Default)]
pub struct Private {
    /// Names of host and user, folders: the longest first.
    names: Vec<String>,
}

/// What stands for something private.
const INSTEAD: &str = "…";

/// Keys whose values are left out whole: what was typed, and where.
const LEFT_OUT: [&str; 1] = ["command"];

/// Paths that are the same on every machine.
const PUBLIC: [&str; 7] = ["/sys", "/proc", "/dev", "/usr/lib", "/usr/bin", "/usr/share", "/etc/passwd"];

impl Private {
    /// These names; what is shorter than three letters is in too many words to be told from them.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let mut names: Vec<String> = names.into_iter().filter(|name| name.len() > 2 && name != "localhost").collect();
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        names.dedup();
        Self { names }
    }

    /// Takes all of it out of a document.
    pub fn remove_from(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.without(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.remove_from(value)),
            Value::Object(fields) => {
                for (key, value) in fields.iter_mut() {
                    match value {
                        Value::Array(values) if LEFT_OUT.contains(&key.as_str()) => values.clear(),
                        value => self.remove_from(value),
                    }
                }
            }
            _ => {}
        }
    }

    fn without(&self, text: &str) -> String {
        let named = self.names.iter().fold(text.to_owned(), |text, name| text.replace(name.as_str(), INSTEAD));
        // A path ends where a blank, a quote or a bracket is.
        let mut kept = String::new();
        let mut word = String::new();
        for letter in named.chars().chain([' ']) {
            if letter.is_whitespace() || "'\"()[],;".contains(letter) {
                // It begins a word, or what follows `=` or `:`; events (`cpu/cycles/`) have slashes inside.
                let begins = |at: &usize| *at == 0 || word[..*at].ends_with(['=', ':']);
                let path = word.find('/').filter(begins).map(|at| (at, &word[at..])).filter(|(_, path)| is_private(path));
                kept += &path.map_or(word.clone(), |(at, _)| format!("{}{INSTEAD}", &word[..at]));
                word.clear();
                kept.push(letter);
            } else {
                word.push(letter);
            }
        }
        kept.pop();
        kept
    }
}

/// A path of two parts and more that is not the same everywhere.
fn is_private(path: &str) -> bool {
    path.starts_with('/')
        && path.trim_end_matches('/').matches('/').count() > 1
        && !PUBLIC.iter().any(|public| path.starts_with(public))
}

/// Every text of a document that is not one of a few words of ours, each once: what is shown before it is written.
pub fn texts(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    gather(value, &mut found);
    found
}

fn gather(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            found.insert(text.clone());
        }
        Value::Array(values) => values.iter().for_each(|value| gather(value, found)),
        Value::Object(fields) => fields.values().for_each(|value| gather(value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_whose_it_is_is_left() {
        let private = Private::new(["build-17.example".into(), "alice".into(), "/home/alice".into(), "vm".into()]);
        let mut value = serde_json::json!({
            "command": ["/home/alice/bin/perftax", "field-test"],
            "kernel": "6.1.0-18-amd64",
            "warnings": [{"message": "cannot write /srv/data/alice/x (on build-17.example); see /sys/devices/cpu/format"}],
            "event": "cpu/cycles/u", "ratio": "a/b", "cpu": "Intel(R) Xeon(R)", "option": "uprobe:/opt/x/y+0x10",
        });
        private.remove_from(&mut value);
        assert_eq!(
            value,
            serde_json::json!({
                "command": [],
                "kernel": "6.1.0-18-amd64",
                "warnings": [{"message": "cannot write … (on …); see /sys/devices/cpu/format"}],
                "event": "cpu/cycles/u", "ratio": "a/b", "cpu": "Intel(R) Xeon(R)", "option": "uprobe:…",
            })
        );
        assert_eq!(texts(&value).len(), 6);
    }
}
