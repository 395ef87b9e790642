//! What sees to it that SIGINT and SIGTERM end perftax, whatever its other threads are caught in.
//!
//! A thread can be caught for good: an event that its own signal handler raises keeps it between handler and kernel. So a thread that does nothing
//! but wait for a signal first gives the others a moment, then switches all events off, and at last ends the process: guardians put its knobs back.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::guardian;
use crate::interrupt::{interrupt_descriptor, is_interrupt_taken_as_end};
use crate::sys::{disable_open_events, exit_now, kill_with_descendants};

/// From a signal until events are switched off.
const UNTIL_EVENTS_ARE_OFF: Duration = Duration::from_millis(1000);
/// From then until the process is ended.
const UNTIL_THE_END: Duration = Duration::from_millis(1200);
/// Times that events are switched off: a thread may have been about to switch one on.
const ATTEMPTS: u32 = 6;
/// The exit code after a signal: 128 + SIGINT, as shells report it.
const INTERRUPTED: i32 = 130;

/// Starts it. `last_words` is called where the process has to be ended: it must not wait for any other thread.
pub fn end_on_interrupt(last_words: impl FnOnce() + Send + 'static) {
    let Some(descriptor) = interrupt_descriptor() else { return };
    // Without it, signals are noticed between two observations, as far as there are any.
    let thread = std::thread::Builder::new().name("watchdog".into());
    let watch = move || {
        while poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], None).is_err() {}
        std::thread::sleep(UNTIL_EVENTS_ARE_OFF);
        if is_interrupt_taken_as_end() {
            return;
        }
        for _ in 0..ATTEMPTS {
            disable_open_events();
            std::thread::sleep(UNTIL_THE_END / ATTEMPTS);
            if is_interrupt_taken_as_end() {
                return;
            }
        }
        last_words();
        let own = rustix::process::getpid().as_raw_nonzero().get();
        kill_with_descendants(own, &|pid| pid == own || guardian::is_one(pid));
        exit_now(INTERRUPTED)
    };
    thread.spawn(watch).ok();
}
