//! The clocks of a host beside CLOCK_MONOTONIC_RAW, and what its kernel says of how right they are (adjtimex(2)).

use rustix::time::{ClockId, clock_gettime};

use super::monotonic_raw_ns;

/// Readings of which the tightest is kept.
const ATTEMPTS: u32 = 5;

/// All of a host's clocks at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostClock {
    /// CLOCK_MONOTONIC_RAW, ns: the middle of two readings between which the others were read.
    pub raw_ns: u64,
    /// The moment lies within so much of that, either way, ns.
    pub within_ns: u64,
    /// CLOCK_REALTIME, ns since 1970.
    pub realtime_ns: u64,
    /// What the kernel says of it; none where it may not be asked (a container's filter).
    pub discipline: Option<Discipline>,
}

/// How a clock is kept right (`struct timex`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discipline {
    /// CLOCK_TAI less CLOCK_REALTIME, s; 0 where nobody has told the kernel.
    pub tai_offset_s: i32,
    /// Nobody keeps it right, or not for long (STA_UNSYNC, TIME_ERROR).
    pub is_unsynchronised: bool,
    /// How wrong it is at most, by who keeps it right, ns: it grows by 500 ppm while nothing is heard of them. Where this and the estimate are both 0 nobody says: timesyncd sets both to that
    /// whenever it asks, and no clock is never wrong.
    pub max_error_ns: u64,
    /// How wrong it is estimated to be, ns.
    pub estimated_error_ns: u64,
    /// By how much it is made faster, 1/65536 ppm.
    pub frequency: i64,
    /// What is still to be made good of an error that is known, ns: until then it is wrong by that, too.
    pub offset_ns: i64,
}

impl HostClock {
    /// Now.
    pub fn read() -> Self {
        let one = || {
            let before = monotonic_raw_ns();
            let time = clock_gettime(ClockId::Realtime);
            let after = monotonic_raw_ns();
            let realtime_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
            let within_ns = (after - before).div_ceil(2);
            Self { raw_ns: before + (after - before) / 2, within_ns, realtime_ns, discipline: None }
        };
        let tightest = (0..ATTEMPTS).map(|_| one()).min_by_key(|reading| reading.within_ns).unwrap_or_default();
        Self { discipline: discipline(), ..tightest }
    }
}

fn discipline() -> Option<Discipline> {
    // SAFETY: the kernel's structure is plain numbers, of which all may be 0; none of its modes asks for a change.
    let mut said: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `said` lives across the call.
    let state = unsafe { libc::adjtimex(&mut said) };
    (state >= 0).then(|| Discipline {
        tai_offset_s: said.tai,
        is_unsynchronised: state == libc::TIME_ERROR || said.status & libc::STA_UNSYNC != 0,
        // Both are µs, whatever the status says of the offset.
        max_error_ns: said.maxerror.max(0) as u64 * 1000,
        estimated_error_ns: said.esterror.max(0) as u64 * 1000,
        frequency: said.freq,
        offset_ns: offset_ns(said.offset, said.status),
    })
}

/// ns, where the status says so; µs otherwise.
fn offset_ns(offset: i64, status: i32) -> i64 {
    if status & libc::STA_NANO != 0 { offset } else { offset.saturating_mul(1000) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn all_clocks_are_of_one_moment() {
        let (first, second) = (HostClock::read(), HostClock::read());
        assert!(first.raw_ns <= second.raw_ns && first.within_ns < 1_000_000, "{first:?}");
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
        assert!(second.realtime_ns <= since_1970 && since_1970 - second.realtime_ns < 60_000_000_000, "{second:?}");
        // Both pass alike, to what a clock may be slewed by (500 ppm) and read apart.
        let (raw, real) = (second.raw_ns - first.raw_ns, second.realtime_ns.abs_diff(first.realtime_ns));
        assert!(raw.abs_diff(real) <= raw / 1000 + first.within_ns + second.within_ns + 2, "{first:?} {second:?}");
        if let Some(discipline) = first.discipline {
            assert!(discipline.tai_offset_s.abs() < 100 && discipline.frequency.abs() <= 500 << 16, "{discipline:?}");
        }
    }

    #[test]
    fn offsets_are_of_the_unit_that_the_status_says() {
        assert_eq!([offset_ns(-1234, libc::STA_NANO | libc::STA_PLL), offset_ns(-1234, libc::STA_PLL)], [-1234, -1_234_000]);
    }
}
