//! Work that lives off its second-level cache: it has the most to lose to an interrupt.

use std::hint::black_box;
use std::time::Duration;

use super::{Stimulus, lasting, noted, under_frames};

/// Bytes of a cache line, as all x86 and most ARM processors have them.
const LINE: usize = 64;
/// What a second-level cache holds where the kernel does not tell: 1 MiB, as servers of the 2020s have it.
const SECOND_LEVEL_BYTES: usize = 1 << 20;
/// Steps of one pass of a noted run.
const STEPS_NOTED: u64 = 64;

/// A line, of which the first word says which line comes next.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line([u32; LINE / 4]);

/// Follows pointers through a buffer, line by line in an order that no prefetcher knows, again and again.
pub struct PointerChase {
    lines: Vec<Line>,
    steps: u64,
    at: u32,
}

impl PointerChase {
    /// Work on `bytes` that takes about `duration` on this machine, undisturbed.
    pub fn lasting(duration: Duration, bytes: usize) -> Self {
        let mut chase = Self::of((bytes / LINE) as u64, bytes);
        let steps = chase.steps;
        chase.steps = lasting(&mut chase, duration, steps);
        chase
    }

    /// So many steps through `bytes`.
    pub fn of(steps: u64, bytes: usize) -> Self {
        let count = (bytes / LINE).max(2);
        let mut order: Vec<u32> = (1..count as u32).collect();
        fastrand::Rng::with_seed(0x5eed).shuffle(&mut order);
        let mut lines = vec![Line([0; LINE / 4]); count];
        let mut from = 0;
        // One cycle through all of them.
        for to in order {
            lines[from as usize].0[0] = to;
            from = to;
        }
        Self { lines, steps, at: 0 }
    }

    /// Steps of a run.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    fn follow(&mut self, steps: u64) {
        let mut at = self.at;
        for _ in 0..steps {
            at = self.lines[at as usize].0[0];
        }
        self.at = black_box(at);
    }
}

impl Stimulus for PointerChase {
    fn run(&mut self) {
        under_frames(|| self.follow(self.steps));
    }

    fn run_noting(&mut self, ticks: &mut Vec<u32>) {
        for _ in 0..self.steps / STEPS_NOTED {
            noted(ticks, || self.follow(STEPS_NOTED));
        }
    }

    fn truth(&self) -> Option<u64> {
        None
    }
}

/// What a CPU's second-level cache holds, bytes; 1 MiB where the kernel does not tell.
pub fn second_level_bytes(cpu: u32) -> usize {
    let read = |index: u32, name: &str| {
        std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{name}")).unwrap_or_default()
    };
    let index = (0..8).find(|&index| read(index, "level").trim() == "2");
    let kib = index.and_then(|index| read(index, "size").trim().strip_suffix('K')?.parse::<usize>().ok());
    kib.map_or(SECOND_LEVEL_BYTES, |kib| kib << 10)
}
