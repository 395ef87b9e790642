// SPDX-License-Identifier: GPL-2.0-or-later
//! Forks: nothing that a child does is simulated.

use std::ffi::CString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The file that a fork leaves behind.
static MARK: OnceLock<CString> = OnceLock::new();
/// This process is a fork of the program that was started.
static CHILD: AtomicBool = AtomicBool::new(false);

/// Has forks leave a mark beside the outcome, so that whoever asked knows.
pub fn watch(outcome: &str) {
    if CString::new(format!("{outcome}.forked")).is_ok_and(|mark| MARK.set(mark).is_ok()) {
        // SAFETY: a handler that only sets a flag and makes a system call, which a child may do at once.
        unsafe { libc::pthread_atfork(None, None, Some(on_fork)) };
    }
}

/// Whether this is such a child.
pub fn is_child() -> bool {
    CHILD.load(Ordering::Relaxed)
}

unsafe extern "C" fn on_fork() {
    CHILD.store(true, Ordering::Relaxed);
    if let Some(mark) = MARK.get() {
        // SAFETY: a string that ends in a zero byte; the file may be there already.
        unsafe { libc::close(libc::open(mark.as_ptr(), libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC, 0o600)) };
    }
}
