//! A simulated run: what is asked of whoever executes the program, and what comes back.

use serde::{Deserialize, Serialize};

use crate::access::Thread;
use crate::anonymous::Anonymous;
use crate::census::{Counts, LineCensus};
use crate::estimate::Transfers;
use crate::line::Line;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Periods to sample at, each beside the others; none: the truth alone.
    pub periods: Vec<u64>,
    /// Debug registers of each thread.
    pub registers: u32,
    /// Accesses of the whole program from a sample until registers are armed.
    pub delay: u64,
    /// Accesses that a thread makes in the mean before another has its turn.
    pub quantum: u32,
    /// Seed of everything random.
    pub seed: u64,
    /// Lines in the outcome at most, of the truth and of each period.
    pub most_lines: usize,
    /// Where the outcome goes.
    pub outcome: String,
}

/// What came.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Threads that ran.
    pub threads: u32,
    /// Loads and stores of all threads.
    pub accesses: [u64; 2],
    /// Times that a thread took its turn though the one before had not ended its own: it waited inside the simulator.
    pub taken_turns: u64,
    /// The truth.
    pub exact: Exactly,
    /// One entry a period.
    pub estimates: Vec<Estimated>,
    /// Where the program and its libraries were mapped.
    pub mappings: Vec<Mapped>,
    /// Its memory of no file.
    pub anonymous: Anonymous,
}

/// Transfers as they were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Exactly {
    /// From thread to thread, by number.
    pub pairs: Vec<((Thread, Thread), Counts)>,
    /// Lines, those with the most transfers first, and as many as were asked for.
    pub lines: Vec<(Line, LineCensus)>,
    /// Lines that had any.
    pub shared_lines: u64,
}

/// Transfers as samples and debug registers show them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimated {
    /// Accesses of a kind between samples.
    pub period: u64,
    /// Samples of loads and of stores.
    pub samples: [u64; 2],
    /// Traps.
    pub traps: u64,
    /// Samples whose line was followed.
    pub followed: u64,
    /// Samples of stores that found the registers taken.
    pub busy: u64,
    /// Follows in which nothing trapped.
    pub silent: u64,
    /// Lines dropped from the board.
    pub evicted: u64,
    /// The estimate; of its lines as many as were asked for.
    pub transfers: Transfers,
}

/// A mapped file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapped {
    /// First address.
    pub start: u64,
    /// Behind the last.
    pub end: u64,
    /// Offset in the file.
    pub offset: u64,
    /// The file.
    pub path: String,
}
