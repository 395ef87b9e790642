//! Other tools, tried out: around work whose number of system calls, faults, switches and tasks is known.

mod battery;
mod calls;
mod trial;

pub use battery::served_as_battery;
pub use calls::{BUFFERS, Calls, PATHS, count_calls};
pub use trial::{Trying, known_function, try_out};
