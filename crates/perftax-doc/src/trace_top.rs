//! `perftax trace top`: the messages of now.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Estimate, Latencies, Origin, PriceChecked, SlowMessage, TailBlame};

/// What a recording that is followed says of its messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceTop {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The program.
    pub program: Vec<String>,
    /// What tells messages apart.
    pub tag: String,
    /// The event sampled.
    pub event: String,
    /// Its period: events, or nanoseconds for clocks.
    pub period: u64,
    /// Since the recording began, s.
    pub elapsed_s: f64,
    /// The last minute, or so; none where no message ended in it.
    pub now: Option<TopNow>,
    /// Latencies of all messages that ended since the recording began.
    pub latency: Option<Latencies>,
    /// The same as a histogram, for who adds up several.
    pub histogram: Vec<LatencyBucket>,
    /// Their sum, s.
    pub latency_sum_s: f64,
    /// Of those messages, the ones that recording was on for from begin to end.
    pub watched: u64,
    /// What these spent on each cause, s.
    pub causes_s: BTreeMap<String, f64>,
    /// What was odd about the marks, by name; only what occurred.
    pub trouble: BTreeMap<String, u64>,
    /// Samples and kernel records that found no room; none where the kernel could not be asked.
    pub lost: Option<u64>,
    /// Marks that found no room.
    pub dropped: u64,
    /// What recording costs while it is on, as checked on the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked: Option<PriceChecked>,
    /// How it keeps to its budget.
    pub budget: TopBudget,
    /// CPU time of perftax itself, beside the program, s.
    pub own_cpu_s: f64,
    /// The most memory that perftax itself had, bytes; none where the kernel does not say.
    pub own_memory_bytes: Option<u64>,
    /// What was sent elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<SpansSent>,
}

/// The messages of the last minute, or so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TopNow {
    /// How long that is, s.
    pub window_s: f64,
    /// Messages that ended, a second in which they could be seen.
    pub per_s: f64,
    /// How long they took.
    pub latency: Latencies,
    /// The quantile from which on they are slow, 0 to 1.
    pub slow_from: f64,
    /// The latency that this is, ns.
    pub slow_ns: u64,
    /// Slow messages that were not kept: what is said of slow ones is of the others.
    pub slow_left_out: u64,
    /// What the slow ones spent more than the median one; none with fewer than two of them.
    pub blame: Option<TailBlame>,
    /// Kinds of messages, those first whose slow messages took the most time beyond the median.
    pub kinds: Vec<TopKind>,
    /// Kinds that are not listed.
    pub kinds_left_out: u64,
    /// Messages of kinds that were not told apart, since there were so many.
    pub other_kinds: u64,
    /// The slowest messages.
    pub slowest: Vec<SlowMessage>,
}

/// Messages of a kind: those with the same text, values aside, else those that the same thread began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TopKind {
    /// What they are called.
    pub kind: String,
    /// How long they took: quantiles within 1 %.
    pub latency: Latencies,
    /// Slow ones.
    pub slow: u64,
    /// What those took beyond the median of all messages, together, s.
    pub beyond_s: f64,
    /// What most of that went to.
    pub mostly: Option<String>,
}

/// Messages that took no longer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyBucket {
    /// Than this, ns.
    pub to_ns: u64,
    /// How many, those of the buckets before among them.
    pub messages: u64,
}

/// How a recording that goes on keeps to its budget.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TopBudget {
    /// The share of the program's CPU time that recording may take.
    pub share: f64,
    /// What it has taken; none where that is not known.
    pub spent: Option<Estimate>,
    /// The share of the program's CPU time for which it was on.
    pub on_share: f64,
    /// How often it has rested.
    pub rests: u64,
    /// Whether it is on now.
    pub is_on: bool,
}

/// Slow messages that were sent to a receiver of OpenTelemetry's protocol.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpansSent {
    /// Spans that it took.
    pub taken: u64,
    /// Spans that it refused, or that did not reach it.
    pub refused: u64,
    /// Slow messages of which no span was made, since there were so many.
    pub left_out: u64,
    /// What the last failure was; none where there was none.
    pub why: Option<String>,
}
