//! Command lines of tools that watch programs: `perf record`, `stat`, `trace`, `mem`, `c2c`, bpftrace, profilers by eBPF, strace.
//!
//! A line becomes what it asks the kernel for: which events, how often, of whom, what each sample carries. Nothing is looked up here and nothing is run: events are
//! names, and what a line costs is for those who know prices.

mod bpftrace;
mod error;
pub mod grammar;
mod launch;
mod left;
pub mod perf;
mod profiler;
mod strace;
mod tool;
mod whom;

pub use bpftrace::{Bpftrace, Hook, Probe};
pub use error::Error;
pub use launch::Instead;
pub use left::Left;
pub use perf::{Chain, Counting, Mode, Rate, Recording, Tracing};
pub use profiler::Profiler;
pub use strace::Strace;
pub use tool::{Tool, ToolLine};
pub use whom::Whom;
