//! What messages are called together, and threads that are at none: who ended others' waiting, and what was worked on while a message waited for a thread, adds up by it.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::label::{Labels, normal};

/// Kinds by number, from 1; 0 is not known.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    of_messages: FxHashMap<u64, u32>,
    /// Of a thread that is at no message, and of messages without a label that it is at.
    of_threads: FxHashMap<u32, [u32; 2]>,
    names: Vec<String>,
}

impl Kinds {
    /// By messages' labels without what differs from one to the next, else by the names of threads.
    pub fn of(labels: &Labels, threads: &BTreeMap<u32, String>) -> Self {
        let mut kinds = Self::default();
        let mut numbers: FxHashMap<String, u32> = FxHashMap::default();
        let mut number = |name: String| {
            let names = &mut kinds.names;
            *numbers.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                names.len() as u32
            })
        };
        let mut by_text: FxHashMap<&str, u32> = FxHashMap::default();
        for (id, text) in labels.iter() {
            let kind = *by_text.entry(text).or_insert_with(|| number(format!("messages of {}", normal(text))));
            kinds.of_messages.insert(id, kind);
        }
        for (tid, name) in threads {
            let both = [number(format!("thread {name}")), number(format!("messages of thread {name}"))];
            kinds.of_threads.insert(*tid, both);
        }
        kinds
    }

    /// Of a thread at a message, or at none.
    pub fn kind(&self, tid: u32, id: Option<u64>) -> u32 {
        let by_label = id.and_then(|id| self.of_messages.get(&id)).copied();
        by_label.or_else(|| self.of_threads.get(&tid).map(|both| both[usize::from(id.is_some())])).unwrap_or(0)
    }

    /// What a kind is called.
    pub fn name(&self, kind: u32) -> Option<&str> {
        self.names.get((kind as usize).checked_sub(1)?).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_of_a_kind_by_their_labels_and_else_by_their_threads() {
        let mut labels = Labels::default();
        labels.add(1, "SELECT 7");
        labels.add(2, "SELECT 8");
        let threads = BTreeMap::from([(10, "worker".to_string()), (11, "worker".to_string())]);
        let kinds = Kinds::of(&labels, &threads);
        let name = |tid, id| kinds.name(kinds.kind(tid, id));
        assert_eq!(name(10, Some(1)), Some("messages of SELECT ?"));
        assert_eq!(kinds.kind(10, Some(1)), kinds.kind(11, Some(2)));
        assert_eq!([name(10, Some(3)), name(11, Some(4))], [Some("messages of thread worker"); 2]);
        assert_eq!([name(10, None), name(12, None)], [Some("thread worker"), None]);
    }
}
