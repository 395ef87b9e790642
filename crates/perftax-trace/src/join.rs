//! Traces of several hosts beside each other: how far their clocks are apart, by what was sent and received, and which of their clocks say otherwise.

use rustc_hash::FxHashMap;

use perftax_pmu::sys::HostClock;

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
    /// Its clocks, in order of time.
    pub clocks: Vec<HostClock>,
    pub(crate) passed: FxHashMap<TraceIdentity, Passed>,
}

impl HostTrace {
    /// From what programs said of its messages, and its clocks.
    pub fn new(relations: &Relations, clocks: Vec<HostClock>) -> Self {
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
        Self { clocks, passed }
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
            let forth = own.sent_ns.zip(others.received_ns).map(|(sent_ns, received_ns)| (sent_ns, received_ns, true));
            let back = others.sent_ns.zip(own.received_ns).map(|(sent_ns, received_ns)| (sent_ns, received_ns, false));
            let crossing = |(sent_ns, received_ns, is_forth)| Crossing { sent_ns, received_ns, is_forth };
            crossings.extend(forth.into_iter().chain(back).map(crossing));
        }
        // Whatever order a table has.
        crossings.sort_by_key(|crossing| (crossing.is_forth, crossing.sent_ns, crossing.received_ns));
        crossings
    }

    /// The middle of its clocks' readings.
    fn middle(&self) -> Option<&HostClock> {
        self.clocks.get(self.clocks.len() / 2)
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
    /// How long the way there took: at least and at most, by what their clocks are known to be apart, ns; with the way back it is the rest.
    pub way_there_ns: (u64, u64),
}

impl RoundTrip {
    /// On the way, there and back, or in queues of either host: whatever their clocks show, ns.
    pub fn ways_ns(&self) -> u64 {
        self.away_ns.saturating_sub(self.there_ns)
    }
}

