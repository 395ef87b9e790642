//! `perftax record`: sampling within a budget, and what it came to.

use serde::{Deserialize, Serialize};

use crate::{Estimate, Mechanism, Origin};

/// A recording that kept to a budget: what it cost, and what it is good for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recorded {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The command, or the process.
    pub program: Vec<String>,
    /// The code that the program ended with; none where it goes on.
    pub code: Option<u8>,
    /// The event that was sampled.
    pub event: String,
    /// By which mechanism.
    pub mechanism: Mechanism,
    /// The file that samples are in.
    pub recording: String,
    /// Bytes of it.
    pub recording_bytes: u64,
    /// The share of the program's CPU time without sampling that sampling may take, a fraction.
    pub budget: f64,
    /// What may be saved up for later, and so be spent beyond the budget's share of some time, CPU seconds.
    pub burst_s: f64,
    /// How long it took.
    pub elapsed_s: f64,
    /// CPU time of the program meanwhile, sampling included.
    pub program_cpu_s: f64,
    /// What sampling took of it, CPU seconds: all that was priced.
    pub spent_s: Estimate,
    /// The same as a share of what the program would have taken without, a fraction; none where it took nothing.
    pub spent_share: Option<Estimate>,
    /// What it was spent on.
    pub expenses: Vec<Expense>,
    /// By how much the upper end of what was spent went beyond the budget at most, in any second or longer, CPU seconds; below 0 it never did.
    pub most_overdrawn_s: f64,
    /// CPU time of the recorder itself, seconds.
    pub recorder_cpu_s: f64,
    /// Samples recorded.
    pub samples: u64,
    /// Samples that found no room.
    pub lost: u64,
    /// Samples that could not be written, for the disk was full.
    pub unwritten: u64,
    /// Segments that were given up, for there was to be room.
    pub dropped_segments: u64,
    /// Times that the kernel throttled the event.
    pub throttled: u64,
    /// Interrupts whose samples the event's filter dropped.
    pub filtered: u64,
    /// The smallest share of the program's CPU time that the samples resolve, a fraction; 1 where none do.
    pub resolves_share: f64,
    /// Where the events were open at the end.
    #[serde(default)]
    pub events_on: EventsOn,
    /// When they went over from threads to CPUs, seconds after the beginning; none where they did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub went_over_s: Option<f64>,
    /// Samples of other programs that were taken on the same CPUs, and dropped.
    #[serde(default)]
    pub of_others: u64,
    /// Samples whose copy of the stack ended before their callers did: their chains lack the outermost.
    #[serde(default)]
    pub cut: u64,
    /// The part of what the event counted that samples stand for, a fraction: less where threads end before a period is over. None where nothing was counted.
    pub represented: Option<f64>,
    /// The rates there were, finest first.
    pub rates: Vec<RateUse>,
    /// What it cost by the work that the program did, where that was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<Witnessed>,
    /// How it went over time: raw observations, as few as fit.
    pub course: Vec<Stretch>,
}

/// Where events are open that sample a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum EventsOn {
    /// Its threads, and those that they create.
    #[default]
    Threads,
    /// CPUs, whoever runs there.
    Cpus,
}

/// Something that sampling takes a program's time for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Expense {
    /// What for.
    pub on: ExpenseOn,
    /// How often; of what is measured by time, none.
    pub count: Option<u64>,
    /// What it cost, CPU seconds; none where no calibration has its price.
    pub cost_s: Option<Estimate>,
}

/// What sampling takes a program's time for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ExpenseOn {
    /// Samples that were recorded or found no room: interrupt, record, payload.
    Samples,
    /// Events that trap, sampled or not.
    Counting,
    /// Interrupts whose samples a filter dropped.
    Filtered,
    /// Context switches while events were open.
    Switches,
    /// Threads and processes that were created, and programs executed, while events were inherited.
    Tasks,
    /// Changing rates and reading counters, which the program's CPUs answer.
    Turns,
    /// The recorder's own CPU time, as far as the program waited for a CPU meanwhile.
    Recorder,
}

/// A rate, and how much it was used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RateUse {
    /// The period, events (nanoseconds of clocks); none: nothing was sampled.
    pub period: Option<u64>,
    /// CPU time of the program meanwhile, seconds.
    pub program_cpu_s: f64,
    /// Samples that came of it.
    pub samples: u64,
}

/// A stretch of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stretch {
    /// When it began, seconds after the recording did.
    pub from_s: f64,
    /// How long it was.
    pub elapsed_s: f64,
    /// CPU time of the program, seconds.
    pub program_cpu_s: f64,
    /// The upper end of what sampling took of it, CPU seconds.
    pub spent_high_s: f64,
    /// Samples.
    pub samples: u64,
}

/// What sampling cost by the work that a program did: the CPU time for a piece of it with sampling on, against slices in which it paused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Witnessed {
    /// The event that counts pieces of work.
    pub work: String,
    /// Pieces of work.
    pub pieces: u64,
    /// Slices in which sampling paused.
    pub pauses: u64,
    /// What sampling cost while it was on, as a share of what the program takes without; none where too little work was done in too few slices.
    pub loss: Option<Estimate>,
    /// The same by prices: samples, and what comes with them; none where nothing was sampled.
    pub foreseen: Option<Estimate>,
    /// Whether the two can both be true; none where either is not known.
    pub agrees: Option<bool>,
    /// The comparisons: raw observations.
    pub pairs: Vec<f64>,
}
