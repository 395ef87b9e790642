//! One line watched for a few stores.
//!
//! A follow begins with a sampled store and ends when so many further stores have trapped, or nothing has for too long. Of every store it
//! asks one thing: which threads fetch the line before the next store. Each transfer has exactly one such store, the last one before it, so
//! that a store drawn at random stands for as many transfers as follow it, no matter how stores come in bursts, and none counts twice.

use crate::access::{Access, Kind, Thread};
use crate::access_table::Words;
use crate::line::{Bytes, Line};

/// How a follow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All stores that were asked for came.
    Full,
    /// Nothing trapped for too long.
    Silent,
    /// The program ended, or watching did.
    Cut,
}

/// A thread fetched the line after a store and before the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Who stored.
    pub from: Thread,
    /// Who fetched.
    pub to: Thread,
    /// Bytes that the fetching access touched.
    pub bytes: Bytes,
    /// The longest time without any trap before it since the line was followed, in samples.
    pub waited: u32,
}

/// A store and what followed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stored {
    fetches: Vec<Fetch>,
}

/// How long a line is watched where nothing traps.
///
/// Some lines are fetched a million accesses after they were written, and none could be followed for long if all were. So how long is drawn
/// for each follow: at least so many samples, and more than d with the probability √(least/d). A fetch
/// that was seen after d samples of silence then stands for 1/√(least/d) of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleTimeout {
    /// Samples that each follow waits for.
    pub least: u32,
    /// Samples that none waits longer for.
    pub most: u32,
}

impl IdleTimeout {
    /// Of one that begins when there were so many samples: a first line that nobody touches again is not to take the whole of a short run.
    pub fn early(self, samples: u64) -> Self {
        /// Of what there was so far.
        const SHARE: u64 = 4;
        Self { most: u64::from(self.most).min(samples / SHARE).max(u64::from(self.least)) as u32, ..self }
    }

    /// Draws how many samples a follow waits for.
    pub fn draw(self, rng: &mut fastrand::Rng) -> u32 {
        let u = rng.f64().max(1e-6);
        (f64::from(self.least) / (u * u)).ceil().min(f64::from(self.most)) as u32
    }

    /// The probability that a follow waits longer than so many samples.
    pub fn waits(self, samples: u32) -> f64 {
        if samples <= self.least { 1.0 } else { (f64::from(self.least) / f64::from(samples)).sqrt() }
    }

    /// Whether each does.
    pub fn always_waits(self, samples: u32) -> bool {
        samples <= self.least
    }
}

/// A line watched.
#[derive(Clone, Debug)]
pub struct WatchEpisode {
    /// The line.
    pub line: Line,
    /// Who stored to it when it was sampled.
    pub owner: Thread,
    /// The sampled instruction.
    pub ip: u64,
    /// The first word that it stores to.
    pub first_word: u32,
    /// The number of the sample, from 0 on.
    pub sample: u64,
    /// What each thread's registers watched.
    pub watched: Vec<(Thread, Words)>,
    /// What those of all other threads watched: live, registers are set for all at once.
    pub common: Words,
    /// Traps.
    pub traps: u64,
    /// How it ended.
    pub end: End,
    /// Whether registers were armed before anything could happen after the sampled store: in a simulation they are.
    at_once: bool,
    /// Stores that are left out where they were not.
    skip: u32,
    /// The sampled store, then those that trapped.
    stores: Vec<Stored>,
    /// The longest time without any trap so far, in samples.
    waited: u32,
    patience: IdleTimeout,
    /// Who stored last.
    writer: Thread,
    /// Threads whose copy is good.
    fresh: Vec<Thread>,
}

impl WatchEpisode {
    /// Begins at a sampled store.
    pub fn new(store: &Access, sample: u64, at_once: bool, skip: u32, patience: IdleTimeout) -> Self {
        Self {
            waited: 0,
            patience,
            skip,
            line: store.line,
            owner: store.thread,
            ip: store.ip,
            first_word: Words::of(store.bytes).first(),
            sample,
            watched: Vec::new(),
            common: Words::default(),
            traps: 0,
            end: End::Cut,
            at_once,
            stores: vec![Stored::default()],
            writer: store.thread,
            fresh: vec![store.thread],
        }
    }

