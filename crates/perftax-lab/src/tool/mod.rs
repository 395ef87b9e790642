//! Other tools, tried out: around work whose number of system calls, faults, switches and tasks is known.

mod battery;
mod trial;

pub use battery::served_as_battery;
pub use trial::{Trying, count_calls, try_out};
