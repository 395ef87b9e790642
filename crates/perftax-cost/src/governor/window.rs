//! What happened in a piece of time.

use perftax_doc::Estimate;

/// What happened in a piece of time while a program was sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// How long it was, ns.
    pub elapsed_ns: u64,
    /// Whether sampling paused in it, to be judged by what it costs not to.
    pub is_paused: bool,
    /// CPU time of the program, sampling included, ns.
    pub program_ns: u64,
    /// Samples that came or found no room.
    pub samples: u64,
    /// Events that were counted.
    pub counted: u64,
    /// Interrupts whose samples a filter dropped.
    pub filtered: u64,
    /// Context switches of the program: how many there were is not known exactly.
    pub switches: Estimate,
    /// Threads and processes created.
    pub created: u64,
    /// Programs executed.
    pub executed: u64,
    /// What changing rates, opening events and reading counters took the program, ns.
    pub turns_ns: Estimate,
    /// What the program waited for a CPU that the recorder had, ns.
    pub recorder_ns: Estimate,
}

impl Default for Window {
    fn default() -> Self {
        let nothing = Estimate::exact(0.0);
        Self {
            elapsed_ns: 0,
            is_paused: false,
            program_ns: 0,
            samples: 0,
            counted: 0,
            filtered: 0,
            switches: nothing,
            created: 0,
            executed: 0,
            turns_ns: nothing,
            recorder_ns: nothing,
        }
    }
}
