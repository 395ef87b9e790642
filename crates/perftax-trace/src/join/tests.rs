#![allow(clippy::unwrap_used)] // tests may

use std::collections::BTreeMap;

use perftax_pmu::sys::{Discipline, HostClock};

use super::crossings::Passed;
use super::*;
use crate::align::Alignment;
use crate::mark::{Kind, Mark, Saying, TraceIdentity};
use crate::marked::Marked;
use crate::store::{Store, StoreWriter, write_relations};

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
                let passed =
                    |sent_ns, received_ns| Passed { sent_ns: Some(sent_ns), received_ns: Some(received_ns), ..Passed::default() };
                hosts[a].passed.insert(identity, passed(raw(&planted[a], sent), raw(&planted[a], sent + 700_000)));
                hosts[b].passed.insert(identity, passed(raw(&planted[b], sent + 600_000), raw(&planted[b], sent + 100_000 + i)));
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
    let planted = [planted(5_000_000_000, 300_000, 37), planted(-2_000_000_000, -400_000, 37), planted(70, 3_000_000_000, 36)];
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
    let passed = |received_ns, sent_ns| Passed { sent_ns: Some(sent_ns), received_ns: Some(received_ns), ..Passed::default() };
    hosts[0].passed.insert(identity, passed(101 * NS, 101 * NS + 1000));
    hosts[1].passed.insert(identity, passed(101 * NS + 50_000, 101 * NS + 60_000));
    let pairs = pairs(&hosts);
    assert_eq!(hosts[0].crossings(&hosts[1]).len(), 100);
    assert!(pairs[0].alignment.is_ok());
    assert_eq!(hosts[0].round_trips(&hosts[1], &pairs[0]).len(), 50);
    // Nor is what both sent before they received: a ring, or one name twice. It is told how many there are.
    assert_eq!(pairs[0].left_out, 1);
    let identity = TraceIdentity { trace: 8, span: 2 };
    hosts[0].passed.insert(identity, passed(101 * NS + 9000, 101 * NS));
    hosts[1].passed.insert(identity, passed(101 * NS + 50_000, 101 * NS + 40_000));
    // What went one way alone went so.
    let identity = TraceIdentity { trace: 8, span: 3 };
    hosts[0].passed.insert(identity, Passed { received_ns: None, ..passed(0, 101 * NS) });
    hosts[1].passed.insert(identity, Passed { sent_ns: None, ..passed(101 * NS + 70_000, 0) });
    let pairs = super::pairs(&hosts);
    assert_eq!((hosts[0].crossings(&hosts[1]).len(), pairs[0].left_out), (101, 2));
    hosts[0].passed.values_mut().for_each(|passed| passed.is_repeated = true);
    assert_eq!(super::pairs(&hosts)[0].left_out, 53);
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
        let passed =
            |sent_ns, received_ns| Passed { sent_ns: Some(sent_ns), received_ns: Some(received_ns), ..Passed::default() };
        hosts[0].passed.insert(identity, passed(sent, sent + there + 40_000));
        hosts[1].passed.insert(identity, passed(second(sent + 20_000 + there), second(sent + 20_000)));
    }
    let pairs = pairs(&hosts);
    let trips = hosts[0].round_trips(&hosts[1], &pairs[0]);
    assert_eq!(trips.len(), 400);
    for trip in &trips {
        let holds = |(least, most): (u64, u64), truth: u64| least <= truth + 1 && truth <= most + 1;
        assert!(holds(trip.ways_ns, 40_000) && holds(trip.way_there_ns, 20_000) && holds(trip.way_back_ns, 20_000), "{trip:?}");
    }
}

/// What a recording of processes says, as it is written and read again.
fn host(says: impl FnOnce(&mut Marked)) -> HostTrace {
    let folder = tempfile::tempdir().unwrap();
    let mut marked = Marked::default();
    says(&mut marked);
    StoreWriter::create(folder.path()).unwrap().finish(&BTreeMap::new(), &[]).unwrap();
    write_relations(folder.path(), &marked.relations, &marked.hops).unwrap();
    HostTrace::new(&Store::open(folder.path()).unwrap().relations, Vec::new(), None)
}

fn mark(marked: &mut Marked, (pid, time_ns): (u32, u64), id: u64, kind: Kind) {
    marked.mark(pid, Mark { time_ns, tid: pid * 10, id, kind }, &mut |_| {});
}

fn say(marked: &mut Marked, (pid, time_ns): (u32, u64), saying: Saying) {
    marked.take(time_ns, (pid, pid * 10), saying, &mut |_| {});
}

/// A server whose numbers are those of its slots: each message keeps the name that it had.
#[test]
fn numbers_that_are_used_again_are_messages_of_their_own() {
    let named = host(|marked| {
        for span in 1..=20 {
            let at = span * 1000;
            mark(marked, (1, at), 7, Kind::Begin);
            say(marked, (1, at + 1), Saying::Receive(7));
            say(marked, (1, at + 2), Saying::Identity { id: 7, identity: TraceIdentity { trace: 5, span } });
            say(marked, (1, at + 3), Saying::Send(7));
            mark(marked, (1, at + 4), 7, Kind::End);
        }
    });
    assert_eq!(named.named(), 20);
    for (identity, passed) in &named.passed {
        let at = identity.span * 1000;
        assert_eq!((passed.received_ns, passed.sent_ns, passed.is_repeated), (Some(at + 1), Some(at + 3), false));
    }
}

