//! What the slow messages' extra time was spent on.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use perftax_cost::bootstrap::{SEED, vector_bootstrap};
use perftax_doc::{CONFIDENCE, Estimate};

use crate::cause::{Cause, Shares};
use crate::executed::{ExecutedOfMessage, ExecutedTotals};
use crate::message::{Message, Piece};
use crate::spot::Spot;

/// What a part of a cause's time went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Detail {
    /// Which ([`crate::Piece::which`]): measured.
    Which(u32),
    /// Waiting that somebody ended: for what the thread waited, as [`Detail::Which`] has it, and what who ended it is called ([`crate::Kinds`]): measured.
    Ended {
        /// For what.
        which: u32,
        /// By whom.
        kind: u32,
    },
    /// What was worked on while the message waited for a thread: what that is called, measured.
    Meanwhile(u32),
    /// A function, by its number: estimated from samples, the cause's time shared out among them.
    Function(u32),
}

impl Detail {
    /// The same of the function that has this number by now.
    fn renumbered(self, of: impl Fn(u32) -> u32) -> Self {
        match self {
            Self::Which(_) | Self::Ended { .. } | Self::Meanwhile(_) => self,
            Self::Function(number) => Self::Function(of(number)),
        }
    }

    /// What sort of a detail it is: those of one sort tell of the same time.
    fn sort(self) -> u8 {
        match self {
            Self::Which(_) => 0,
            Self::Ended { .. } | Self::Meanwhile(_) => 1,
            Self::Function(_) => 2,
        }
    }
}

impl Message {
    /// What its causes' time went to in particular: the time of each piece of which something is known, and one for each sample.
    pub fn details(&self) -> impl Iterator<Item = (Cause, Detail, u64)> {
        let has_detail = |piece: &&Piece| piece.which != 0 || piece.cause.is_interruption();
        let pieces = self.instants().iter().filter(has_detail);
        let times = pieces.map(|piece| (piece.cause, Detail::Which(piece.which), piece.to_ns - piece.from_ns));
        times.chain(self.by_kind()).chain(self.hits.iter().map(|hit| (hit.cause, Detail::Function(hit.function), 1)))
    }
}

impl Message {
    /// Its waiting by who ended it, and by what was worked on meanwhile, where that has a kind.
    fn by_kind(&self) -> impl Iterator<Item = (Cause, Detail, u64)> {
        let of_wakings = self.wakings.iter().any(|waking| waking.by.kind != 0);
        let is_known = of_wakings || self.meanwhiles.iter().any(|meanwhile| meanwhile.kind != 0);
        let pieces = if is_known { self.instants() } else { &[] };
        pieces.iter().filter_map(|piece| {
            let ns = piece.to_ns - piece.from_ns;
            if let Some(waker) = self.woken(piece).filter(|waker| waker.kind != 0) {
                // A thread that waits for a CPU waits for no call any more.
                let which = if piece.cause == Cause::Blocked { piece.which } else { 0 };
                return Some((piece.cause, Detail::Ended { which, kind: waker.kind }, ns));
            }
            let meanwhile = self.meanwhile(piece).filter(|meanwhile| meanwhile.kind != 0)?;
            Some((piece.cause, Detail::Meanwhile(meanwhile.kind), meanwhile.kind_ns.min(ns)))
        })
    }
}

/// One message, in short.
#[derive(Clone, Debug, PartialEq)]
pub struct Brief {
    /// As the program named it.
    pub id: u64,
    /// When it began.
    pub begin_ns: u64,
    /// From begin to end.
    pub latency_ns: u64,
    /// By cause.
    pub shares: Shares,
    /// By detail: time for [`Detail::Which`], samples for [`Detail::Function`].
    pub details: Vec<(Cause, Detail, u64)>,
    /// Samples of the events that are counted.
    pub events: Vec<(Spot, u64)>,
    /// How often samples were counted anew for it ([`Message::stints`]).
    pub stints: u32,
    /// Instructions and cycles.
    pub executed: ExecutedOfMessage,
}