    /// Takes an access that trapped, so many samples after the last one.
    pub fn take(&mut self, thread: Thread, kind: Kind, bytes: Bytes, idle: u32) {
        self.traps += 1;
        self.waited = self.waited.max(idle);
        if !self.is_fresh(thread) {
            self.fresh.push(thread);
            if let Some(last) = self.stores.last_mut() {
                last.fetches.push(Fetch { from: self.writer, to: thread, bytes, waited: self.waited });
            }
        }
        if kind.is_store() {
            self.stores.push(Stored::default());
            self.writer = thread;
            self.fresh.clear();
            self.fresh.push(thread);
        }
    }

    /// The words that a thread's registers watched.
    pub fn words_of(&self, thread: Thread) -> Words {
        self.watched.iter().find(|(other, _)| *other == thread).map_or(self.common, |(_, words)| *words)
    }

    /// Whether a thread has the line as it was last written: its loads tell nothing more.
    pub fn is_fresh(&self, thread: Thread) -> bool {
        self.fresh.contains(&thread)
    }

    /// Stores that trapped.
    pub fn stores(&self) -> u64 {
        self.stores.len() as u64 - 1
    }

    /// Whether no store trapped, though the sampled one may not have been the last: registers were armed some time after it.
    pub fn is_late(&self) -> bool {
        !self.at_once && self.stores() == 0
    }

    /// Whether a thread was seen to fetch the line.
    pub fn has_fetched(&self, thread: Thread) -> bool {
        self.stores.iter().flat_map(|store| &store.fetches).any(|fetch| fetch.to == thread)
    }

    /// Whether the sampled store counts: registers were armed before anything could happen after it.
    pub fn counts_sampled(&self) -> bool {
        self.at_once
    }

    /// Whether waiting longer tells nothing: what follows the sampled store is known, and others came too late to count.
    pub fn is_settled(&self, idle: u32) -> bool {
        self.at_once && self.stores() > 0 && !self.patience.always_waits(self.waited.max(idle))
    }

    /// Whether any other thread than the owner touched the line.
    pub fn is_shared(&self) -> bool {
        self.stores.iter().any(|store| !store.fetches.is_empty())
    }

    /// The stores that count, and what followed them.
    ///
    /// Armed at once: a follow whose stores all came counts each but the last, of which it is not known what follows it. Where they stopped
    /// coming, the sampled one alone counts: stores drawn at random stand anywhere in a burst, those that were seen until its end are its
    /// latter half.
    ///
    /// Where they came after longer than any follow waits for them, the sampled one alone counts, too: others of its kind ended there.
    ///
    /// Armed late, the sampled store's burst is over as a rule, and the next one is seen from its beginning. So a random number of stores is
    /// left out first; where they stopped coming, all that came are whole bursts, and count. Of one that was cut short it is not known
    /// what would have followed the last store.
    fn counted(&self) -> &[Stored] {
        let last = self.stores.len() - 1;
        match (self.at_once, self.end) {
            (true, End::Full) if self.patience.always_waits(self.waited) => &self.stores[..last],
            (true, _) => &self.stores[..1],
            (false, End::Full) => &self.stores[(1 + self.skip as usize).min(last)..last],
            (false, End::Cut) => &self.stores[1.min(last)..last],
            (false, End::Silent) => &self.stores[1.min(last)..],
        }
    }

    /// Whether it says anything: armed late and cut short, it may not.
    pub fn tells(&self) -> bool {
        !self.counted().is_empty()
    }

    /// Stores that must trap before it has come to its end, to count so many.
    pub fn wanted(&self, counted: u32) -> u64 {
        u64::from(counted) + if self.at_once { 0 } else { u64::from(self.skip) + 1 }
    }

    /// Transfers that follow a store, in the mean over those that count; each with how many it stands for.
    ///
    /// One that came after a long silence stands for those that other follows did not wait for, as many as patience was drawn too short.
    ///
    /// `seen` is the share of the line's stores that registers watch. Where it is not all of them, a store that trapped is followed by what
    /// follows those that did not, too; the sampled store with a register on the next one is not.
    /// Where it is not known (none), the sampled store alone counts.
    pub fn fetches(&self, seen: Option<f64>) -> impl Iterator<Item = (Fetch, f64)> {
        let counted = if seen.is_none() && self.at_once { &self.stores[..1] } else { self.counted() };
        let is_sampled_alone = self.at_once && counted.len() == 1;
        let each = if is_sampled_alone || self.is_late() { 1.0 } else { seen.unwrap_or(1.0) } / counted.len() as f64;
        let is_full = counted.len() > 1 && self.end == End::Full;
        let weight = move |fetch: &Fetch| if is_full { each } else { each / self.patience.waits(fetch.waited) };
        counted.iter().flat_map(|store| &store.fetches).map(move |fetch| (*fetch, weight(fetch)))
    }