/// One process receives it, another one of the same recording works on it: it came once.
#[test]
fn what_nobody_said_is_no_message_between_hosts() {
    let identity = TraceIdentity { trace: 5, span: 1 };
    let served = host(|marked| {
        mark(marked, (1, 10), 7, Kind::Begin);
        say(marked, (1, 11), Saying::Receive(7));
        say(marked, (1, 12), Saying::Identity { id: 7, identity });
        mark(marked, (2, 20), 7, Kind::Begin);
        mark(marked, (2, 30), 7, Kind::End);
        say(marked, (1, 40), Saying::Send(7));
        mark(marked, (1, 41), 7, Kind::End);
        assert_eq!(marked.hops.iter().filter(|hop| hop.is_inferred).count(), 2);
    });
    let passed = served.passed[&identity];
    assert_eq!((passed.received_ns, passed.sent_ns, passed.is_repeated), (Some(11), Some(40), false));
}

/// A host that receives under one number and sends on under another one still knows the message.
#[test]
fn a_message_may_have_two_numbers_on_one_host() {
    let identity = TraceIdentity { trace: 5, span: 1 };
    let served = host(|marked| {
        for id in [7, 8] {
            mark(marked, (1, id), id, Kind::Begin);
            say(marked, (1, id), Saying::Identity { id, identity });
        }
        say(marked, (1, 20), Saying::Receive(7));
        say(marked, (1, 30), Saying::Send(8));
    });
    let passed = served.passed[&identity];
    assert_eq!((passed.received_id, passed.sent_id, passed.is_repeated), (7, 8, false));
}

/// The shortest that a message was on the way is told of those that came back, and what messages leave room for where none did.
#[test]
fn the_shortest_round_trip_is_of_a_message_where_any_came_back() {
    let mut hosts = traces(&[planted(0, 0, 0), planted(5, 0, 0)]);
    // Each way is 100 µs and the way there some more: here 2 ms more but for one, and the way back 3 ms more for that one.
    for (identity, passed) in &mut hosts[0].passed {
        let more = if identity.span == 1 { (0, 3_000_000) } else { (2_000_000, 0) };
        passed.sent_ns = passed.sent_ns.map(|ns| ns - more.0);
        passed.received_ns = passed.received_ns.map(|ns| ns + more.1);
    }
    let pairs = super::pairs(&hosts);
    let told = |alignment: &Alignment| (alignment.is_by_round_trips, alignment.shortest_round_trip_ns);
    let (by_round_trips, shortest_ns) = told(pairs[0].alignment.as_ref().unwrap());
    assert!(by_round_trips && (2_200_000..2_201_000).contains(&shortest_ns), "{shortest_ns}");
    let one_way = Alignment::of(&hosts[0].crossings(&hosts[1])).unwrap();
    assert!(!one_way.is_by_round_trips && one_way.shortest_round_trip_ns < 250_000, "{one_way:?}");
}

/// Two traces of one host have one clock, whatever was said to have gone between them.
#[test]
fn one_host_has_one_clock_and_messages_that_contradict_it_are_counted() {
    let mut hosts = traces(&[planted(0, 0, 0), planted(0, 0, 0)]);
    hosts.iter_mut().for_each(|host| host.boot_id = Some("one".into()));
    let pair = |hosts: &[HostTrace]| pairs(hosts).remove(0);
    let clean = pair(&hosts);
    let alignment = clean.alignment.as_ref().unwrap();
    assert!(clean.contradictions == 0 && alignment.is_exact() && alignment.crossings == (50, 50), "{clean:?}");
    assert_eq!((alignment.difference_ns(7), alignment.known_drift_ppm()), ((0, 0), Some((0.0, 0.0))));
    let trips = hosts[0].round_trips(&hosts[1], &clean);
    assert!(trips.iter().all(|trip| trip.way_back_ns == (100_000, 100_000) && trip.ways_ns.0 == trip.ways_ns.1), "{trips:?}");
    // One of them was marked received before it was marked sent, by so much that no two clocks would fit.
    let first = TraceIdentity { trace: 7, span: 1 };
    hosts[1].passed.get_mut(&first).unwrap().received_ns = Some(100 * NS);
    let wrong = pair(&hosts);
    assert!(wrong.contradictions == 1 && wrong.difference_ns(1, 0, 7) == Some((0, 0)), "{wrong:?}");
    // On one that is known to be one, nothing need have come back.
    hosts[1].passed.clear();
    assert!(pair(&hosts).alignment.unwrap().is_exact());
}

/// From the second host's side it is as exact, whatever the clocks show: theirs are days apart, and drift.
#[test]
fn both_directions_are_exact() {
    const APART_NS: u64 = 200 * 86_400 * NS;
    let second = |ns: u64| ns + APART_NS + (ns as f64 * 50e-6).round() as u64;
    let mut hosts = [HostTrace::default(), HostTrace::default()];
    for span in 0..500u64 {
        let (identity, at) = (TraceIdentity { trace: 7, span }, 100 * NS + span * 20_000_000);
        let passed =
            |sent_ns, received_ns| Passed { sent_ns: Some(sent_ns), received_ns: Some(received_ns), ..Passed::default() };
        hosts[0].passed.insert(identity, passed(at, at + 502_000));
        hosts[1].passed.insert(identity, passed(second(at + 501_000), second(at + 1000)));
    }
    let pair = pairs(&hosts).remove(0);
    for i in 0..10 {
        let at = 100 * NS + i * NS;
        let truth = i128::from(second(at)) - i128::from(at);
        let (low, high) = pair.difference_ns(0, 1, at).unwrap();
        let (turned_low, turned_high) = pair.difference_ns(1, 0, second(at)).unwrap();
        assert!(low <= truth && truth <= high && high - low < 2100, "{low} {truth} {high}");
        assert!(turned_low <= -truth && -truth <= turned_high && turned_high - turned_low < 2100, "{turned_low} {turned_high}");
    }
}
