//! From follows to transfers, with intervals.
//!
//! A store drawn at random from a program's stores is followed by y transfers to thread u (0 or 1 for each u) before the line's next store.
//! With n samples that stand for S stores, the transfers are estimated as S/n · Σ n_l · ȳ_l over lines l: n_l samples of its stores, ȳ_l the
//! mean over its follows. Lines that were sampled while another was followed have none; they take the mean of other lines that were
//! sampled as seldom. docs/comm.md says what is assumed, and what the variance is made of.

use std::collections::BTreeMap;

use perftax_cost::Estimate;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Gamma};

use crate::access::{Access, Thread};
use crate::board::{Board, Use, Words};
use crate::census::Site;
use crate::follow::{End, Fetch, Follow};
use crate::line::{Bytes, Line};

/// Everything that was collected.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Follows, in order.
    pub follows: Vec<Follow>,
    /// Samples of loads.
    pub load_samples: u64,
    /// Samples of stores, by line.
    pub store_samples: FxHashMap<Line, u64>,
    /// Samples of stores that found the registers taken.
    pub busy: u64,
    /// Samples of stores to lines that were private so far, and not followed again.
    pub known_private: u64,
    /// Traps of lines that were no longer followed.
    pub stray: u64,
}

impl Evidence {
    /// Notes a sample.
    pub fn sampled(&mut self, access: &Access) {
        if access.kind.is_store() {
            *self.store_samples.entry(access.line).or_default() += 1;
        } else {
            self.load_samples += 1;
        }
    }

    /// Samples of stores.
    pub fn stores(&self) -> u64 {
        self.store_samples.values().sum()
    }

    /// Traps.
    pub fn traps(&self) -> u64 {
        self.follows.iter().map(|follow| follow.traps).sum::<u64>() + self.stray
    }

    /// Follows in which nothing trapped.
    pub fn silent(&self) -> u64 {
        self.follows.iter().filter(|follow| follow.traps == 0).count() as u64
    }
}

/// Transfers by kind of sharing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// All.
    pub total: Estimate,
    /// True sharing.
    pub true_sharing: Estimate,
    /// False sharing.
    pub false_sharing: Estimate,
    /// Follows in which such transfers were seen.
    pub evidence: u64,
}

/// The transfers of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfers {
    /// All.
    pub total: Shares,
    /// From thread to thread, by number; pairs of which none was seen are left out.
    pub pairs: Vec<((Thread, Thread), Shares)>,
    /// By line, those with the most first.
    pub lines: Vec<LineTransfers>,
}

/// The transfers of one line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LineTransfers {
    /// The line.
    pub line: Line,
    /// How many.
    pub shares: Shares,
    /// Between each pair, by number.
    pub pairs: Vec<((Thread, Thread), f64)>,
    /// Instructions that were seen to touch it, with how often.
    pub sites: Vec<(Site, u64)>,
}

/// Which transfers are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    pair: Option<(Thread, Thread)>,
    kind: Sharing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Sharing {
    Any,
    True,
    False,
}

/// Moments of y over the follows of some lines.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    sum: f64,
    squares: f64,
    /// Follows in which there was any.
    seen: u64,
}

/// What the follows of one line say.
#[derive(Clone, Debug, Default)]
struct LineMeans {
    samples: f64,
    follows: f64,
    by_key: FxHashMap<Key, Moments>,
}

/// A sum over lines, and its variance.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    value: f64,
    variance: f64,
    seen: u64,
}