    /// Transfers that were seen to follow a store that counts.
    pub fn seen(&self) -> u64 {
        self.counted().iter().map(|store| store.fetches.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::{Load, Store};

    const PATIENCE: IdleTimeout = IdleTimeout { least: 16, most: 1024 };

    #[test]
    fn patience_is_drawn_as_often_as_it_says() {
        let rng = &mut fastrand::Rng::with_seed(1);
        let drawn: Vec<u32> = (0..20_000).map(|_| PATIENCE.draw(rng)).collect();
        assert!(drawn.iter().all(|samples| (16..=1024).contains(samples)));
        for samples in [20, 64, 500] {
            let longer = drawn.iter().filter(|drawn| **drawn > samples).count() as f64 / 20_000.0;
            assert!((longer - PATIENCE.waits(samples)).abs() < 0.02, "{samples}: {longer}");
        }
    }

    #[test]
    fn what_few_waited_for_stands_for_many() {
        let store = Access { thread: 0, line: Line(1), bytes: Bytes::new(0, 8), kind: Store, ip: 0 };
        let mut follow = WatchEpisode::new(&store, 0, true, 0, PATIENCE);
        follow.take(1, Load, Bytes::new(0, 8), 64);
        follow.end = End::Silent;
        assert_eq!(follow.fetches(Some(1.0)).map(|(_, each)| each).collect::<Vec<_>>(), [2.0]);
    }

    fn follow(at_once: bool, end: End, sequence: &[(Thread, Kind)]) -> Vec<(Thread, Thread, f64)> {
        let store = Access { thread: 0, line: Line(1), bytes: Bytes::new(0, 8), kind: Store, ip: 0 };
        let mut follow = WatchEpisode::new(&store, 0, at_once, 0, PATIENCE);
        sequence.iter().for_each(|&(thread, kind)| follow.take(thread, kind, Bytes::new(0, 8), 0));
        follow.end = end;
        follow.fetches(Some(1.0)).map(|(f, each)| (f.from, f.to, each)).collect()
    }

    #[test]
    fn each_thread_fetches_once_after_a_store() {
        let all = [(1, Load), (2, Load), (1, Load), (0, Store)];
        assert_eq!(follow(true, End::Full, &all), [(0, 1, 1.0), (0, 2, 1.0)]);
    }

    #[test]
    fn a_full_follow_is_a_mean_over_its_stores() {
        let all = [(0, Store), (0, Store), (1, Store), (0, Store)];
        // The sampled store and two more of thread 0: the third is followed by thread 1's, which fetches; then 0 fetches.
        assert_eq!(follow(true, End::Full, &all), [(0, 1, 0.25), (1, 0, 0.25)]);
    }

    #[test]
    fn of_a_burst_that_ended_the_first_store_counts() {
        assert_eq!(follow(true, End::Silent, &[(0, Store), (1, Load)]), []);
        assert_eq!(follow(true, End::Silent, &[(1, Load)]), [(0, 1, 1.0)]);
        // Armed late, the stores that trap count; without any, the sampled one is taken for the last.
        assert_eq!(follow(false, End::Silent, &[(0, Store), (0, Store), (1, Load)]), [(0, 1, 0.5)]);
        assert_eq!(follow(false, End::Full, &[(1, Load), (0, Store), (1, Load), (0, Store)]), [(0, 1, 1.0)]);
        assert_eq!(follow(false, End::Silent, &[(1, Load)]), [(0, 1, 1.0)]);
    }

    #[test]
    fn stores_that_are_not_watched_count_too() {
        let store = Access { thread: 0, line: Line(1), bytes: Bytes::new(0, 8), kind: Store, ip: 0 };
        let mut follow = WatchEpisode::new(&store, 0, true, 0, PATIENCE);
        [(0, Store), (1, Load), (0, Store)].iter().for_each(|&(thread, kind)| follow.take(thread, kind, Bytes::new(0, 8), 0));
        follow.end = End::Full;
        // Of two stores that count one is followed; as many were not seen.
        assert_eq!(follow.fetches(Some(0.5)).map(|(_, each)| each).collect::<Vec<_>>(), [0.25]);
        follow.end = End::Silent;
        assert_eq!(follow.fetches(Some(0.5)).count(), 0, "the sampled store was followed by the next one");
    }
}
