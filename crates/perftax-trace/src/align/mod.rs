//! How far the clocks of two hosts are apart, by causality: nothing is received before it was sent.
//!
//! What the one sends and the other receives bounds the difference of their clocks from above, what comes back from below. Both clocks are raw oscillators (CLOCK_MONOTONIC_RAW): the
//! rate of their difference changes, with temperature, but slowly ([`MAX_BEND`]). Every curve of that kind that no message contradicts is possible: between the lowest and the highest of
//! them lies the truth, as a bound and not as an interval of confidence. A host that was suspended, or a clock that leapt, is told where no such curve fits.
//!
//! With d the difference, |d″| ≤ κ, and m its slope at t: d(x) lies within d(t) + m(x - t) ± κ(x - t)²/2. Points lifted by κx²/2 (lowered, on the other side) therefore bound d(t) by lines
//! alone, for whatever t: their hulls are made once.

mod hull;
#[cfg(test)]
mod tests;

use hull::{Beyond, Hull};

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

impl Crossing {
    /// The same from the second host's side.
    #[must_use]
    pub fn turned(self) -> Self {
        Self { is_forth: !self.is_forth, ..self }
    }
}

/// Oscillators differ by less than this (ns in a ns): 1000 ppm, where hundred are usual at most.
pub(crate) const MAX_DRIFT: f64 = 1e-3;
/// What is added to bounds at either end for arithmetic, ns.
const SLACK_NS: f64 = 1.0;
/// Places at which it is known which slopes are possible: nearby they are little else, and the search is short. An odd number, for there is a middle.
const PLACES: usize = 65;
/// Steps of a search, each of which leaves half of what is searched: of 2000 ppm 1e-22.
const STEPS: usize = 64;

/// By how much the rate of two oscillators' difference changes at most, ns a ns and ns: 1 ppb a second. Crystals without compensation change by some 0.1 to 1 ppm a kelvin, and boards by less
/// than a kelvin in minutes.
pub const MAX_BEND: f64 = 1e-18;

/// Clocks of two hosts: the second one's less the first one's, over the first one's time.
#[derive(Clone, Debug)]
pub struct Alignment {
    /// Times and differences are told from here on.
    origin_ns: u64,
    origin_difference_ns: i128,
    /// Where the curve lies below, and above: time and difference from the origins, lifted and lowered, ns. None where both are one clock.
    hulls: Option<(Hull, Hull)>,
    /// Slopes that are possible at places from the first message to the last, at even distances, with the first one's time from the origin and the distance.
    slopes: [(f64, f64); PLACES],
    first: f64,
    distance: f64,
    /// Those that are possible anywhere between.
    all_slopes: (f64, f64),
    /// Messages there and back.
    pub crossings: (usize, usize),
    /// The shortest way there and back, at most, ns. Of a pair with round trips ([`Self::is_by_round_trips`]): the least that any of them was on the way, with what the clocks' drift leaves
    /// open. Otherwise what the messages leave room for: the shortest way there and the shortest way back together took no longer.
    pub shortest_round_trip_ns: u64,
    /// Whether that is of messages that went there and back, rather than of what room the messages leave.
    pub is_by_round_trips: bool,
}

/// Why there is no alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unaligned {
    /// Nothing went there, or nothing came back: one bound is missing.
    OneWay,
    /// No difference fits whose rate changes by [`MAX_BEND`] at most: a clock went by leaps, or messages are taken for each other.
    NoLine,
}

