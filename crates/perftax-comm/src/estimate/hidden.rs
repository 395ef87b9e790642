//! Transfers that no fetching load shows, by what followed stores that were followed.
//!
//! A load shows that it fetched where it finds the line modified in another core's cache (HITM). A store that fetches is no load, and whoever reads
//! after the first reader finds the line clean. Follows see all of these. What they say of how many there are is worth little for lines
//! that were followed once: of stores that come together each may be the sampled one. So they tell how many transfers there are for one that loads
//! show, and loads tell how many of those there are.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::line::Line;

use super::fetched::Fetched;
use super::moments::{Counted, Key, LineMeans, Sharing, Sum};

/// Follows that saw a load fetch, from which on they say how many other transfers there are for one such.
const ENOUGH_SHOWN: u64 = 8;

/// How many transfers that loads show there are, for each that follows saw.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    scale: f64,
    /// The scale's relative variance.
    unsure: f64,
    /// Follows that saw a load fetch.
    shown: u64,
}

impl Hidden {
    /// Of lines that fetching loads tell of.
    pub fn of(lines: &FxHashMap<Line, LineMeans>, fetched: &Fetched) -> Self {
        let any = Key { pair: None, kind: Sharing::Any };
        let told: FxHashSet<Line> = lines.iter().filter(|(_, means)| means.is_told()).map(|(line, _)| *line).collect();
        let mut loads = Sum::default();
        let of_others = fetched.by_line.iter().filter(|(line, _)| !told.contains(line));
        of_others.filter_map(|(_, sums)| sums.get(&any)).for_each(|sum| loads.add(sum));
        let mut shown = Counted::default();
        for (_, means) in lines.iter().filter(|(_, means)| !means.is_told()) {
            shown.take(&means.shown, means.samples / means.follows);
        }
        if shown.seen < ENOUGH_SHOWN || loads.value <= 0.0 {
            return Self { shown: shown.seen, ..Self::default() };
        }
        let unsure = shown.squares / shown.sum.powi(2) + loads.of_draws / loads.value.powi(2);
        Self { scale: loads.value / shown.sum, unsure, shown: shown.seen }
    }

    /// Whether follows were too few to tell, though they saw transfers that no load shows.
    pub fn is_untold(&self, lines: &FxHashMap<Line, LineMeans>) -> bool {
        self.shown < ENOUGH_SHOWN && lines.values().any(|means| !means.is_told() && !means.hidden.is_empty())
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
    pub fn widen(&self, sums: &mut BTreeMap<Key, Sum>, lines: &FxHashMap<Line, LineMeans>) {
        let mut all: FxHashMap<Key, f64> = FxHashMap::default();
        for (key, sum) in lines.values().filter(|means| !means.is_told()).flat_map(|means| self.sums(means)) {
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
    use crate::evidence::{Evidence, Fetches};
    use crate::follow::{End, Follow, Patience};
    use crate::line::Bytes;

    const PERIOD: u64 = 100;

    fn access(thread: u32, line: u64, kind: Kind) -> Access {
        Access { thread, line: Line(line), bytes: Bytes::new(0, 8), kind, ip: 1 }
    }

    /// So many lines, each written by thread 0 and sampled once; each is fetched by a load of thread 1, then by one of thread 2, and by a store of 3.
    /// Of every tenth line the load was sampled.
    fn run(lines: u64) -> (Evidence, Board) {
        let (mut evidence, mut board) = (Evidence::default(), Board::default());
        let mut fetches = Fetches { samples: lines / 10, counted: lines, ..Fetches::default() };
        for line in 0..lines {
            let store = access(0, line, Kind::Store);
            evidence.sampled(&store);
            board.sampled(&store);
            let mut follow = Follow::new(&store, line, true, 0, Patience { least: 16, most: 1024 });
            for (thread, kind) in [(1, Kind::Load), (2, Kind::Load), (3, Kind::Store)] {
                follow.take(thread, kind, Bytes::new(0, 8), 0);
            }
            follow.end = End::Silent;
            let load = access(1, line, Kind::Load);
            if line % 10 == 0 {
                fetches.loads.push(load);
            }
            evidence.follows.push(follow);
        }
        evidence.fetches = Some(fetches);
        (evidence, board)
    }

    #[test]
    fn what_loads_do_not_show_is_told_by_what_they_do() {
        let (evidence, board) = run(200);
        let transfers = super::super::estimate(&evidence, &board, 200 * PERIOD);
        let of = |pair| transfers.pairs.iter().find(|(other, _)| *other == pair).map(|(_, shares)| shares.total);
        // Loads show 200 transfers; as many were by a second reader, and by a store.
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
