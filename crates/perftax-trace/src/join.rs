//! Traces of several hosts beside each other: how far their clocks are apart, by what was sent and received, and which of their clocks say otherwise.

use rustc_hash::{FxHashMap, FxHashSet};

use perftax_pmu::sys::{Discipline, HostClock};

use crate::align::{Alignment, Crossing, Unaligned};
use crate::mark::TraceIdentity;
use crate::store::Relations;

/// When a message that others know was sent and received by one host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passed {
    /// Its number here.
    pub id: u64,
    pub sent_ns: Option<u64>,
    pub received_ns: Option<u64>,
    /// It was sent or received more than once: which of them belong together is not known.
    pub is_repeated: bool,
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
    /// From what programs said of its messages, and its clocks.
    pub fn new(relations: &Relations, clocks: Vec<HostClock>, boot_id: Option<String>) -> Self {
        let mut passed: FxHashMap<TraceIdentity, Passed> = FxHashMap::default();
        for hop in relations.all_hops() {
            let identity = relations.of(hop.id).identity;
            if identity == TraceIdentity::default() {
                continue;
            }
            let of = passed.entry(identity).or_insert(Passed { id: hop.id, ..Passed::default() });
            of.is_repeated |= of.id != hop.id;
            let time = if hop.is_sent { &mut of.sent_ns } else { &mut of.received_ns };
            of.is_repeated |= time.replace(hop.time_ns).is_some();
        }
        Self { boot_id, clocks, passed }
    }

    /// Messages that it sent or received under a name that others know, too.
    pub fn named(&self) -> usize {
        self.passed.len()
    }

    /// What went from this host to the other one and back. Of what was sent or received more than once nothing is taken.
    pub fn crossings(&self, other: &Self) -> Vec<Crossing> {
        let mut crossings = Vec::new();
        for (identity, own) in &self.passed {
            let Some(others) = other.passed.get(identity) else { continue };
            if own.is_repeated || others.is_repeated {
                continue;
            }
            // Who had it first is known where one side alone had it back: what a third one sent through both of them did not go to and fro between them.
            let is_whole = |of: &Passed| of.sent_ns.is_some() && of.received_ns.is_some();
            if is_whole(own) && is_whole(others) && own.is_had_back() == others.is_had_back() {
                continue;
            }
            let forth = own.sent_ns.zip(others.received_ns).map(|(sent_ns, received_ns)| (sent_ns, received_ns, true));
            let back = others.sent_ns.zip(own.received_ns).map(|(sent_ns, received_ns)| (sent_ns, received_ns, false));
            let crossing = |(sent_ns, received_ns, is_forth)| Crossing { sent_ns, received_ns, is_forth };
            crossings.extend(forth.into_iter().chain(back).map(crossing));
        }
        // Whatever order a table has.
        crossings.sort_by_key(|crossing| (crossing.is_forth, crossing.sent_ns, crossing.received_ns));
        crossings
    }

    /// Of its clocks' readings that are kept right the one nearest to the middle.
    fn middle(&self, shared: Shared) -> Option<(&HostClock, (i128, u64))> {
        let half = self.clocks.len() / 2;
        let known = self.clocks.iter().enumerate().filter_map(|(at, clock)| Some((at, clock, shared.of(clock)?)));
        known.min_by_key(|(at, ..)| at.abs_diff(half)).map(|(_, clock, shows)| (clock, shows))
    }

    /// Whether another trace is of the same start of the same host: their raw clock is one.
    pub fn is_one_host(&self, other: &Self) -> bool {
        self.boot_id.is_some() && self.boot_id == other.boot_id
    }
}

