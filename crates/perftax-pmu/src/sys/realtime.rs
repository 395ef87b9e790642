//! Real-time scheduling of the calling thread.

use std::io;

use crate::error::{Error, Result};
use crate::machine::{Privilege, Root};

/// Lets the calling thread run before all ordinary ones (SCHED_FIFO, lowest priority) until it ends.
///
/// # Errors
/// Without CAP_SYS_NICE (or an RLIMIT_RTPRIO that allows it).
pub fn make_this_thread_realtime() -> Result<()> {
    // SAFETY: an all-zero sched_param is valid on every libc.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = 1;
    // SAFETY: pid 0 is the calling thread; `parameters` lives across the call.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EPERM) => Err(Error::Permission {
            what: "run before other programs (real time)".into(),
            knob: "the capability CAP_SYS_NICE".into(),
            value: "absent".into(),
            needed: "present".into(),
            command: Privilege::read(&Root::here()).give(&["cap_sys_nice"]),
        }),
        source => Err(Error::System { call: "sched_setscheduler".into(), source }),
    }
}