impl Brief {
    /// Of a message that ended.
    pub fn of(message: &Message) -> Option<Self> {
        let mut details: BTreeMap<(Cause, Detail), u64> = BTreeMap::new();
        for (cause, detail, amount) in message.details() {
            *details.entry((cause, detail)).or_default() += amount;
        }
        let mut events: Vec<(Spot, u64)> = message.events.iter().map(|(spot, n)| (*spot, *n)).collect();
        events.sort_unstable();
        Some(Self {
            id: message.id,
            begin_ns: message.begin_ns,
            latency_ns: message.latency_ns()?,
            shares: message.shares,
            details: details.into_iter().map(|((cause, detail), n)| (cause, detail, n)).collect(),
            events,
            stints: message.stints,
            executed: message.executed,
        })
    }

    /// Takes functions for what `of` says of their numbers.
    pub fn renumber(&mut self, of: impl Fn(u32) -> u32) {
        let mut details: BTreeMap<(Cause, Detail), u64> = BTreeMap::new();
        for (cause, detail, n) in self.details.drain(..) {
            *details.entry((cause, detail.renumbered(&of))).or_default() += n;
        }
        self.details.extend(details.into_iter().map(|((cause, detail), n)| (cause, detail, n)));
        self.events.iter_mut().for_each(|(spot, _)| spot.function = of(spot.function));
    }

    /// What it spent most of its time beyond the usual on, how long beyond, and the detail with the largest part of that cause, with its
    /// time (`Which`) or samples (`Function`).
    pub fn foremost(&self, usual: &Shares) -> Foremost {
        let beyond = |cause: Cause| self.shares.of(cause).saturating_sub(usual.of(cause));
        let cause = Cause::ALL.into_iter().rev().max_by_key(|cause| beyond(*cause)).unwrap_or(Cause::OnCpu);
        let largest = |like: Detail| {
            let of_cause = self.details.iter().filter(|(of, detail, _)| *of == cause && detail.sort() == like.sort());
            of_cause.max_by_key(|(.., n)| *n).map(|(_, detail, n)| (*detail, *n))
        };
        Foremost { cause, beyond_ns: beyond(cause), which: largest(Detail::Which(0)), function: largest(Detail::Function(0)) }
    }
}

/// What one message's time beyond the usual mostly went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foremost {
    /// The cause.
    pub cause: Cause,
    /// How much beyond the usual.
    pub beyond_ns: u64,
    /// Which of it, and its time, ns.
    pub which: Option<(Detail, u64)>,
    /// The function with the most samples in it, and how many.
    pub function: Option<(Detail, u64)>,
}

/// What messages that are not slow are like.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usual {
    /// The median latency.
    pub latency_ns: u64,
    /// The median by cause.
    pub shares: Shares,
    /// Messages that the means are over.
    pub messages: u64,
    /// Their time by cause.
    pub totals: Shares,
    /// What those of them executed of which it is known.
    pub executed: ExecutedTotals,
    /// Their time and samples by detail, as far as they are settled.
    pub details: BTreeMap<(Cause, Detail), u64>,
    /// Their samples of the events that are counted.
    pub events: BTreeMap<Spot, u64>,
    /// Those of messages that were added since: adding is what takes time.
    recent: FxHashMap<(Cause, Detail), u64>,
    /// Samples of messages that were added since, by the function's number.
    recent_samples: [Vec<u64>; Cause::COUNT],
}

impl Usual {
    /// Adds a message that is not slow to the means.
    pub fn add(&mut self, message: &Message) {
        self.messages += 1;
        message.events.iter().for_each(|(spot, n)| *self.events.entry(*spot).or_default() += n);
        self.executed.add(&message.executed, message.shares.of(Cause::OnCpu));
        for piece in message.instants() {
            self.totals.add(piece.cause, piece.to_ns - piece.from_ns);
        }
        for (cause, detail, amount) in message.details() {
            // Who ended it is asked of a trace that is read, where kinds are known.
            let Detail::Function(number) = detail else {
                *self.recent.entry((cause, detail)).or_default() += amount;
                continue;
            };
            let (samples, at) = (&mut self.recent_samples[cause as usize], number as usize);
            if samples.len() <= at {
                samples.resize(at + 1, 0);
            }
            samples[at] += amount;
        }
    }

