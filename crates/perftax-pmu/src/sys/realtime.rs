//! Real-time scheduling of the calling thread.

use std::io;

/// Lets the calling thread run before all ordinary ones (SCHED_FIFO, lowest priority) until it ends.
///
/// # Errors
/// EPERM without CAP_SYS_NICE (or an RLIMIT_RTPRIO that allows it).
pub(crate) fn make_this_thread_realtime() -> io::Result<()> {
    // SAFETY: an all-zero sched_param is valid on every libc.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = 1;
    // SAFETY: pid 0 is the calling thread; `parameters` lives across the call.
    let outcome = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
