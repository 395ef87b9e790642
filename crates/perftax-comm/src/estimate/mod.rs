//! From follows to transfers, with intervals.
//!
//! A store drawn at random from a program's stores is followed by y transfers to thread u (0 or 1 for each u) before the line's next store.
//! With n samples that stand for S stores, the transfers are estimated as S/n · Σ n_l · ȳ_l over lines l: n_l samples of its stores, ȳ_l the
//! mean over its follows. Lines that were sampled while another was followed have none; what follows stores of the same instructions in other
//! lines stands for theirs. docs/guide/comm.md says what is assumed, and what the variance is made of.

mod coverage;
mod fetched;
mod moments;
mod strata;
mod unfollowed;

use std::collections::BTreeMap;

use perftax_doc::Estimate;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::access::Thread;
use crate::access_table::{AccessTable, Use};
use crate::census::Site;
use crate::evidence::Evidence;
use crate::line::{Bytes, Line};
use crate::pieces::{Progress, Spread};
use crate::watch_episode::{Fetch, WatchEpisode};

use coverage::{Sighted, Storing};
use fetched::Fetched;
use moments::{Key, LineMeans, Sharing, Sum, variation};
use strata::Strata;
use unfollowed::Unfollowed;

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
    /// Sampled accesses that fetched what nobody is known to have written; left out.
    pub untold: u64,
    /// Those that fetched what nobody but the thread itself is known to write, which had moved to another core, or whose line was evicted; left out.
    pub moved: u64,
    /// Lines of which follows saw far more transfers than samples allow: traps made them so.
    pub disturbed_lines: u64,
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
    /// What all that rests on.
    pub rest: Rest,
}

/// The observations of one line: its transfers are stores a sample × samples × the mean of what followed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rest {
    /// Stores of the program for each sample of one.
    pub stores_per_sample: f64,
    /// Samples of stores to the line.
    pub store_samples: u64,
    /// Transfers that followed a store, in the mean of each follow.
    pub transfers_per_store: Vec<f64>,
}

/// Estimates the transfers of a program that executed `stores` stores.
///
/// Where accesses that fetch were sampled, they tell of all lines that were followed seldom: how often is not what was seen there, so choosing by
/// it is no bias.
pub fn estimate(evidence: &Evidence, board: &AccessTable, stores: u64) -> Transfers {
    let samples = evidence.stores();
    let weight = if samples > 0 { stores as f64 / samples as f64 } else { 0.0 };
    let lines = line_means(evidence, board);
    let unlike = variation(&lines);
    let fetched =
        evidence.fetches.as_ref().map(|fetches| Fetched::of(fetches, board, &evidence.progress, weight).beside(&lines, unlike));
    let by_line = sums_of_lines(&lines, unlike, fetched.as_ref());

    let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
    for (key, sum) in by_line.values().flatten() {
        sums.entry(*key).or_default().add(sum);
    }
    if fetched.is_none() {
        let unfollowed = Unfollowed::of(evidence, board, &lines);
        for (key, sum) in &mut sums {
            sum.add(&unfollowed.sum(key));
        }
    }
    let shares = |pair, sums: &dyn Fn(&Key) -> Option<Sum>| {
        let sum = |kind| sums(&Key { pair, kind }).unwrap_or_default();
        shares_of(weight, &evidence.progress, sum)
    };
    let pairs = sums.keys().filter(|key| key.kind == Sharing::Any).filter_map(|key| key.pair);
    let of_line = |line: Line, own: &FxHashMap<Key, Sum>| {
        let of_pair = |(key, sum): (&Key, &Sum)| Some((key.pair.filter(|_| key.kind == Sharing::Any)?, weight * sum.value));
        let mut pairs: Vec<_> = own.iter().filter_map(of_pair).collect();
        pairs.sort_by_key(|(pair, _)| *pair);
        let followed = lines.get(&line);
        let rest = Rest {
            stores_per_sample: weight,
            store_samples: followed.map_or(0, |means| means.samples as u64),
            transfers_per_store: followed.map(|means| means.each.clone()).unwrap_or_default(),
        };
        let shares = shares(None, &|key| own.get(key).cloned());
        LineTransfers { line, shares, pairs, sites: sites(board, line), rest }
    };
    let mut told: Vec<_> = by_line.iter().map(|(line, own)| of_line(*line, own)).collect();
    // By what they have at least: of thousands of lines with a few transfers each, some are sampled twice by chance, and would come before
    // those that have many.
    told.sort_by(|a, b| {
        let (a_total, b_total) = (&a.shares.total, &b.shares.total);
        let by_estimate = b_total.estimate.total_cmp(&a_total.estimate);
        b_total.low.total_cmp(&a_total.low).then(by_estimate).then(a.line.cmp(&b.line))
    });
    let all = |key: &Key| sums.get(key).cloned();
    Transfers {
        total: shares(None, &all),
        pairs: pairs.map(|pair| (pair, shares(Some(pair), &all))).collect(),
        lines: told,
        disturbed_lines: fetched.as_ref().map_or(0, |fetched| fetched.disturbed),
        untold: fetched.as_ref().map_or(0, |fetched| fetched.untold),
        moved: fetched.as_ref().map_or(0, |fetched| fetched.moved),
    }
}

