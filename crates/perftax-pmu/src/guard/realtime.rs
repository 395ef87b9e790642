//! Threads that run before all ordinary ones.

use crate::error::{Error, Result};
use crate::machine::{Privilege, Root};
use crate::sys;

/// Lets the calling thread run before all ordinary ones (SCHED_FIFO, lowest priority) until it ends.
///
/// # Errors
/// Without CAP_SYS_NICE (or an RLIMIT_RTPRIO that allows it).
pub fn make_this_thread_realtime() -> Result<()> {
    sys::make_this_thread_realtime().map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM) => Error::Permission {
            what: "run before other programs (real time)".into(),
            knob: "the capability CAP_SYS_NICE".into(),
            value: "missing".into(),
            needed: "to be granted".into(),
            command: Privilege::read(&Root::here()).give(&["cap_sys_nice"]),
        },
        _ => Error::System { call: "sched_setscheduler".into(), source: error },
    })
}
