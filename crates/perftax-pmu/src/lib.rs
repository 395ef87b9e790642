//! The kernel's side of perftax: events, capabilities, counters, samplers, ring buffers, guards.
//!
//! `unsafe` lives only in [`sys`]. Everything above it sees owned types.

pub mod context_watch;
mod error;
pub mod event;
pub mod fnv;
pub mod guard;
mod interrupt;
pub mod machine;
pub mod oracle;
pub mod process;
pub mod record;
pub mod resctrl;
pub mod sampler;
pub mod sys;

pub use error::{Error, Result};
