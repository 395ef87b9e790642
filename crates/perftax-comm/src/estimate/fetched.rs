//! Transfers by accesses that were seen to fetch: each sampled one stands for as many, followed or not.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::access::{Access, Thread};
use crate::access_table::{AccessTable, Use, Words};
use crate::evidence::Fetches;
use crate::line::{Bytes, Line};
use crate::pieces::{MAX_PIECES, Progress};

use super::ENOUGH_SAMPLES;
use super::moments::{Key, LineMeans, Sharing, Sum};

/// Lines on either side in which to look for who writes: 64 KiB. A buffer that is written through once has a sampled store every some KiB.
const NEAR_LINES: u64 = 1024;
/// Lines on either side in which another thread must be known to store where a store missed: 4 KiB. A store misses as well where its line was
/// evicted, and most that do are of a thread's own data.
const NEAR_STORED_LINES: u64 = 64;
/// Stores seen of a line from which on it is known whose it is: of one that nobody else was seen to store to, neighbours tell nothing.
const KNOWN_STORES: u64 = 4;

/// Follows from which on they alone tell of a line: they see transfers between threads that share a core, and later readers.
const ENOUGH_FOLLOWS: f64 = 8.0;

/// Samples that fetched a line, from which on they can say that follows saw too much.
const ENOUGH_SEEN: u64 = 8;

/// Follows that saw so many times as many transfers as samples allow saw what traps did: a thread that takes microseconds for a store
/// lets others come in between, if they do not wait for it.
const DISTURBED_TIMES: f64 = 2.0;

/// What sampled accesses that fetched say of each line.
#[derive(Default)]
pub(super) struct Fetched {
    pub by_line: BTreeMap<Line, FxHashMap<Key, Sum>>,
    /// Lines that follows tell of.
    pub told_by_follows: FxHashSet<Line>,
    /// Lines that they would, had traps not disturbed them.
    pub disturbed: u64,
    /// Samples of whose line nobody is known to write: the kernel, or somebody too seldom.
    pub untold: u64,
    /// Samples of lines that nobody but the thread itself is known to write: it had moved to another core, or the line was evicted.
    pub moved: u64,
}

/// Who stores to lines, as far as samples and traps told.
struct Writers {
    by_line: BTreeMap<Line, Vec<Use>>,
    /// Bytes that a thread stores to in lines that an instruction of it stores to, by instruction.
    by_ip: FxHashMap<u64, Bytes>,
}

impl Fetched {
    /// Each sample is worth so many transfers in units of what a sample of a store is worth.
    pub fn of(fetches: &Fetches, board: &AccessTable, progress: &Progress, stores_per_sample: f64) -> Self {
        let of_loads = if stores_per_sample > 0.0 { fetches.weight() / stores_per_sample } else { 0.0 };
        let writers = Writers::of(board);
        let mut all = Self::default();
        let loads = fetches.loads.iter().map(|load| (load, of_loads));
        for (fetching, worth) in loads.chain(fetches.stores.iter().map(|store| (store, 1.0))) {
            let access = &fetching.access;
            let piece = progress.piece_of(fetching.sample).min(MAX_PIECES - 1);
            let told = if access.kind.is_store() { writers.of_stored(access) } else { writers.of_line(access.line) };
            let Some(told) = told else {
                all.untold += 1;
                continue;
            };
            let others: Vec<_> = told.iter().filter(|used| used.thread != access.thread).collect();
            let stores: u64 = others.iter().map(|used| seen(used)).sum();
            if stores == 0 {
                all.moved += 1;
                continue;
            }
            let kind = if is_true(&writers, access) { Sharing::True } else { Sharing::False };
            let sums = all.by_line.entry(access.line).or_default();
            let mut add = |pair, value: f64, seen| {
                for kind in [Sharing::Any, kind] {
                    let sum = sums.entry(Key { pair, kind }).or_default();
                    sum.value += value;
                    sum.of_draws += value * worth;
                    sum.pieces[piece] += value;
                    sum.seen += seen;
                }
            };
            add(None, worth, 1);
            let mut by_writer: BTreeMap<Thread, u64> = BTreeMap::new();
            others.iter().for_each(|used| *by_writer.entry(used.thread).or_default() += seen(used));
            // It was one of them: who stores more, in proportion.
            for (writer, own) in by_writer {
                add(Some((writer, access.thread)), worth * own as f64 / stores as f64, 1);
            }
        }
        all
    }

