//! Which events are open in this process, so that a thread that is not caught by one can switch it off.
//!
//! Without a lock: a thread that is caught between a signal's handler and the kernel might hold it for good.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use perf_event_open_sys::ioctls;

use crate::error::{Error, Result};
use crate::interrupt::check_interrupted;

/// Descriptors that are kept account of: fs.nr_open is 2^20 as a rule. Events beyond are not switched off.
const DESCRIPTORS: usize = 1 << 20;

/// A bit for each descriptor that is an event.
static OPEN: [AtomicU64; DESCRIPTORS / 64] = [const { AtomicU64::new(0) }; DESCRIPTORS / 64];
/// One more than the highest descriptor so far.
static IN_USE: AtomicU64 = AtomicU64::new(0);
/// Whether no event may be switched on any more.
static IS_OFF: AtomicBool = AtomicBool::new(false);

fn place(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    OPEN.get(fd / 64).map(|word| (word, 1 << (fd % 64)))
}

/// Enters an event that was opened.
pub(super) fn enter(fd: RawFd) {
    if let Some((word, bit)) = place(fd) {
        IN_USE.fetch_max(fd as u64 + 1, Ordering::SeqCst);
        word.fetch_or(bit, Ordering::SeqCst);
    }
}

/// Takes out an event that is about to be closed.
pub(super) fn leave(fd: RawFd) {
    if let Some((word, bit)) = place(fd) {
        word.fetch_and(!bit, Ordering::SeqCst);
    }
}

/// Whether events may be opened and switched on.
///
/// # Errors
/// `Interrupted`, or `Discarded`, once [`disable_open_events`] was called.
pub(super) fn check_on() -> Result<()> {
    if !IS_OFF.load(Ordering::Relaxed) {
        return Ok(());
    }
    check_interrupted()?;
    Err(Error::Discarded {
        why: "all events were switched off, since a measuring thread did not answer".into(),
        remedy: "measure again on a machine that is less busy, or another event".into(),
    })
}

/// Switches off every event that this process has open, whatever the threads that they watch are caught in, and for good: none is opened or switched
/// on from now on. An event that is being switched on at this very moment may be missed: whoever can, calls it again.
pub fn disable_open_events() {
    IS_OFF.store(true, Ordering::SeqCst);
    for fd in 0..IN_USE.load(Ordering::SeqCst) as RawFd {
        if place(fd).is_some_and(|(word, bit)| word.load(Ordering::SeqCst) & bit != 0) {
            // SAFETY: a plain call with a number. An event that was closed meanwhile has left its number unused, or to another file: of an event,
            // which is then switched off as it should be, or of something else, which refuses the call (ENOTTY).
            unsafe { ioctls::DISABLE(fd, 0) };
        }
    }
}
