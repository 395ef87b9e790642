//! The throttle guard: keeps the kernel from slowing a measurement down behind our back, and puts its knobs back.
//!
//! The order matters (kernel/events/core.c, `perf_event_max_sample_rate_handler`): writing the rate answers EINVAL while
//! the percentage is 0 or 100, so the rate is raised first; on the way back the percentage comes first. Writing the
//! percentage also resets what the kernel has learned about the length of its interrupts.
//!
//! Only one process at a time may hold the knobs: two that restored what the other had set would leave the wrong values. What
//! they were is kept in the lock file, so that the next run also repairs what a killed one left behind.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

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
    lock: Option<File>,
}

/// Where the lock and the values to be restored are kept.
const LOCK: &str = "/run/lock/perftax-throttle";

impl ThrottleGuard {
    /// Raises the limits. Without the right to write them it says so: see [`Self::is_active`].
    pub fn raise() -> Result<Self> {
        Self::raise_in(Path::new("/proc/sys/kernel"), Path::new(LOCK))
    }

    /// The same on another directory of knobs.
    ///
    /// # Errors
    /// Where a knob is missing, and where another process holds the lock.
    pub fn raise_in(directory: &Path, lock: &Path) -> Result<Self> {
        let mut guard = Self {
            directory: directory.into(),
            rate: read(directory, RATE)?,
            percent: read(directory, PERCENT)?,
            changed: false,
            lock: None,
        };
        if let Some((file, left_behind)) = take_lock(lock)? {
            if let Some((rate, percent)) = left_behind {
                (guard.rate, guard.percent, guard.changed) = (rate, percent, true);
            }
            guard.lock = Some(file);
            guard.note(&format!("{} {}\n", guard.rate, guard.percent));
        }
        // A percentage of 0 or 100 forbids writing the rate; any value between allows it.
        let (rate_now, percent_now) = (read(directory, RATE)?, read(directory, PERCENT)?);
        if matches!(percent_now, 0 | 100) && rate_now >= MEASURING_RATE_HZ {
            return Ok(guard);
        }
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

    /// Sets a limit below what is asked for, to show that throttling is told; dropping the guard restores the knobs.
    ///
    /// # Errors
    /// Where the knobs may not be written.
    pub fn limit(&mut self, rate_hz: u64) -> Result<()> {
        self.changed = true;
        write(&self.directory, PERCENT, 99)?;
        write(&self.directory, RATE, rate_hz)
    }

    /// Whether the limits are out of the way.
    pub fn is_active(&self) -> bool {
        self.changed || self.percent == 0 && self.rate >= MEASURING_RATE_HZ
    }

    /// What the limits are for whoever may not raise them: samples a second, and per cent of a CPU.
    pub fn limits(&self) -> (u64, u64) {
        (self.rate, self.percent)
    }

    /// Writes what is to be restored into the lock file; nothing once it has been.
    fn note(&mut self, text: &str) {
        if let Some(file) = &mut self.lock {
            let noted = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(text.as_bytes()));
            // Without the note only the repair after a kill is lost.
            noted.ok();
        }
    }

    /// The command that raises them by hand, in the right order.
    pub fn remedy() -> String {
        format!("sudo sysctl kernel.{PERCENT}=99 kernel.{RATE}={MEASURING_RATE_HZ} && sudo sysctl kernel.{PERCENT}=0")
    }
}

impl Drop for ThrottleGuard {
    fn drop(&mut self) {
        if self.changed {
            // The percentage must allow writing the rate, and its final value comes last.
            write(&self.directory, PERCENT, 99).ok();
            write(&self.directory, RATE, self.rate).ok();
            write(&self.directory, PERCENT, self.percent).ok();
        }
        self.note("");
    }
}

/// Rate and percentage that a killed process should have restored.
type LeftBehind = Option<(u64, u64)>;

/// The lock file, held, with what a killed process left in it; none where it cannot be made (another user's, read-only).
fn take_lock(path: &Path) -> Result<Option<(File, LeftBehind)>> {
    let Ok(mut file) = File::options().read(true).write(true).create(true).truncate(false).open(path) else { return Ok(None) };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            return Err(Error::Unsupported {
                what: "measure now".into(),
                why: format!("another perftax is measuring ({} is locked), and the two would disturb each other", path.display()),
                remedy: format!("wait for it; fuser {} names it", path.display()),
            });
        }
        Err(error) => return Err(Error::System { call: format!("flock of {}", path.display()), source: error.into() }),
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(Error::file(path))?;
    let mut numbers = text.split_ascii_whitespace().filter_map(|word| word.parse().ok());
    let left_behind = numbers.next().zip(numbers.next());
    Ok(Some((file, left_behind)))
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
        let guard = ThrottleGuard::raise_in(directory.path(), &directory.path().join("lock")).unwrap();
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
            let _guard = ThrottleGuard::raise_in(&path, &path.join("lock")).unwrap();
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
        let first = ThrottleGuard::raise_in(directory.path(), &lock).unwrap();
        let message = ThrottleGuard::raise_in(directory.path(), &lock).unwrap_err().to_string();
        assert!(message.contains("another perftax is measuring"), "{message}");
        drop(first);
        assert_eq!(read(directory.path(), RATE).unwrap(), 100_000);
        drop(ThrottleGuard::raise_in(directory.path(), &lock).unwrap());
        assert_eq!(read(directory.path(), PERCENT).unwrap(), 25);
    }

    #[test]
    fn repairs_what_a_killed_process_left_behind() {
        let directory = knobs(100_000, 25);
        let lock = directory.path().join("lock");
        let guard = ThrottleGuard::raise_in(directory.path(), &lock).unwrap();
        let noted = std::fs::read_to_string(&lock).unwrap();
        drop(guard);
        // As a process that was killed while it measured leaves them.
        write(directory.path(), RATE, MEASURING_RATE_HZ).unwrap();
        write(directory.path(), PERCENT, 0).unwrap();
        std::fs::write(&lock, noted).unwrap();
        drop(ThrottleGuard::raise_in(directory.path(), &lock).unwrap());
        assert_eq!((read(directory.path(), RATE).unwrap(), read(directory.path(), PERCENT).unwrap()), (100_000, 25));
    }

    #[test]
    fn says_which_knob_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let message = ThrottleGuard::raise_in(directory.path(), &directory.path().join("lock")).unwrap_err().to_string();
        assert!(message.contains(RATE), "{message}");
    }

    /// The kernel's own knobs, where this process may write them: the order of writes must be one that it accepts.
    #[test]
    fn the_kernels_own_knobs_come_back() {
        let kernel = Path::new("/proc/sys/kernel");
        let before = (read(kernel, RATE).unwrap(), read(kernel, PERCENT).unwrap());
        let guard = match ThrottleGuard::raise() {
            Ok(guard) => guard,
            // Whoever measures beside this test holds the knobs; the values are his to put back.
            Err(error) => return assert!(error.to_string().contains("another perftax is measuring"), "{error}"),
        };
        if guard.changed {
            assert_eq!(read(kernel, PERCENT).unwrap(), 0);
        }
        drop(guard);
        assert_eq!((read(kernel, RATE).unwrap(), read(kernel, PERCENT).unwrap()), before);
    }
}
