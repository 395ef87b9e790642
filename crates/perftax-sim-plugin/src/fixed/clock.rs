// SPDX-License-Identifier: GPL-2.0-or-later
//! The time that the program sees: it passes by being looked at, and by being slept through, not by itself.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a look at the clock takes, ns.
const LOOK_NS: u64 = 1_000;
/// How long the machine was up when the program began, ns.
const UP_NS: u64 = 1_000_000_000_000;
/// The time of day then: 2026-01-01, ns since 1970.
const DAY_NS: u64 = 1_767_225_600_000_000_000;

static NOW: AtomicU64 = AtomicU64::new(0);

/// Since the program began, ns.
pub fn now() -> u64 {
    NOW.load(Ordering::Relaxed)
}

/// A look at one of the kernel's clocks (clock_gettime(2)), ns.
pub fn look(clock: u64) -> u64 {
    let now = NOW.fetch_add(LOOK_NS, Ordering::Relaxed) + LOOK_NS;
    now + base(clock)
}

/// It is not earlier than that.
pub fn advance_to(ns: u64) {
    NOW.fetch_max(ns, Ordering::Relaxed);
}

/// Where one of the kernel's clocks stood when the program began, ns.
pub fn base(clock: u64) -> u64 {
    const OF_DAY: [i32; 3] = [libc::CLOCK_REALTIME, libc::CLOCK_REALTIME_COARSE, libc::CLOCK_TAI];
    const OF_CPU: [i32; 2] = [libc::CLOCK_PROCESS_CPUTIME_ID, libc::CLOCK_THREAD_CPUTIME_ID];
    match i32::try_from(clock) {
        Ok(clock) if OF_DAY.contains(&clock) => DAY_NS,
        Ok(clock) if OF_CPU.contains(&clock) => 0,
        _ => UP_NS,
    }
}

/// How far the host's clock is ahead of the program's, ns.
pub fn host_ahead(clock: u64) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes the time where it is told.
    unsafe { libc::clock_gettime(clock as libc::clockid_t, &mut time) };
    let host = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    host.wrapping_sub(now() + base(clock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_by_looking_and_by_sleeping() {
        let first = look(libc::CLOCK_MONOTONIC as u64);
        let second = look(libc::CLOCK_MONOTONIC as u64);
        assert!(second >= first + LOOK_NS && second < first + 1000 * LOOK_NS);
        advance_to(now() + 5_000_000);
        assert!(look(libc::CLOCK_MONOTONIC as u64) >= second + 5_000_000);
        assert!(look(libc::CLOCK_REALTIME as u64) > DAY_NS);
        let there = now() + base(libc::CLOCK_REALTIME as u64);
        assert!(there.wrapping_add(host_ahead(libc::CLOCK_REALTIME as u64)) > DAY_NS);
    }
}
