//! Writes to a watched variable.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Stimulus, noted, under_frames};

/// Writes a number of times to one 8-byte variable: one hit of a write watchpoint each.
pub struct WatchedWrites {
    variable: Box<AtomicU64>,
    writes: u64,
}

impl WatchedWrites {
    /// Work of `writes` writes.
    pub fn new(writes: u64) -> Self {
        Self { variable: Box::new(AtomicU64::new(0)), writes }
    }

    /// The event that watches it, in perf's syntax.
    pub fn event_text(&self) -> String {
        format!("mem:{:#x}/8:w:u", std::ptr::from_ref(self.variable.as_ref()) as usize)
    }
}

impl Stimulus for WatchedWrites {
    fn run(&mut self) {
        under_frames(|| {
            for i in 0..self.writes {
                self.variable.store(i, Ordering::Relaxed);
            }
        });
    }

    fn run_noting(&mut self, ticks: &mut Vec<u32>) {
        for i in 0..self.writes {
            noted(ticks, || self.variable.store(i, Ordering::Relaxed));
        }
    }

    fn truth(&self) -> Option<u64> {
        Some(self.writes)
    }
}
