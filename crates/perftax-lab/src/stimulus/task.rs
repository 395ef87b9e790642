//! A process that is created, does nothing, and has ended when it was waited for: the fork of lmbench's lat_proc (McVoy and Staelin, lmbench, USENIX
//! 1996, section 6.5).

use std::io;

use perftax_pmu::{Error, Result};

/// Creates a process and waits for its end. Whoever of both runs first, these are the same system calls: clone, set_robust_list (by glibc, in the
/// child), exit_group and wait4.
///
/// # Errors
/// Where no process can be created.
pub fn come_and_go() -> Result<()> {
    // SAFETY: the child branch does nothing but _exit, which is async-signal-safe.
    let pid = unsafe { libc::fork() };
    match pid {
        // SAFETY: ends this copy of the process, which shares nothing with its parent that an exit handler would have to leave.
        0 => unsafe { libc::_exit(0) },
        -1 => Err(Error::System { call: "fork".into(), source: io::Error::last_os_error() }),
        child => loop {
            // SAFETY: our own unreaped child, which nobody else waits for; the status is not wanted.
            if unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) } == child {
                return Ok(());
            }
            let source = io::Error::last_os_error();
            if source.kind() != io::ErrorKind::Interrupted {
                return Err(Error::System { call: "wait4".into(), source });
            }
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn nothing_of_it_is_left() {
        let before = rustix::process::getpid();
        (0..20).for_each(|_| come_and_go().unwrap());
        assert_eq!(rustix::process::getpid(), before, "a child went on");
    }
}
