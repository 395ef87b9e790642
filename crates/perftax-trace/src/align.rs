//! How far the clocks of two hosts are apart, by causality: nothing is received before it was sent.
//!
//! What the one sends and the other receives bounds the difference of their clocks from above, what comes back from below. Both clocks are raw oscillators (CLOCK_MONOTONIC_RAW): the
//! rate of their difference changes, with temperature, but slowly ([`MAX_BEND`]). Every curve of that kind that no message contradicts is possible: between the lowest and the highest of
//! them lies the truth, as a bound and not as an interval of confidence. A host that was suspended, or a clock that leapt, is told where no such curve fits.
//!
//! With d the difference, |d″| ≤ κ, and m its slope at t: d(x) lies within d(t) + m(x - t) ± κ(x - t)²/2. Points lifted by κx²/2 (lowered, on the other side) therefore bound d(t) by lines
//! alone, for whatever t: their hulls are made once.

/// A message between two hosts, each time by the clock of the host where it was taken, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// When it was sent.
    pub sent_ns: u64,
    /// When it was received.
    pub received_ns: u64,
    /// Whether the first host sent it; otherwise the second one did.
    pub is_forth: bool,
}

/// Oscillators differ by less than this (ns in a ns): 1000 ppm, where hundred are usual at most.
const MAX_DRIFT: f64 = 1e-3;
/// What is added to bounds at either end for arithmetic, ns.
const SLACK_NS: f64 = 1.0;
/// Steps of a search, each of which leaves two thirds of what is searched: of 2000 ppm 1e-19.
const STEPS: usize = 90;

/// By how much the rate of two oscillators' difference changes at most, ns a ns and ns: 1 ppb a second. Crystals without compensation change by some 0.1 to 1 ppm a kelvin, and boards by less
/// than a kelvin in minutes.
pub const MAX_BEND: f64 = 1e-18;

/// Clocks of two hosts: the second one's less the first one's, over the first one's time.
#[derive(Clone, Debug)]
pub struct Alignment {
    /// Times and differences are told from here on.
    origin_ns: u64,
    origin_difference_ns: i128,
    /// Where the curve lies above, and below: time and difference from the origins, lifted and lowered, ns.
    above: Hull,
    below: Hull,
    /// Slopes that are possible in the middle of the messages, and anywhere from the first one to the last.
    slopes: (f64, f64),
    rates: (f64, f64),
    /// Messages there and back.
    pub crossings: (usize, usize),
    /// The shortest way there and back that can be told without knowing which messages belong together, ns: the true one is not longer.
    pub shortest_round_trip_ns: u64,
}

/// Why there is no alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unaligned {
    /// Nothing went there, or nothing came back: one bound is missing.
    OneWay,
    /// No line fits: a clock went by leaps, or messages are taken for each other.
    NoLine,
}

