//! Cheap system calls, for tracepoints at their entry.

use super::{Stimulus, noted, under_frames};

/// Calls getppid(2) a number of times: one hit of `syscalls:sys_enter_getppid` each, where the kernel has that tracepoint.
pub struct Syscalls {
    calls: u64,
}

impl Syscalls {
    /// Work of `calls` system calls.
    pub fn new(calls: u64) -> Self {
        Self { calls }
    }
}

impl Stimulus for Syscalls {
    fn run(&mut self) {
        under_frames(|| {
            for _ in 0..self.calls {
                std::hint::black_box(rustix::process::getppid());
            }
        });
    }

    fn run_noting(&mut self, ticks: &mut Vec<u32>) {
        for _ in 0..self.calls {
            noted(ticks, || {
                std::hint::black_box(rustix::process::getppid());
            });
        }
    }

    fn truth(&self) -> Option<u64> {
        Some(self.calls)
    }
}