impl Passed {
    /// It was sent, and came back, rather than the other way round; none where that is not known.
    fn is_had_back(&self) -> Option<bool> {
        Some(self.sent_ns? <= self.received_ns?)
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
    /// On the way, there and back, or in queues of either host: at least and at most, by how much faster the one clock is than the other, ns.
    pub ways_ns: (u64, u64),
    /// How long the way there took: at least and at most, by what their clocks are known to be apart, ns.
    pub way_there_ns: (u64, u64),
    /// The way back, likewise.
    pub way_back_ns: (u64, u64),
}

impl HostTrace {
    /// Messages that went from this host to the other one and back, or the other way round; `pair` is of these two.
    pub fn round_trips(&self, other: &Self, pair: &Pair) -> Vec<RoundTrip> {
        let mut trips = Vec::new();
        for (identity, own) in &self.passed {
            let Some(others) = other.passed.get(identity).filter(|others| !others.is_repeated && !own.is_repeated) else {
                continue;
            };
            let (Some(own_back), Some(others_back)) = (own.is_had_back(), others.is_had_back()) else { continue };
            if own_back == others_back {
                continue;
            }
            let [first, second] = pair.hosts;
            let (caller, called, from, to) = if own_back { (own, others, first, second) } else { (others, own, second, first) };
            let (Some(sent_ns), Some(back_ns)) = (caller.sent_ns, caller.received_ns) else { continue };
            let (Some(received_ns), Some(answered_ns)) = (called.received_ns, called.sent_ns) else { continue };
            let (away_ns, there_ns) = (back_ns - sent_ns, answered_ns - received_ns);
            // The other clock less the sender's, at either end: what changes in between is its drift.
            let (Some(at_first), Some(at_last)) = (pair.difference_ns(from, to, sent_ns), pair.difference_ns(from, to, back_ns))
            else {
                continue;
            };
            let within = |ns: i128| ns.clamp(0, i128::from(away_ns)) as u64;
            let there = i128::from(received_ns) - i128::from(sent_ns);
            let back = i128::from(back_ns) - i128::from(answered_ns);
            let (slower, faster) = pair.rates(from, to);
            let ways = |rate: f64| within(i128::from(away_ns) - (there_ns as f64 / (1.0 + rate)).round() as i128);
            trips.push(RoundTrip {
                identity: *identity,
                is_forth: own_back,
                sent_ns,
                away_ns,
                there_ns,
                ways_ns: (ways(slower), ways(faster)),
                way_there_ns: (within(there - at_first.1), within(there - at_first.0)),
                way_back_ns: (within(back + at_last.0), within(back + at_last.1)),
            });
        }
        trips.sort_by_key(|trip| (trip.is_forth, trip.sent_ns, trip.identity));
        trips
    }
}

/// A clock that hosts share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shared {
    /// CLOCK_REALTIME.
    Realtime,
    /// CLOCK_TAI.
    Tai,
}

impl Shared {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Realtime, Self::Tai];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Realtime => "CLOCK_REALTIME",
            Self::Tai => "CLOCK_TAI",
        }
    }

    /// What it shows, and by how much that may be wrong by the kernel's word, ns; none where nobody keeps it right, or nobody has told the kernel of it.
    fn of(self, clock: &HostClock) -> Option<(i128, u64)> {
        // Daemons that set the clock by steps set both errors to 0 as they do: that says nothing.
        let says_nothing = |of: &Discipline| of.is_unsynchronised || (of.max_error_ns == 0 && of.estimated_error_ns == 0);
        let discipline = clock.discipline.filter(|discipline| !says_nothing(discipline))?;
        let offset_s = match self {
            Self::Realtime => 0,
            Self::Tai if discipline.tai_offset_s == 0 => return None,
            Self::Tai => discipline.tai_offset_s,
        };
        let shows = i128::from(clock.realtime_ns) + i128::from(offset_s) * 1_000_000_000;
        Some((shows, clock.within_ns.saturating_add(discipline.max_error_ns)))
    }
}

/// The second host's raw clock less the first one's by a clock that both share, at a time of the first one, ns: at least and at most by what their kernels say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stated {
    /// When, by the first host's raw clock.
    pub time_ns: u64,
    /// At least.
    pub low_ns: i128,
    /// At most.
    pub high_ns: i128,
}

/// By how much a raw clock may differ from one that is kept right, in a ns: what the kernel slews by at most.
const MAX_SLEW: f64 = 500e-6;

/// What a clock that two hosts share says of their raw clocks.
pub fn stated(first: &HostTrace, second: &HostTrace, shared: Shared) -> Option<Stated> {
    let (own, (shows, own_error_ns)) = first.middle(shared)?;
    let of_second = second.clocks.iter().filter_map(|clock| Some((clock, shared.of(clock)?)));
    let (other, (others, error_ns)) = of_second.min_by_key(|(_, (others, _))| (others - shows).unsigned_abs())?;
    // When the second one's showed the same.
    let apart_ns = shows - others;
    let raw_ns = i128::from(other.raw_ns) + apart_ns;
    let slack_ns = (apart_ns.unsigned_abs() as f64 * MAX_SLEW).ceil() as i128 + i128::from(own_error_ns) + i128::from(error_ns);
    let difference_ns = raw_ns - i128::from(own.raw_ns);
    Some(Stated { time_ns: own.raw_ns, low_ns: difference_ns - slack_ns, high_ns: difference_ns + slack_ns })
}