/// Estimates the transfers of a program that executed `stores` stores.
pub fn estimate(evidence: &Evidence, board: &Board, stores: u64) -> Transfers {
    let samples = evidence.stores();
    let weight = if samples > 0 { stores as f64 / samples as f64 } else { 0.0 };
    let lines = line_means(evidence, board);
    let unlike = variation(&lines);
    let unfollowed = Unfollowed::of(evidence, &lines);

    let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
    for means in lines.values() {
        for (key, moments) in &means.by_key {
            sums.entry(*key).or_default().add(&means.sum(moments, unlike));
        }
    }
    for (key, sum) in &mut sums {
        sum.add(&unfollowed.sum(key));
    }
    let shares = |pair| {
        let sum = |kind| sums.get(&Key { pair, kind }).copied().unwrap_or_default();
        shares_of(weight, sum)
    };
    let pairs = sums.keys().filter(|key| key.kind == Sharing::Any).filter_map(|key| key.pair);
    let of_line = |line: Line, means: &LineMeans| {
        let sum = |kind| means.by_key.get(&Key { pair: None, kind }).map_or(Sum::default(), |moments| means.sum(moments, unlike));
        let of_pair = |(key, moments): (&Key, &Moments)| {
            let pair = key.pair.filter(|_| key.kind == Sharing::Any)?;
            Some((pair, weight * means.sum(moments, unlike).value))
        };
        let mut pairs: Vec<_> = means.by_key.iter().filter_map(of_pair).collect();
        pairs.sort_by_key(|(pair, _)| *pair);
        LineTransfers { line, shares: shares_of(weight, sum), pairs, sites: sites(board, line) }
    };
    let shared = lines.iter().filter(|(_, means)| !means.by_key.is_empty());
    let mut by_line: Vec<_> = shared.map(|(line, means)| of_line(*line, means)).collect();
    by_line.sort_by(|a, b| b.shares.total.estimate.total_cmp(&a.shares.total.estimate).then(a.line.cmp(&b.line)));
    Transfers { total: shares(None), pairs: pairs.map(|pair| (pair, shares(Some(pair)))).collect(), lines: by_line }
}

/// Instructions that touch a line, those seen most often first.
fn sites(board: &Board, line: Line) -> Vec<(Site, u64)> {
    let site = |u: &Use| (Site { thread: u.thread, ip: u.ip, kind: u.kind, bytes: u.bytes }, u.samples + u.traps);
    let mut sites: Vec<_> = board.uses(line).iter().map(site).collect();
    sites.sort_by_key(|(site, seen)| (std::cmp::Reverse(*seen), *site));
    sites
}

fn shares_of(weight: f64, sum: impl Fn(Sharing) -> Sum) -> Shares {
    let estimate = |kind| sum(kind).estimate(weight);
    Shares {
        total: estimate(Sharing::Any),
        true_sharing: estimate(Sharing::True),
        false_sharing: estimate(Sharing::False),
        evidence: sum(Sharing::Any).seen,
    }
}

/// What each line's follows say of each kind of transfer.
fn line_means(evidence: &Evidence, board: &Board) -> FxHashMap<Line, LineMeans> {
    let mut by_line: FxHashMap<Line, Vec<&Follow>> = FxHashMap::default();
    for follow in &evidence.follows {
        by_line.entry(follow.line).or_default().push(follow);
    }
    let storing = Storing::of(board, &evidence.follows);
    let of_line = |(line, follows): (Line, Vec<&Follow>)| {
        let samples = evidence.store_samples.get(&line).copied().unwrap_or(0) as f64;
        let mut means = LineMeans { samples, follows: follows.len() as f64, by_key: FxHashMap::default() };
        let sighted = Sighted::of(line, &follows, board);
        for follow in &follows {
            let visit = storing.visit(follow);
            let mut own: FxHashMap<Key, f64> = FxHashMap::default();
            for (fetch, each) in follow.fetches(storing.seen(follow, board)) {
                let Some(weight) = sighted.weight(follow, fetch.to) else { continue };
                let y = each / visit * weight;
                let kind = if is_true(board, line, &fetch) { Sharing::True } else { Sharing::False };
                for kind in [Sharing::Any, kind] {
                    for pair in [None, Some((fetch.from, fetch.to))] {
                        *own.entry(Key { pair, kind }).or_default() += y;
                    }
                }
            }
            for (key, y) in own {
                let moments = means.by_key.entry(key).or_default();
                moments.sum += y;
                moments.squares += y * y;
                moments.seen += 1;
            }
        }
        (line, means)
    };
    by_line.into_iter().map(of_line).collect()
}

/// True sharing: the access that fetched touched bytes that other threads are known to store to.
///
/// A follow sees only what was written since the sampled store; a thread that fetches may need what was written earlier. What others write
/// in this line at all stands for it.
fn is_true(board: &Board, line: Line, fetch: &Fetch) -> bool {
    let others = board.uses(line).iter().filter(|u| u.kind.is_store() && u.thread != fetch.to);
    others.fold(Bytes::default(), |all, u| all.with(u.bytes)).overlaps(fetch.bytes)
}

