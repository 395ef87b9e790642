//! What registers could see of a line, and what they could not.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::access::Thread;
use crate::access_table::{AccessTable, WORDS, Words};
use crate::line::{Bytes, Line};
use crate::watch_episode::WatchEpisode;

/// Which follows could have seen a thread: in the others no register of its watched the words that it is known to touch.
pub(super) struct Sighted {
    /// Words that each thread is known to touch, and how many follows watched one of them.
    by_thread: FxHashMap<Thread, (Words, f64)>,
    follows: f64,
}

impl Sighted {
    pub fn of(line: Line, follows: &[&WatchEpisode], board: &AccessTable) -> Self {
        // Where registers are set for all threads at once, none is named as watched.
        let named = follows.iter().flat_map(|follow| follow.watched.iter().map(|(thread, _)| *thread));
        let came = follows.iter().flat_map(|follow| follow.fetches(Some(1.0)).map(|(fetch, _)| fetch.to));
        let threads: FxHashSet<Thread> = named.chain(came).collect();
        let by_thread = threads.into_iter().map(|thread| {
            let words = board.words(line, thread);
            let sighted = follows.iter().filter(|follow| sees(follow, thread, words)).count();
            (thread, (words, sighted as f64))
        });
        Self { by_thread: by_thread.collect(), follows: follows.len() as f64 }
    }

    /// For how many follows one that saw the thread stands; none where it could not see it.
    pub fn weight(&self, follow: &WatchEpisode, thread: Thread) -> Option<f64> {
        let (words, sighted) = *self.by_thread.get(&thread)?;
        (sighted > 0.0 && sees(follow, thread, words)).then(|| self.follows / sighted)
    }
}

/// Whether a register watched something of what a thread touches, as far as that is known; who fetched was seen.
fn sees(follow: &WatchEpisode, thread: Thread, words: Words) -> bool {
    let watched = follow.words_of(thread);
    watched.0 & words.0 != 0 || words.count() == 0 && watched.count() > 0 || follow.has_fetched(thread)
}

/// How a sampled instruction's lines are stored to, by all samples: what one line's few do not tell, others that it writes do.
pub(super) struct Storing {
    /// By instruction: threads, and words that they store to in lines that it stores to, with samples.
    around: FxHashMap<u64, FxHashMap<(Thread, Words), u64>>,
    /// By instruction: how many words further on (modulo a line's) the same thread stores in the same line, in pairs of samples. A line that
    /// was sampled once tells nothing of what else is stored there, and has none.
    beside: FxHashMap<u64, [u64; WORDS as usize]>,
}

/// Pairs of samples that tell what share of a line's stores registers watch.
const ENOUGH_PAIRS: u64 = 64;

impl Storing {
    pub fn of(board: &AccessTable, follows: &[WatchEpisode]) -> Self {
        let asked: FxHashSet<u64> = follows.iter().map(|follow| follow.ip).collect();
        let mut storing = Self { around: FxHashMap::default(), beside: FxHashMap::default() };
        for (_, uses) in board.lines() {
            let sampled = || uses.iter().filter(|u| u.kind.is_store() && u.samples > 0);
            let ips: FxHashSet<u64> = sampled().map(|u| u.ip).filter(|ip| asked.contains(ip)).collect();
            for ip in ips {
                let around = storing.around.entry(ip).or_default();
                sampled().for_each(|u| *around.entry((u.thread, Words::of(u.bytes))).or_default() += u.samples);
            }
            for one in sampled().filter(|u| asked.contains(&u.ip)) {
                let beside = storing.beside.entry(one.ip).or_default();
                for other in sampled().filter(|u| u.thread == one.thread) {
                    let pairs = one.samples * (other.samples - u64::from(one == other));
                    let further = WORDS + Words::of(other.bytes).first() - Words::of(one.bytes).first();
                    beside[(further % WORDS) as usize] += pairs;
                }
            }
        }
        storing
    }

    /// The share of the stores to a followed line that its registers watch; none where too little is known of them.
    ///
    /// Of its owner's as of all lines that the sampled instruction stores to, of the other threads' by what is known of the line itself.
    pub fn seen(&self, follow: &WatchEpisode, board: &AccessTable) -> Option<f64> {
        let is_seen = |thread: Thread, words: Words| follow.words_of(thread).0 & words.0 != 0;
        let own = self.own_seen(follow, board)?;
        let (mut seen, mut all) = (0.0, 0.0);
        for u in board.uses(follow.line).iter().filter(|u| u.kind.is_store() && u.samples > 0) {
            let samples = u.samples as f64;
            let share = if u.thread == follow.owner { own } else { f64::from(u8::from(is_seen(u.thread, Words::of(u.bytes)))) };
            seen += share * samples;
            all += samples;
        }
        Some(if seen > 0.0 { seen / all } else { own })
    }

    /// That of the owner's stores. Where few lines were sampled twice, those count of which samples and traps name one place alone.
    fn own_seen(&self, follow: &WatchEpisode, board: &AccessTable) -> Option<f64> {
        let watched = follow.words_of(follow.owner);
        let (mut by_pairs, mut pairs) = (0, 0);
        for (further, count) in self.beside.get(&follow.ip).into_iter().flatten().enumerate() {
            by_pairs += count * u64::from(watched.has((follow.first_word + further as u32) % WORDS));
            pairs += count;
        }
        let mut own = board.uses(follow.line).iter().filter(|u| u.thread == follow.owner && u.kind.is_store());
        let first = own.next().map(|u| Words::of(u.bytes));
        if pairs >= ENOUGH_PAIRS {
            Some(by_pairs as f64 / pairs as f64)
        } else if own.all(|u| Some(Words::of(u.bytes)) == first) {
            Some(1.0)
        } else if follow.counts_sampled() {
            None
        } else {
            let all: u64 = self.around(follow).map(|(_, samples)| samples).sum();
            let seen: u64 = self.around(follow).filter(|(words, _)| watched.0 & words.0 != 0).map(|(_, samples)| samples).sum();
            Some(if seen > 0 { seen as f64 / all as f64 } else { 1.0 })
        }
    }

    /// For how many stores a sampled one stands that registers came too late to see followed by another: as many as there are words that
    /// its thread stores to in the lines that the instruction stores to.
    pub fn visit(&self, follow: &WatchEpisode) -> f64 {
        if !follow.is_late() {
            return 1.0;
        }
        f64::from(self.places(follow).count().max(1))
    }

    /// Whether a follow's owner stores to some of these bytes in lines that the sampled instruction stores to.
    pub fn stores_to(&self, follow: &WatchEpisode, bytes: Bytes) -> bool {
        self.places(follow).0 & Words::of(bytes).0 != 0
    }

    /// First words of what a follow's owner stores to in lines that the sampled instruction stores to.
    fn places(&self, follow: &WatchEpisode) -> Words {
        let around = self.around(follow).map(|(words, _)| words.first());
        let beside = self.beside.get(&follow.ip).into_iter().flatten().zip(0..).filter(|(pairs, _)| **pairs > 0);
        let beside = beside.map(|(_, further)| (follow.first_word + further) % WORDS);
        around.chain(beside).fold(Words::default(), Words::and)
    }

    /// Words that a follow's owner stores to in lines that the sampled instruction stores to, with samples.
    fn around(&self, follow: &WatchEpisode) -> impl Iterator<Item = (Words, u64)> {
        let owner = follow.owner;
        let around = self.around.get(&follow.ip).into_iter().flatten();
        around.filter(move |((thread, _), _)| *thread == owner).map(|((_, words), samples)| (*words, *samples))
    }
}
