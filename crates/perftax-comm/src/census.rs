//! Transfers added up: between whom, of which lines, by which instructions.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::access::{Kind, Thread};
use crate::exact::Transfer;
use crate::line::{Bytes, Line};

/// Transfers by kind of sharing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// True sharing.
    pub true_sharing: u64,
    /// False sharing.
    pub false_sharing: u64,
    /// Of both, by stores.
    pub by_stores: u64,
    /// Of both, by loads of threads after the first one to fetch the line since it was written.
    pub by_later_loads: u64,
}

impl Counts {
    /// Both.
    pub fn total(self) -> u64 {
        self.true_sharing + self.false_sharing
    }

    /// One more.
    pub fn add(&mut self, transfer: &Transfer) {
        *(if transfer.is_true { &mut self.true_sharing } else { &mut self.false_sharing }) += 1;
        self.by_stores += u64::from(transfer.to_kind.is_store());
        self.by_later_loads += u64::from(!transfer.to_kind.is_store() && transfer.is_clean);
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.true_sharing += other.true_sharing;
        self.false_sharing += other.false_sharing;
        self.by_stores += other.by_stores;
        self.by_later_loads += other.by_later_loads;
    }
}

/// An instruction that takes part in a line's transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Site {
    /// Who executes it.
    pub thread: Thread,
    /// Its address.
    pub ip: u64,
    /// What it does.
    pub kind: Kind,
    /// Bytes of the line that it touches.
    pub bytes: Bytes,
}

/// The transfers of one line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineCensus {
    /// Between threads.
    pub pairs: Vec<((Thread, Thread), Counts)>,
    /// The last stores before transfers, and the accesses that needed them, with how often.
    pub sites: Vec<(Site, u64)>,
}

impl LineCensus {
    /// All.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.pairs.iter().for_each(|(_, counts)| total += *counts);
        total
    }
}

/// All transfers.
#[derive(Clone, Debug, Default)]
pub struct Census {
    lines: FxHashMap<Line, LineCensus>,
}

impl Census {
    /// Adds one.
    pub fn add(&mut self, transfer: &Transfer) {
        let line = self.lines.entry(transfer.line).or_default();
        let pair = (transfer.from, transfer.to);
        match line.pairs.iter_mut().find(|(other, _)| *other == pair) {
            Some((_, counts)) => counts.add(transfer),
            None => {
                let mut counts = Counts::default();
                counts.add(transfer);
                line.pairs.push((pair, counts));
            }
        }
        let store = Site { thread: transfer.from, ip: transfer.from_ip, kind: Kind::Store, bytes: transfer.from_bytes };
        let fetch = Site { thread: transfer.to, ip: transfer.to_ip, kind: transfer.to_kind, bytes: transfer.to_bytes };
        for site in [store, fetch] {
            match line.sites.iter_mut().find(|(other, _)| *other == site) {
                Some((_, seen)) => *seen += 1,
                None => line.sites.push((site, 1)),
            }
        }
    }

    /// Between threads.
    pub fn pairs(&self) -> BTreeMap<(Thread, Thread), Counts> {
        let mut pairs: BTreeMap<(Thread, Thread), Counts> = BTreeMap::new();
        for (pair, counts) in self.lines.values().flat_map(|line| &line.pairs) {
            *pairs.entry(*pair).or_default() += *counts;
        }
        pairs
    }

    /// All.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.lines.values().for_each(|line| total += line.total());
        total
    }

    /// The lines, those with the most transfers first.
    ///
    /// Each with its sites, those seen most often first.
    pub fn lines(&self) -> Vec<(Line, &LineCensus)> {
        let mut lines: Vec<_> = self.lines.iter().map(|(line, census)| (*line, census)).collect();
        lines.sort_by_key(|(line, census)| (std::cmp::Reverse(census.total().total()), *line));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_added_up() {
        let mut census = Census::default();
        let bytes = Bytes::new(0, 8);
        let transfer = |line, from, to, is_true| Transfer {
            from,
            to,
            line: Line(line),
            is_true,
            from_ip: 1,
            from_bytes: bytes,
            to_ip: 2,
            to_bytes: bytes,
            to_kind: if line == 1 { Kind::Store } else { Kind::Load },
            is_clean: line == 1 || from == 1,
        };
        for (line, from, to, is_true) in [(1, 0, 1, true), (2, 0, 1, false), (2, 0, 1, true), (2, 1, 0, true)] {
            census.add(&transfer(line, from, to, is_true));
        }
        assert_eq!(census.total(), Counts { true_sharing: 3, false_sharing: 1, by_stores: 1, by_later_loads: 1 });
        assert_eq!(census.pairs()[&(0, 1)], Counts { true_sharing: 2, false_sharing: 1, by_stores: 1, by_later_loads: 0 });
        let lines = census.lines();
        assert_eq!((lines[0].0, lines[0].1.total().total()), (Line(2), 3));
        let seen: Vec<_> = lines[0].1.sites.iter().map(|(site, seen)| (site.thread, site.ip, *seen)).collect();
        assert_eq!(seen, [(0, 1, 2), (1, 2, 2), (1, 1, 1), (0, 2, 1)]);
    }
}
