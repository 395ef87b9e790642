//! What told a trace's messages apart, and how well.

use serde::{Deserialize, Serialize};

/// How well a register told messages apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegisterSight {
    /// Its name.
    pub name: String,
    /// Samples whose register was seen.
    pub samples: u64,
    /// Those of them that showed a tag.
    pub samples_valid: u64,
    /// Looks (samples, system calls, page faults, switches) that showed a tag.
    pub looks_valid: u64,
    /// Looks that showed none, between two of one message: they count as its own.
    pub looks_filled: u64,
    /// Looks that showed none elsewhere: they belong to no message.
    pub looks_unknown: u64,
    /// From the last look before a tag changed to the first after it: half of them took at most so long, ns.
    pub gap_p50_ns: u64,
    /// 99 in 100.
    pub gap_p99_ns: u64,
    /// Before 99 in 100 changes samples without a tag came for at most so long, ns: the message before may have gone on all of that time, or
    /// the next have begun.
    pub unseen_p99_ns: u64,
    /// Three sampling periods over the share of samples with a tag: shorter messages, and shorter delays, are seen by chance, and look longer
    /// than they are, ns.
    pub shortest_ns: u64,
    /// Messages whose end was not seen, since their thread showed no tag for long.
    pub abandoned: u64,
    /// The registers are those of the interrupt, not of the sampled instruction (AMD's IBS): the first sample after each change was left out.
    pub is_late: bool,
    /// Threads with the most samples: number, samples, those that showed a tag.
    pub threads: Vec<(u32, u64, u64)>,
}

impl RegisterSight {
    /// Threads that are told of.
    pub const MAX_THREADS: usize = 20;
}

/// How well probes told messages apart: static ones, or at functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeSight {
    /// The program or library that has them.
    pub binary: String,
    /// Times that any of them was passed: each took a trap into the kernel. 0 in traces of before December 2026, which did not count them.
    #[serde(default)]
    pub hits: u64,
    /// Times that the probe where messages begin was passed.
    pub started: u64,
    /// Times that the one where they end was passed.
    pub done: u64,
    /// Messages that were not ended before their thread, or their number, was another one's.
    pub broken_off: u64,
    /// Ends of messages that had begun before recording did.
    pub done_without_start: u64,
    /// Texts that were kept in their normal form alone, since so many different ones came.
    pub shortened: u64,
}

/// How well contexts that threads publish told messages apart (`--tag otel`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContextSight {
    /// Times that a thread's context was written: each took a trap into the kernel.
    pub changes: u64,
    /// Messages begun.
    pub begun: u64,
    /// Messages that ended.
    pub ended: u64,
    /// Messages of a trace that had one before, which nobody had worked on for long: one that waited, perhaps, or another one of the same trace.
    pub resumed: u64,
    /// Threads that were watched.
    pub threads: u64,
    /// Threads that began and ended meanwhile, and showed no context: what one publishes within its first 10 ms or so is not seen.
    #[serde(default)]
    pub unseen: u64,
    /// Threads that publish contexts and could not be watched.
    pub unwatched: u64,
    /// Why the last thing that could not be watched could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How well the system calls of a server told messages apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SocketSight {
    /// The port whose connections were followed; none: those of all.
    pub port: Option<u16>,
    /// Connections that were served.
    pub connections: u64,
    /// Messages begun: reads that brought something on a connection that had been answered.
    pub begun: u64,
    /// Messages answered.
    pub answered: u64,
    /// Messages whose connection was closed without an answer.
    pub unanswered: u64,
    /// Writes on connections of which nothing was asked: answers that went on after a pause of 50 ms and more, so that their messages look shorter than they were, or nobody had asked.
    #[serde(default)]
    pub unasked: u64,
    /// Connections on which requests overlapped: from then on nothing was told of them.
    pub refused: u64,
    /// Times that work was handed over by io_uring, of which no call tells what it is.
    pub rings: u64,
}

/// How samples came out of the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interrupts {
    /// Samples.
    pub samples: u64,
    /// Performance monitoring interrupts of all CPUs meanwhile, by /proc/interrupts.
    pub interrupts: u64,
}

impl Interrupts {
    /// Samples to an interrupt; none without interrupts.
    pub fn samples_each(&self) -> Option<f64> {
        (self.interrupts > 0).then(|| self.samples as f64 / self.interrupts as f64)
    }
}

/// Messages of one label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LabelLatencies {
    /// The label, with ? for each number and quoted text.
    pub label: String,
    /// Messages that ended.
    pub messages: u64,
    /// Half took at most so long, ns.
    pub p50_ns: u64,
    /// 99 in 100.
    pub p99_ns: u64,
    /// The slowest.
    pub max_ns: u64,
    /// Those among the slowest hundredth of all messages.
    pub slow: u64,
}
