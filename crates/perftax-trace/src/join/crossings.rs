//! What went from one host to another: messages that both know by name, and those of them that came back.

use rustc_hash::FxHashMap;

use perftax_pmu::sys::HostClock;

use super::Pair;
use crate::align::{Crossing, MAX_BEND};
use crate::mark::TraceIdentity;
use crate::store::Relations;

/// When a message that others know was sent and received by one host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passed {
    /// Its number where it was sent; 0: it was not.
    pub sent_id: u64,
    /// Its number where it was received: a server may answer under another one.
    pub received_id: u64,
    pub sent_ns: Option<u64>,
    pub received_ns: Option<u64>,
    /// It was sent or received more than once: which of them belong together is not known.
    pub is_repeated: bool,
}

impl Passed {
    /// It was sent, and came back, rather than the other way round; none where that is not known.
    fn is_had_back(&self) -> Option<bool> {
        Some(self.sent_ns? <= self.received_ns?)
    }
}

/// What of a trace speaks of other hosts.
#[derive(Debug, Default)]
pub struct HostTrace {
    /// Which start of which host's kernel: two traces with the same have one raw clock. None of older traces.
    pub boot_id: Option<String>,
    /// Its clocks, in order of time.
    pub clocks: Vec<HostClock>,
    pub(crate) passed: FxHashMap<TraceIdentity, Passed>,
}

impl HostTrace {
    /// From what programs said of its messages, and its clocks. What was sent and received is taken by the name that was in force then, and where a program said so: who begins another
    /// one's message need not have read it just then.
    pub fn new(relations: &Relations, clocks: Vec<HostClock>, boot_id: Option<String>) -> Self {
        let mut passed: FxHashMap<TraceIdentity, Passed> = FxHashMap::default();
        for hop in relations.named_hops().filter(|hop| !hop.is_inferred) {
            let Some(identity) = hop.identity.filter(|identity| *identity != TraceIdentity::default()) else { continue };
            let of = passed.entry(identity).or_default();
            let (id, time) =
                if hop.is_sent { (&mut of.sent_id, &mut of.sent_ns) } else { (&mut of.received_id, &mut of.received_ns) };
            *id = hop.id;
            of.is_repeated |= time.replace(hop.time_ns).is_some();
        }
        Self { boot_id, clocks, passed }
    }

    /// Messages that it sent or received under a name that others know, too.
    pub fn named(&self) -> usize {
        self.passed.len()
    }

    /// Whether another trace is of the same start of the same host: their raw clock is one.
    pub fn is_one_host(&self, other: &Self) -> bool {
        self.boot_id.is_some() && self.boot_id == other.boot_id
    }

    /// What went from this host to the other one and back. Of what was sent or received more than once nothing is taken.
    pub fn crossings(&self, other: &Self) -> Vec<Crossing> {
        self.crossed(other).0
    }

    /// The same, and how many messages that both know are left out of it.
    pub(super) fn crossed(&self, other: &Self) -> (Vec<Crossing>, usize) {
        let (mut crossings, mut left_out) = (Vec::new(), 0);
        for (identity, own) in &self.passed {
            let Some(others) = other.passed.get(identity) else { continue };
            // Who had it first is known where one side alone had it back: what a third one sent through both of them did not go to and fro between them, and which of them had it first
            // neither says.
            let has_no_order = own.is_had_back().zip(others.is_had_back()).is_some_and(|(own, others)| own == others);
            if own.is_repeated || others.is_repeated || has_no_order {
                left_out += 1;
                continue;
            }
            let forth = own.sent_ns.zip(others.received_ns).map(|(sent_ns, received_ns)| (sent_ns, received_ns, true));
            let back = others.sent_ns.zip(own.received_ns).map(|(sent_ns, received_ns)| (sent_ns, received_ns, false));
            let crossing = |(sent_ns, received_ns, is_forth)| Crossing { sent_ns, received_ns, is_forth };
            crossings.extend(forth.into_iter().chain(back).map(crossing));
        }
        // Whatever order a table has.
        crossings.sort_by_key(|crossing| (crossing.is_forth, crossing.sent_ns, crossing.received_ns));
        (crossings, left_out)
    }

