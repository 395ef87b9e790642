//! SIGINT and SIGTERM: noticed between two observations, so that every guard is dropped in order.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// A measurement that the user broke off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted: nothing was written, every knob was put back")]
pub struct Interrupted;

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Lends the flag that signal handlers set. Installed once, by the program's start.
pub fn on_signal_restore() -> Arc<AtomicBool> {
    Arc::clone(FLAG.get_or_init(|| Arc::new(AtomicBool::new(false))))
}

/// Whether SIGINT or SIGTERM has come.
pub fn interrupted() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Ends a measurement where SIGINT or SIGTERM has come.
pub fn check_interrupted() -> crate::Result<()> {
    if interrupted() { Err(Interrupted.into()) } else { Ok(()) }
}
