//! Progress with the time left, on a terminal only; what is about to happen is said in one line anywhere.

use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on stderr.
pub struct Progress {
    bar: ProgressBar,
}

/// The bar that is there, which what is said must not spoil.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn shown() -> MutexGuard<'static, Option<ProgressBar>> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Progress {
    /// A bar of `steps` steps under a title.
    pub fn new(title: &str, steps: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
        if !std::io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:30} {percent:>3} %  {msg}  {eta} left") {
            bar.set_style(style);
        }
        bar.set_prefix(title.to_string());
        bar.enable_steady_tick(Duration::from_millis(500));
        *shown() = Some(bar.clone());
        Self { bar }
    }

    /// Sets the position and what is said beside it.
    pub fn at(&self, step: u64, message: impl Into<String>) {
        self.bar.set_position(step);
        self.bar.set_message(message.into());
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        shown().take();
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Says on stderr what is about to happen, in a line of its own.
pub fn announce(text: &str) {
    let say = || anstream::eprintln!("perftax: {text}");
    match shown().as_ref() {
        Some(bar) => bar.suspend(say),
        None => say(),
    }
}