/// Two hosts.
#[derive(Debug)]
pub struct Pair {
    /// Which, from 0.
    pub hosts: [usize; 2],
    /// Both are one host since it was started: their raw clock is one.
    pub is_one_host: bool,
    /// Their raw clocks by causality, or why that is not known.
    pub alignment: Result<Alignment, Unaligned>,
    /// The same from the second one's side.
    turned: Option<Alignment>,
    /// What their other clocks say of that, and by how much causality contradicts it at least, ns: 0 where it does not.
    pub stated: Vec<(Shared, Stated, u128)>,
    /// What the two together bound it by, of each of these, ns.
    known_to_ns: Vec<i128>,
}

impl Pair {
    /// The clock of `to` less that of `from` at a time of the latter: at least and at most, ns; none where the pair is not of these two, or not aligned.
    pub fn difference_ns(&self, from: usize, to: usize, time_ns: u64) -> Option<(i128, i128)> {
        let is_turned = self.hosts == [to, from];
        if !is_turned && self.hosts != [from, to] {
            return None;
        }
        if self.is_one_host {
            return Some((0, 0));
        }
        let alignment = if is_turned { self.turned.as_ref() } else { self.alignment.as_ref().ok() };
        alignment.map(|alignment| alignment.difference_ns(time_ns))
    }

    /// By how much the clock of `to` is faster than that of `from`: at least and at most, in a ns.
    fn rates(&self, from: usize, to: usize) -> (f64, f64) {
        let alignment = if self.hosts == [from, to] { self.alignment.as_ref().ok() } else { self.turned.as_ref() };
        match alignment.filter(|_| !self.is_one_host) {
            Some(alignment) => alignment.rates(),
            None => (0.0, 0.0),
        }
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
        let drift = ((high - low) as f64 * MAX_SLEW).ceil() as i128;
        Some((low + more_low - drift, high + more_high + drift))
    };
    (0..hosts).filter(|between| *between != from && *between != to).filter_map(by).min_by_key(|(low, high)| high - low)
}

