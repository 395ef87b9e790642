//! What clocks that hosts share say of their raw clocks.

use perftax_pmu::sys::{Discipline, HostClock};

use super::HostTrace;

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

    /// What it shows, whoever keeps it right.
    fn shows(self, clock: &HostClock) -> i128 {
        let offset_s = match self {
            Self::Realtime => 0,
            Self::Tai => clock.discipline.map_or(0, |discipline| discipline.tai_offset_s),
        };
        i128::from(clock.realtime_ns) + i128::from(offset_s) * 1_000_000_000
    }

    /// By how much that may be wrong by the kernel's word, ns; none where nobody keeps it right, or nobody has told the kernel of it.
    fn error_ns(self, clock: &HostClock) -> Option<u64> {
        // Daemons that set the clock by steps set both errors to 0 as they do (timesyncd each time that it asks): that says nothing.
        let says_nothing = |of: &Discipline| of.is_unsynchronised || (of.max_error_ns == 0 && of.estimated_error_ns == 0);
        let of = clock.discipline.filter(|discipline| !says_nothing(discipline))?;
        if self == Self::Tai && of.tai_offset_s == 0 {
            return None;
        }
        // What is still to be made good is wrong until then.
        Some(clock.within_ns.saturating_add(of.max_error_ns).saturating_add(of.offset_ns.unsigned_abs()))
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

/// By how much a raw clock may differ from one that is kept right, in a ns, where its own readings do not tell: what the kernel slews by at most when it is asked for a frequency. By ticks
/// (chrony) it may be a hundred times as much: between readings their own rate is taken.
const MAX_SLEW: f64 = 500e-6;
/// What a clock is set by beyond that, ns, is a leap.
const LEAP_NS: f64 = 1e6;
/// However long it is between two readings: what is more is one, ns.
const SURE_LEAP_NS: f64 = 1e8;
/// Readings that are tried, at most.
const TRIED: usize = 1000;

/// A host's readings of one clock.
struct Readings<'a> {
    clocks: &'a [HostClock],
    shared: Shared,
    /// By how much the clock is faster than the raw one from each reading to the next, in a ns; none where it leaps.
    rates: Vec<Option<f64>>,
}

impl<'a> Readings<'a> {
    fn of(host: &'a HostTrace, shared: Shared) -> Self {
        let clocks = host.clocks.as_slice();
        let steps = clocks.windows(2).map(|two| {
            let raw_ns = two[1].raw_ns.saturating_sub(two[0].raw_ns) as f64;
            let moved_ns = (shared.shows(&two[1]) - shared.shows(&two[0])) as f64 - raw_ns;
            (raw_ns, moved_ns, two[0].within_ns.saturating_add(two[1].within_ns) as f64)
        });
        let steps: Vec<(f64, f64, f64)> = steps.collect();
        // The usual one; of two the lesser.
        let mut rates: Vec<f64> = steps.iter().filter(|(raw, ..)| *raw > 0.0).map(|(raw, moved, _)| moved / raw).collect();
        rates.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
        let usual = rates.get(rates.len().saturating_sub(1) / 2).copied().unwrap_or(0.0);
        let rate = |(raw_ns, moved_ns, within_ns): &(f64, f64, f64)| {
            let beyond_ns = (moved_ns - usual * raw_ns).abs();
            let leaps = beyond_ns > LEAP_NS + MAX_SLEW * raw_ns + within_ns
                || moved_ns.abs() > SURE_LEAP_NS + 2.0 * MAX_SLEW * raw_ns + within_ns;
            (*raw_ns > 0.0 && !leaps).then(|| moved_ns / raw_ns)
        };
        Self { clocks, shared, rates: steps.iter().map(rate).collect() }
    }

    /// The rate from a reading to the one before or after it, where there is one and the clock does not leap.
    fn rate(&self, at: usize, is_after: bool) -> Option<f64> {
        let step = if is_after { Some(at) } else { at.checked_sub(1) };
        self.rates.get(step?).copied().flatten()
    }