impl Alignment {
    /// By all messages between two hosts.
    ///
    /// # Errors
    /// Where a bound is missing, or nothing fits.
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
        // The curve lies below every message there, and above every one back.
        let hull = |points: &[(f64, f64)], side: f64| {
            Hull::of(points.iter().map(|(x, y)| (*x, y + side * MAX_BEND * x * x / 2.0)), side)
        };
        let hulls = (hull(&forth, 1.0), hull(&back, -1.0));
        let ends = forth.iter().chain(&back).map(|(x, _)| *x);
        let (first, last) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        // Where it fits in between it may not at the ends, and the other way round: each message that bounds anything is asked.
        if hulls.0.times().chain(hulls.1.times()).any(|t| Bounds::of(&hulls, t).possible(ANY_SLOPE).is_none()) {
            return Err(Unaligned::NoLine);
        }
        let distance = (last - first) / (PLACES - 1) as f64;
        let mut slopes = [ANY_SLOPE; PLACES];
        let (mut all_slopes, mut room) = ((f64::INFINITY, f64::NEG_INFINITY), f64::INFINITY);
        for (place, slopes) in slopes.iter_mut().enumerate() {
            let bounds = Bounds::of(&hulls, first + distance * place as f64);
            *slopes = bounds.possible(ANY_SLOPE).ok_or(Unaligned::NoLine)?.slopes;
            all_slopes = (all_slopes.0.min(slopes.0), all_slopes.1.max(slopes.1));
            room = room.min(bounds.most_room());
        }
        // Between them it changes by so much.
        let all_slopes = widened(all_slopes, distance);
        Ok(Self {
            origin_ns,
            origin_difference_ns,
            slopes,
            first,
            distance,
            all_slopes,
            crossings,
            shortest_round_trip_ns: room.max(0.0).ceil() as u64,
            is_by_round_trips: false,
            hulls: Some(hulls),
        })
    }

    /// Of two traces of one clock, whatever was sent between them.
    pub fn exact(crossings: &[Crossing]) -> Self {
        let forth = crossings.iter().filter(|crossing| crossing.is_forth).count();
        let own_ns = |crossing: &Crossing| if crossing.is_forth { crossing.sent_ns } else { crossing.received_ns };
        let took_ns = |is_forth: bool| {
            let ways = crossings.iter().filter(|crossing| crossing.is_forth == is_forth);
            ways.map(|crossing| crossing.received_ns.saturating_sub(crossing.sent_ns)).min().unwrap_or(0)
        };
        Self {
            origin_ns: crossings.iter().map(own_ns).min().unwrap_or(0),
            origin_difference_ns: 0,
            hulls: None,
            slopes: [(0.0, 0.0); PLACES],
            first: 0.0,
            distance: 0.0,
            all_slopes: (0.0, 0.0),
            crossings: (forth, crossings.len() - forth),
            shortest_round_trip_ns: took_ns(true).saturating_add(took_ns(false)),
            is_by_round_trips: false,
        }
    }

    /// Whether both are one clock.
    pub fn is_exact(&self) -> bool {
        self.hulls.is_none()
    }

    /// The second clock less the first one at a time of the first one: at least and at most, ns.
    pub fn difference_ns(&self, time_ns: u64) -> (i128, i128) {
        self.known(time_ns).0
    }

    /// The same, and by how much the second clock is faster just then: at least and at most, in a ns.
    pub(crate) fn known(&self, time_ns: u64) -> ((i128, i128), (f64, f64)) {
        let Some(hulls) = &self.hulls else { return ((0, 0), (0.0, 0.0)) };
        let t = (i128::from(time_ns) - i128::from(self.origin_ns)) as f64;
        let bounds = Bounds::of(hulls, t);
        let Possible { low, high, slopes } = bounds.possible(self.slopes_near(t)).unwrap_or_else(|| bounds.of_each());
        let whole = |difference: f64| self.origin_difference_ns + difference as i128;
        ((whole((low - SLACK_NS).floor()), whole((high + SLACK_NS).ceil())), slopes)
    }

    /// Slopes that no other one is possible than at a time from the origin.
    fn slopes_near(&self, t: f64) -> (f64, f64) {
        let place = if self.distance > 0.0 { ((t - self.first) / self.distance).round() } else { 0.0 };
        let place = place.clamp(0.0, (PLACES - 1) as f64);
        widened(self.slopes[place as usize], (t - self.first - place * self.distance).abs())
    }

    /// The time of the first message, by the first host's clock, ns.
    pub fn origin_ns(&self) -> u64 {
        self.origin_ns
    }

    /// By how much the second clock is faster at any time of the messages: at least and at most, in a ns.
    pub(crate) fn slopes(&self) -> (f64, f64) {
        self.all_slopes
    }

    /// By how much the second clock is faster in the middle of the messages: at least and at most, ppm.
    pub fn drift_ppm(&self) -> (f64, f64) {
        let (slower, faster) = self.slopes[PLACES / 2];
        (slower * 1e6, faster * 1e6)
    }

    /// The same; none where the messages do not tell, for all that oscillators may drift by is possible on either side: they are too few, or too close together.
    pub fn known_drift_ppm(&self) -> Option<(f64, f64)> {
        let (slower, faster) = self.slopes[PLACES / 2];
        (-MAX_DRIFT < slower && faster < MAX_DRIFT).then(|| self.drift_ppm())
    }
}

