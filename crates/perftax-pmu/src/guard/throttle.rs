//! The throttle guard: keeps the kernel from slowing a measurement down behind our back, and puts its knobs back.
//!
//! The order matters (kernel/events/core.c, `perf_event_max_sample_rate_handler`): writing the rate answers EINVAL while
//! the percentage is 0 or 100, so the rate is raised first; on the way back the percentage comes first. Writing the
//! percentage also resets what the kernel has learned about the length of its interrupts.
//!
//! Only one process at a time may hold the knobs: two that restored what the other had set would leave the wrong values. What
//! they were is noted in the lock file: a guardian process restores it where this one is killed, and the next start of perftax where both were.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, access};

use super::guardian::{Duty, Guardian};
use super::lock::{LeftBehind, Lock, waiting_time};
use crate::error::{Error, Result};

/// Highest rate asked for while measuring, samples a second: above anything this tool drives a source with.
const MEASURING_RATE_HZ: u64 = 10_000_000;

const RATE: &str = "perf_event_max_sample_rate";
const PERCENT: &str = "perf_cpu_time_max_percent";

/// While it lives, the kernel neither lowers the sampling rate for long interrupts nor throttles below
/// 10 MHz. Dropping it restores both knobs.
#[derive(Debug)]
pub struct ThrottleGuard {
    directory: PathBuf,
    rate: u64,
    percent: u64,
    changed: bool,
    lock: Option<Lock>,
    /// Restores them where this process is killed.
    guardian: Option<Guardian>,
}

/// The kernel's knobs.
pub(super) const DIRECTORY: &str = "/proc/sys/kernel";
/// Where the lock and the values to be restored are kept.
pub(super) const LOCK: &str = "/run/lock/perftax-throttle";

impl ThrottleGuard {
    /// Raises the limits. Without the right to write them it says so: see [`Self::is_active`]. Waits for another perftax that is measuring as long
    /// as the variable `PERFTAX_WAIT` says (seconds), and else not at all.
    ///
    /// # Errors
    /// As [`Self::raise_within`].
    pub fn raise() -> Result<Self> {
        Self::raise_within(waiting_time(), &mut || ())
    }

    /// The same, waiting for another perftax that is measuring for so long at most. `told` is called once where there is one.
    ///
    /// # Errors
    /// `Busy` where another process still holds the lock; where a knob is missing; where SIGINT or SIGTERM came meanwhile.
    pub fn raise_within(longest: Duration, told: &mut dyn FnMut()) -> Result<Self> {
        Self::raise_in(Path::new(DIRECTORY), Path::new(LOCK), longest, told)
    }

    fn raise_in(directory: &Path, lock: &Path, longest: Duration, told: &mut dyn FnMut()) -> Result<Self> {
        let lock = Lock::take(lock, longest, told)?;
        // Read under the lock: before, they may have been those of whoever had it.
        let mut guard = Self {
            directory: directory.into(),
            rate: read(directory, RATE)?,
            percent: read(directory, PERCENT)?,
            changed: false,
            lock,
            guardian: None,
        };
        let is_writable = access(directory.join(RATE), Access::WRITE_OK).is_ok();
        // What whoever may not write them finds noted is left to others.
        if let Some((rate, percent)) = guard.lock.as_mut().filter(|_| is_writable).and_then(|lock| values(&lock.noted())) {
            (guard.rate, guard.percent, guard.changed) = (rate, percent, true);
        }
        // A percentage of 0 or 100 forbids writing the rate; any value between allows it.
        let (rate_now, percent_now) = (read(directory, RATE)?, read(directory, PERCENT)?);
        if matches!(percent_now, 0 | 100) && rate_now >= MEASURING_RATE_HZ || !is_writable {
            return Ok(guard);
        }
        guard.have_guarded();
        if matches!(percent_now, 0 | 100) {
            if write(directory, PERCENT, 99).is_err() {
                return Ok(guard);
            }
            guard.changed = true;
        }
        if write(directory, RATE, MEASURING_RATE_HZ).is_ok() {
            guard.changed = true;
            write(directory, PERCENT, 0)?;
        }
        Ok(guard)
    }

    /// Has a guardian watch over this process, and notes what there was, before anything is changed. In this order: a note that nobody watches
    /// over would wait for perftax's next start, and say that something is to be restored that is as it was.
    fn have_guarded(&mut self) {
        if self.guardian.is_none() {
            self.guardian = Guardian::start(&Duty::Limits {
                directory: self.directory.clone(),
                lock: self.lock.as_ref().map(|lock| lock.path().into()),
                rate: self.rate,
                percent: self.percent,
            });
            if let Some(lock) = &mut self.lock {
                lock.note(&format!("{} {}\n", self.rate, self.percent));
            }
        }
    }

