//! A recording, from its start to its end.

use perftax_pmu::Result;
use perftax_target::{Program, run_loop};

use crate::recording::{Attendant, Outcome, Recorder, Recording};
use crate::session::Session;

/// Runs the program, its output untouched, or joins it, and records it into files that are given.
///
/// # Errors
/// Where events cannot be opened, the program cannot be executed, or nothing can be written at all. A program that fails has been recorded all the same.
pub fn record(recording: &Recording, recorder: &Recorder, attendant: &mut dyn Attendant) -> Result<Outcome> {
    let mut program = Program::open_to_survive(&recording.subject, recording.output)?;
    let mut session = Session::open(recording, &program, recorder.features(), attendant)?;
    // Nothing is recorded yet: whoever interrupts now wants nothing to begin.
    perftax_pmu::guard::check_interrupted()?;
    session.begin()?;
    program.release()?;
    run_loop(&mut program, recording.at_most, &mut session)?;
    session.end(&mut program)?;
    session.finish(program.finish()?)
}
