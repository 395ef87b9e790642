//! The program that is looked at while it runs: started by us, or joined while it runs already.
//!
//! ```text
//! subject     who: a command, or a process
//! program     that one, held at its gate or running: its CPU time, how it is told to end, how it ended
//! run_loop    the loop around it, to its end, or until time is over, or we are interrupted
//! counted     how often an event came, by counters of several CPUs
//! time_order  what came out of the rings of several CPUs, in order of time
//! ```
//!
//! `perftax trace` and `perftax comm` look each in its own way ([`Watch`]); all else about a program that runs is here once.

mod counted;
mod program;
mod run_loop;
mod subject;
mod time_order;

pub use counted::Counted;
pub use program::{Program, on_all_threads, thread_name};
pub use run_loop::{Watch, run_loop};
pub use subject::Subject;
pub use time_order::TimeOrder;