    /// Sets a limit below what is asked for, to show that throttling is told; dropping the guard restores the knobs.
    ///
    /// # Errors
    /// Where the knobs may not be written.
    pub fn limit(&mut self, rate_hz: u64) -> Result<()> {
        self.have_guarded();
        self.changed = true;
        write(&self.directory, PERCENT, 99)?;
        write(&self.directory, RATE, rate_hz)
    }

    /// Whether the limits are out of the way.
    pub fn is_active(&self) -> bool {
        self.changed || matches!(self.percent, 0 | 100) && self.rate >= MEASURING_RATE_HZ
    }

    /// What the limits are for whoever may not raise them: samples a second, and per cent of a CPU.
    pub fn limits(&self) -> (u64, u64) {
        (self.rate, self.percent)
    }

    /// Whether they are out of the way already, or this process may raise them; or why not.
    ///
    /// # Errors
    /// The knob that refuses, and how.
    pub fn may_raise() -> std::result::Result<(), String> {
        let directory = Path::new(DIRECTORY);
        let is_raised = read(directory, RATE).is_ok_and(|rate| rate >= MEASURING_RATE_HZ)
            && read(directory, PERCENT).is_ok_and(|percent| matches!(percent, 0 | 100));
        if is_raised {
            return Ok(());
        }
        let knob = directory.join(RATE);
        access(&knob, Access::WRITE_OK).map_err(|error| format!("{}: {error}", knob.display()))
    }

    /// The command that raises them by hand, in the right order.
    pub fn remedy() -> String {
        format!("sudo sysctl kernel.{PERCENT}=99 kernel.{RATE}={MEASURING_RATE_HZ} && sudo sysctl kernel.{PERCENT}=0")
    }
}

impl Drop for ThrottleGuard {
    fn drop(&mut self) {
        if self.changed {
            restore(&self.directory, self.rate, self.percent);
        }
        if let Some(lock) = &mut self.lock {
            lock.note("");
        }
        if let Some(guardian) = self.guardian.take() {
            guardian.dismiss();
        }
    }
}

/// Writes both knobs. The percentage must allow writing the rate, and its final value comes last.
pub(super) fn restore(directory: &Path, rate: u64, percent: u64) {
    write(directory, PERCENT, 99).ok();
    write(directory, RATE, rate).ok();
    write(directory, PERCENT, percent).ok();
}

/// Restores what a killed process has noted in the lock file. Whether nothing is left to be done: where somebody holds the lock, he does it later.
pub(super) fn repair(directory: &Path, lock: &Path) -> bool {
    match Lock::left_behind(lock) {
        LeftBehind::Nothing => true,
        LeftBehind::Held => false,
        LeftBehind::Noted(mut lock) => {
            if let Some((rate, percent)) = values(&lock.noted()) {
                restore(directory, rate, percent);
            }
            lock.note("");
            true
        }
    }
}

/// Rate and percentage of a note.
fn values(note: &str) -> Option<(u64, u64)> {
    let mut numbers = note.split_ascii_whitespace().filter_map(|word| word.parse().ok());
    numbers.next().zip(numbers.next())
}

fn read(directory: &Path, knob: &str) -> Result<u64> {
    let path = directory.join(knob);
    let text = std::fs::read_to_string(&path).map_err(Error::file(&path))?;
    text.trim().parse().map_err(|_| Error::Malformed {
        what: path.display().to_string(),
        offset: 0,
        why: format!("'{}' is not a number", text.trim()),
    })
}

