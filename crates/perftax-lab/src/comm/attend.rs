//! The loop around a program that is watched: until it ends, or the time is over, or somebody interrupts us.

use std::time::{Duration, Instant};

use perftax_pmu::Result;
use perftax_pmu::guard::check_interrupted;

use super::program::Program;

/// How long a program that was told to end may take.
const GRACE: Duration = Duration::from_secs(1);

/// Who watches a program.
pub trait Watch {
    /// Watching ends, whatever the program does. It is still looked at: what came before is taken.
    ///
    /// # Errors
    /// Where the kernel refuses.
    fn stop(&mut self) -> Result<()>;

    /// Whether it has ended.
    fn is_stopped(&self) -> bool;

    /// The CPU time that the program has used so far, ns.
    fn used(&mut self, cpu_ns: u64);

    /// Takes what has come.
    ///
    /// # Errors
    /// Where the rings cannot be read: nothing can be watched any more.
    fn look(&mut self) -> Result<()>;

    /// Does what is due, and waits for what may come.
    ///
    /// # Errors
    /// Where the kernel refuses.
    fn wait(&mut self) -> Result<()>;
}

/// Watches a program to its end, or for so long at most: a command goes on by itself then, a process of somebody else's is left.
/// Whoever interrupts us wants the program to end, and what was seen.
///
/// # Errors
/// What watching meets; the program is ended then where it is ours.
pub fn attend(program: &mut Program, at_most: Option<Duration>, watch: &mut impl Watch) -> Result<()> {
    let began = Instant::now();
    let mut told_to_end: Option<Instant> = None;
    loop {
        let is_over = at_most.is_some_and(|at_most| began.elapsed() >= at_most);
        if is_over && !watch.is_stopped() {
            watch.stop()?;
            if matches!(program, Program::Process { .. }) {
                program.stop();
            }
        }
        if check_interrupted().is_err() {
            perftax_pmu::guard::take_interrupt_as_end();
            match told_to_end {
                None => program.stop(),
                Some(since) if since.elapsed() > GRACE => program.kill(),
                Some(_) => {}
            }
            told_to_end.get_or_insert_with(Instant::now);
        }
        // Asked before looking: what is written after its end is nobody's.
        let last = program.has_ended();
        if let Some(now_ns) = program.cpu_ns().filter(|_| !watch.is_stopped()) {
            watch.used(now_ns);
        }
        if let Err(error) = watch.look() {
            program.kill();
            return Err(error);
        }
        if last {
            return Ok(());
        }
        watch.wait()?;
    }
}
