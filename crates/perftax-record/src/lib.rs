//! Sampling that stays within a budget, always: `perf record`'s recordings, at rates that follow what the program does.
//!
//! ```text
//! recording    what is recorded, and what came of it
//! whom         who is sampled: a program, CPUs, a control group
//! place        where the events are open: on threads, or on CPUs
//! rates        one event at several periods, of which one is on: each sample's weight is its own
//! callers      how callers are found: by frame pointers in the kernel, by tables here
//! code         which code each process has mapped now
//! kinds        kinds of records, by number
//! known        what a program was before it was watched: threads, names, code
//! build_ids    which builds of files are mapped
//! kernel_code  where the kernel's own code lies
//! sink         records on their way from rings to the file, looked at as they pass
//! round        records of one look at all rings, of which some are somebody else's
//! machine      what a look at the whole machine tells: how busy its CPUs are, how often they switch
//! switches     how often a program's threads were switched to
//! work         pieces of work, counted: what a pause of sampling is judged by
//! run          a recording from its start to its end
//! session      looks, windows, and the governor's word on how to go on
//! ```
//!
//! What is spent and at which rate to go on is decided by [`perftax_cost::governor`], which knows no kernel.

mod build_ids;
mod callers;
mod code;
mod kernel_code;
mod kinds;
mod known;
mod machine;
mod place;
mod rates;
mod recording;
mod round;
mod run;
mod session;
mod sink;
mod switches;
mod whom;
mod work;

pub use callers::Callers;
pub use perftax_perfdata::writing::Destination;
pub use perftax_pmu::sampler::Clock;
pub use perftax_pmu::sys::Stdio;
pub use perftax_target::Subject;
pub use place::Place;
pub use recording::{Attendant, Outcome, Recorder, Recording, Status, Totals};
pub use run::record;
pub use whom::Whom;
