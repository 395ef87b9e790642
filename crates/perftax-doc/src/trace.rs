//! `perftax trace`: what was recorded of messages, and what their time went to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Estimate;
use crate::{
    BlamedEvents, BlamedExecution, ContextSight, ExecutionSight, Interrupts, LabelLatencies, Meanwhile, MessageEvents,
    MessageExecution, Origin, ProbeSight, RegisterSight, SocketSight, TraceEvent, TraceHost, Waker,
};

/// `meta.json` of a trace's folder: how it was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceMeta {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The program.
    pub program: Vec<String>,
    /// The host that it was recorded on; none of traces of before 2026-11-29.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<TraceHost>,
    /// How it ended: its exit code, or 128 and the signal's number; none of a process that was joined, whose end nobody waits for (in traces of before 2026-11-30: 0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u8>,
    /// From its start to its end.
    pub elapsed_s: f64,
    /// CPU time that it took, with its children, s.
    pub cpu_s: f64,
    /// The event sampled.
    pub event: String,
    /// Its period: events, or nanoseconds for clocks.
    pub period: u64,
    /// From one sample to the next of a thread that runs, ns, where the event is a clock.
    pub sampling_gap_ns: Option<u64>,
    /// That clock is of CPUs: it goes on while the thread is off them, and each stretch of one on a CPU is counted anew.
    #[serde(default)]
    pub clock_of_cpus: bool,
    /// Events that were counted by message beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<TraceEvent>,
    /// How well instructions and cycles were counted, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executed: Option<ExecutionSight>,
    /// Whether the kernel's tracepoints were recorded.
    pub kernel_noise: bool,
    /// What told messages apart: `marks`, `reg:r13`, `usdt:…`, `func:…`, `otel`, `socket:…`.
    #[serde(default = "marks")]
    pub tag: String,
    /// How well a register did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub register: Option<RegisterSight>,
    /// How well probes did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<ProbeSight>,
    /// How well contexts that threads publish did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contexts: Option<ContextSight>,
    /// How well a server's system calls did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sockets: Option<SocketSight>,
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
    /// Marks, samples and records of the kernel's that were taken, whether they were written or not.
    pub recorded: [u64; 3],
    /// What a mark takes on this machine, ns: the median of three surroundings, from the least (a tight loop, mostly) to the most; none
    /// where nothing was marked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_ns: Option<Estimate>,
    /// Tracepoints that the kernel does not have.
    pub missing: Vec<String>,
    /// Where only slow messages were kept: which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptSlow>,
    /// Within a budget: what it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<TraceSpent>,
    /// Otherwise: what it cost, as checked on the program itself; none where it was too short for that, or what the program did is not known while nothing is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked: Option<PriceChecked>,
    /// CPU time of perftax itself meanwhile, s: it reads what is recorded, beside the program. None of older traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_cpu_s: Option<f64>,
    /// What the hypervisor took from all CPUs meanwhile, as the kernel's accounts say, s; none where it has none.
    pub steal_s: Option<f64>,
    /// When records were lost, CLOCK_MONOTONIC_RAW, ns.
    pub losses_ns: Vec<u64>,
    /// What threads were called.
    pub threads: Vec<(u32, String)>,
    /// What interrupts were called.
    pub irqs: Vec<(u32, String)>,
    /// Locks that threads waited for in the kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<TraceLock>,
}

/// A lock, a condition, a semaphore that threads waited for in the kernel (futex(2)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceLock {
    /// Its number, as the tables have it where a system call's number stands otherwise.
    pub number: u32,
    /// The process.
    pub pid: u32,
    /// Its address there.
    pub address: u64,
    /// The variable that lies there, or where on which heap that is; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What a recording cost, as checked on the program itself: its CPU time for the same work (messages that it marks, or bytes that come by TCP) with recording on against that
/// with nothing recorded, in short slices, each between two of the other kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PriceChecked {
    /// Extra CPU time, as a share of what there would have been without; 95 % by bootstrap over the comparisons.
    pub extra: Estimate,
    /// How long nothing was recorded for it, s.
    pub off_s: f64,
    /// The program's CPU time meanwhile, s.
    #[serde(default)]
    pub off_cpu_s: f64,
    /// It takes at least that: what watches system calls stayed open meanwhile, and took something, too.
    #[serde(default)]
    pub at_least: bool,
    /// The comparisons that the estimate is from, each as a share.
    pub pairs: Vec<f64>,
}

/// What a recording within a budget cost: the process's CPU time a message with recording on against that with it off, slice by slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceSpent {
    /// The budget, a share of the program's CPU time.
    pub budget: f64,
    /// Extra CPU time while it was on, a share.
    pub while_on: Estimate,
    /// Extra CPU time over all, a share. Marks are not in it: they are always on.
    pub in_all: Estimate,
    /// The share of the program's CPU time in which it was on.
    pub on_share: f64,
    /// Slices, on and off.
    pub slices: u64,
    /// Slices with recording on.
    pub on_slices: u64,
    /// The comparisons that the estimate is from: extra CPU time a message of an on slice against those beside it, as a share.
    pub pairs: Vec<f64>,
}

/// What `--keep-slow` kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeptSlow {
    /// The quantile asked for, 0 to 1.
    pub from: f64,
    /// Every message that took at least so long was kept, with its neighbours, ns.
    pub kept_from_ns: u64,
    /// Messages kept for being slow: some more than asked for, since the quantile was not known before the end.
    pub kept: u64,
    /// Of them, those of which rows had been let go before their end.
    pub not_whole: u64,
    /// Messages that ended.
    pub messages: u64,
    /// Those that were not slow.
    pub usual_messages: u64,
    /// Those that recording was on for.
    pub watched: u64,
    /// What was odd about the marks of all messages: of those that were not kept whole the tables tell nothing. None of older traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<BTreeMap<String, u64>>,
}