/// Which follows could have seen a thread: in the others no register of its watched the words that it is known to touch.
struct Sighted {
    /// Words that each thread is known to touch, and how many follows watched one of them.
    by_thread: FxHashMap<Thread, (Words, f64)>,
    follows: f64,
}

impl Sighted {
    fn of(line: Line, follows: &[&Follow], board: &Board) -> Self {
        let threads: FxHashSet<Thread> =
            follows.iter().flat_map(|follow| follow.watched.iter().map(|(thread, _)| *thread)).collect();
        let by_thread = threads.into_iter().map(|thread| {
            let words = board.words(line, thread);
            let sighted = follows.iter().filter(|follow| sees(follow, thread, words)).count();
            (thread, (words, sighted as f64))
        });
        Self { by_thread: by_thread.collect(), follows: follows.len() as f64 }
    }

    /// For how many follows one that saw the thread stands; none where it could not see it.
    fn weight(&self, follow: &Follow, thread: Thread) -> Option<f64> {
        let (words, sighted) = *self.by_thread.get(&thread)?;
        (sighted > 0.0 && sees(follow, thread, words)).then(|| self.follows / sighted)
    }
}

fn sees(follow: &Follow, thread: Thread, words: Words) -> bool {
    let watched = follow.words_of(thread);
    watched.count() > 0 && Words(watched.0 & words.0).count() >= words.count().min(watched.count())
}

/// How a sampled instruction's lines are stored to, by all samples: what one line's few do not tell, others that it writes do.
struct Storing {
    /// By instruction: threads, and words that they store to in lines that it stores to, with samples.
    around: FxHashMap<u64, FxHashMap<(Thread, Words), u64>>,
    /// Places in lines that an instruction stores to.
    places: FxHashMap<u64, FxHashSet<Bytes>>,
}

impl Storing {
    fn of(board: &Board, follows: &[Follow]) -> Self {
        let asked: FxHashSet<u64> = follows.iter().map(|follow| follow.ip).collect();
        let mut storing = Self { around: FxHashMap::default(), places: FxHashMap::default() };
        for (_, uses) in board.lines() {
            let sampled = || uses.iter().filter(|u| u.kind.is_store() && u.samples > 0);
            let ips: FxHashSet<u64> = sampled().map(|u| u.ip).filter(|ip| asked.contains(ip)).collect();
            for ip in ips {
                let around = storing.around.entry(ip).or_default();
                sampled().for_each(|u| *around.entry((u.thread, Words::of(u.bytes))).or_default() += u.samples);
            }
            for u in sampled().filter(|u| asked.contains(&u.ip)) {
                storing.places.entry(u.ip).or_default().insert(u.bytes);
            }
        }
        storing
    }

