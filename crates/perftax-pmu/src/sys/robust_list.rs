//! Where a thread keeps its list of robust locks: in its descriptor, as C libraries have it.

use std::io;

/// The address of a thread's list of robust locks (get_robust_list(2)): within what the C library keeps of the thread. None where it has none.
///
/// # Errors
/// Where the thread is gone, or the caller may not look at it (as ptrace(2) has it).
pub fn robust_list_head(tid: u32) -> io::Result<Option<u64>> {
    let (mut head, mut bytes) = (0u64, 0usize);
    // SAFETY: the kernel writes a pointer and a length to two variables that are alive across the call.
    let outcome = unsafe { libc::syscall(libc::SYS_get_robust_list, tid, &mut head, &mut bytes) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(Some(head).filter(|head| *head != 0)) }
}
