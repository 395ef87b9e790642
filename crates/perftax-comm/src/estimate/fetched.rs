//! Transfers by loads that were seen to fetch: each sampled one stands for as many, followed or not.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::access::{Access, Thread};
use crate::board::Board;
use crate::evidence::Fetches;
use crate::line::{Bytes, Line};

use super::moments::{Key, Sharing, Sum};

/// Lines on either side in which to look for who writes: 64 KiB. A buffer that is written through once has a sampled store every some KiB.
const NEAR_LINES: u64 = 1024;

/// What fetching loads say of each line.
#[derive(Default)]
pub(super) struct Fetched {
    pub by_line: BTreeMap<Line, FxHashMap<Key, Sum>>,
    /// Samples of whose line nobody is known to write: the kernel, or somebody too seldom.
    pub untold: u64,
    /// Samples of lines that nobody but the loading thread is known to write: it had moved to another core.
    pub moved: u64,
}

/// Who stores to lines, as far as samples and traps told.
struct Writers {
    by_line: BTreeMap<Line, Vec<(Thread, Bytes, u64)>>,
}

impl Fetched {
    /// Each sample is worth so many transfers in units of what a sample of a store is worth.
    pub fn of(fetches: &Fetches, board: &Board, stores_per_sample: f64) -> Self {
        let worth = if stores_per_sample > 0.0 { fetches.weight() / stores_per_sample } else { 0.0 };
        let writers = Writers::of(board);
        let mut all = Self::default();
        for load in &fetches.loads {
            let Some(told) = writers.of_line(load.line) else {
                all.untold += 1;
                continue;
            };
            let others: Vec<_> = told.iter().filter(|(thread, _, _)| *thread != load.thread).collect();
            let stores: u64 = others.iter().map(|(_, _, stores)| stores).sum();
            if stores == 0 {
                all.moved += 1;
                continue;
            }
            let kind = if is_true(&writers, load) { Sharing::True } else { Sharing::False };
            let sums = all.by_line.entry(load.line).or_default();
            let mut add = |pair, value: f64, seen| {
                for kind in [Sharing::Any, kind] {
                    sums.entry(Key { pair, kind }).or_default().add(&Sum {
                        value,
                        of_draws: value * worth,
                        seen,
                        ..Sum::default()
                    });
                }
            };
            add(None, worth, 1);
            let mut by_writer: BTreeMap<Thread, u64> = BTreeMap::new();
            others.iter().for_each(|(thread, _, stores)| *by_writer.entry(*thread).or_default() += stores);
            // It was one of them: who stores more, in proportion.
            for (writer, own) in by_writer {
                add(Some((writer, load.thread)), worth * own as f64 / stores as f64, 1);
            }
        }
        all
    }
}

impl Writers {
    fn of(board: &Board) -> Self {
        let mut by_line = BTreeMap::new();
        for (line, uses) in board.lines() {
            let stores = uses.iter().filter(|u| u.kind.is_store()).map(|u| (u.thread, u.bytes, u.samples + u.traps));
            let stores: Vec<_> = stores.collect();
            if !stores.is_empty() {
                by_line.insert(line, stores);
            }
        }
        Self { by_line }
    }

    /// Who stores to a line, or to the nearest one that anybody is known to store to.
    fn of_line(&self, line: Line) -> Option<&[(Thread, Bytes, u64)]> {
        let above = self.by_line.range(line..).next();
        let below = self.by_line.range(..line).next_back();
        let near = above.into_iter().chain(below).min_by_key(|(near, _)| near.0.abs_diff(line.0))?;
        (near.0.0.abs_diff(line.0) <= NEAR_LINES).then_some(near.1.as_slice())
    }
}

/// True sharing: it loaded bytes that others are known to store to. Where nobody is known to store to this very line, what its neighbour's
/// writer stores next to it is taken to be what was loaded.
fn is_true(writers: &Writers, load: &Access) -> bool {
    let Some(own) = writers.by_line.get(&load.line) else { return true };
    let others = || own.iter().filter(|(thread, _, _)| *thread != load.thread);
    others().count() == 0 || others().any(|(_, bytes, _)| bytes.overlaps(load.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Kind;

    fn access(thread: Thread, line: u64, offset: u64, kind: Kind) -> Access {
        Access { thread, line: Line(line), bytes: Bytes::new(offset, 8), kind, ip: 1 }
    }

    #[test]
    fn writers_are_those_of_the_line_or_next_to_it() {
        let mut board = Board::default();
        [access(0, 100, 0, Kind::Store), access(2, 300, 8, Kind::Store)].iter().for_each(|store| board.sampled(store));
        let load = |thread, line, offset| access(thread, line, offset, Kind::Load);
        let loads = vec![load(1, 100, 0), load(1, 100, 32), load(1, 130, 0), load(0, 100, 0), load(1, 50_000, 0)];
        let fetches = Fetches { loads, samples: 10, counted: 1000 };
        let fetched = Fetched::of(&fetches, &board, 50.0);
        assert_eq!((fetched.untold, fetched.moved), (1, 1));
        let value = |line, pair, kind| fetched.by_line[&Line(line)].get(&Key { pair, kind }).map(|sum| sum.value);
        // 100 loads a sample, in units of 50 stores.
        assert_eq!(value(100, None, Sharing::Any), Some(4.0));
        assert_eq!((value(100, None, Sharing::True), value(100, None, Sharing::False)), (Some(2.0), Some(2.0)));
        assert_eq!(value(130, Some((0, 1)), Sharing::True), Some(2.0), "as the line that is 30 further down");
    }
}