    /// Which lines follows tell of.
    pub fn beside(mut self, lines: &FxHashMap<Line, LineMeans>, unlike: f64) -> Self {
        for (line, means) in lines.iter().filter(|(_, means)| means.follows >= ENOUGH_FOLLOWS) {
            let seen = means.by_key.get(&Key::ALL).map_or(0.0, |moments| means.sum(moments, unlike).value);
            let samples = self.by_line.get(line).and_then(|sums| sums.get(&Key::ALL)).filter(|sum| sum.seen >= ENOUGH_SEEN);
            let is_disturbed = samples.is_some_and(|sum| seen > DISTURBED_TIMES * (sum.value + 2.0 * sum.of_draws.sqrt()));
            if is_disturbed {
                self.disturbed += 1;
            } else {
                self.told_by_follows.insert(*line);
            }
        }
        self
    }
}

impl Writers {
    fn of(board: &AccessTable) -> Self {
        let (mut by_line, mut by_ip) = (BTreeMap::new(), FxHashMap::<u64, Bytes>::default());
        for (line, uses) in board.lines() {
            let stores: Vec<Use> = uses.iter().filter(|used| used.kind.is_store()).copied().collect();
            for used in &stores {
                let own = stores.iter().filter(|other| other.thread == used.thread);
                let bytes = by_ip.entry(used.ip).or_default();
                *bytes = own.fold(*bytes, |all, other| all.with(other.bytes));
            }
            if !stores.is_empty() {
                by_line.insert(line, stores);
            }
        }
        Self { by_line, by_ip }
    }

    /// Who stores to a line that a store missed; of a line of which little was seen, who stores next to it.
    fn of_stored(&self, store: &Access) -> Option<&[Use]> {
        let is_others = |stores: &&Vec<Use>| stores.iter().any(|used| used.thread != store.thread);
        let own = self.by_line.get(&store.line);
        let is_known = own.is_some_and(|stores| is_others(&stores) || stores.iter().map(seen).sum::<u64>() >= KNOWN_STORES);
        let near = Line(store.line.0.saturating_sub(NEAR_STORED_LINES))..=Line(store.line.0.saturating_add(NEAR_STORED_LINES));
        let of_others = self.by_line.range(near).filter(|(_, stores)| !is_known && is_others(stores));
        let nearest = of_others.min_by_key(|(line, _)| line.0.abs_diff(store.line.0)).map(|(_, stores)| stores);
        nearest.or(own).map(Vec::as_slice)
    }

    /// Who stores to a line, or to the nearest one that anybody is known to store to.
    fn of_line(&self, line: Line) -> Option<&[Use]> {
        let above = self.by_line.range(line..).next();
        let below = self.by_line.range(..line).next_back();
        let near = above.into_iter().chain(below).min_by_key(|(near, _)| near.0.abs_diff(line.0))?;
        (near.0.0.abs_diff(line.0) <= NEAR_LINES).then_some(near.1.as_slice())
    }
}

/// How often a store was seen.
fn seen(used: &Use) -> u64 {
    used.samples + used.traps
}

/// Words of a line from which on a thread that stores to so many is taken to write through it: PEBS hardly ever samples the first store after a wait.
const MAX_WORDS: u32 = 4;