impl HostTrace {
    /// Messages that went from this host to the other one and back, or the other way round.
    pub fn round_trips(&self, other: &Self, alignment: &Alignment) -> Vec<RoundTrip> {
        let mut trips = Vec::new();
        for (identity, own) in &self.passed {
            let Some(others) = other.passed.get(identity).filter(|others| !others.is_repeated && !own.is_repeated) else {
                continue;
            };
            let (Some(own_sent), Some(own_received)) = (own.sent_ns, own.received_ns) else { continue };
            let (Some(others_sent), Some(others_received)) = (others.sent_ns, others.received_ns) else { continue };
            let is_forth = own_sent <= own_received;
            let (sent_ns, back_ns, received_ns, answered_ns) = match is_forth {
                true => (own_sent, own_received, others_received, others_sent),
                false => (others_sent, others_received, own_received, own_sent),
            };
            let (Some(away_ns), Some(there_ns)) = (back_ns.checked_sub(sent_ns), answered_ns.checked_sub(received_ns)) else {
                continue;
            };
            // The second clock less the first one, then.
            let (low, high) = alignment.difference_ns(if is_forth { sent_ns } else { received_ns });
            let way = i128::from(received_ns) - i128::from(sent_ns);
            let (least, most) = if is_forth { (way - high, way - low) } else { (way + low, way + high) };
            let ways = i128::from(away_ns.saturating_sub(there_ns));
            let within = |ns: i128| ns.clamp(0, ways) as u64;
            trips.push(RoundTrip {
                identity: *identity,
                is_forth,
                sent_ns,
                away_ns,
                there_ns,
                way_there_ns: (within(least), within(most)),
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
        let discipline = clock.discipline.filter(|discipline| !discipline.is_unsynchronised)?;
        let offset_s = match self {
            Self::Realtime => 0,
            Self::Tai if discipline.tai_offset_s == 0 => return None,
            Self::Tai => discipline.tai_offset_s,
        };
        let shows = i128::from(clock.realtime_ns) + i128::from(offset_s) * 1_000_000_000;
        Some((shows, clock.within_ns + discipline.max_error_ns))
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
    let own = first.middle()?;
    let (shows, own_error_ns) = shared.of(own)?;
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
    /// Their raw clocks by causality, or why that is not known.
    pub alignment: Result<Alignment, Unaligned>,
    /// What their other clocks say of that, and by how much causality contradicts it at least, ns: 0 where it does not.
    pub stated: Vec<(Shared, Stated, u128)>,
}

impl Pair {
    /// The clock of `to` less that of `from` at a time of the latter: at least and at most, ns; none where the pair is not of these two, or not aligned.
    pub fn difference_ns(&self, from: usize, to: usize, time_ns: u64) -> Option<(i128, i128)> {
        let alignment = self.alignment.as_ref().ok()?;
        if self.hosts == [from, to] {
            return Some(alignment.difference_ns(time_ns));
        }
        if self.hosts != [to, from] {
            return None;
        }
        // The line is over the first host's time: which that is then, is known to what the clocks are.
        let (low, high) = alignment.difference_ns(time_ns);
        let first_ns = |difference: i128| u64::try_from(i128::from(time_ns) - difference).unwrap_or(0);
        let ends = [low, high].map(|difference| alignment.difference_ns(first_ns(difference)));
        // Twice, since the first guess was by a time that may be seconds off.
        let ends = [ends[0].0, ends[1].1].map(|difference| alignment.difference_ns(first_ns(difference)));
        let (low, high) = (ends[0].0.min(ends[1].0), ends[0].1.max(ends[1].1));
        Some((-high - 1, 1 - low))
    }
}

/// Aligns each two of several hosts.
pub fn pairs(hosts: &[HostTrace]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (a, first) in hosts.iter().enumerate() {
        for (b, second) in hosts.iter().enumerate().skip(a + 1) {
            let alignment = Alignment::of(&first.crossings(second));
            let against = |stated: &Stated| match &alignment {
                Ok(alignment) => {
                    let (low, high) = alignment.difference_ns(stated.time_ns);
                    (stated.low_ns - high).max(low - stated.high_ns).max(0).unsigned_abs()
                }
                Err(_) => 0,
            };
            let stated = Shared::ALL.into_iter().filter_map(|shared| {
                let stated = stated(first, second, shared)?;
                Some((shared, stated, against(&stated)))
            });
            pairs.push(Pair { hosts: [a, b], stated: stated.collect(), alignment });
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
    /// By how much at least, ns.
    pub by_ns: u128,
    /// Another host's may be wrong instead: of two that contradict each other nobody tells which.
    pub or_host: Option<usize>,
}

/// Which clocks lie: those with which most others disagree. Hosts whose clock agrees with some other host's are believed.
pub fn lying(hosts: usize, pairs: &[Pair]) -> Vec<Lying> {
    let mut lying = Vec::new();
    for clock in Shared::ALL {
        let mut said: Vec<(usize, usize, u128)> = Vec::new();
        for pair in pairs.iter().filter(|pair| pair.alignment.is_ok()) {
            let of_clock = pair.stated.iter().find(|(shared, ..)| *shared == clock);
            said.extend(of_clock.map(|(_, _, against_ns)| (pair.hosts[0], pair.hosts[1], *against_ns)));
        }
        let agrees = |host: usize| said.iter().any(|(a, b, against)| *against == 0 && (*a == host || *b == host));
        for host in 0..hosts {
            let contradicted = said.iter().filter(|(a, b, against)| *against > 0 && (*a == host || *b == host));
            let Some((a, b, by_ns)) = contradicted.max_by_key(|(.., against)| *against).copied() else { continue };
            let other = if a == host { b } else { a };
            match (agrees(host), agrees(other)) {
                (true, _) => {}
                (false, true) => lying.push(Lying { host, clock, by_ns, or_host: None }),
                // Neither has anybody who agrees.
                (false, false) if host < other => lying.push(Lying { host, clock, by_ns, or_host: Some(other) }),
                (false, false) => {}
            }
        }
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
            lying(3, &pairs).iter().map(|lying| (lying.host, lying.clock, lying.or_host)).collect();
        assert_eq!(told, [(2, Shared::Realtime, None), (2, Shared::Tai, None)]);
        let by_ns = lying(3, &pairs)[0].by_ns;
        assert!((2_990_000_000..=3_001_000_000).contains(&by_ns), "{by_ns}");
    }

    #[test]
    fn of_two_nobody_tells_which_lies() {
        let hosts = traces(&[planted(0, 0, 0), planted(0, 50_000_000, 0)]);
        let pairs = pairs(&hosts);
        // Nobody has told their kernels of TAI.
        assert_eq!(pairs[0].stated.len(), 1);
        let told: Vec<(usize, Option<usize>)> = lying(2, &pairs).iter().map(|lying| (lying.host, lying.or_host)).collect();
        assert_eq!(told, [(0, Some(1))]);
        // Within what their kernels say of them they agree.
        let hosts = traces(&[planted(9, 0, 0), planted(0, 3_000_000, 0)]);
        assert_eq!(lying(2, &super::pairs(&hosts)), []);
    }

    /// What is away is there and on the way; how the ways share is known to what the clocks are.
    #[test]
    fn round_trips_add_up_and_hold_the_truth() {
        let hosts = traces(&[planted(3_000_000_000, 0, 0), planted(-70, 0, 0)]);
        let all = pairs(&hosts);
        let alignment = all[0].alignment.as_ref().unwrap();
        let trips = hosts[0].round_trips(&hosts[1], alignment);
        assert_eq!(trips.len(), 50);
        for (i, trip) in (0..).zip(&trips) {
            assert!(trip.is_forth && trip.away_ns == 700_000 && trip.there_ns == 500_000 - i, "{trip:?}");
            let (least, most) = trip.way_there_ns;
            assert!(least <= 100_000 + i && 100_000 + i <= most && most <= trip.ways_ns(), "{i} {trip:?}");
        }
        // From the other one's side they are the same.
        let back = pairs(&traces(&[planted(-70, 0, 0), planted(3_000_000_000, 0, 0)]));
        assert!(back[0].alignment.is_ok());
    }

    #[test]
    fn a_message_that_is_sent_twice_says_nothing() {
        let mut hosts = traces(&[planted(0, 0, 0), planted(0, 0, 0)]);
        assert_eq!(hosts[0].crossings(&hosts[1]).len(), 100);
        hosts[0].passed.values_mut().for_each(|passed| passed.is_repeated = true);
        assert_eq!(hosts[0].crossings(&hosts[1]), []);
        assert_eq!(pairs(&hosts)[0].alignment.as_ref().unwrap_err(), &Unaligned::OneWay);
    }
}
