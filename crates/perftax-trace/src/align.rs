//! How far the clocks of two hosts are apart, by causality: nothing is received before it was sent.
//!
//! What the one sends and the other receives bounds the difference of their clocks from above, what comes back from below. Both clocks are raw oscillators (CLOCK_MONOTONIC_RAW), so
//! their difference is taken for a line over time. Every line that no message contradicts is possible: between the lowest and the highest of them lies the truth, as a bound and not as
//! an interval of confidence. A difference that is no line (a host that was suspended, a clock that changed its rate) is told where no line fits.

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
/// Steps of a search, each of which leaves two thirds of what is searched.
const STEPS: usize = 200;

/// Clocks of two hosts: the second one's less the first one's, as a line over the first one's time.
#[derive(Clone, Debug)]
pub struct Alignment {
    /// Times and differences are told from here on.
    origin_ns: u64,
    origin_difference_ns: i128,
    /// Where the line lies above, and below: time and difference from the origins, ns; the hulls alone.
    above: Vec<(f64, f64)>,
    below: Vec<(f64, f64)>,
    /// Slopes that are possible, and the one that leaves most room.
    slopes: (f64, f64),
    roomiest: f64,
    /// Messages there and back.
    pub crossings: (usize, usize),
    /// The shortest way there and back: of any message there, and any back, as the clocks' difference cancels out; ns.
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
        // The line lies below every message there, and above every one back.
        let (above, below) = (hull(&forth, 1.0), hull(&back, -1.0));
        let mut alignment = Self {
            origin_ns,
            origin_difference_ns,
            above,
            below,
            slopes: (-MAX_DRIFT, MAX_DRIFT),
            roomiest: 0.0,
            crossings,
            shortest_round_trip_ns: 0,
        };
        (alignment.slopes, alignment.roomiest) = alignment.possible_slopes().ok_or(Unaligned::NoLine)?;
        alignment.shortest_round_trip_ns = alignment.shortest_round_trip();
        Ok(alignment)
    }

    /// The highest line of a slope: what it is at the origin.
    fn highest(&self, slope: f64) -> f64 {
        self.above.iter().map(|(x, y)| y - slope * x).fold(f64::INFINITY, f64::min)
    }

    /// The lowest one.
    fn lowest(&self, slope: f64) -> f64 {
        self.below.iter().map(|(x, y)| y - slope * x).fold(f64::NEG_INFINITY, f64::max)
    }

    /// From which slope to which there is a line, and the roomiest one; none where there is none at all.
    fn possible_slopes(&self) -> Option<((f64, f64), f64)> {
        let room = |slope: f64| self.highest(slope) - self.lowest(slope);
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
            inside
        };
        Some(((edge(best, -MAX_DRIFT), edge(best, MAX_DRIFT)), best))
    }

    /// The second clock less the first one at a time of the first one: at least and at most, ns.
    pub fn difference_ns(&self, time_ns: u64) -> (i128, i128) {
        let x = (i128::from(time_ns) - i128::from(self.origin_ns)) as f64;
        // Concave and convex in the slope.
        let high = self.highest_at(x);
        let low = -self.lowest_at(x);
        let (low, high) = (low.min(high), high.max(low));
        let whole = |difference: f64| self.origin_difference_ns + difference as i128;
        (whole((low - SLACK_NS).floor()), whole((high + SLACK_NS).ceil()))
    }

    fn highest_at(&self, x: f64) -> f64 {
        let at = |slope: f64| self.highest(slope) + slope * x;
        at(search(self.slopes, at))
    }

    /// Below 0: what is searched for is the least.
    fn lowest_at(&self, x: f64) -> f64 {
        let at = |slope: f64| -(self.lowest(slope) + slope * x);
        at(search(self.slopes, at))
    }

    /// The time of the first message, by the first host's clock, ns.
    pub fn origin_ns(&self) -> u64 {
        self.origin_ns
    }

    /// By how much the second clock is faster: at least and at most, ppm.
    pub fn drift_ppm(&self) -> (f64, f64) {
        (self.slopes.0 * 1e6, self.slopes.1 * 1e6)
    }

    /// A time of the second host's by the first one's clock: at least and at most, ns.
    pub fn to_first_ns(&self, other_ns: u64) -> (i128, i128) {
        let other = i128::from(other_ns);
        let near = |time: i128| self.difference_ns(time.clamp(0, u64::MAX.into()) as u64);
        // The difference hardly changes over what it is not known by: two rounds find it.
        let (low, high) = near(other - self.origin_difference_ns);
        let (from, to) = (near(other - high), near(other - low));
        (other - from.1.max(to.1), other - from.0.min(to.0))
    }

    /// The least there is between the bounds, anywhere between their points: what no message can have been faster than, there and back.
    fn shortest_round_trip(&self) -> u64 {
        (self.highest(self.roomiest) - self.lowest(self.roomiest)).max(0.0) as u64
    }
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

/// The points that a line can touch that lies below all (`side` 1) or above all (-1): of points in order, their lower or upper hull.
fn hull(points: &[(f64, f64)], side: f64) -> Vec<(f64, f64)> {
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for &(x, y) in points {
        while let [.., (ax, ay), (bx, by)] = hull[..] {
            let turns = (bx - ax) * (y - ay) - (by - ay) * (x - ax);
            if side * turns > 0.0 {
                break;
            }
            hull.pop();
        }
        hull.push((x, y));
    }
    hull
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
                let (least, most) = alignment.to_first_ns(hosts.second(time_ns));
                assert!(least <= time_ns.into() && i128::from(time_ns) <= most && most - least < 500_000, "{seed}");
            }
            let (slower, faster) = alignment.drift_ppm();
            assert!(
                slower <= drift * 1e6 + 1e-3 && drift * 1e6 - 1e-3 <= faster && faster - slower < 60.0,
                "{slower} {drift} {faster}"
            );
            assert!((40_000..400_000).contains(&alignment.shortest_round_trip_ns), "{}", alignment.shortest_round_trip_ns);
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
