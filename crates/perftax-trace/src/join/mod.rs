//! Traces of several hosts beside each other: how far their clocks are apart, by what was sent and received, and which of their clocks say otherwise.

mod crossings;
mod stated;
#[cfg(test)]
mod tests;
mod verdict;

pub use crossings::{HostTrace, RoundTrip};
pub use stated::{Shared, Stated, stated};
pub use verdict::{Lying, lying};

use crate::align::{Alignment, Crossing, MAX_DRIFT, Unaligned};

/// Two hosts.
#[derive(Debug)]
pub struct Pair {
    /// Which, from 0.
    pub hosts: [usize; 2],
    /// Both are one host since it was started: their raw clock is one.
    pub is_one_host: bool,
    /// Their raw clocks by causality, or why that is not known; of one host 0, whatever was sent.
    pub alignment: Result<Alignment, Unaligned>,
    /// Messages from the first to the second, and back.
    pub crossings: [usize; 2],
    /// Messages that both know and of which nothing was taken: they were sent or received more than once, or which of the two had them first is not known.
    pub left_out: usize,
    /// Of one host: messages that were received before they were sent, which cannot be. They were marked wrongly (perftax_send goes before the write, perftax_receive after the read), or
    /// are several under one name.
    pub contradictions: usize,
    /// The same alignment from the second one's side.
    turned: Option<Alignment>,
    /// What their other clocks say of that, and by how much causality contradicts it at least, ns: 0 where it does not.
    pub stated: Vec<(Shared, Stated, u128)>,
    /// What the two together bound it by, of each of these, ns.
    known_to_ns: Vec<i128>,
}

/// Bounds of a difference at a time, ns, and of how fast it changes then.
type Known = ((i128, i128), (f64, f64));

impl Pair {
    /// By what went between two hosts.
    fn of([a, b]: [usize; 2], first: &HostTrace, second: &HostTrace) -> Self {
        let (crossings, left_out) = first.crossed(second);
        let turned: Vec<Crossing> = crossings.iter().map(|crossing| crossing.turned()).collect();
        let is_one_host = first.is_one_host(second);
        let align = |crossings: &[Crossing]| match is_one_host {
            true => Ok(Alignment::exact(crossings)),
            false => Alignment::of(crossings),
        };
        let is_contradiction = |crossing: &&Crossing| is_one_host && crossing.received_ns < crossing.sent_ns;
        let forth = crossings.iter().filter(|crossing| crossing.is_forth).count();
        let mut pair = Self {
            hosts: [a, b],
            is_one_host,
            alignment: align(&crossings),
            crossings: [forth, crossings.len() - forth],
            left_out,
            contradictions: crossings.iter().filter(is_contradiction).count(),
            turned: align(&turned).ok(),
            stated: Vec::new(),
            known_to_ns: Vec::new(),
        };
        if let Some(shortest_ns) = first.shortest_round_trip_ns(second, &pair) {
            for alignment in pair.alignment.iter_mut().chain(&mut pair.turned) {
                (alignment.shortest_round_trip_ns, alignment.is_by_round_trips) = (shortest_ns, true);
            }
        }
        pair
    }

    fn alignment(&self, from: usize, to: usize) -> Option<&Alignment> {
        match self.hosts {
            hosts if hosts == [from, to] => self.alignment.as_ref().ok(),
            hosts if hosts == [to, from] => self.turned.as_ref(),
            _ => None,
        }
    }

    /// The clock of `to` less that of `from` at a time of the latter: at least and at most, ns; none where the pair is not of these two, or not aligned.
    pub fn difference_ns(&self, from: usize, to: usize, time_ns: u64) -> Option<(i128, i128)> {
        self.known(from, to, time_ns).map(|(difference, _)| difference)
    }

    /// The same, and by how much the one is faster then.
    fn known(&self, from: usize, to: usize, time_ns: u64) -> Option<Known> {
        self.alignment(from, to).map(|alignment| alignment.known(time_ns))
    }

    /// By how much the clock of `to` is faster than that of `from`, at any time of their messages: at least and at most, in a ns.
    fn rates(&self, (from, to): (usize, usize)) -> (f64, f64) {
        self.alignment(from, to).map_or((-MAX_DRIFT, MAX_DRIFT), Alignment::slopes)
    }
}

/// The clock of `to` less that of `from` at a time of the latter, by a pair of these, or by two with a third host between them; ns.
fn difference_ns(pairs: &[Pair], hosts: usize, (from, to): (usize, usize), time_ns: u64) -> Option<(i128, i128)> {
    let direct = |from, to, time_ns| pairs.iter().find_map(|pair| pair.difference_ns(from, to, time_ns));
    if let Some(known) = direct(from, to, time_ns) {
        return Some(known);
    }
    let by = |between: usize| {
        let (low, high) = direct(from, between, time_ns)?;
        let then_ns = u64::try_from(i128::from(time_ns) + low.midpoint(high)).ok()?;
        let (more_low, more_high) = direct(between, to, then_ns)?;
        // When that is there is known to what the first two are.
        let drift = ((high - low) as f64 * MAX_DRIFT).ceil() as i128;
        Some((low + more_low - drift, high + more_high + drift))
    };
    (0..hosts).filter(|between| *between != from && *between != to).filter_map(by).min_by_key(|(low, high)| high - low)
}

/// Aligns each two of several hosts.
pub fn pairs(hosts: &[HostTrace]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (a, first) in hosts.iter().enumerate() {
        pairs.extend(hosts.iter().enumerate().skip(a + 1).map(|(b, second)| Pair::of([a, b], first, second)));
    }
    for at in 0..pairs.len() {
        let [a, b] = pairs[at].hosts;
        // Of one host both say the same, whatever that is.
        if pairs[at].is_one_host {
            continue;
        }
        for shared in Shared::ALL {
            let Some(stated) = stated(&hosts[a], &hosts[b], shared) else { continue };
            let known = difference_ns(&pairs, hosts.len(), (a, b), stated.time_ns);
            let against = known.map_or(0, |(low, high)| (stated.low_ns - high).max(low - stated.high_ns).max(0).unsigned_abs());
            let width = |(low, high): (i128, i128)| high - low + stated.high_ns - stated.low_ns;
            pairs[at].known_to_ns.push(known.map_or(i128::MAX, width));
            pairs[at].stated.push((shared, stated, against));
        }
    }
    pairs
}