/// What traces were tagged by before they said so.
fn marks() -> String {
    "marks".into()
}

/// What a trace says about its messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Of those that ended, the ones that recording was on for.
    pub watched: u64,
    /// The same if each message took the least, and the most, that it may have: where a register told them apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_between: Option<[Latencies; 2]>,
    /// Samples taken while a thread worked on some message.
    pub samples: u64,
    /// What recording cost.
    pub cost: TraceCost,
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

/// What recording took of the program's CPU time: as the machine's profile prices it, or as it was found on the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceCost {
    /// What was taken, how often, and the price of one, ns.
    pub parts: Vec<CostPart>,
    /// All of it, as a share of the program's CPU time without it; none where some of it has no price, and it was not checked on the program either.
    pub share: Option<Estimate>,
    /// Whether that is what was found on the program ([`TraceMeta::checked`]): prices are missing, say something else, or say it less exactly.
    #[serde(default)]
    pub is_checked: bool,
    /// What the prices say, where that is not `share`; where some have none, of those that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priced_share: Option<Estimate>,
    /// What it took of the thread that marked most: where that one is what others wait for, the program gets slower by so much.
    #[serde(default)]
    pub busiest: Option<ThreadCost>,
}

/// What recording took of one thread's CPU time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadCost {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Time that it ran, by the kernel's word, s.
    pub cpu_s: f64,
    /// Marks that it wrote, samples of it, and records of the kernel's while it was the current one.
    pub recorded: [u64; 3],
    /// All of it, as a share of the thread's CPU time without it; none where some of it has no price.
    pub share: Option<Estimate>,
}

/// A part of what recording cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostPart {
    /// What.
    pub what: String,
    /// How often.
    pub count: u64,
    /// The price of one, ns; none where this machine's profile has none.
    pub each_ns: Option<Estimate>,
    /// The command that finds the price.
    pub remedy: Option<String>,
}

/// Quantiles of the latencies of messages, ns: each is the latency of a message (nearest rank).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TailBlame {
    /// The quantile.
    pub from: f64,
    /// Messages beyond it.
    pub messages: u64,
    /// Mean time beyond the median, ns.
    pub extra_ns: Estimate,
    /// By cause, largest first.
    pub causes: Vec<BlamedCause>,
    /// How many of the counted events they had more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<BlamedEvents>,
    /// Whether they had more work to do, or did it more slowly; where instructions and cycles were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executed: Option<BlamedExecution>,
}

/// A cause's part in the extra time of slow messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlamedCause {
    /// Its name.
    pub cause: String,
    /// ns a message, beyond what the median message spent on it.
    pub extra_ns: Estimate,
    /// Which system call, who preempted, which interrupt; measured.
    pub which: Vec<BlamedDetail>,
    /// Of waiting: what ended it, and for what the thread waited; of a message on no thread: what was worked on meanwhile. Measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_whom: Vec<BlamedDetail>,
    /// Functions; the cause's time shared out among its samples.
    pub functions: Vec<BlamedDetail>,
}

/// A part of a cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlamedDetail {
    /// Its name.
    pub name: String,
    /// ns a message, beyond what messages that are not slow spent on it on average.
    pub extra_ns: Estimate,
}

/// One slow message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Where that is waiting: who ended the longest stretch of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_by: Option<Waker>,
    /// Where no thread was at it: what the one that came to it after the longest such stretch worked on meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meanwhile: Option<Meanwhile>,
    /// The function in which most samples of that cause were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<SampledFunction>,
    /// What it had of the counted events, of which there was any sample.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<MessageEvents>,
    /// What it executed, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executed: Option<MessageExecution>,
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledFunction {
    /// Its name.
    pub name: String,
    /// Samples in it.
    pub samples: u64,
    /// The time in it, where the event is a clock: at least, at most, ns. Up to a sampling gap is missing at each end.
    pub between_ns: Option<(u64, u64)>,
}

/// How the messages of two traces differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceDiff {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// How the first was recorded.
    pub before: TraceMeta,
    /// How the second was recorded.
    pub after: TraceMeta,
    /// Latencies of the first and of the second.
    pub latency: Vec<LatencyChange>,
    /// Mean time of a message, and how it changed: all of it first, then what changed most.
    pub changes: Vec<Change>,
}

/// A quantile of latency, before and after.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyChange {
    /// The quantile.
    pub quantile: f64,
    /// ns, with the interval of its rank.
    pub before_ns: Estimate,
    /// ns, with the interval of its rank.
    pub after_ns: Estimate,
}

/// A mean time of a message, before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// The cause; none: all of the latency.
    pub cause: Option<String>,
    /// What of it; none: all of the cause.
    pub detail: Option<String>,
    /// Whether it is a function: by samples.
    pub is_sampled: bool,
    /// ns a message.
    pub before_ns: Estimate,
    /// ns a message.
    pub after_ns: Estimate,
    /// What there is more, ns a message; the two traces are independent.
    pub more_ns: Estimate,
}

impl Change {
    /// Whether its interval leaves out no change at all.
    pub fn is_resolved(&self) -> bool {
        !self.more_ns.contains(0.0)
    }
}
