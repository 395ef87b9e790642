//! `perftax trace`: what was recorded of messages, and what their time went to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Interrupts, LabelLatencies, Origin, ProbeSight, RegisterSight};
use crate::Estimate;

/// `meta.json` of a trace's folder: how it was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceMeta {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The program.
    pub program: Vec<String>,
    /// How it ended: its exit code, or 128 and the signal's number.
    pub code: u8,
    /// From its start to its end.
    pub elapsed_s: f64,
    /// The event sampled.
    pub event: String,
    /// Its period: events, or nanoseconds for clocks.
    pub period: u64,
    /// From one sample to the next of a thread that runs, ns, where the event is a clock.
    pub sampling_gap_ns: Option<u64>,
    /// Whether the kernel's tracepoints were recorded.
    pub kernel_noise: bool,
    /// What told messages apart: `marks`, `reg:r13`, `usdt:…`.
    #[serde(default = "marks")]
    pub tag: String,
    /// How well a register did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub register: Option<RegisterSight>,
    /// How well static probes did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<ProbeSight>,
    /// How samples came out of the hardware, where the event is one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<Interrupts>,
    /// Threads that marked anything.
    pub rings: usize,
    /// Samples and kernel records that found no room.
    pub lost: u64,
    /// Marks that found no room.
    pub dropped: u64,
    /// Rows that the disk had no room for.
    pub refused: u64,
    /// Rows that came so late that they are out of order.
    pub late: u64,
    /// Rings that could not be read, each with the reason.
    pub broken: Vec<String>,
    /// Marks, samples and records of the kernel's that were written.
    pub rows: [u64; 3],
    /// Tracepoints that the kernel does not have.
    pub missing: Vec<String>,
    /// What the hypervisor took from all CPUs meanwhile, as the kernel's accounts say, s; none where it has none.
    pub steal_s: Option<f64>,
    /// When records were lost, CLOCK_MONOTONIC_RAW, ns.
    pub losses_ns: Vec<u64>,
    /// What threads were called.
    pub threads: Vec<(u32, String)>,
    /// What interrupts were called.
    pub irqs: Vec<(u32, String)>,
}

/// What traces were tagged by before they said so.
fn marks() -> String {
    "marks".into()
}

/// What a trace says about its messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceReport {
    /// How it was recorded.
    #[serde(flatten)]
    pub meta: TraceMeta,
    /// Messages that began.
    pub messages: u64,
    /// What was odd about the marks, by name; only what occurred.
    pub trouble: BTreeMap<String, u64>,
    /// Latencies of those that ended.
    pub latency: Option<Latencies>,
    /// The same if each message took the least, and the most, that it may have: where a register told them apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_between: Option<[Latencies; 2]>,
    /// Samples taken while a thread worked on some message.
    pub samples: u64,
    /// What the slow messages' extra time went to, by the quantile from which they are slow.
    pub blames: Vec<TailBlame>,
    /// The slowest messages, slowest first.
    pub slowest: Vec<SlowMessage>,
    /// Messages by label, those with the most slow ones first; where messages are labelled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelLatencies>,
    /// Labels that are not listed.
    #[serde(default)]
    pub labels_left_out: u64,
}

/// Quantiles of the latencies of messages, ns: each is the latency of a message (nearest rank).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Messages that ended.
    pub messages: u64,
    /// Half took at most so long.
    pub p50_ns: u64,
    /// 99 in 100.
    pub p99_ns: u64,
    /// 999 in 1000.
    pub p999_ns: u64,
    /// The slowest.
    pub max_ns: u64,
}

/// What the messages beyond a quantile spent more than the median one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TailBlame {
    /// The quantile.
    pub from: f64,
    /// Messages beyond it.
    pub messages: u64,
    /// Mean time beyond the median, ns.
    pub extra_ns: Estimate,
    /// By cause, largest first.
    pub causes: Vec<BlamedCause>,
}

/// A cause's part in the extra time of slow messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlamedCause {
    /// Its name.
    pub cause: String,
    /// ns a message, beyond what the median message spent on it.
    pub extra_ns: Estimate,
    /// Which system call, who preempted, which interrupt; measured.
    pub which: Vec<BlamedDetail>,
    /// Functions; the cause's time shared out among its samples.
    pub functions: Vec<BlamedDetail>,
}

/// A part of a cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlamedDetail {
    /// Its name.
    pub name: String,
    /// ns a message, beyond what messages that are not slow spent on it on average.
    pub extra_ns: Estimate,
}

/// One slow message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowMessage {
    /// As the program named it.
    pub id: u64,
    /// What the program called it, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// When it began, from the first message on.
    pub begin_s: f64,
    /// From its beginning to its end.
    pub latency_ns: u64,
    /// At least and at most, ns, where a register told messages apart: it is looked at now and then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_between_ns: Option<(u64, u64)>,
    /// The cause that it spent most on beyond the median.
    pub cause: String,
    /// How much beyond the median.
    pub beyond_ns: u64,
    /// Which of that cause took most of it: the system call, who preempted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub which: Option<String>,
    /// The function in which most samples of that cause were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<SampledFunction>,
    /// Its time by cause, ns.
    pub shares_ns: BTreeMap<String, u64>,
    /// Page faults.
    pub faults: u32,
    /// Times it was moved to another CPU.
    pub migrations: u32,
    /// Records were lost while it was under way: what is said of it may lack something.
    pub is_doubtful: bool,
}

/// A function in one message, by samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampledFunction {
    /// Its name.
    pub name: String,
    /// Samples in it.
    pub samples: u64,
    /// The time in it, where the event is a clock: at least, at most, ns. Up to a sampling gap is missing at each end.
    pub between_ns: Option<(u64, u64)>,
}