    /// Those that count: whose clock is kept right, and next to which it does not leap. With what they show, and by how much that may be wrong, ns.
    fn kept(&self) -> impl Iterator<Item = (usize, i128, u64)> {
        self.clocks.iter().enumerate().filter_map(|(at, clock)| {
            let error_ns = self.shared.error_ns(clock)?;
            let leaps = |step: Option<usize>| step.and_then(|step| self.rates.get(step)).is_some_and(Option::is_none);
            (!leaps(at.checked_sub(1)) && !leaps(Some(at))).then(|| (at, self.shared.shows(clock), error_ns))
        })
    }

    /// Its raw clock when the shared one shows this, by a reading: and by how much that may be wrong, ns. None where the clock leaps in between.
    fn raw_ns(&self, (at, shown, error_ns): (usize, i128, u64), shows: i128) -> Option<(i128, i128)> {
        let apart_ns = (shows - shown) as f64;
        let clock = &self.clocks[at];
        let is_after = apart_ns >= 0.0;
        let beside = if is_after { Some(at + 1) } else { at.checked_sub(1) };
        let beside = beside.and_then(|beside| self.clocks.get(beside));
        let other_rate = self.rate(at, !is_after);
        let (rate, more_ns) = match beside {
            // Between two readings: as fast as from the one to the other, to what that changes by.
            Some(beside) => {
                let rate = self.rate(at, is_after)?;
                let until_ns = (self.shared.shows(beside) - shown).unsigned_abs() as f64;
                if apart_ns.abs() > until_ns {
                    return None;
                }
                let changes = other_rate.map_or(0.0, |other| (other - rate).abs());
                let grows_ns =
                    self.shared.error_ns(beside).map_or(apart_ns.abs() * MAX_SLEW, |error| error.saturating_sub(error_ns) as f64);
                (rate, apart_ns.abs() * changes + beside.within_ns as f64 + grows_ns)
            }
            // Beyond the last one: as it was until then.
            None => (other_rate.unwrap_or(0.0), apart_ns.abs() * MAX_SLEW),
        };
        let raw_ns = i128::from(clock.raw_ns) + (apart_ns / (1.0 + rate)).round() as i128;
        Some((raw_ns, i128::from(error_ns) + more_ns.ceil() as i128))
    }
}

