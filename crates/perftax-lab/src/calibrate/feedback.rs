//! Whether what an arm does raises the very event that it samples.
//!
//! A tracepoint of system calls is raised by the return from the handler of a signal. An arm that delivers each sample as a signal then never ends: each
//! return is a sample, each sample a signal. The measuring thread does not get out of that by itself, so the test is watched by another thread,
//! which switches the event off as soon as there are more events than the work can have raised, or the time is up.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use perftax_pmu::guard::check_interrupted;
use perftax_pmu::sys::OpenEvent;
use perftax_pmu::{Error, Result};

/// What the test found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feedback {
    /// The arm can be measured.
    None,
    /// The arm raises the event that it samples.
    Raises {
        /// Events counted until it was switched off, or the work was done.
        events: u64,
        /// Events that the work raises.
        of_work: u64,
    },
    /// The work, which takes milliseconds, was not done in time: no sample leaves it time enough to go on.
    Stuck,
}

/// From one look at the count to the next.
const LOOK: Duration = Duration::from_millis(2);
/// How long the work may take, which takes milliseconds: a busy machine is no feedback.
const LONGEST: Duration = Duration::from_secs(5);
/// Events beside the work's own that are none of its making: starting and stopping the event are system calls, too.
const SLACK: u64 = 64;

/// Does work once while an event is on, and watches it. `of_work` is what the work raises, where it is known.
///
/// # Errors
/// What `work` meets; where the event cannot be read; where SIGINT or SIGTERM came.
pub(super) fn test(event: &OpenEvent, of_work: Option<u64>, work: impl FnOnce() -> Result<()>) -> Result<Feedback> {
    let judge = |since: u64| -> Result<Feedback> {
        let events = event.read()?.value.saturating_sub(since);
        Ok(match of_work {
            // Twice as many, at least: a page fault here and there is none of the arm's making.
            Some(of_work) if events > 2 * of_work + SLACK => Feedback::Raises { events, of_work },
            _ => Feedback::None,
        })
    };
    let before = event.read()?.value;
    std::thread::scope(|scope| {
        let (done, told) = channel::<()>();
        let watch = scope.spawn(move || -> Result<Feedback> {
            let began = Instant::now();
            loop {
                match told.recv_timeout(LOOK) {
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(Feedback::None),
                    Err(RecvTimeoutError::Timeout) => {}
                }
                let found = check_interrupted().and_then(|()| judge(before));
                let is_late = began.elapsed() >= LONGEST;
                if is_late || !matches!(found, Ok(Feedback::None)) {
                    event.disable()?;
                    return found.map(|found| if found == Feedback::None { Feedback::Stuck } else { found });
                }
            }
        });
        let worked = work();
        drop(done);
        let found = watch.join().unwrap_or_else(|_| Err(ended_early()))?;
        worked?;
        if found == Feedback::None { judge(before) } else { Ok(found) }
    })
}

fn ended_early() -> Error {
    Error::System { call: "the watch over a measuring thread".into(), source: std::io::Error::other("ended early") }
}

impl Feedback {
    /// Why an arm cannot be measured; none where it can.
    pub fn why_not(self, event: &str) -> Option<String> {
        match self {
            Self::None => None,
            Self::Raises { events, of_work } => {
                Some(format!("it raises {event} itself: {events} times at least, where its work does {of_work} times"))
            }
            Self::Stuck => Some(format!(
                "work of milliseconds was not done in {} s: each sample of {event} calls for the next",
                LONGEST.as_secs()
            )),
        }
    }
}