/// What is known of each line that was seen to be shared.
fn sums_of_lines(
    lines: &FxHashMap<Line, LineMeans>,
    unlike: f64,
    fetched: Option<&Fetched>,
) -> BTreeMap<Line, FxHashMap<Key, Sum>> {
    let is_told = |line: &Line| fetched.is_none_or(|fetched| fetched.told_by_follows.contains(line));
    let sums = |means: &LineMeans| means.by_key.iter().map(|(key, moments)| (*key, means.sum(moments, unlike))).collect();
    let followed = lines.iter().filter(|(line, means)| is_told(line) && !means.by_key.is_empty());
    let mut by_line: BTreeMap<Line, FxHashMap<Key, Sum>> = followed.map(|(line, means)| (*line, sums(means))).collect();
    for (line, sums) in fetched.into_iter().flat_map(|fetched| &fetched.by_line) {
        if !is_told(line) {
            by_line.insert(*line, sums.clone());
        }
    }
    by_line
}

/// Instructions that touch a line, those seen most often first.
fn sites(board: &AccessTable, line: Line) -> Vec<(Site, u64)> {
    let site = |u: &Use| (Site { thread: u.thread, ip: u.ip, kind: u.kind, bytes: u.bytes }, u.samples + u.traps);
    let mut sites: Vec<_> = board.uses(line).iter().map(site).collect();
    sites.sort_by_key(|(site, seen)| (std::cmp::Reverse(*seen), *site));
    sites
}

fn shares_of(weight: f64, progress: &Progress, sum: impl Fn(Sharing) -> Sum) -> Shares {
    let estimate = |kind| sum(kind).estimate(weight, progress);
    Shares {
        total: estimate(Sharing::Any),
        true_sharing: estimate(Sharing::True),
        false_sharing: estimate(Sharing::False),
        evidence: sum(Sharing::Any).seen,
    }
}

/// What each line's follows say of each kind of transfer.
fn line_means(evidence: &Evidence, board: &AccessTable) -> FxHashMap<Line, LineMeans> {
    let mut by_line: FxHashMap<Line, Vec<&WatchEpisode>> = FxHashMap::default();
    for follow in &evidence.follows {
        by_line.entry(follow.line).or_default().push(follow);
    }
    let storing = Storing::of(board, &evidence.follows);
    let none = Spread::default();
    let of_line = |(line, follows): (Line, Vec<&WatchEpisode>)| {
        let spread = evidence.store_samples.get(&line).unwrap_or(&none);
        let began: Vec<usize> = follows.iter().map(|follow| evidence.progress.piece_of(follow.sample)).collect();
        let strata = Strata::of(spread, &began);
        let samples = spread.total() as f64;
        let mut means = LineMeans { samples, follows: follows.len() as f64, strata, ..LineMeans::default() };
        let sighted = Sighted::of(line, &follows, board);
        for (number, follow) in follows.iter().enumerate() {
            let visit = storing.visit(follow);
            let mut own: FxHashMap<Key, f64> = FxHashMap::default();
            for (fetch, each) in follow.fetches(storing.seen(follow, board)) {
                let Some(weight) = sighted.weight(follow, fetch.to) else { continue };
                let y = each / visit * weight;
                let kind = if is_true(board, &storing, follow, &fetch) { Sharing::True } else { Sharing::False };
                for kind in [Sharing::Any, kind] {
                    for pair in [None, Some((fetch.from, fetch.to))] {
                        *own.entry(Key { pair, kind }).or_default() += y;
                    }
                }
            }
            means.each.push(own.get(&Key::ALL).copied().unwrap_or(0.0));
            for (key, y) in &own {
                let (stratum, strata) = (means.strata.of_follow(number), means.strata.len());
                means.by_key.entry(*key).or_default().add(*y, stratum, strata);
            }
            means.by_follow.push((follow.ip, own));
        }
        (line, means)
    };
    by_line.into_iter().map(of_line).collect()
}

/// Store samples of a line that name all the words that are stored to, as a rule.
const ENOUGH_SAMPLES: u64 = 16;

/// True sharing: the access that fetched touched bytes that other threads are known to store to.
///
/// A follow sees only what was written since the sampled store; a thread that fetches may need what was written earlier. What others write
/// in this line at all stands for it; where few samples told, also what the owner writes in other lines that the sampled instruction stores to.
fn is_true(board: &AccessTable, storing: &Storing, follow: &WatchEpisode, fetch: &Fetch) -> bool {
    let others = || board.uses(follow.line).iter().filter(|u| u.kind.is_store() && u.thread != fetch.to);
    let known = others().fold(Bytes::default(), |all, u| all.with(u.bytes)).overlaps(fetch.bytes);
    let is_told = known || others().map(|u| u.samples).sum::<u64>() >= ENOUGH_SAMPLES || follow.owner == fetch.to;
    known || !is_told && storing.stores_to(follow, fetch.bytes)
}