/// What a clock that two hosts share says of their raw clocks, as near to the middle of the first one's readings as there are any that count.
pub fn stated(first: &HostTrace, second: &HostTrace, shared: Shared) -> Option<Stated> {
    let (own, others) = (Readings::of(first, shared), Readings::of(second, shared));
    let half = first.clocks.len() / 2;
    let mut readings: Vec<(usize, i128, u64)> = own.kept().collect();
    readings.sort_by_key(|(at, ..)| at.abs_diff(half));
    let others_kept: Vec<(usize, i128, u64)> = others.kept().collect();
    readings.into_iter().take(TRIED).find_map(|(at, shows, error_ns)| {
        let nearest = others_kept.iter().min_by_key(|(_, shown, _)| (shown - shows).unsigned_abs())?;
        let (raw_ns, more_ns) = others.raw_ns(*nearest, shows)?;
        let time_ns = first.clocks[at].raw_ns;
        let (difference_ns, slack_ns) = (raw_ns - i128::from(time_ns), more_ns + i128::from(error_ns));
        Some(Stated { time_ns, low_ns: difference_ns - slack_ns, high_ns: difference_ns + slack_ns })
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    const NS: u64 = 1_000_000_000;

    /// Readings every 10 s of a clock that shows so much more than the raw one then.
    fn host(from_s: u64, more_ns: impl Fn(u64) -> u64) -> HostTrace {
        let clock = |i: u64| {
            let raw_ns = (from_s + 10 * i) * NS;
            let discipline = Discipline { max_error_ns: 1_000_000, ..Discipline::default() };
            HostClock { raw_ns, within_ns: 50, realtime_ns: 1000 * NS + raw_ns + more_ns(raw_ns), discipline: Some(discipline) }
        };
        HostTrace { clocks: (0..9).map(clock).collect(), ..HostTrace::default() }
    }

    fn kept(host: &HostTrace) -> Vec<usize> {
        Readings::of(host, Shared::Realtime).kept().map(|(at, ..)| at).collect()
    }

    /// A clock that is made 5000 ppm faster (chrony) is 25 ms off after 5 s at another rate.
    #[test]
    fn between_readings_a_clock_goes_as_they_say() {
        let slewed = |raw_ns: u64| raw_ns / 200;
        let (first, second) = (host(105, |_| 0), host(100, slewed));
        let stated = stated(&first, &second, Shared::Realtime).unwrap();
        let shows = 1000 * NS + stated.time_ns;
        // The second one's raw clock when its own shows the same.
        let truth = i128::from((shows - 1000 * NS) * 200 / 201) - i128::from(stated.time_ns);
        assert!((stated.low_ns..=stated.high_ns).contains(&truth), "{stated:?} {truth}");
        assert!(stated.high_ns - stated.low_ns < 4_100_000, "{stated:?}");
    }

    #[test]
    fn readings_beside_a_leap_do_not_count() {
        assert_eq!(kept(&host(100, |_| 0)), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        // It is set by half a second between the fifth and the sixth, or by 20 ms.
        for leap_ns in [500_000_000, 20_000_000] {
            let leaps = host(100, |raw_ns| if raw_ns > 145 * NS { leap_ns } else { 0 });
            assert_eq!(kept(&leaps), [0, 1, 2, 3, 6, 7, 8], "{leap_ns}");
            // What lies between what counts and the leap is nobody's.
            let stated = stated(&host(104, |_| 0), &leaps, Shared::Realtime).unwrap();
            assert!(!(140 * NS..160 * NS).contains(&stated.time_ns), "{stated:?}");
        }
        // Two readings between which it is set.
        let mut two = host(100, |raw_ns| if raw_ns > 105 * NS { 3 * NS } else { 0 });
        two.clocks.truncate(2);
        assert!(kept(&two).is_empty() && stated(&two, &host(100, |_| 0), Shared::Realtime).is_none());
    }

    /// Those in the middle are not kept right, or say that they are never wrong.
    #[test]
    fn the_nearest_reading_that_says_something_is_taken() {
        let mut hosts = [host(100, |_| 0), host(100, |_| 0)];
        for clock in &mut hosts[0].clocks[3..6] {
            clock.discipline.as_mut().unwrap().is_unsynchronised = true;
        }
        hosts[0].clocks[6].discipline.as_mut().unwrap().max_error_ns = 0;
        let at = stated(&hosts[0], &hosts[1], Shared::Realtime).unwrap();
        assert_eq!(at.time_ns, 120 * NS);
        hosts[0].clocks.iter_mut().for_each(|clock| clock.discipline.as_mut().unwrap().max_error_ns = 0);
        assert_eq!(stated(&hosts[0], &hosts[1], Shared::Realtime), None);
    }

    /// What the kernel has still to make good counts, and numbers of a file that is damaged go nowhere.
    #[test]
    fn what_is_left_to_make_good_counts_and_sums_stay_in_their_words() {
        let mut hosts = [host(100, |_| 0), host(100, |_| 0)];
        let width = |hosts: &[HostTrace; 2]| {
            let stated = stated(&hosts[0], &hosts[1], Shared::Realtime).unwrap();
            stated.high_ns - stated.low_ns
        };
        let before = width(&hosts);
        hosts[1].clocks.iter_mut().for_each(|clock| clock.discipline.as_mut().unwrap().offset_ns = -3_000_000);
        assert_eq!(width(&hosts) - before, 6_000_000);
        for clock in &mut hosts[1].clocks {
            clock.within_ns = u64::MAX;
            let discipline = clock.discipline.as_mut().unwrap();
            (discipline.max_error_ns, discipline.offset_ns) = (u64::MAX, i64::MIN);
        }
        assert!(width(&hosts) >= i128::from(u64::MAX));
    }
}
