//! Stimuli: fixed pieces of work whose number of events is known by construction.

mod breakpoint;
mod call;
mod chase;
mod entries;
mod fault;
mod frames;
mod kernel_locks;
mod known_loop;
mod loops;
mod path_walk;
mod spin;
mod switch;
mod syscall;
mod task;
mod token_ring;
mod wide_code;

pub use breakpoint::WatchedWrites;
pub use call::ProbedCalls;
pub use chase::{PointerChase, second_level_bytes};
pub use entries::{EMULATED, STEPPED, call_entries, is_emulated};
pub use fault::{PageFaults, Sites};
pub use kernel_locks::KernelLocks;
pub use known_loop::KnownLoop;
pub use loops::{Loop, LoopMemory, Ratio, Turn};
pub use path_walk::PathWalk;
pub use spin::Spin;
pub use switch::{Migrations, Sleeps};
pub use syscall::Syscalls;
pub use task::come_and_go;
pub use token_ring::{Passes, TokenRing};
pub use wide_code::WideCode;

use frames::under_frames;
use perftax_pmu::Result;

/// A piece of work that can be repeated identically.
pub trait Stimulus {
    /// Gets ready outside of the timed part.
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// Does the work once.
    fn run(&mut self);

    /// Does the work once and notes how long each operation (or each pass of a tight loop) took, in TSC ticks.
    fn run_noting(&mut self, ticks: &mut Vec<u32>);

    /// Events of one [`Self::run`], known by construction; none for time-driven and free-running sources.
    fn truth(&self) -> Option<u64>;
}

/// How much work takes about `duration` on this machine, undisturbed, where `amount` is what a run does: the best of several trials tells.
fn lasting(work: &mut impl Stimulus, duration: std::time::Duration, amount: u64) -> u64 {
    const TRIALS: usize = 20;
    let mut best_ns = u64::MAX;
    for _ in 0..TRIALS {
        let start = perftax_pmu::sys::monotonic_ns();
        work.run();
        best_ns = best_ns.min(perftax_pmu::sys::monotonic_ns() - start).max(1);
    }
    (amount as f64 * duration.as_nanos() as f64 / best_ns as f64).ceil() as u64
}

/// Notes the duration of one operation.
#[inline(always)]
fn noted(ticks: &mut Vec<u32>, operation: impl FnOnce()) {
    let start = perftax_pmu::sys::Tsc::now();
    operation();
    ticks.push(u32::try_from(perftax_pmu::sys::Tsc::now().wrapping_sub(start)).unwrap_or(u32::MAX));
}
