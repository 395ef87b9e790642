//! What registers could see of a line, and what they could not.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::access::Thread;
use crate::board::{Board, Words};
use crate::follow::Follow;
use crate::line::{Bytes, Line};

/// Which follows could have seen a thread: in the others no register of its watched the words that it is known to touch.
pub(super) struct Sighted {
    /// Words that each thread is known to touch, and how many follows watched one of them.
    by_thread: FxHashMap<Thread, (Words, f64)>,
    follows: f64,
}

impl Sighted {
    pub fn of(line: Line, follows: &[&Follow], board: &Board) -> Self {
        // Where registers are set for all threads at once, none is named as watched.
        let named = follows.iter().flat_map(|follow| follow.watched.iter().map(|(thread, _)| *thread));
        let came = follows.iter().flat_map(|follow| follow.fetches(1.0).map(|(fetch, _)| fetch.to));
        let threads: FxHashSet<Thread> = named.chain(came).collect();
        let by_thread = threads.into_iter().map(|thread| {
            let words = board.words(line, thread);
            let sighted = follows.iter().filter(|follow| sees(follow, thread, words)).count();
            (thread, (words, sighted as f64))
        });
        Self { by_thread: by_thread.collect(), follows: follows.len() as f64 }
    }

    /// For how many follows one that saw the thread stands; none where it could not see it.
    pub fn weight(&self, follow: &Follow, thread: Thread) -> Option<f64> {
        let (words, sighted) = *self.by_thread.get(&thread)?;
        (sighted > 0.0 && sees(follow, thread, words)).then(|| self.follows / sighted)
    }
}

fn sees(follow: &Follow, thread: Thread, words: Words) -> bool {
    let watched = follow.words_of(thread);
    watched.count() > 0 && Words(watched.0 & words.0).count() >= words.count().min(watched.count())
}

/// How a sampled instruction's lines are stored to, by all samples: what one line's few do not tell, others that it writes do.
pub(super) struct Storing {
    /// By instruction: threads, and words that they store to in lines that it stores to, with samples.
    around: FxHashMap<u64, FxHashMap<(Thread, Words), u64>>,
}

impl Storing {
    pub fn of(board: &Board, follows: &[Follow]) -> Self {
        let asked: FxHashSet<u64> = follows.iter().map(|follow| follow.ip).collect();
        let mut storing = Self { around: FxHashMap::default() };
        for (_, uses) in board.lines() {
            let sampled = || uses.iter().filter(|u| u.kind.is_store() && u.samples > 0);
            let ips: FxHashSet<u64> = sampled().map(|u| u.ip).filter(|ip| asked.contains(ip)).collect();
            for ip in ips {
                let around = storing.around.entry(ip).or_default();
                sampled().for_each(|u| *around.entry((u.thread, Words::of(u.bytes))).or_default() += u.samples);
            }
        }
        storing
    }

    /// The share of the stores to a followed line that its registers watch: of its owner's as of all lines that the sampled instruction
    /// stores to, of the other threads' by what is known of the line itself.
    pub fn seen(&self, follow: &Follow, board: &Board) -> f64 {
        let is_seen = |thread: Thread, words: Words| follow.words_of(thread).0 & words.0 != 0;
        let all: u64 = self.around(follow).map(|(_, samples)| samples).sum();
        let own: u64 = self.around(follow).filter(|(words, _)| is_seen(follow.owner, *words)).map(|(_, samples)| samples).sum();
        let own = if own > 0 { own as f64 / all as f64 } else { 1.0 };
        let (mut seen, mut all) = (0.0, 0.0);
        for u in board.uses(follow.line).iter().filter(|u| u.kind.is_store() && u.samples > 0) {
            let samples = u.samples as f64;
            let share = if u.thread == follow.owner { own } else { f64::from(u8::from(is_seen(u.thread, Words::of(u.bytes)))) };
            seen += share * samples;
            all += samples;
        }
        if seen > 0.0 { seen / all } else { own }
    }

    /// For how many stores a sampled one stands that registers came too late to see followed by another: as many as there are words that
    /// its thread stores to in the lines that the instruction stores to.
    pub fn visit(&self, follow: &Follow) -> f64 {
        if !follow.is_late() {
            return 1.0;
        }
        self.around(follow).count().max(1) as f64
    }

    /// Whether a follow's owner stores to some of these bytes in lines that the sampled instruction stores to.
    pub fn stores_to(&self, follow: &Follow, bytes: Bytes) -> bool {
        self.around(follow).any(|(words, _)| words.0 & Words::of(bytes).0 != 0)
    }

    /// Words that a follow's owner stores to in lines that the sampled instruction stores to, with samples.
    fn around(&self, follow: &Follow) -> impl Iterator<Item = (Words, u64)> {
        let owner = follow.owner;
        let around = self.around.get(&follow.ip).into_iter().flatten();
        around.filter(move |((thread, _), _)| *thread == owner).map(|((_, words), samples)| (*words, *samples))
    }
}
