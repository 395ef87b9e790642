//! SIGINT and SIGTERM: noticed between two observations, so that every guard is dropped in order.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Interrupted, Result};

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
static DESCRIPTOR: OnceLock<OwnedFd> = OnceLock::new();
static IS_TAKEN_AS_END: AtomicBool = AtomicBool::new(false);

/// Lends the flag that signal handlers set. Installed once, by the program's start.
pub fn on_signal_restore() -> Arc<AtomicBool> {
    Arc::clone(FLAG.get_or_init(|| Arc::new(AtomicBool::new(false))))
}

/// Takes what becomes readable, for good, when SIGINT or SIGTERM comes: what waits for a program waits for this, too. A signal that comes just
/// before a wait is not missed then.
pub fn watch_interrupts_by(descriptor: OwnedFd) {
    // Installed once, by the program's start.
    DESCRIPTOR.set(descriptor).ok();
}

/// What becomes readable when SIGINT or SIGTERM comes; none where the program watches for neither.
pub(crate) fn interrupt_descriptor() -> Option<BorrowedFd<'static>> {
    DESCRIPTOR.get().map(AsFd::as_fd)
}

/// Whether SIGINT or SIGTERM has come.
pub fn interrupted() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Ends a measurement where SIGINT or SIGTERM has come.
pub fn check_interrupted() -> Result<()> {
    if interrupted() { Err(Interrupted.into()) } else { Ok(()) }
}

/// SIGINT and SIGTERM are the way to end this: what was recorded is kept, and is given the time that writing it takes.
pub fn take_interrupt_as_end() {
    IS_TAKEN_AS_END.store(true, Ordering::Relaxed);
}

/// Whether [`take_interrupt_as_end`] was called.
pub(crate) fn is_interrupt_taken_as_end() -> bool {
    IS_TAKEN_AS_END.load(Ordering::Relaxed)
}
