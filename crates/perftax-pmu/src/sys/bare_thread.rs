//! A thread with nothing but itself.

use std::ffi::c_void;
use std::io::Error;
use std::ptr::{null, null_mut};

/// Creates a thread that does nothing, and waits for its end; as C's programs do it.
///
/// A thread of Rust's standard library maps a stack for signals and unmaps it again, and its memory is given out from an arena that grows and shrinks as chance
/// has it: where mappings are recorded, each is told of, and a thread costs up to half more of what its inherited events do.
///
/// # Errors
/// What pthread_create(3) or pthread_join(3) says.
pub fn create_and_join_thread() -> std::io::Result<()> {
    extern "C" fn nothing(argument: *mut c_void) -> *mut c_void {
        argument
    }
    let outcome = |code: i32| if code == 0 { Ok(()) } else { Err(Error::from_raw_os_error(code)) };
    let mut thread: libc::pthread_t = 0;
    // SAFETY: `thread` lives across the call; the function takes no memory of ours, and neither panics nor touches thread-local storage.
    outcome(unsafe { libc::pthread_create(&mut thread, null(), nothing, null_mut()) })?;
    // SAFETY: the thread was created above, is not detached, and nobody else waits for it.
    outcome(unsafe { libc::pthread_join(thread, null_mut()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_come_and_go() {
        let before = crate::sys::own_cpu_ns();
        for _ in 0..100 {
            assert!(create_and_join_thread().is_ok());
        }
        assert!(crate::sys::own_cpu_ns() > before);
    }
}
