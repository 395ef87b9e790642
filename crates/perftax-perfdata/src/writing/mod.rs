//! Recordings, written: as `perf record` writes them, for everybody who reads its files (perf itself, `linux-perf-data`, [`crate::recording`]).
//!
//! ```text
//! features    what a recording says of the machine and the command
//! writer      either, whichever it is
//! pipe        the same as a stream
//! file        head, events, records as they come, features behind them
//! ```
//!
//! Nothing here knows where records come from.

mod features;
mod file;
mod pipe;
mod writer;

pub use features::{BuildId, Features};
pub use file::{EventDescription, FileWriter};
pub use pipe::PipeWriter;
pub use writer::{Destination, Writer};