    /// Adds the means of others; both are settled.
    pub fn join(&mut self, other: &Self) {
        self.messages += other.messages;
        Cause::ALL.into_iter().for_each(|cause| self.totals.add(cause, other.totals.of(cause)));
        other.details.iter().for_each(|(key, amount)| *self.details.entry(*key).or_default() += amount);
        other.events.iter().for_each(|(spot, n)| *self.events.entry(*spot).or_default() += n);
        self.executed.join(&other.executed);
    }

    /// Takes functions for what `of` says of their numbers.
    pub fn renumber(&mut self, of: impl Fn(u32) -> u32) {
        self.settle();
        for ((cause, detail), n) in std::mem::take(&mut self.details) {
            *self.details.entry((cause, detail.renumbered(&of))).or_default() += n;
        }
        for (spot, n) in std::mem::take(&mut self.events) {
            *self.events.entry(Spot { function: of(spot.function), ..spot }).or_default() += n;
        }
    }

    /// Brings what was added into `details`.
    pub fn settle(&mut self) {
        for (key, amount) in self.recent.drain() {
            *self.details.entry(key).or_default() += amount;
        }
        for (cause, samples) in Cause::ALL.into_iter().zip(&mut self.recent_samples) {
            for (number, amount) in samples.drain(..).enumerate().filter(|(_, amount)| *amount > 0) {
                *self.details.entry((cause, Detail::Function(number as u32))).or_default() += amount;
            }
        }
    }

    /// Takes system calls, and locks, for what `of` says of their numbers.
    pub fn merge_calls(&mut self, of: impl Fn(u32) -> u32) {
        for ((cause, detail), amount) in std::mem::take(&mut self.details) {
            let detail = match (cause, detail) {
                (Cause::Syscall | Cause::Blocked, Detail::Which(which)) if which != 0 && which != Piece::IN_FAULT => {
                    Detail::Which(of(which - 1) + 1)
                }
                _ => detail,
            };
            *self.details.entry((cause, detail)).or_default() += amount;
        }
    }

    fn samples(&self, cause: Cause) -> u64 {
        let all = self.details.range((cause, Detail::Function(0))..=(cause, Detail::Function(u32::MAX)));
        all.map(|(_, n)| *n).sum()
    }

    /// Mean time of a message on a detail, ns.
    fn mean_ns(&self, cause: Cause, detail: Detail) -> f64 {
        let n = self.details.get(&(cause, detail)).copied().unwrap_or(0) as f64;
        let ns = match detail {
            Detail::Which(_) | Detail::Ended { .. } | Detail::Meanwhile(_) => n,
            Detail::Function(_) => self.totals.of(cause) as f64 * n / self.samples(cause).max(1) as f64,
        };
        ns / self.messages.max(1) as f64
    }
}

/// A cause's part in the extra time.
#[derive(Clone, Debug, PartialEq)]
pub struct Blamed {
    /// The cause.
    pub cause: Cause,
    /// Mean time beyond what the median message spent on it, ns.
    pub extra_ns: Estimate,
    /// Of it by detail, the largest first: mean time beyond what messages that are not slow spent on it on average, ns.
    pub details: Vec<(Detail, Estimate)>,
}

/// How much longer the slowest messages took than the median one, and what for.
#[derive(Clone, Debug, PartialEq)]
pub struct Blame {
    /// Slow messages.
    pub messages: usize,
    /// Mean time that each of them took beyond the median, ns.
    pub extra_ns: Estimate,
    /// By cause, the largest first. They add up to more or less than `extra_ns`, since medians do not add up; the difference is within
    /// the intervals where there are many messages.
    pub causes: Vec<Blamed>,
}