    /// Those that went to the other one and came back, or the other way round, in no order.
    fn there_and_back<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = Trip> + 'a {
        self.passed.iter().filter_map(|(identity, own)| {
            let others = other.passed.get(identity).filter(|others| !others.is_repeated && !own.is_repeated)?;
            let is_forth = own.is_had_back()?;
            if is_forth == others.is_had_back()? {
                return None;
            }
            let (caller, called) = if is_forth { (own, others) } else { (others, own) };
            Some(Trip {
                identity: *identity,
                is_forth,
                away_ns: (caller.sent_ns?, caller.received_ns?),
                there_ns: (called.received_ns?, called.sent_ns?),
            })
        })
    }

    /// The least that any of them was on the way, at most, ns; none where there is none.
    pub(super) fn shortest_round_trip_ns(&self, other: &Self, pair: &Pair) -> Option<u64> {
        let at_most = |trip: Trip| trip.ways_ns(pair.rates(trip.caller_and_called(pair))).1;
        self.there_and_back(other).map(at_most).min()
    }

    /// Messages that went from this host to the other one and back, or the other way round; `pair` is of these two.
    pub fn round_trips(&self, other: &Self, pair: &Pair) -> Vec<RoundTrip> {
        let told = |trip: Trip| trip.told(pair);
        let mut trips: Vec<RoundTrip> = self.there_and_back(other).filter_map(told).collect();
        trips.sort_by_key(|trip| (trip.is_forth, trip.sent_ns, trip.identity));
        trips
    }
}

/// A message that went from one host to another one, and came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// What both call it.
    pub identity: TraceIdentity,
    /// Whether the first host of a pair sent it; otherwise the second one did.
    pub is_forth: bool,
    /// When, by the sender's clock, ns.
    pub sent_ns: u64,
    /// How long it was away, by the sender's clock alone, ns.
    pub away_ns: u64,
    /// How long of that it was on the other host, by that one's clock alone, ns.
    pub there_ns: u64,
    /// The same by the sender's clock: at least and at most, by how much faster the one clock is than the other, ns.
    pub there_by_sender_ns: (u64, u64),
    /// On the way, there and back, or in queues of either host: at least and at most, likewise, ns.
    pub ways_ns: (u64, u64),
    /// How long the way there took: at least and at most, by what their clocks are known to be apart, ns.
    pub way_there_ns: (u64, u64),
    /// The way back, likewise.
    pub way_back_ns: (u64, u64),
}

/// The same by each host's clock alone.
#[derive(Clone, Copy)]
struct Trip {
    identity: TraceIdentity,
    is_forth: bool,
    /// When the sender sent it and had it back, by its clock.
    away_ns: (u64, u64),
    /// When it came and was answered, by the other one's.
    there_ns: (u64, u64),
}

impl Trip {
    /// The sender, and the other one.
    fn caller_and_called(&self, pair: &Pair) -> (usize, usize) {
        let [first, second] = pair.hosts;
        if self.is_forth { (first, second) } else { (second, first) }
    }

    /// By the sender's clock no more than it was away.
    fn within(&self, ns: i128) -> u64 {
        ns.clamp(0, i128::from(self.away_ns.1 - self.away_ns.0)) as u64
    }

    /// How long it was there, by the sender's clock, where the other one is faster by so much.
    fn there_ns(&self, (slower, faster): (f64, f64)) -> (u64, u64) {
        let there_ns = (self.there_ns.1 - self.there_ns.0) as f64;
        let at_least = self.within((there_ns / (1.0 + faster)).floor() as i128);
        (at_least, self.within((there_ns / (1.0 + slower)).ceil() as i128))
    }

    /// How long it was not.
    fn ways_ns(&self, rates: (f64, f64)) -> (u64, u64) {
        let away_ns = self.away_ns.1 - self.away_ns.0;
        let (at_least, at_most) = self.there_ns(rates);
        (away_ns - at_most, away_ns - at_least)
    }

    /// With what the pair's clocks are apart; none where they are not aligned.
    fn told(&self, pair: &Pair) -> Option<RoundTrip> {
        let (from, to) = self.caller_and_called(pair);
        let ((sent_ns, back_ns), (received_ns, answered_ns)) = (self.away_ns, self.there_ns);
        // The other clock less the sender's, at either end: what changes in between is its drift.
        let (at_first, rates) = pair.known(from, to, sent_ns)?;
        let at_last = pair.known(from, to, back_ns)?.0;
        let (away_ns, there_ns) = (back_ns - sent_ns, answered_ns - received_ns);
        let bend = MAX_BEND * away_ns as f64;
        let rates = if pair.is_one_host { rates } else { (rates.0 - bend, rates.1 + bend) };
        let there = i128::from(received_ns) - i128::from(sent_ns);
        let back = i128::from(back_ns) - i128::from(answered_ns);
        Some(RoundTrip {
            identity: self.identity,
            is_forth: self.is_forth,
            sent_ns,
            away_ns,
            there_ns,
            there_by_sender_ns: self.there_ns(rates),
            ways_ns: self.ways_ns(rates),
            way_there_ns: (self.within(there - at_first.1), self.within(there - at_first.0)),
            way_back_ns: (self.within(back + at_last.0), self.within(back + at_last.1)),
        })
    }
}
