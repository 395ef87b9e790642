//! From follows to transfers, with intervals.
//!
//! A store drawn at random from a program's stores is followed by y transfers to thread u (0 or 1 for each u) before the line's next store.
//! With n samples that stand for S stores, the transfers are estimated as S/n · Σ n_l · ȳ_l over lines l: n_l samples of its stores, ȳ_l the
//! mean over its follows. Lines that were sampled while another was followed have none; they take the mean of other lines that were
//! sampled as seldom. docs/comm.md says what is assumed, and what the variance is made of.

mod coverage;
mod moments;

use std::collections::BTreeMap;

use perftax_cost::Estimate;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::access::Thread;
use crate::board::{Board, Use};
use crate::census::Site;
use crate::evidence::Evidence;
use crate::follow::{Fetch, Follow};
use crate::line::{Bytes, Line};

use coverage::{Sighted, Storing};
use moments::{Key, LineMeans, Moments, Sharing, Sum, Unfollowed, variation};

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
        let rest =
            Rest { stores_per_sample: weight, store_samples: means.samples as u64, transfers_per_store: means.each.clone() };
        LineTransfers { line, shares: shares_of(weight, sum), pairs, sites: sites(board, line), rest }
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
        let mut means = LineMeans { samples, follows: follows.len() as f64, ..LineMeans::default() };
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
            means.each.push(own.get(&Key { pair: None, kind: Sharing::Any }).copied().unwrap_or(0.0));
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