/// Replicates of the bootstrap over messages.
pub(crate) const REPLICATES: usize = 1000;
/// Clusters that it draws from: where there are more messages, several that follow each other are one cluster. What they share (a load, a
/// neighbour) then widens the interval, as it must.
const MAX_CLUSTERS: usize = 1000;
/// Details of a cause that are shown, of each kind.
const DETAILS: usize = 5;

/// Slow messages for the bootstrap, added up: their time beyond the median, their shares, and what they add to each detail.
#[derive(Default)]
struct Row {
    messages: f64,
    excess_ns: f64,
    shares: [f64; Cause::COUNT],
    samples: [f64; Cause::COUNT],
    details: Vec<(usize, f64)>,
}

/// Messages that follow each other, as the bootstrap draws them.
pub(crate) fn clusters<'a, 'b>(slow: &'a [&'b Brief]) -> impl Iterator<Item = &'a [&'b Brief]> {
    slow.chunks(slow.len().div_ceil(MAX_CLUSTERS).max(1))
}

/// Blames slow messages; `None` with fewer than two of them.
pub fn blame(slow: &[&Brief], usual: &Usual) -> Option<Blame> {
    let wanted = details(slow);
    let cluster = |briefs: &[&Brief]| briefs.iter().fold(Row::default(), |sum, brief| sum.and(brief, usual, &wanted));
    let rows: Vec<Row> = clusters(slow).map(cluster).collect();
    let all = vector_bootstrap(&rows, |sample| statistic(sample, usual, &wanted), REPLICATES, CONFIDENCE, SEED)?;
    let of_details = &all[1 + Cause::COUNT..];
    let blamed = |(at, cause): (usize, Cause)| {
        let own = wanted.iter().zip(of_details).filter(|((of, _), _)| *of == cause);
        let mut details: Vec<_> = own.map(|((_, detail), estimate)| (*detail, *estimate)).collect();
        details.sort_by(|a, b| b.1.estimate.total_cmp(&a.1.estimate));
        Blamed { cause, extra_ns: all[1 + at], details }
    };
    let mut causes: Vec<Blamed> = Cause::ALL.into_iter().enumerate().map(blamed).collect();
    causes.sort_by(|a, b| b.extra_ns.estimate.total_cmp(&a.extra_ns.estimate));
    Some(Blame { messages: slow.len(), extra_ns: all[0], causes })
}

/// The details worth a line: of each cause and kind those with the most time or samples.
fn details(slow: &[&Brief]) -> Vec<(Cause, Detail)> {
    let mut totals: BTreeMap<(Cause, u8), BTreeMap<Detail, u64>> = BTreeMap::new();
    for (cause, detail, n) in slow.iter().flat_map(|brief| &brief.details) {
        *totals.entry((*cause, detail.sort())).or_default().entry(*detail).or_default() += n;
    }
    let most = |((cause, _), details): ((Cause, u8), BTreeMap<Detail, u64>)| {
        let mut order: Vec<(Detail, u64)> = details.into_iter().collect();
        order.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        order.into_iter().take(DETAILS).map(move |(detail, _)| (cause, detail))
    };
    totals.into_iter().flat_map(most).collect()
}

impl Row {
    /// With another message.
    fn and(mut self, brief: &Brief, usual: &Usual, wanted: &[(Cause, Detail)]) -> Self {
        self.messages += 1.0;
        self.excess_ns += brief.latency_ns as f64 - usual.latency_ns as f64;
        for (sum, ns) in self.shares.iter_mut().zip(brief.shares.values()) {
            *sum += *ns as f64;
        }
        for (cause, detail, n) in &brief.details {
            if matches!(detail, Detail::Function(_)) {
                self.samples[*cause as usize] += *n as f64;
            }
            let Some(at) = wanted.iter().position(|other| other == &(*cause, *detail)) else { continue };
            match self.details.iter_mut().find(|(other, _)| *other == at) {
                Some((_, sum)) => *sum += *n as f64,
                None => self.details.push((at, *n as f64)),
            }
        }
        self
    }
}

