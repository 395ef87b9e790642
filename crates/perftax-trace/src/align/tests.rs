#![allow(clippy::unwrap_used)] // tests may

use super::hull::LOOKED_AT;
use super::*;

/// A pair of hosts: the second one's clock is ahead by so much when the first one's is 0, and faster by so much.
struct Hosts {
    ahead_ns: i128,
    drift: f64,
    rng: fastrand::Rng,
}

impl Hosts {
    /// What the second clock shows when the first one shows this.
    fn second(&self, first_ns: u64) -> u64 {
        (i128::from(first_ns) + self.ahead_ns + (first_ns as f64 * self.drift).round() as i128) as u64
    }

    /// Requests and answers over a time, each way 20 µs and some more.
    fn crossings(&mut self, messages: u64, from_ns: u64, each_ns: u64) -> Vec<Crossing> {
        let way = |rng: &mut fastrand::Rng| 20_000 + (-(rng.f64().max(1e-9)).ln() * 100_000.0) as u64;
        (0..messages)
            .flat_map(|i| {
                let sent = from_ns + i * each_ns;
                let received = sent + way(&mut self.rng);
                let answered = received + 500_000;
                let back = answered + way(&mut self.rng);
                [
                    Crossing { sent_ns: sent, received_ns: self.second(received), is_forth: true },
                    Crossing { sent_ns: self.second(answered), received_ns: back, is_forth: false },
                ]
            })
            .collect()
    }
}

/// Offsets up to 5 s, drifts to 50 ppm: the truth is within what is said every time, at the beginning, in between and at the end.
#[test]
fn what_is_said_holds_the_truth_each_time() {
    for seed in 0..100 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let ahead_ns = i128::from(rng.i64(-5_000_000_000..=5_000_000_000));
        let drift = (rng.f64() * 2.0 - 1.0) * 50e-6;
        let mut hosts = Hosts { ahead_ns, drift, rng };
        let from_ns = 20_000_000_000 + seed * 1_000_000_007;
        let crossings = hosts.crossings(200, from_ns, 50_000_000);
        let alignment = Alignment::of(&crossings).unwrap();
        assert_eq!(alignment.crossings, (200, 200));
        for part in [0, 3, 10] {
            let time_ns = from_ns + part * 1_000_000_000;
            let (low, high) = alignment.difference_ns(time_ns);
            let truth = i128::from(hosts.second(time_ns)) - i128::from(time_ns);
            assert!(low <= truth && truth <= high, "{seed}: {low} {truth} {high}");
            // Two ways that cannot be told apart, and what a line may turn.
            assert!(high - low < 400_000, "{seed}: {}", high - low);
        }
        let (slower, faster) = alignment.known_drift_ppm().unwrap();
        assert!(
            slower <= drift * 1e6 + 1e-3 && drift * 1e6 - 1e-3 <= faster && faster - slower < 60.0,
            "{slower} {drift} {faster}"
        );
        assert!((40_000..400_000).contains(&alignment.shortest_round_trip_ns), "{}", alignment.shortest_round_trip_ns);
    }
}

/// Oscillators warm up: over an hour the rate changes by 0.2 ppm, by which no line fits, or one that the truth is not on.
#[test]
fn a_rate_that_changes_is_held_and_leaps_are_not() {
    for (change, least_ns) in [(0.2e-6, 50_000.0), (0.1e-6, 20_000.0), (-0.05e-6, 20_000.0)] {
        let mut rng = fastrand::Rng::with_seed(7);
        let (span, from_ns) = (3.6e12, 1_000_000_000_000_000u64);
        let truth = |t: f64| 20e-6 * t + change * (t - span / 2.0).powi(2) / (2.0 * span);
        let second = |t: f64| (from_ns as f64 + t + truth(t)) as u64;
        let mut way = || least_ns * (1.0 - 0.3 * rng.f64().max(1e-9).ln());
        let crossings: Vec<Crossing> = (0..20_000)
            .flat_map(|i| {
                let sent = span * f64::from(i) / 20_000.0;
                let (received, back) = (sent + way(), sent + 1e6 + way());
                let answered = back - way();
                let first = |t: f64| from_ns + t as u64;
                [
                    Crossing { sent_ns: first(sent), received_ns: second(received), is_forth: true },
                    Crossing { sent_ns: second(answered), received_ns: first(back), is_forth: false },
                ]
            })
            .collect();
        let alignment = Alignment::of(&crossings).unwrap();
        for part in 0..=100 {
            let t = span * f64::from(part) / 100.0;
            let (low, high) = alignment.difference_ns(from_ns + t as u64);
            // Numbers of so many ns have no fractions.
            let truth = truth(t) as i128;
            assert!(low - 2 <= truth && truth <= high + 2, "{change} {part}: {low} {truth} {high}");
            assert!(((high - low) as f64) < 2.2 * least_ns, "{change} {part}: {}", high - low);
        }
        // Without messages nearby it widens: half an hour later by what the rate may have changed.
        let (low, high) = alignment.difference_ns(from_ns + 5_400_000_000_000);
        let later = truth(5.4e12) as i128;
        assert!(low <= later && later <= high && high - low > 1_000_000, "{low} {later} {high}");
    }
}

