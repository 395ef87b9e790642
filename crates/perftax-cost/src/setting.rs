//! How a program would be sampled, the period aside.

use crate::drive::Drive;
use perftax_doc::LeftOut;
use perftax_doc::Mechanism;

/// The term of what a tracepoint or a probe records, and of the CPU: `perf record` has both in each sample of theirs.
pub const RAW_TERM: &str = "raw";

/// Bytes of user stack that a calibrated sample with a copy of the stack has: `perf record --call-graph dwarf` takes 8 KiB.
pub const USER_STACK_BYTES: u32 = 8192;

/// Callers that a calibrated sample with a call chain has above its work, for whoever follows frame pointers (on x86-64: elsewhere its own callers).
pub const CALLERS: usize = 10;

/// How the program would be sampled, the period aside.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting<'a> {
    /// What drives the sampler.
    pub drive: Drive,
    /// The event, as it is named in [`WorkloadProfile::counts`]. Time-driven sources need no count.
    pub event: &'a str,
    /// Payload terms of the calibration to add to α, by name (`callchain`, `regs`, `stack` …).
    pub payload: Vec<&'a str>,
    /// The calibration's term for a context switch under the attach mode wanted (`switch_inherited`, `switch_per_thread` …).
    pub switch_term: Option<&'a str>,
    /// Who is watched.
    pub watched: Watched,
    /// Bytes that one sample puts into the ring.
    pub bytes_per_sample: f64,
    /// Samples that a filter drops once they are taken.
    pub left_out: LeftOut,
}

/// Who is watched, and so what the coming and going of tasks costs and hides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The program and all that it creates, which inherits its events: `perf record -- COMMAND`.
    Program {
        /// Events that each task inherits.
        events: u32,
        /// CPUs that each of them is opened for.
        cpus: u32,
    },
    /// CPUs, whatever runs there: `perf record -a` or `-C`. Nothing is inherited, and no period begins anew.
    Cpus,
}

impl<'a> Setting<'a> {
    /// Plain samples of an event, inherited, of `bytes_per_sample` bytes.
    pub fn new(mechanism: Mechanism, event: &'a str, bytes_per_sample: f64) -> Self {
        Self {
            drive: Drive::of(mechanism, false),
            event,
            payload: Vec::new(),
            switch_term: None,
            watched: Watched::Program { events: 1, cpus: 1 },
            bytes_per_sample,
            left_out: LeftOut::Nothing,
        }
    }
}