/// All that oscillators may drift by.
const ANY_SLOPE: (f64, f64) = (-MAX_DRIFT, MAX_DRIFT);

/// Slopes that are possible so long before or after others are.
fn widened((least, most): (f64, f64), ns: f64) -> (f64, f64) {
    ((least - MAX_BEND * ns).max(-MAX_DRIFT), (most + MAX_BEND * ns).min(MAX_DRIFT))
}

/// What a difference may be at a time, and its slope there.
struct Possible {
    low: f64,
    high: f64,
    slopes: (f64, f64),
}

/// What messages leave of a difference at a time.
struct Bounds<'a> {
    above: &'a Hull,
    below: &'a Hull,
    t: f64,
    /// How much the slope of what is lifted differs from that of the curve there.
    bend: f64,
    /// What it is lifted by there.
    lift: f64,
}

impl<'a> Bounds<'a> {
    /// At a time from the origin.
    fn of((above, below): &'a (Hull, Hull), t: f64) -> Self {
        Self { above, below, t, bend: MAX_BEND * t, lift: MAX_BEND * t * t / 2.0 }
    }

    /// The highest that a curve of a slope can be, and the time of the message that it would meet.
    fn high(&self, slope: f64) -> (f64, f64) {
        let slope = slope + self.bend;
        let (x, y) = self.above.touched(slope);
        (y + slope * (self.t - x) - self.lift, x)
    }

    /// The lowest, likewise.
    fn low(&self, slope: f64) -> (f64, f64) {
        let slope = slope - self.bend;
        let (x, y) = self.below.touched(slope);
        (y + slope * (self.t - x) + self.lift, x)
    }

    /// What is left between the two, a concave function of the slope, and how it goes on from there.
    fn room(&self, slope: f64) -> (f64, f64) {
        let ((high, above), (low, below)) = (self.high(slope), self.low(slope));
        (high - low, below - above)
    }

    /// The outermost slope that is possible on one side (`side` 1: the least, -1: the greatest). From one outside, along tangents, which never leave one out.
    fn edge(&self, side: f64, mut slope: f64) -> Option<f64> {
        for _ in 0..STEPS {
            let (room, goes_on) = self.room(slope);
            if room + SLACK_NS >= 0.0 {
                break;
            }
            // It only becomes less from here.
            if side * goes_on <= 0.0 {
                return None;
            }
            let next = slope - (room + SLACK_NS) / goes_on;
            if side * next > MAX_DRIFT {
                return None;
            }
            if side * (next - slope) <= 0.0 {
                break;
            }
            slope = next;
        }
        Some(slope)
    }

    /// The highest and the lowest of all slopes that are possible.
    fn within(&self, slopes: (f64, f64)) -> Possible {
        let (least, most) = slopes;
        // Each is highest where the point that it meets changes sides.
        let highest = match self.above.slope(self.t) {
            Ok(slope) => (slope - self.bend).clamp(least, most),
            Err(Beyond::Before) => least,
            Err(Beyond::After) => most,
        };
        let lowest = match self.below.slope(self.t) {
            Ok(slope) => (slope + self.bend).clamp(least, most),
            Err(Beyond::Before) => most,
            Err(Beyond::After) => least,
        };
        let (low, high) = (self.low(lowest).0, self.high(highest).0);
        Possible { low: low.min(high), high: high.max(low), slopes }
    }

    /// What is possible with slopes in a range; none where nothing is.
    fn possible(&self, range: (f64, f64)) -> Option<Possible> {
        let (least, most) = (self.edge(1.0, range.0)?, self.edge(-1.0, range.1)?);
        // By arithmetic alone they may have passed each other.
        Some(self.within((least.min(most), most.max(least))))
    }

    /// What each side leaves without the other one: where the two contradict each other between messages, either may be right.
    fn of_each(&self) -> Possible {
        self.within(ANY_SLOPE)
    }

    /// The most that is left between the two, of all slopes.
    fn most_room(&self) -> f64 {
        let (mut low, mut high) = ANY_SLOPE;
        for _ in 0..STEPS {
            let middle = low.midpoint(high);
            if self.room(middle).1 > 0.0 { low = middle } else { high = middle }
        }
        self.room(low).0.max(self.room(high).0)
    }
}
