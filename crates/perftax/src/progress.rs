//! Progress with the time left, on a terminal only; what is about to happen is said in one line anywhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on stderr.
pub struct Progress {
    bar: ProgressBar,
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
        Self { bar }
    }

    /// Sets the position and what is said beside it.
    pub fn at(&self, step: u64, message: impl Into<String>) {
        self.bar.set_position(step);
        self.bar.set_message(message.into());
    }

    /// Says something in a line of its own, without spoiling the bar.
    pub fn say(&self, text: &str) {
        self.bar.suspend(|| announce(text));
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Says on stderr what is about to happen.
pub fn announce(text: &str) {
    anstream::eprintln!("perftax: {text}");
}