/// True sharing: it touched bytes that others are known to store to. Where few samples told, also those that they store to in other lines by the same
/// instructions; where nobody is known to store to this very line, what its neighbour's writer stores next to it is taken to be what was touched.
fn is_true(writers: &Writers, access: &Access) -> bool {
    let others = || writers.by_line.get(&access.line).into_iter().flatten().filter(|used| used.thread != access.thread);
    if others().count() == 0 || others().any(|used| used.bytes.overlaps(access.bytes)) {
        return true;
    }
    let is_told = others().map(|used| used.samples).sum::<u64>() >= ENOUGH_SAMPLES;
    let stores_to = |bytes: &Bytes| bytes.overlaps(access.bytes) || Words::of(*bytes).count() >= MAX_WORDS;
    !is_told && others().filter_map(|used| writers.by_ip.get(&used.ip)).any(stores_to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Kind;
    use crate::evidence::Fetching;

    fn access(thread: Thread, line: u64, offset: u64, kind: Kind) -> Access {
        Access { thread, line: Line(line), bytes: Bytes::new(offset, 8), kind, ip: 1 }
    }

    #[test]
    fn writers_are_those_of_the_line_or_next_to_it() {
        let mut board = AccessTable::default();
        [access(0, 100, 0, Kind::Store), access(2, 300, 8, Kind::Store)].iter().for_each(|store| board.sampled(store));
        let load = |thread, line, offset| access(thread, line, offset, Kind::Load);
        let loads = vec![load(1, 100, 0), load(1, 100, 32), load(1, 130, 0), load(0, 100, 0), load(1, 50_000, 0)];
        let loads = loads.into_iter().map(|access| Fetching { access, sample: 0 }).collect();
        let fetches = Fetches { loads, stores: Vec::new(), samples: 10, counted: 990 };
        let fetched = Fetched::of(&fetches, &board, &Progress::default(), 50.0);
        assert_eq!((fetched.untold, fetched.moved), (1, 1));
        let value = |line, pair, kind| fetched.by_line[&Line(line)].get(&Key { pair, kind }).map(|sum| sum.value);
        // 100 loads a sample, in units of 50 stores.
        assert_eq!(value(100, None, Sharing::Any), Some(4.0));
        assert_eq!((value(100, None, Sharing::True), value(100, None, Sharing::False)), (Some(2.0), Some(2.0)));
        assert_eq!(value(130, Some((0, 1)), Sharing::True), Some(2.0), "as the line that is 30 further down");
    }

    /// A store that missed is a fetch where another thread stores next to it, and an eviction where none does.
    #[test]
    fn stores_that_missed_are_fetches_where_others_store() {
        let mut board = AccessTable::default();
        let store = |thread, line| access(thread, line, 0, Kind::Store);
        let missed = [store(1, 100), store(1, 104), store(1, 230), store(1, 107)];
        [store(0, 101), store(1, 107), store(1, 107), store(1, 107)].iter().chain(&missed).for_each(|store| board.sampled(store));
        let stores = missed.map(|access| Fetching { access, sample: 0 }).to_vec();
        let fetched = Fetched::of(&Fetches { stores, ..Fetches::default() }, &board, &Progress::default(), 50.0);
        let value =
            |line| fetched.by_line.get(&Line(line))?.get(&Key { pair: Some((0, 1)), kind: Sharing::Any }).map(|sum| sum.value);
        assert_eq!([100, 104, 230].map(value), [Some(1.0), Some(1.0), None]);
        assert_eq!(value(107), None, "seen often enough, and nobody else there");
        assert_eq!((fetched.untold, fetched.moved), (0, 2));
    }

    /// Line 1 is told by one sample; what its instruction's thread stores to in other lines tells the rest.
    #[test]
    fn other_lines_tell_what_is_written() {
        let kinds = |stores: &[(u64, u64)], loaded: u64| {
            let mut board = AccessTable::default();
            let store = |&(line, offset): &(u64, u64)| Access { ip: 10 + offset, ..access(0, line, offset, Kind::Store) };
            stores.iter().map(store).for_each(|store| board.sampled(&store));
            is_true(&Writers::of(&board), &access(1, 1, loaded, Kind::Load))
        };
        assert!(!kinds(&[(1, 8)], 0), "another word");
        assert!(kinds(&[(1, 8), (2, 8), (2, 0)], 0), "its thread stores to word 0, too, where it stores to word 1");
        assert!(!kinds(&[(1, 8), (2, 16), (2, 0)], 0), "elsewhere it may");
        assert!(kinds(&[(1, 8), (2, 8), (2, 16), (3, 8), (3, 24), (3, 32)], 0), "it writes through its lines");
        assert!(!kinds(&[(1, 8); 16], 0), "told by this very line");
    }
}