    /// The share of the stores to a followed line that its registers watch: of its owner's as of all lines that the sampled instruction
    /// stores to, of the other threads' by what is known of the line itself.
    fn seen(&self, follow: &Follow, board: &Board) -> f64 {
        let is_seen = |thread: Thread, words: Words| follow.words_of(thread).0 & words.0 != 0;
        let around = || self.around.get(&follow.ip).into_iter().flatten().filter(|((thread, _), _)| *thread == follow.owner);
        let all: u64 = around().map(|(_, samples)| samples).sum();
        let own: u64 = around().filter(|((thread, words), _)| is_seen(*thread, *words)).map(|(_, samples)| samples).sum();
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

    /// For how many stores a sampled one stands that registers came too late to see followed by another: as many as the instruction has
    /// places in lines.
    fn visit(&self, follow: &Follow) -> f64 {
        if !follow.is_late() {
            return 1.0;
        }
        self.places.get(&follow.ip).map_or(1, |places| places.len().max(1)) as f64
    }
}

impl LineMeans {
    /// Samples times mean, and its variance: of the number of samples (Poisson), and of the mean.
    fn sum(&self, moments: &Moments, unlike: f64) -> Sum {
        let mean = moments.sum / self.follows;
        let of_mean = if self.follows > 1.0 {
            let variance = (moments.squares / self.follows - mean * mean).max(0.0) * self.follows / (self.follows - 1.0);
            // A line's follows may all agree by chance: never less than one more, unlike the others, would make of it.
            variance / self.follows + (mean / (self.follows + 1.0)).powi(2)
        } else {
            unlike * mean * mean
        };
        Sum {
            value: self.samples * mean,
            variance: self.samples * mean * mean + self.samples.powi(2) * of_mean,
            seen: moments.seen,
        }
    }
}

/// How unlike follows of one line are: the squared coefficient of variation, over all lines with several; 1 where there is none.
fn variation(lines: &FxHashMap<Line, LineMeans>) -> f64 {
    let any = Key { pair: None, kind: Sharing::Any };
    let several = lines.values().filter(|means| means.follows > 1.0).filter_map(|means| Some((means, means.by_key.get(&any)?)));
    let (mut squares, mut means) = (0.0, 0.0);
    for (line, moments) in several {
        let mean = moments.sum / line.follows;
        squares += (moments.squares - line.follows * mean * mean).max(0.0);
        means += (line.follows - 1.0) * mean * mean;
    }
    if means > 0.0 { (squares / means).max(0.1) } else { 1.0 }
}

/// Lines that were sampled, and never followed.
struct Unfollowed {
    samples: f64,
    /// Follows of lines that were sampled as seldom.
    follows: f64,
    by_key: FxHashMap<Key, Moments>,
}

impl Unfollowed {
    fn of(evidence: &Evidence, lines: &FxHashMap<Line, LineMeans>) -> Self {
        let left = || evidence.store_samples.iter().filter(|(line, _)| !lines.contains_key(line)).map(|(_, samples)| *samples);
        let most = left().max().unwrap_or(0) as f64;
        let mut like = Self { samples: left().sum::<u64>() as f64, follows: 0.0, by_key: FxHashMap::default() };
        for means in lines.values().filter(|means| means.samples <= most) {
            // Each sample of such a line counts once, however often the line was followed.
            let each = means.samples / means.follows;
            like.follows += means.samples;
            for (key, moments) in &means.by_key {
                let all = like.by_key.entry(*key).or_default();
                all.sum += each * moments.sum;
                all.squares += each * moments.squares;
                all.seen += moments.seen;
            }
        }
        like
    }

    fn sum(&self, key: &Key) -> Sum {
        let Some(moments) = self.by_key.get(key).filter(|_| self.follows > 0.0 && self.samples > 0.0) else {
            return Sum::default();
        };
        let mean = moments.sum / self.follows;
        let variance = (moments.squares / self.follows - mean * mean).max(mean * mean);
        Sum {
            value: self.samples * mean,
            variance: self.samples * (variance + mean * mean) + self.samples.powi(2) * variance / self.follows,
            // They are others' observations, counted there.
            seen: 0,
        }
    }
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.value += other.value;
        self.variance += other.variance;
        self.seen += other.seen;
    }

    /// With so many stores a sample. The interval is a gamma distribution's of the same mean and variance, its upper end with one more
    /// observation, as for counts of few (Garwood, Biometrika 28, 1936); of what was not seen at most 3.7 samples' worth could have been.
    fn estimate(&self, weight: f64) -> Estimate {
        /// 97.5 % point of a Poisson mean of which nothing was seen: -ln 0.025.
        const UNSEEN: f64 = 3.689;
        if self.value <= 0.0 {
            return Estimate::new(0.0, 0.0, UNSEEN * weight);
        }
        let observations = self.value * self.value / self.variance.max(f64::MIN_POSITIVE);
        let each = self.value / observations;
        let low = Gamma::new(observations, 1.0).map_or(0.0, |gamma| gamma.inverse_cdf(0.025) * each);
        let high = Gamma::new(observations + 1.0, 1.0).map_or(f64::MAX, |gamma| gamma.inverse_cdf(0.975) * each);
        Estimate::new(weight * self.value, weight * low.min(self.value), weight * high.max(self.value))
    }
}

impl Evidence {
    /// Follows that ran their whole length.
    pub fn full(&self) -> u64 {
        self.follows.iter().filter(|follow| follow.end == End::Full).count() as u64
    }
}