fn write(directory: &Path, knob: &str, value: u64) -> Result<()> {
    let path = directory.join(knob);
    std::fs::write(&path, value.to_string()).map_err(Error::file(&path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::lock::SHORTEST_WAIT;

    fn raise_in(directory: &Path, lock: &Path) -> Result<ThrottleGuard> {
        ThrottleGuard::raise_in(directory, lock, Duration::ZERO, &mut || ())
    }

    /// A directory that behaves as the kernel's for plain values.
    fn knobs(rate: u64, percent: u64) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), RATE, rate).unwrap();
        write(directory.path(), PERCENT, percent).unwrap();
        directory
    }

    #[test]
    fn raises_and_restores() {
        let directory = knobs(100_000, 25);
        let guard = raise_in(directory.path(), &directory.path().join("lock")).unwrap();
        assert!(guard.is_active());
        assert_eq!(read(directory.path(), RATE).unwrap(), MEASURING_RATE_HZ);
        assert_eq!(read(directory.path(), PERCENT).unwrap(), 0);
        drop(guard);
        assert_eq!(read(directory.path(), RATE).unwrap(), 100_000);
        assert_eq!(read(directory.path(), PERCENT).unwrap(), 25);
    }

    #[test]
    fn restores_on_panic() {
        let directory = knobs(63_000, 100);
        let path = directory.path().to_path_buf();
        let outcome = std::panic::catch_unwind(move || {
            let _guard = raise_in(&path, &path.join("lock")).unwrap();
            panic!("planted");
        });
        assert!(outcome.is_err());
        assert_eq!(read(directory.path(), RATE).unwrap(), 63_000);
        assert_eq!(read(directory.path(), PERCENT).unwrap(), 100);
    }

    #[test]
    fn a_second_holder_is_refused() {
        let directory = knobs(100_000, 25);
        let lock = directory.path().join("lock");
        let first = raise_in(directory.path(), &lock).unwrap();
        let message = raise_in(directory.path(), &lock).unwrap_err().to_string();
        assert!(message.contains("another perftax is measuring"), "{message}");
        drop(first);
        assert_eq!(read(directory.path(), RATE).unwrap(), 100_000);
        drop(raise_in(directory.path(), &lock).unwrap());
        assert_eq!(read(directory.path(), PERCENT).unwrap(), 25);
    }

    #[test]
    fn nothing_is_noted_where_nothing_is_changed() {
        let directory = knobs(MEASURING_RATE_HZ, 0);
        let lock = directory.path().join("lock");
        let _guard = raise_in(directory.path(), &lock).unwrap();
        assert_eq!(std::fs::read_to_string(&lock).unwrap(), "");
    }

    #[test]
    fn repairs_what_a_killed_process_left_behind() {
        let directory = knobs(100_000, 25);
        let lock = directory.path().join("lock");
        let guard = raise_in(directory.path(), &lock).unwrap();
        let noted = std::fs::read_to_string(&lock).unwrap();
        drop(guard);
        // As a process that was killed while it measured leaves them.
        write(directory.path(), RATE, MEASURING_RATE_HZ).unwrap();
        write(directory.path(), PERCENT, 0).unwrap();
        std::fs::write(&lock, noted).unwrap();
        drop(raise_in(directory.path(), &lock).unwrap());
        assert_eq!((read(directory.path(), RATE).unwrap(), read(directory.path(), PERCENT).unwrap()), (100_000, 25));
    }

    #[test]
    fn any_start_repairs_what_a_killed_process_left_behind_unless_somebody_measures() {
        let directory = knobs(100_000, 25);
        let lock = directory.path().join("lock");
        let now = || (read(directory.path(), RATE).unwrap(), read(directory.path(), PERCENT).unwrap());
        let guard = raise_in(directory.path(), &lock).unwrap();
        repair(directory.path(), &lock);
        assert_eq!(now(), (MEASURING_RATE_HZ, 0), "whoever measures was disturbed");
        let noted = std::fs::read_to_string(&lock).unwrap();
        drop(guard);
        write(directory.path(), RATE, MEASURING_RATE_HZ).unwrap();
        write(directory.path(), PERCENT, 0).unwrap();
        std::fs::write(&lock, noted).unwrap();
        repair(directory.path(), &lock);
        assert_eq!((now(), std::fs::read_to_string(&lock).unwrap()), ((100_000, 25), String::new()));
        // Once is enough: what is set afterwards is somebody's wish.
        write(directory.path(), PERCENT, 50).unwrap();
        repair(directory.path(), &lock);
        assert_eq!(now(), (100_000, 50));
    }

    #[test]
    fn a_holder_is_waited_for() {
        let directory = knobs(100_000, 25);
        let lock = directory.path().join("lock");
        let first = raise_in(directory.path(), &lock).unwrap();
        let mut times_told = 0;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(3 * SHORTEST_WAIT);
                drop(first);
            });
            let second =
                ThrottleGuard::raise_in(directory.path(), &lock, Duration::from_secs(60), &mut || times_told += 1).unwrap();
            // What the first one had raised is not taken for what was there.
            assert_eq!(second.limits(), (100_000, 25));
        });
        assert_eq!(times_told, 1);
        assert_eq!(read(directory.path(), PERCENT).unwrap(), 25);
    }

    #[test]
    fn says_which_knob_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let message = raise_in(directory.path(), &directory.path().join("lock")).unwrap_err().to_string();
        assert!(message.contains(RATE), "{message}");
    }

    /// The kernel's own knobs, where this process may write them: the order of writes must be one that it accepts.
    #[test]
    fn the_kernels_own_knobs_come_back() {
        let kernel = Path::new("/proc/sys/kernel");
        let mut guard = ThrottleGuard::raise().unwrap();
        let before = guard.limits();
        if guard.changed {
            assert_eq!(read(kernel, PERCENT).unwrap(), 0);
        }
        // Restored while the lock is still held: whoever waits for it may change them next.
        let lock = guard.lock.take();
        drop(guard);
        assert_eq!((read(kernel, RATE).unwrap(), read(kernel, PERCENT).unwrap()), before);
        // A plain user has none where the file is root's.
        lock.into_iter().for_each(|mut lock| lock.note(""));
    }
}