/// Aligns each two of several hosts.
pub fn pairs(hosts: &[HostTrace]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (a, first) in hosts.iter().enumerate() {
        for (b, second) in hosts.iter().enumerate().skip(a + 1) {
            let crossings = first.crossings(second);
            let turned: Vec<Crossing> =
                crossings.iter().map(|crossing| Crossing { is_forth: !crossing.is_forth, ..*crossing }).collect();
            pairs.push(Pair {
                hosts: [a, b],
                is_one_host: first.is_one_host(second),
                alignment: Alignment::of(&crossings),
                turned: Alignment::of(&turned).ok(),
                stated: Vec::new(),
                known_to_ns: Vec::new(),
            });
        }
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

/// A clock of a host that causality contradicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lying {
    /// The host, from 0.
    pub host: usize,
    /// Its clock.
    pub clock: Shared,
    /// By how much it and another one are further apart than their kernels admit together, at least, ns.
    pub by_ns: u128,
    /// That one's may be wrong instead: of two that contradict each other nobody tells which.
    pub or_host: Option<usize>,
}

/// Clocks agree where they are known to be together to this share of what others are apart by.
const AGREES_TO: u128 = 4;

/// Which clocks lie. Those are believed that most hosts agree on, two at least; who contradicts one of them lies. Of two that contradict each other and are both not believed either may.
pub fn lying(hosts: &[HostTrace], pairs: &[Pair]) -> Vec<Lying> {
    // Several traces of one host have one clock: the first one of them speaks.
    let speaker = |host: usize| hosts.iter().position(|other| other.is_one_host(&hosts[host])).unwrap_or(host);
    let mut lying = Vec::new();
    for clock in Shared::ALL {
        let of_pair = |pair: &Pair| {
            let at = pair.stated.iter().position(|(shared, ..)| *shared == clock)?;
            Some((speaker(pair.hosts[0]), speaker(pair.hosts[1]), pair.stated[at].2, pair.known_to_ns[at]))
        };
        let said: Vec<(usize, usize, u128, i128)> = pairs.iter().filter_map(of_pair).collect();
        let most = said.iter().map(|(.., against, _)| *against).max().unwrap_or(0);
        if most == 0 {
            continue;
        }
        // Those that agree are together, and so on.
        let mut groups: Vec<usize> = (0..hosts.len()).collect();
        for (a, b, against, known_to_ns) in &said {
            if *against == 0 && known_to_ns.unsigned_abs() <= most / AGREES_TO {
                let (from, to) = (groups[*b], groups[*a]);
                groups.iter_mut().filter(|group| **group == from).for_each(|group| *group = to);
            }
        }
        let size = |group: usize| (0..hosts.len()).filter(|host| speaker(*host) == *host && groups[*host] == group).count();
        let largest = groups.iter().map(|group| size(*group)).max().unwrap_or(0);
        let candidates: FxHashSet<usize> = groups.iter().copied().filter(|group| size(*group) == largest).collect();
        let believed = candidates.iter().next().filter(|_| candidates.len() == 1 && largest > 1);
        let is_believed = |host: usize| believed.is_some_and(|group| groups[host] == *group);
        let mut named: Vec<Lying> = Vec::new();
        for (a, b, by_ns, _) in said.iter().copied().filter(|(.., against, _)| *against > 0) {
            let lie = match (is_believed(a), is_believed(b)) {
                (true, false) => Lying { host: b, clock, by_ns, or_host: None },
                (false, true) => Lying { host: a, clock, by_ns, or_host: None },
                _ => Lying { host: a.min(b), clock, by_ns, or_host: Some(a.max(b)) },
            };
            match named.iter_mut().find(|other| (other.host, other.or_host) == (lie.host, lie.or_host)) {
                Some(other) => other.by_ns = other.by_ns.max(lie.by_ns),
                None => named.push(lie),
            }
        }
        // Who contradicts those that are believed has been named: what it has with others says no more.
        let alone: FxHashSet<usize> = named.iter().filter(|lie| lie.or_host.is_none()).map(|lie| lie.host).collect();
        named.retain(|lie| lie.or_host.is_none_or(|or_host| !alone.contains(&lie.host) && !alone.contains(&or_host)));
        named.sort_by_key(|lie| (lie.host, lie.or_host));
        lying.extend(named);
    }
    lying
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use perftax_pmu::sys::Discipline;

    const NS: u64 = 1_000_000_000;

    /// A host whose raw clock is ahead of the true time by so much, and whose clocks show what they are made to.
    struct Planted {
        ahead_ns: i64,
        realtime_wrong_ns: i64,
        tai_offset_s: i32,
    }

    /// The true time as a host's raw clock shows it.
    fn raw(host: &Planted, true_ns: u64) -> u64 {
        true_ns.wrapping_add_signed(host.ahead_ns)
    }

    fn traces(planted: &[Planted]) -> Vec<HostTrace> {
        let mut hosts: Vec<HostTrace> = planted.iter().map(|_| HostTrace::default()).collect();
        for (at, host) in planted.iter().enumerate() {
            for i in 0..10 {
                let true_ns = 100 * NS + i * NS;
                let discipline = Discipline { tai_offset_s: host.tai_offset_s, max_error_ns: 2_000_000, ..Discipline::default() };
                hosts[at].clocks.push(HostClock {
                    raw_ns: raw(host, true_ns),
                    within_ns: 50,
                    realtime_ns: (1_700_000_000 * NS + true_ns).wrapping_add_signed(host.realtime_wrong_ns),
                    discipline: Some(discipline),
                });
            }
        }
        // Each two exchange requests and answers.
        let mut span = 0;
        for a in 0..planted.len() {
            for b in a + 1..planted.len() {
                for i in 0..50u64 {
                    span += 1;
                    let identity = TraceIdentity { trace: 7, span };
                    let sent = 101 * NS + i * 100_000_000;
                    let passed = |sent_ns, received_ns| Passed {
                        id: span,
                        sent_ns: Some(sent_ns),
                        received_ns: Some(received_ns),
                        is_repeated: false,
                    };
                    hosts[a].passed.insert(identity, passed(raw(&planted[a], sent), raw(&planted[a], sent + 700_000)));
                    hosts[b]
                        .passed
                        .insert(identity, passed(raw(&planted[b], sent + 600_000), raw(&planted[b], sent + 100_000 + i)));
                }
            }
        }
        hosts
    }

    fn planted(ahead_ns: i64, realtime_wrong_ns: i64, tai_offset_s: i32) -> Planted {
        Planted { ahead_ns, realtime_wrong_ns, tai_offset_s }
    }

    #[test]
    fn clocks_that_causality_contradicts_are_named() {
        let planted =
            [planted(5_000_000_000, 300_000, 37), planted(-2_000_000_000, -400_000, 37), planted(70, 3_000_000_000, 36)];
        let hosts = traces(&planted);
        let pairs = pairs(&hosts);
        for pair in &pairs {
            let alignment = pair.alignment.as_ref().unwrap();
            let truth = i128::from(planted[pair.hosts[1]].ahead_ns) - i128::from(planted[pair.hosts[0]].ahead_ns);
            let (low, high) = alignment.difference_ns(pair.stated[0].1.time_ns);
            assert!(low <= truth && truth <= high && high - low < 300_000, "{low} {truth} {high}");
            // There 100 µs, back the same.
            assert!((200_000..210_000).contains(&alignment.shortest_round_trip_ns), "{alignment:?}");
        }
        let told: Vec<(usize, Shared, Option<usize>)> =
            lying(&hosts, &pairs).iter().map(|lying| (lying.host, lying.clock, lying.or_host)).collect();
        assert_eq!(told, [(2, Shared::Realtime, None), (2, Shared::Tai, None)]);
        let by_ns = lying(&hosts, &pairs)[0].by_ns;
        assert!((2_990_000_000..=3_001_000_000).contains(&by_ns), "{by_ns}");
    }

    #[test]
    fn of_two_nobody_tells_which_lies() {
        let hosts = traces(&[planted(0, 0, 0), planted(0, 50_000_000, 0)]);
        let pairs = pairs(&hosts);
        // Nobody has told their kernels of TAI.
        assert_eq!(pairs[0].stated.len(), 1);
        let told: Vec<(usize, Option<usize>)> = lying(&hosts, &pairs).iter().map(|lying| (lying.host, lying.or_host)).collect();
        assert_eq!(told, [(0, Some(1))]);
        // Within what their kernels say of them they agree.
        let hosts = traces(&[planted(9, 0, 0), planted(0, 3_000_000, 0)]);
        assert_eq!(lying(&hosts, &super::pairs(&hosts)), []);
    }

    /// What is away is there and on the way; how the ways share is known to what the clocks are.
    #[test]
    fn round_trips_add_up_and_hold_the_truth() {
        let hosts = traces(&[planted(3_000_000_000, 0, 0), planted(-70, 0, 0)]);
        let all = pairs(&hosts);
        let trips = hosts[0].round_trips(&hosts[1], &all[0]);
        assert_eq!(trips.len(), 50);
        for (i, trip) in (0..).zip(&trips) {
            assert!(trip.is_forth && trip.away_ns == 700_000 && trip.there_ns == 500_000 - i, "{trip:?}");
            let holds = |(least, most): (u64, u64), truth: u64| least <= truth && truth <= most;
            assert!(holds(trip.way_there_ns, 100_000 + i) && holds(trip.way_back_ns, 100_000), "{i} {trip:?}");
            assert!(holds(trip.ways_ns, 200_000 + i) && trip.ways_ns.1 - trip.ways_ns.0 < 1000, "{i} {trip:?}");
        }
        // From the other one's side they are the same, and the difference is the other way round.
        let turned = all[0].difference_ns(1, 0, trips[0].sent_ns - 3_000_000_070).unwrap();
        assert!(turned.0 <= 3_000_000_070 && 3_000_000_070 <= turned.1 && all[0].difference_ns(1, 2, 0).is_none(), "{turned:?}");
    }

    #[test]
    fn a_message_that_is_sent_twice_says_nothing() {
        let mut hosts = traces(&[planted(0, 0, 0), planted(0, 0, 0)]);
        assert_eq!(hosts[0].crossings(&hosts[1]).len(), 100);
        hosts[0].passed.values_mut().for_each(|passed| passed.is_repeated = true);
        assert_eq!(hosts[0].crossings(&hosts[1]), []);
        assert_eq!(pairs(&hosts)[0].alignment.as_ref().unwrap_err(), &Unaligned::OneWay);
    }

    /// What a third one sends through both did not go to and fro between them.
    #[test]
    fn a_pipeline_is_no_round_trip() {
        let mut hosts = traces(&[planted(0, 0, 0), planted(5, 0, 0)]);
        let identity = TraceIdentity { trace: 8, span: 1 };
        let passed =
            |received_ns, sent_ns| Passed { id: 1, sent_ns: Some(sent_ns), received_ns: Some(received_ns), is_repeated: false };
        hosts[0].passed.insert(identity, passed(101 * NS, 101 * NS + 1000));
        hosts[1].passed.insert(identity, passed(101 * NS + 50_000, 101 * NS + 60_000));
        let pairs = pairs(&hosts);
        assert_eq!(hosts[0].crossings(&hosts[1]).len(), 100);
        assert!(pairs[0].alignment.is_ok());
        assert_eq!(hosts[0].round_trips(&hosts[1], &pairs[0]).len(), 50);
    }

    /// A host does not vouch for itself, and one whose clock may be anywhere does not vouch for another one.
    #[test]
    fn agreement_is_of_hosts_and_close() {
        let told = |hosts: &[HostTrace]| {
            let told = lying(hosts, &pairs(hosts));
            told.into_iter().map(|lie| (lie.host, lie.or_host)).collect::<Vec<_>>()
        };
        let mut hosts = traces(&[planted(0, 50_000_000, 0), planted(0, 50_000_000, 0), planted(7, 0, 0)]);
        hosts[..2].iter_mut().for_each(|host| host.boot_id = Some("one".into()));
        assert_eq!(told(&hosts), [(0, Some(2))]);
        assert!(pairs(&hosts)[0].is_one_host && pairs(&hosts)[0].difference_ns(1, 0, 7) == Some((0, 0)));
        let mut hosts = traces(&[planted(0, 50_000_000, 0), planted(9, 0, 0), planted(7, 0, 0)]);
        let loose = |clock: &mut HostClock| clock.discipline.as_mut().unwrap().max_error_ns = 200_000_000;
        hosts[1].clocks.iter_mut().for_each(loose);
        assert_eq!(told(&hosts), [(0, Some(2))]);
        // Three of which nobody agrees with anybody: each two of them.
        let hosts = traces(&[planted(0, 50_000_000, 0), planted(9, 0, 0), planted(7, 90_000_000, 0)]);
        assert_eq!(told(&hosts), [(0, Some(1)), (0, Some(2)), (1, Some(2))]);
        // The first one and the last one have nothing to do with each other but by the one between them, which lies.
        let mut hosts = traces(&[planted(0, 0, 0), planted(9, 50_000_000, 0), planted(7, 0, 0)]);
        let (first, rest) = hosts.split_at_mut(1);
        first[0].passed.retain(|identity, _| !rest[1].passed.contains_key(identity));
        assert_eq!(told(&hosts), [(1, None)]);
    }

    /// What is there for a second, by a clock that is 50 ppm faster, is 50 µs longer there than here.
    #[test]
    fn ways_are_told_with_what_clocks_drift() {
        let mut hosts = traces(&[planted(0, 0, 0), planted(0, 0, 0)]);
        hosts.iter_mut().for_each(|host| host.passed.clear());
        let second = |ns: u64| ns + ((ns - 100 * NS) as f64 * 50e-6).round() as u64;
        for i in 0..400u64 {
            let (identity, sent) = (TraceIdentity { trace: 7, span: i }, 100 * NS + i * 50_000_000);
            let there = if i % 100 == 5 { NS } else { 500_000 };
            let passed = |sent_ns, received_ns| Passed {
                id: i,
                sent_ns: Some(sent_ns),
                received_ns: Some(received_ns),
                is_repeated: false,
            };
            hosts[0].passed.insert(identity, passed(sent, sent + there + 40_000));
            hosts[1].passed.insert(identity, passed(second(sent + 20_000 + there), second(sent + 20_000)));
        }
        let pairs = pairs(&hosts);
        let trips = hosts[0].round_trips(&hosts[1], &pairs[0]);
        assert_eq!(trips.len(), 400);
        for trip in &trips {
            let holds = |(least, most): (u64, u64), truth: u64| least <= truth + 1 && truth <= most + 1;
            assert!(
                holds(trip.ways_ns, 40_000) && holds(trip.way_there_ns, 20_000) && holds(trip.way_back_ns, 20_000),
                "{trip:?}"
            );
        }
    }
}