#[test]
fn where_there_is_no_alignment_it_says_why() {
    let crossing = |sent_ns, received_ns, is_forth| Crossing { sent_ns, received_ns, is_forth };
    assert_eq!(Alignment::of(&[]).unwrap_err(), Unaligned::OneWay);
    assert_eq!(Alignment::of(&[crossing(1, 2, true)]).unwrap_err(), Unaligned::OneWay);
    // The second clock leaps back by a second in between.
    let leaps: Vec<Crossing> = (0..20u64)
        .flat_map(|i| {
            let (now, ahead) = (10_000_000_000 + i * 1_000_000, if i < 10 { 2_000_000_000 } else { 1_000_000_000 });
            [crossing(now, now + ahead + 50, true), crossing(now + ahead + 100, now + 150, false)]
        })
        .collect();
    assert_eq!(Alignment::of(&leaps).unwrap_err(), Unaligned::NoLine);
    assert!(Alignment::of(&leaps[..20]).is_ok());
}

/// Two messages a second apart bound no drift, and say so.
#[test]
fn a_drift_that_is_not_known_is_told_as_such() {
    let crossing = |sent_ns, received_ns, is_forth| Crossing { sent_ns, received_ns, is_forth };
    let alignment = Alignment::of(&[crossing(1_000_000_000, 1_006_000_000, true), crossing(1_001_000_000, 1_007_000_000, false)]);
    let alignment = alignment.unwrap();
    assert_eq!(alignment.known_drift_ppm(), None, "{:?}", alignment.drift_ppm());
    assert_eq!(Alignment::exact(&[]).known_drift_ppm(), Some((0.0, 0.0)));
}

/// Each difference is told by a few looks at hulls, however many messages there were.
#[test]
fn a_difference_costs_little() {
    let mut hosts = Hosts { ahead_ns: 77, drift: 20e-6, rng: fastrand::Rng::with_seed(3) };
    let from_ns = 5_000_000_000;
    let alignment = Alignment::of(&hosts.crossings(100_000, from_ns, 10_000_000)).unwrap();
    let before = LOOKED_AT.get();
    for i in 0..1000 {
        let time_ns = from_ns + i * 1_000_000_007;
        let (low, high) = alignment.difference_ns(time_ns);
        let truth = i128::from(hosts.second(time_ns)) - i128::from(time_ns);
        assert!(low <= truth && truth <= high, "{low} {truth} {high}");
    }
    let looked_at = LOOKED_AT.get() - before;
    assert!(looked_at <= 1000 * 30, "{looked_at} for 1000");
}

/// A clock that leaps away and back between the places that were looked at: there is no time of which an answer would hold.
#[test]
fn a_leap_between_two_looks_is_no_certainty() {
    let crossing = |sent_ns, received_ns, is_forth| Crossing { sent_ns, received_ns, is_forth };
    let both = |now: u64, ahead: u64| [crossing(now, now + ahead + 50, true), crossing(now + ahead + 100, now + 150, false)];
    // 100 s, and at 10 s of them 1 ms more for an instant.
    let ahead = |i: u64| if i == 10 { 3_000_000 } else { 2_000_000 };
    let crossings: Vec<Crossing> = (0..=100).flat_map(|i| both(1_000_000_000 * (i + 1), ahead(i))).collect();
    assert_eq!(Alignment::of(&crossings).unwrap_err(), Unaligned::NoLine);
    // What contradicts itself is told with all that either side leaves.
    let hulls = (Hull::of([(0.0, 10.0)], 1.0), Hull::of([(0.0, 500.0)], -1.0));
    let bounds = Bounds::of(&hulls, 0.0);
    assert!(bounds.possible(ANY_SLOPE).is_none());
    let Possible { low, high, .. } = bounds.of_each();
    assert_eq!((low, high), (10.0, 500.0));
}

/// Of messages that are not known to belong together the room is told: what the shortest ways took is no more.
#[test]
fn the_room_that_messages_leave_is_at_most_a_round_trip() {
    let crossing = |sent_ns, received_ns, is_forth| Crossing { sent_ns, received_ns, is_forth };
    let crossings: Vec<Crossing> = (0..50)
        .flat_map(|i: u64| {
            let now = 1_000_000_000 * (i + 1);
            [crossing(now, now + 20_000, true), crossing(now + 500_000_000, now + 500_030_000, false)]
        })
        .collect();
    let alignment = Alignment::of(&crossings).unwrap();
    assert!(!alignment.is_by_round_trips && (50_000..50_010).contains(&alignment.shortest_round_trip_ns), "{alignment:?}");
    // Seen from the other side it is the same, the other way round.
    let turned: Vec<Crossing> = crossings.iter().map(|crossing| crossing.turned()).collect();
    let (low, high) = alignment.difference_ns(20_000_000_000);
    let (turned_low, turned_high) = Alignment::of(&turned).unwrap().difference_ns(20_000_000_000);
    assert!(low.abs_diff(-turned_high) <= 2 && high.abs_diff(-turned_low) <= 2, "{low} {high} {turned_low} {turned_high}");
}