impl Alignment {
    /// By all messages between two hosts.
    ///
    /// # Errors
    /// Where a bound is missing, or no line fits.
    pub fn of(crossings: &[Crossing]) -> Result<Self, Unaligned> {
        let first = crossings.first().ok_or(Unaligned::OneWay)?;
        // By the first host's clock, and the second one's less that.
        let at = |crossing: &Crossing| {
            let Crossing { sent_ns, received_ns, is_forth } = *crossing;
            let (own_ns, other_ns) = if is_forth { (sent_ns, received_ns) } else { (received_ns, sent_ns) };
            (own_ns, i128::from(other_ns) - i128::from(own_ns))
        };
        let (origin_ns, origin_difference_ns) = at(first);
        let from_origin = |crossing: &Crossing| {
            let (own_ns, difference_ns) = at(crossing);
            ((i128::from(own_ns) - i128::from(origin_ns)) as f64, (difference_ns - origin_difference_ns) as f64)
        };
        let points = |is_forth: bool| -> Vec<(f64, f64)> {
            let mut points: Vec<(f64, f64)> = crossings.iter().filter(|one| one.is_forth == is_forth).map(from_origin).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            points
        };
        let (forth, back) = (points(true), points(false));
        if forth.is_empty() || back.is_empty() {
            return Err(Unaligned::OneWay);
        }
        let crossings = (forth.len(), back.len());
        let bend = |points: &[(f64, f64)], side: f64| -> Vec<(f64, f64)> {
            points.iter().map(|(x, y)| (*x, y + side * MAX_BEND * x * x / 2.0)).collect()
        };
        let mut alignment = Self {
            origin_ns,
            origin_difference_ns,
            // The curve lies below every message there, and above every one back.
            above: Hull::of(&bend(&forth, 1.0), 1.0),
            below: Hull::of(&bend(&back, -1.0), -1.0),
            slopes: (-MAX_DRIFT, MAX_DRIFT),
            rates: (-MAX_DRIFT, MAX_DRIFT),
            crossings,
            shortest_round_trip_ns: 0,
        };
        let ends = forth.iter().chain(&back).map(|(x, _)| *x);
        let (first, last) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        let at = |part: f64| alignment.at(first + (last - first) * part);
        // Where it fits in between it may not at the ends, and the other way round.
        let all: Option<Vec<Possible>> = [0.0, 0.25, 0.5, 0.75, 1.0].into_iter().map(at).collect();
        let all = all.ok_or(Unaligned::NoLine)?;
        alignment.slopes = all[2].slopes;
        // Between those that were looked at it changes by so much.
        let more = MAX_BEND * (last - first) / 4.0;
        let within = |of: &Possible, (low, high): (f64, f64)| (of.slopes.0.min(low), of.slopes.1.max(high));
        let (low, high) = all.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |slopes, of| within(of, slopes));
        alignment.rates = (low - more, high + more);
        alignment.shortest_round_trip_ns = all.iter().map(|of| of.high - of.low).fold(f64::INFINITY, f64::min).max(0.0) as u64;
        Ok(alignment)
    }

    /// What is possible at a time from the origin; none where no curve is.
    fn at(&self, t: f64) -> Option<Possible> {
        let lift = MAX_BEND * t * t / 2.0;
        let high = |slope: f64| self.above.bound(slope + MAX_BEND * t) + (slope + MAX_BEND * t) * t - lift;
        let low = |slope: f64| self.below.bound(slope - MAX_BEND * t) + (slope - MAX_BEND * t) * t + lift;
        let room = |slope: f64| high(slope) - low(slope);
        let best = search((-MAX_DRIFT, MAX_DRIFT), room);
        if room(best) < -SLACK_NS {
            return None;
        }
        // Room is concave: it leaves 0 once on either side.
        let edge = |mut inside: f64, mut outside: f64| {
            if room(outside) >= 0.0 {
                return outside;
            }
            for _ in 0..STEPS {
                let middle = inside.midpoint(outside);
                if room(middle) >= 0.0 { inside = middle } else { outside = middle }
            }
            outside
        };
        let slopes = (edge(best, -MAX_DRIFT), edge(best, MAX_DRIFT));
        let highest = high(search(slopes, high)).max(high(slopes.0)).max(high(slopes.1));
        let lowest = low(search(slopes, |slope| -low(slope))).min(low(slopes.0)).min(low(slopes.1));
        Some(Possible { low: lowest.min(highest), high: highest.max(lowest), slopes })
    }

    /// The second clock less the first one at a time of the first one: at least and at most, ns.
    pub fn difference_ns(&self, time_ns: u64) -> (i128, i128) {
        let t = (i128::from(time_ns) - i128::from(self.origin_ns)) as f64;
        // Where it fits at the messages it does everywhere: what is left is arithmetic.
        let Possible { low, high, .. } = self.at(t).unwrap_or(Possible { low: 0.0, high: 0.0, slopes: self.slopes });
        let whole = |difference: f64| self.origin_difference_ns + difference as i128;
        (whole((low - SLACK_NS).floor()), whole((high + SLACK_NS).ceil()))
    }

    /// The time of the first message, by the first host's clock, ns.
    pub fn origin_ns(&self) -> u64 {
        self.origin_ns
    }

    /// By how much the second clock is faster at any time of the messages: at least and at most, in a ns.
    pub(crate) fn rates(&self) -> (f64, f64) {
        self.rates
    }

    /// By how much the second clock is faster in the middle of the messages: at least and at most, ppm.
    pub fn drift_ppm(&self) -> (f64, f64) {
        (self.slopes.0 * 1e6, self.slopes.1 * 1e6)
    }
}

/// What a difference may be at a time, and its slope there.
struct Possible {
    low: f64,
    high: f64,
    slopes: (f64, f64),
}

/// Where a concave function is greatest.
fn search((mut low, mut high): (f64, f64), of: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..STEPS {
        let third = (high - low) / 3.0;
        let (a, b) = (low + third, high - third);
        if of(a) < of(b) { low = a } else { high = b }
    }
    low.midpoint(high)
}

/// The points that a line can touch that lies below all (`side` 1) or above all (-1), in order, with the slopes from each to the next.
#[derive(Clone, Debug)]
struct Hull {
    points: Vec<(f64, f64)>,
    slopes: Vec<f64>,
    side: f64,
}

impl Hull {
    /// Of points in order.
    fn of(points: &[(f64, f64)], side: f64) -> Self {
        let mut hull: Vec<(f64, f64)> = Vec::new();
        for &(x, y) in points {
            while let [.., (ax, ay), (bx, by)] = hull[..] {
                let turns = (bx - ax) * (y - ay) - (by - ay) * (x - ax);
                if side * turns > 0.0 {
                    break;
                }
                hull.pop();
            }
            // Of two at one time the nearer one bounds.
            if hull.last().is_some_and(|last| last.0 == x && side * (last.1 - y) <= 0.0) {
                continue;
            }
            hull.push((x, y));
        }
        let slopes = hull.windows(2).map(|two| (two[1].1 - two[0].1) / (two[1].0 - two[0].0)).collect();
        Self { points: hull, slopes, side }
    }

    /// The line of a slope that touches it: what it is at the origin.
    fn bound(&self, slope: f64) -> f64 {
        // Slopes grow along a lower hull, and fall along an upper one.
        let at = self.slopes.partition_point(|next| self.side * (next - slope) < 0.0);
        let (x, y) = self.points[at];
        y - slope * x
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

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
            let (slower, faster) = alignment.drift_ppm();
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
}