fn statistic(sample: &[&Row], usual: &Usual, wanted: &[(Cause, Detail)]) -> Vec<f64> {
    let (mut n, mut excess, mut shares, mut samples) = (0.0, 0.0, [0.0; Cause::COUNT], [0.0; Cause::COUNT]);
    let mut details = vec![0.0; wanted.len()];
    for row in sample {
        n += row.messages;
        excess += row.excess_ns;
        for at in 0..Cause::COUNT {
            shares[at] += row.shares[at];
            samples[at] += row.samples[at];
        }
        row.details.iter().for_each(|(at, amount)| details[*at] += amount);
    }
    let of_causes = Cause::ALL.into_iter().map(|cause| shares[cause as usize] / n - usual.shares.of(cause) as f64);
    let of_details = wanted.iter().zip(details).map(|((cause, detail), amount)| {
        let at = *cause as usize;
        let ns = match detail {
            Detail::Which(_) | Detail::Ended { .. } | Detail::Meanwhile(_) => amount,
            Detail::Function(_) => shares[at] * amount / samples[at].max(1.0),
        };
        ns / n - usual.mean_ns(*cause, *detail)
    });
    std::iter::once(excess / n).chain(of_causes).chain(of_details).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn brief(id: u64, shares: Shares, details: Vec<(Cause, Detail, u64)>) -> Brief {
        Brief {
            id,
            begin_ns: id * 100_000,
            latency_ns: shares.total(),
            shares,
            details,
            events: Vec::new(),
            stints: 1,
            executed: ExecutedOfMessage::default(),
        }
    }

    #[test]
    fn a_planted_cause_is_named_with_its_detail() {
        let mut slow = Vec::new();
        for i in 0..40u64 {
            let mut shares = Shares::default();
            shares.add(Cause::OnCpu, 1000 + i % 7);
            match i % 4 {
                0 => {
                    shares.add(Cause::Softirq, 3000);
                    slow.push(brief(i, shares, vec![(Cause::Softirq, Detail::Which(3), 3000)]));
                }
                1 => {
                    shares.add(Cause::OnCpu, 40_000);
                    let details = vec![(Cause::OnCpu, Detail::Function(7), 3), (Cause::OnCpu, Detail::Function(8), 1)];
                    slow.push(brief(i, shares, details));
                }
                _ => {
                    shares.add(Cause::Blocked, 20_000 + i);
                    slow.push(brief(i, shares, vec![(Cause::Blocked, Detail::Which(36), 20_000 + i)]));
                }
            }
        }
        let mut shares = Shares::default();
        shares.add(Cause::OnCpu, 1003);
        let usual =
            Usual { latency_ns: 1003, shares, messages: 1000, totals: shares, details: BTreeMap::new(), ..Usual::default() };
        let blame = blame(&slow.iter().collect::<Vec<_>>(), &usual).unwrap();
        assert_eq!(blame.messages, 40);
        // A quarter of them 40 µs, a half 20, a quarter 3.
        assert!(blame.extra_ns.contains(20_760.0), "{blame:?}");
        let cause = |wanted| blame.causes.iter().find(|blamed| blamed.cause == wanted).unwrap();
        assert!(cause(Cause::OnCpu).extra_ns.contains(10_000.0) && cause(Cause::Blocked).extra_ns.contains(10_010.0));
        let functions = &cause(Cause::OnCpu).details;
        assert_eq!(functions.iter().map(|(detail, _)| *detail).collect::<Vec<_>>(), [Detail::Function(7), Detail::Function(8)]);
        assert!((functions[0].1.estimate / functions[1].1.estimate - 3.0).abs() < 1e-9, "{functions:?}");
        assert_eq!(cause(Cause::Softirq).details[0].0, Detail::Which(3));
        let first = slow[0].foremost(&usual.shares);
        assert_eq!((first.cause, first.beyond_ns, first.which), (Cause::Softirq, 3000, Some((Detail::Which(3), 3000))));
        assert_eq!(slow[1].foremost(&usual.shares).function, Some((Detail::Function(7), 3)));
    }
}
