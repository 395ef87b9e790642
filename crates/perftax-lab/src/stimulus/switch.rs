//! What the scheduler does with a thread: switches, and moves from CPU to CPU.

use std::time::Duration;

use perftax_pmu::sys::thread_involuntary_switches;
use perftax_pmu::{Error, Result};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::{Stimulus, noted};

/// Sleeps a number of times: a context switch each.
pub struct Sleeps {
    sleeps: u64,
    preempted: u64,
}

/// How long each is: longer than the kernel's slack for timers needs to be noticed.
const NAP: Duration = Duration::from_micros(20);

impl Sleeps {
    /// Work of so many sleeps.
    pub fn new(sleeps: u64) -> Self {
        Self { sleeps, preempted: 0 }
    }

    /// Switches by preemption that came between in the latest run.
    pub fn preempted(&self) -> u64 {
        self.preempted
    }
}

impl Stimulus for Sleeps {
    fn run(&mut self) {
        let before = thread_involuntary_switches();
        (0..self.sleeps).for_each(|_| std::thread::sleep(NAP));
        self.preempted = thread_involuntary_switches() - before;
    }

    fn run_noting(&mut self, ticks: &mut Vec<u32>) {
        (0..self.sleeps).for_each(|_| noted(ticks, || std::thread::sleep(NAP)));
    }

    fn truth(&self) -> Option<u64> {
        Some(self.sleeps)
    }
}

/// Moves the calling thread from one CPU to another and back, a number of times; it must begin on the first one, and ends there.
pub struct Migrations {
    moves: u64,
    between: (u32, u32),
}

impl Migrations {
    /// Work of so many moves, an even number.
    pub fn new(moves: u64, between: (u32, u32)) -> Self {
        Self { moves: moves.next_multiple_of(2), between }
    }

    fn step(&self, number: u64) {
        // A move that did not happen leaves fewer than there should be: whoever counts them sees it.
        move_to(if number.is_multiple_of(2) { self.between.1 } else { self.between.0 }).unwrap_or(());
    }
}

/// Leaves the calling thread one CPU alone, whatever it had before.
fn move_to(cpu: u32) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    sched_setaffinity(None, &set).map_err(|e| Error::System { call: format!("sched_setaffinity to CPU {cpu}"), source: e.into() })
}

impl Stimulus for Migrations {
    fn prepare(&mut self) -> Result<()> {
        move_to(self.between.0)
    }

    fn run(&mut self) {
        (0..self.moves).for_each(|number| self.step(number));
    }

    fn run_noting(&mut self, ticks: &mut Vec<u32>) {
        (0..self.moves).for_each(|number| noted(ticks, || self.step(number)));
    }

    fn truth(&self) -> Option<u64> {
        Some(self.moves)
    }
}
