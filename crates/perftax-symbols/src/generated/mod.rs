//! Code that a program makes while it runs (Java, Node, .NET, Python's trampolines), named by what its runtime writes about it.

mod jitdump;
mod perf_map;

use std::collections::BTreeMap;

/// Functions of generated code, by where they lie. One that is told later lies where others lay before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GeneratedCode {
    /// By first address: one behind the last, and the name.
    functions: BTreeMap<u64, (u64, String)>,
}

impl GeneratedCode {
    /// The function that an address lies in.
    pub fn function(&self, address: u64) -> Option<&str> {
        let (_, (to, name)) = self.functions.range(..=address).next_back()?;
        (address < *to).then_some(name)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.functions.len()
    }

    /// A function lies there from now on; what lay there before is gone.
    fn put(&mut self, from: u64, bytes: u64, name: String) {
        let to = from.saturating_add(bytes);
        if to == from || name.is_empty() {
            return;
        }
        let name = shortened(name);
        // The ones of before do not overlap each other: all that begin within this one, and the one that begins before it where that reaches into it.
        let before = self.functions.range(..from).next_back().filter(|(_, (end, _))| *end > from).map(|(start, _)| *start);
        let within: Vec<u64> = self.functions.range(from..to).map(|(start, _)| *start).chain(before).collect();
        for start in within {
            self.functions.remove(&start);
        }
        self.functions.insert(from, (to, name));
    }
}

/// Names that are longer are cut: nobody reads them, and moved code copies them.
const MAX_NAME: usize = 1000;

fn shortened(mut name: String) -> String {
    if name.len() > MAX_NAME {
        let end = (0..=MAX_NAME).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
        name.truncate(end);
        name.push('…');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_last_lies_there() {
        let mut code = GeneratedCode::default();
        code.put(100, 50, "a".into());
        code.put(200, 50, "b".into());
        code.put(300, 50, "c".into());
        code.put(140, 100, "d".into());
        code.put(400, 0, "nothing".into());
        code.put(u64::MAX - 5, 100, "last".into());
        let at = |address| code.function(address);
        assert_eq!(
            [at(99), at(120), at(140), at(239), at(240), at(300), at(349), at(350), at(400)],
            [None, None, Some("d"), Some("d"), None, Some("c"), Some("c"), None, None]
        );
        assert_eq!((at(u64::MAX - 1), code.count()), (Some("last"), 3));
        code.put(1000, 1, "ü".repeat(600));
        assert_eq!(code.function(1000).map(|name| name.chars().count()), Some(501));
    }
}
