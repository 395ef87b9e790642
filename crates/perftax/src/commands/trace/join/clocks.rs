//! Pairs of hosts as documents have them.

use perftax_doc::{CausalDifference, JoinedPair, LyingClock, RoundTrips, SlowRoundTrip, StatedDifference};
use perftax_trace::{Alignment, HostTrace, Pair, RoundTrip, Unaligned};

use super::super::report::quantiles;

/// Two hosts.
pub fn joined(pair: &Pair, hosts: &[HostTrace]) -> JoinedPair {
    let [first, _] = pair.hosts;
    let time_ns = hosts[first].clocks.get(hosts[first].clocks.len() / 2).map(|clock| clock.raw_ns);
    let stated = pair.stated.iter().map(|(clock, stated, against_ns)| StatedDifference {
        clock: clock.name().into(),
        low_s: seconds(stated.low_ns),
        high_s: seconds(stated.high_ns),
        contradicted_by_ns: u64::try_from(*against_ns).unwrap_or(u64::MAX),
    });
    JoinedPair {
        traces: pair.hosts,
        crossings: pair.crossings,
        left_out: pair.left_out,
        contradictions: pair.contradictions,
        is_one_host: pair.is_one_host,
        causal: pair.alignment.as_ref().ok().map(|alignment| causal(alignment, time_ns)),
        unaligned: pair.alignment.as_ref().err().map(|why| why_not(*why).into()),
        stated: stated.collect(),
        round_trips: round_trips(pair, hosts),
    }
}

/// Of those that the first one sent, and of those that the second one did.
fn round_trips(pair: &Pair, hosts: &[HostTrace]) -> Vec<RoundTrips> {
    let [first, second] = pair.hosts;
    let all = hosts[first].round_trips(&hosts[second], pair);
    let of = |is_forth: bool| {
        let mut own: Vec<&RoundTrip> = all.iter().filter(|trip| trip.is_forth == is_forth).collect();
        own.sort_by_key(|trip| std::cmp::Reverse(trip.away_ns));
        let slow = |trip: &&RoundTrip| SlowRoundTrip {
            identity: trip.identity.to_string(),
            away_ns: trip.away_ns,
            there_ns: trip.there_ns,
            way_there_ns: trip.way_there_ns,
            way_back_ns: trip.way_back_ns,
        };
        let latencies = |of: fn(&RoundTrip) -> u64| quantiles(&own.iter().map(|trip| of(trip)).collect());
        Some(RoundTrips {
            from_to: if is_forth { [first, second] } else { [second, first] },
            away: latencies(|trip| trip.away_ns)?,
            there: latencies(|trip| trip.there_ns)?,
            ways: latencies(|trip| trip.ways_ns.0.midpoint(trip.ways_ns.1))?,
            ways_known_to_ns: own.iter().map(|trip| trip.ways_ns.1 - trip.ways_ns.0).max().unwrap_or(0),
            slowest: own.iter().take(SLOWEST).map(slow).collect(),
        })
    };
    [true, false].into_iter().filter_map(of).collect()
}

/// Those that have a line of their own.
const SLOWEST: usize = 10;

/// In the middle of the first one's readings; of a trace without any where its messages begin.
fn causal(alignment: &Alignment, time_ns: Option<u64>) -> CausalDifference {
    let time_ns = time_ns.unwrap_or(alignment.origin_ns());
    let (low, high) = alignment.difference_ns(time_ns);
    CausalDifference {
        time_ns,
        low_ns: i64::try_from(low).unwrap_or(i64::MIN),
        high_ns: i64::try_from(high).unwrap_or(i64::MAX),
        low_s: seconds(low),
        high_s: seconds(high),
        width_ns: u64::try_from(high - low).unwrap_or(u64::MAX),
        drift_ppm: alignment.drift_ppm(),
        shortest_round_trip_ns: alignment.shortest_round_trip_ns,
    }
}

fn why_not(why: Unaligned) -> &'static str {
    match why {
        Unaligned::OneWay => {
            "nothing went there, or nothing came back, under a name that both know and that each of them used once"
        }
        Unaligned::NoLine => {
            "no difference of their clocks fits whose rate changes by less than 1 ppb a second: a message was marked sent after it was received (perftax_send goes before the write, perftax_receive after the read), several share a name, or a clock leapt or was suspended"
        }
    }
}

/// A clock that is wrong.
pub fn lying_clock(lying: &perftax_trace::Lying) -> LyingClock {
    LyingClock {
        trace: lying.host,
        clock: lying.clock.name().into(),
        by_ns: u64::try_from(lying.by_ns).unwrap_or(u64::MAX),
        or_trace: lying.or_host,
    }
}

fn seconds(ns: i128) -> f64 {
    ns as f64 * 1e-9
}
