//! Sampled accesses name lines, and debug registers watch them: which threads share lines, without anybody having named one.
//!
//! ```text
//! memory_events   what samples loads and stores with their addresses here
//! sampling        what is to be found out, and by which samples
//! session         looks at the rings, has a sampled line followed, and leaves it again (`active_watch`: when)
//!   └ numbering   records → accesses, by who and what there is
//!      ├ threads     threads by number, with names and cores
//!      └ spaces      whose memory a line is
//! found           evidence → the document
//! ```

mod active_watch;
mod found;
mod memory_events;
mod numbering;
mod sampling;
mod session;
mod spaces;
mod threads;

pub use found::Found;
pub use memory_events::MemoryEvents;
pub use sampling::Sampling;
pub use session::sample;
