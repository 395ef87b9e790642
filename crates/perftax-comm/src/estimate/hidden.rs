//! Transfers that no sampled access shows, by what followed stores that were followed.
//!
//! A load shows that it fetched where it finds the line modified in another core's cache (HITM), a store where it missed. Whoever reads after the
//! first reader finds the line clean, as a line of its own that was evicted. Follows see these, too. What follows say of how many transfers there are
//! is worth little for lines that were followed once: of stores that come together each may be the sampled one. So they tell how many there
//! are for one that samples show, and samples tell how many of those there are.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::line::Line;

use super::fetched::Fetched;
use super::moments::{Counted, Key, LineMeans, Sharing, Sum};

/// Follows that saw a transfer which samples show, from which on they say how many others there are for one such.
const ENOUGH_SHOWN: u64 = 8;

/// How many transfers that samples show there are, for each that follows saw.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    scale: f64,
    /// The scale's relative variance.
    unsure: f64,
    /// Follows saw transfers that no sample shows, and too few that one does.
    pub is_untold: bool,
}

impl Hidden {
    /// By the follows of lines that samples tell of.
    pub fn of(lines: &FxHashMap<Line, LineMeans>, fetched: &Fetched) -> Self {
        let any = Key { pair: None, kind: Sharing::Any };
        let is_told = |line: &Line| fetched.told_by_follows.contains(line);
        let mut samples = Sum::default();
        let of_others = fetched.by_line.iter().filter(|(line, _)| !is_told(line));
        of_others.filter_map(|(_, sums)| sums.get(&any)).for_each(|sum| samples.add(sum));
        let mut shown = Counted::default();
        let others = || lines.iter().filter(|(line, _)| !is_told(line)).map(|(_, means)| means);
        others().for_each(|means| shown.take(&means.shown, means.samples / means.follows));
        if shown.seen < ENOUGH_SHOWN || samples.value <= 0.0 {
            return Self { is_untold: others().any(|means| !means.hidden.is_empty()), ..Self::default() };
        }
        let unsure = shown.squares / shown.sum.powi(2) + samples.of_draws / samples.value.powi(2);
        Self { scale: samples.value / shown.sum, unsure, is_untold: false }
    }

    /// Those of a line.
    pub fn sums(&self, means: &LineMeans) -> FxHashMap<Key, Sum> {
        let each = self.scale * means.samples / means.follows;
        let sum = |counted: &Counted| Sum {
            value: each * counted.sum,
            of_means: each * each * counted.squares,
            seen: counted.seen,
            ..Sum::default()
        };
        let all = means.hidden.iter().filter(|_| self.scale > 0.0);
        all.map(|(key, counted)| (*key, sum(counted))).collect()
    }

    /// One scale for all lines: what it is off by, they all are.
    pub fn widen(&self, sums: &mut BTreeMap<Key, Sum>, lines: &FxHashMap<Line, LineMeans>, fetched: &Fetched) {
        let mut all: FxHashMap<Key, f64> = FxHashMap::default();
        let others = lines.iter().filter(|(line, _)| !fetched.told_by_follows.contains(line));
        for (key, sum) in others.flat_map(|(_, means)| self.sums(means)) {
            *all.entry(key).or_default() += sum.value;
        }
        for (key, value) in all {
            sums.entry(key).or_default().of_means += value * value * self.unsure;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Access, Kind};
    use crate::board::Board;
    use crate::evidence::{Evidence, Fetches, Fetching};
    use crate::follow::{End, Follow, Patience};
    use crate::line::Bytes;

    const PERIOD: u64 = 100;

    fn access(thread: u32, line: u64, kind: Kind) -> Access {
        Access { thread, line: Line(line), bytes: Bytes::new(0, 8), kind, ip: 1 }
    }

    /// So many lines, each written by thread 0 and sampled once; each is fetched by a load of thread 1, then by loads of 2 and 3.
    /// Of every tenth line the first load was sampled.
    fn run(lines: u64) -> (Evidence, Board) {
        let (mut evidence, mut board) = (Evidence::default(), Board::default());
        let mut fetches = Fetches { samples: lines / 10, counted: lines, ..Fetches::default() };
        for line in 0..lines {
            let store = access(0, line, Kind::Store);
            evidence.sampled(&store);
            board.sampled(&store);
            let mut follow = Follow::new(&store, line, true, 0, Patience { least: 16, most: 1024 });
            for (thread, kind) in [(1, Kind::Load), (2, Kind::Load), (3, Kind::Load)] {
                follow.take(thread, kind, Bytes::new(0, 8), 0);
            }
            follow.end = End::Silent;
            let load = access(1, line, Kind::Load);
            if line % 10 == 0 {
                fetches.loads.push(Fetching { access: load, sample: line });
            }
            evidence.follows.push(follow);
        }
        evidence.fetches = Some(fetches);
        (evidence, board)
    }

    #[test]
    fn what_samples_do_not_show_is_told_by_what_they_do() {
        let (evidence, board) = run(200);
        let transfers = super::super::estimate(&evidence, &board, 200 * PERIOD);
        let of = |pair| transfers.pairs.iter().find(|(other, _)| *other == pair).map(|(_, shares)| shares.total);
        // Loads show 200 transfers; as many were by a second reader, and by a third.
        for pair in [(0, 1), (0, 2), (0, 3)] {
            let total = of(pair).expect("a pair that was seen");
            assert!((total.estimate - 200.0).abs() < 1.0, "{pair:?}: {total:?}");
        }
        let (shown, hidden) = (of((0, 1)).expect("seen"), of((0, 2)).expect("seen"));
        assert!(hidden.high - hidden.low > shown.high - shown.low, "{hidden:?} rests on {shown:?} and more");
        assert!(!transfers.is_hidden_untold);
    }

    #[test]
    fn few_follows_do_not_tell() {
        let (evidence, board) = run(20);
        let few = Evidence { follows: evidence.follows[..5].to_vec(), ..evidence };
        let transfers = super::super::estimate(&few, &board, 20 * PERIOD);
        assert!(transfers.is_hidden_untold);
        assert_eq!(transfers.pairs.len(), 1, "{:?}", transfers.pairs);
    }
}
