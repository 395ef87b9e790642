//! What many processes have mapped, by descent.

use std::collections::HashMap;

use crate::Mapping;

/// What each process has mapped, as far as it was told. A process that was never told of has what its parent had.
#[derive(Debug, Default)]
pub struct AddressSpaces {
    by_pid: HashMap<u32, Vec<Mapping>>,
    parents: HashMap<u32, u32>,
}

/// Generations that are asked at most: process numbers are given out again, so that a chain may be a ring.
const MAX_GENERATIONS: usize = 64;

impl AddressSpaces {
    /// A process maps something, over what was there. What was there stays known: what was seen before may lie in it.
    pub fn map(&mut self, pid: u32, mapping: Mapping) {
        self.by_pid.entry(pid).or_default().push(mapping);
    }

    /// A process has exactly this mapped now.
    pub fn replace(&mut self, pid: u32, mappings: Vec<Mapping>) {
        self.by_pid.insert(pid, mappings);
    }

    /// A process began as a copy of another.
    pub fn forked(&mut self, pid: u32, parent: u32) {
        if pid != parent {
            self.parents.insert(pid, parent);
        }
    }

    /// A process is gone, and nobody asks of it any more. Those that began as copies of it and were told of nothing themselves keep what it had.
    pub fn forget(&mut self, pid: u32) {
        if self.parents.values().any(|parent| *parent == pid) {
            return;
        }
        self.by_pid.remove(&pid);
        self.parents.remove(&pid);
    }

    /// Whether a process's own mapping was told before.
    pub fn has(&self, pid: u32, mapping: &Mapping) -> bool {
        self.by_pid.get(&pid).is_some_and(|own| own.contains(mapping))
    }

    /// Whether a process's own mappings were ever told.
    pub fn knows(&self, pid: u32) -> bool {
        self.by_pid.contains_key(&pid)
    }

    /// What a process has mapped; its nearest forebear's where nothing was told of it.
    pub fn of(&self, pid: u32) -> &[Mapping] {
        self.generations(pid).next().unwrap_or(&[])
    }

    /// What a process has mapped at an address, the latest that was told; else what its forebears have there.
    pub fn find(&self, pid: u32, address: u64) -> Option<&Mapping> {
        self.generations(pid).find_map(|own| own.iter().rev().find(|mapping| mapping.contains(address)))
    }

    /// Its own mappings, its parent's and so on, as far as any were told.
    fn generations(&self, pid: u32) -> impl Iterator<Item = &[Mapping]> {
        let line = std::iter::successors(Some(pid), |pid| self.parents.get(pid).copied()).take(MAX_GENERATIONS);
        line.filter_map(|pid| self.by_pid.get(&pid).map(Vec::as_slice))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn mapping(from: u64, to: u64, path: &str) -> Mapping {
        Mapping { from, to, path: path.into(), ..Mapping::default() }
    }

    #[test]
    fn the_latest_mapping_and_the_nearest_forebear_count() {
        let mut spaces = AddressSpaces::default();
        spaces.map(1, mapping(0x1000, 0x3000, "/a"));
        // One library, another, and the first one again in its place.
        for path in ["/b", "/a", "/b"] {
            spaces.map(1, mapping(0x2000, 0x3000, path));
        }
        assert!(spaces.has(1, &mapping(0x2000, 0x3000, "/a")) && !spaces.has(2, &mapping(0x2000, 0x3000, "/a")));
        spaces.forked(2, 1);
        spaces.forked(3, 2);
        let path = |spaces: &AddressSpaces, pid, at| spaces.find(pid, at).map(|found| found.path.to_str().unwrap().to_owned());
        assert_eq!([0x1000, 0x2000].map(|at| path(&spaces, 3, at).unwrap()), ["/a", "/b"]);
        assert_eq!((spaces.of(3).len(), spaces.knows(3), spaces.find(3, 0x3000)), (4, false, None));
        spaces.replace(2, vec![mapping(0x2000, 0x2800, "/c")]);
        assert_eq!((path(&spaces, 3, 0x2000).as_deref(), path(&spaces, 3, 0x1000).as_deref()), (Some("/c"), Some("/a")));
        assert_eq!(spaces.of(3).len(), 1);
    }

    #[test]
    fn numbers_that_are_given_out_again_end() {
        let mut spaces = AddressSpaces::default();
        spaces.forked(2, 1);
        spaces.forked(1, 2);
        spaces.forked(7, 7);
        assert_eq!((spaces.find(1, 0), spaces.of(1).len(), spaces.of(7).len()), (None, 0, 0));
    }
}
