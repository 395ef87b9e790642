//! Which code each process has mapped now: what is needed to find callers while it runs.

use std::sync::Arc;

use perftax_symbols::Mapping;
use rustc_hash::FxHashMap;

/// Mappings of code by process, the latest first: of those that lie at one address the first one counts.
#[derive(Debug, Default)]
pub struct Code {
    by_pid: FxHashMap<u32, Arc<Vec<Mapping>>>,
}

impl Code {
    /// A process maps code, over what was there.
    pub fn map(&mut self, pid: u32, mapping: Mapping) {
        let mappings = self.by_pid.entry(pid).or_default();
        if mappings.first() == Some(&mapping) {
            return;
        }
        let mappings = Arc::make_mut(mappings);
        mappings.retain(|old| old.from < mapping.from || old.to > mapping.to);
        mappings.insert(0, mapping);
    }

    /// A process begins with what its parent has. One of which more was told already has that: its own words may come before its parent's.
    pub fn forked(&mut self, pid: u32, parent: u32) {
        if let Some(inherited) = self.by_pid.get(&parent).cloned() {
            self.by_pid.entry(pid).or_insert(inherited);
        }
    }

    /// A process executes another program, or is gone.
    pub fn forget(&mut self, pid: u32) {
        self.by_pid.remove(&pid);
    }

    /// What a process has mapped.
    pub fn of(&self, pid: u32) -> &[Mapping] {
        self.by_pid.get(&pid).map_or(&[], |mappings| mappings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(from: u64, to: u64, path: &str) -> Mapping {
        Mapping { from, to, is_code: true, path: path.into(), ..Mapping::default() }
    }

    #[test]
    fn what_was_mapped_last_is_found_first_and_a_child_has_its_parents() {
        let mut code = Code::default();
        code.map(1, mapping(0x1000, 0x3000, "/a"));
        code.map(1, mapping(0x2000, 0x3000, "/b"));
        code.forked(2, 1);
        code.map(1, mapping(0x1000, 0x4000, "/c"));
        assert_eq!(code.of(1), [mapping(0x1000, 0x4000, "/c")]);
        let at = |code: &Code, pid, address| {
            code.of(pid).iter().find(|it| it.contains(address)).map(|it| it.path.display().to_string())
        };
        assert_eq!([at(&code, 2, 0x1800).as_deref(), at(&code, 2, 0x2800).as_deref()], [Some("/a"), Some("/b")]);
        code.forked(1, 1);
        code.forked(2, 1);
        assert_eq!(at(&code, 2, 0x2800).as_deref(), Some("/b"), "its parent's word comes late");
        code.forget(2);
        assert!(code.of(2).is_empty() && code.of(3).is_empty() && code.of(1).len() == 1);
    }
}
