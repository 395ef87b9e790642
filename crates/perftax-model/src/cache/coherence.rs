//! Which core has a good copy of a line, and whether it has written to it: what a load of another core's line finds.
//!
//! Each core has a cache of its own that never evicts, over a shared one: the model of [`perftax_comm`'s
//! truth](../../../docs/guide/comm.md), with the states of a protocol (Papamarcos and Patel, ISCA 1984; SDM volume 3, 12.4). A
//! written line is good in one cache alone; who loads it then has it fetched out of that cache, which writes it back: the third
//! core to load it finds it in the shared cache.

use rustc_hash::FxHashMap;

use super::LINE_BYTES;

/// Cores that can be told apart.
pub const MAX_CORES: usize = u64::BITS as usize;
/// Lines that are kept before all are forgotten: those of 256 MiB, in some 100 MB.
const MAX_LINES: usize = 1 << 22;

/// Where an access finds the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The core has a good copy of its own.
    Own,
    /// One other core has it, and has not written to it since it was fetched out of its cache.
    Clean,
    /// Several others have it, so that the shared cache's copy is known to be good.
    Shared,
    /// One other core has written to it, and nobody has fetched it since.
    Modified,
    /// No core has it.
    Nobody,
}

/// One line.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Cores with a good copy, a bit each.
    holders: u64,
    /// The only holder has written to it.
    modified: bool,
}

/// All lines.
#[derive(Clone, Debug, Default)]
pub struct Coherence {
    lines: FxHashMap<u64, State>,
}

impl Coherence {
    /// An access of a core (less than [`MAX_CORES`]) to a byte at this address of the machine's memory.
    #[inline]
    pub fn access(&mut self, core: usize, address: u64, write: bool) -> Holder {
        let line = address / LINE_BYTES;
        if self.lines.len() >= MAX_LINES && !self.lines.contains_key(&line) {
            self.lines.clear();
        }
        let state = self.lines.entry(line).or_default();
        let own = 1 << core;
        let found = match (state.holders & own != 0, state.modified, state.holders.count_ones()) {
            (true, _, _) => Holder::Own,
            (false, true, _) => Holder::Modified,
            (false, false, 0) => Holder::Nobody,
            (false, false, 1) => Holder::Clean,
            (false, false, _) => Holder::Shared,
        };
        if write {
            *state = State { holders: own, modified: true };
        } else {
            state.holders |= own;
            state.modified &= found == Holder::Own;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each of these accesses finds: core, address, whether it writes.
    fn found(accesses: &[(usize, u64, bool)]) -> Vec<Holder> {
        let mut coherence = Coherence::default();
        accesses.iter().map(|&(core, address, write)| coherence.access(core, address, write)).collect()
    }

    #[test]
    fn a_written_line_is_fetched_out_of_the_writers_cache_once() {
        let all = found(&[(0, 64, true), (1, 72, false), (2, 64, false), (1, 64, false), (0, 64, false), (3, 127, false)]);
        assert_eq!(all, [Holder::Nobody, Holder::Modified, Holder::Shared, Holder::Own, Holder::Own, Holder::Shared]);
    }

    #[test]
    fn a_store_leaves_no_other_copy() {
        let all = found(&[(0, 0, false), (1, 0, true), (0, 0, false), (0, 0, true), (0, 0, false), (1, 0, true), (0, 0, true)]);
        use Holder::{Clean, Modified, Nobody, Own};
        assert_eq!(all, [Nobody, Clean, Modified, Own, Own, Modified, Modified]);
    }

    #[test]
    fn lines_of_ones_own_are_never_fetched_from_another() {
        let accesses: Vec<_> = (0..1000u64).map(|i| ((i % 4) as usize, i % 4 * 4096 + i / 4 % 64, i % 3 == 0)).collect();
        let all = found(&accesses);
        assert_eq!(all.iter().filter(|&&holder| holder == Holder::Nobody).count(), 4);
        assert!(all.iter().all(|holder| matches!(holder, Holder::Nobody | Holder::Own)));
    }
}
