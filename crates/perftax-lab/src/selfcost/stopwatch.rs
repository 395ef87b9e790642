//! The time stamp counter as a stopwatch: what it takes by itself, and what its ticks are.

use perftax_doc::CostUnit;
use perftax_pmu::Result;
use perftax_pmu::sys::Tsc;

use super::Bench;
use super::book::Book;
use crate::stimulus::{Loop, LoopMemory};

/// Ticks of the time stamp counter that something takes, and what it returns.
#[inline(always)]
pub fn timed<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let begin = Tsc::ordered();
    let out = work();
    (Tsc::ordered().wrapping_sub(begin), out)
}

/// What ticks are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Of a cost.
    pub unit: CostUnit,
    /// Ticks to one of it.
    pub ticks_per_unit: f64,
}

/// Turns of the loop that ticks are compared with.
const TURNS: u64 = 1000;

impl Scale {
    /// Ticks to a nanosecond, or to an instruction where time is made of these: from two runs of a loop whose instructions are known.
    pub fn measured(counts_instructions: bool) -> Self {
        if !counts_instructions {
            return Self { unit: CostUnit::Nanoseconds, ticks_per_unit: Tsc::calibrated().ticks_per_ns() };
        }
        let mut memory = LoopMemory::new();
        let mut ticks = |turns: u64| timed(|| Loop::FourLoads.run(turns, &mut memory)).0;
        // The least of some, since the clock's interrupts take instructions, too.
        let mut least = |turns: u64| (0..16).map(|_| ticks(turns)).min().unwrap_or(0);
        let (short, long) = (least(TURNS), least(2 * TURNS));
        let instructions = (TURNS * Loop::FourLoads.turn().instructions) as f64;
        Self { unit: CostUnit::Instructions, ticks_per_unit: long.saturating_sub(short) as f64 / instructions }
    }
}

/// The stopwatch by itself.
pub struct Timer;

impl Bench for Timer {
    fn round(&mut self, book: &mut Book) -> Result<()> {
        // More than of the others, for it is taken off them all.
        const MORE: usize = 4;
        for _ in 0..MORE * book.runs {
            book.timer(timed(|| ()).0);
        }
        Ok(())
    }
}
