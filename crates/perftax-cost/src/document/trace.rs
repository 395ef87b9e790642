//! `perftax trace`: what was recorded of messages, and what their time went to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Origin;
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
    /// Whether the kernel's tracepoints were recorded.
    pub kernel_noise: bool,
    /// Threads that marked anything.
    pub rings: usize,
    /// Samples and kernel records that found no room.
    pub lost: u64,
    /// Marks that found no room.
    pub dropped: u64,
    /// Rings that could not be read, each with the reason.
    pub broken: Vec<String>,
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
    /// Samples taken while a thread worked on some message.
    pub samples: u64,
    /// What the slow messages' extra time went to, by the quantile from which they are slow.
    pub blames: Vec<TailBlame>,
    /// The slowest messages, slowest first.
    pub slowest: Vec<SlowMessage>,
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
    /// By cause, largest first, ns a message.
    pub causes: Vec<(String, Estimate)>,
}

/// One slow message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowMessage {
    /// As the program named it.
    pub id: u64,
    /// When it began, from the first mark on.
    pub begin_s: f64,
    /// From its beginning to its end.
    pub latency_ns: u64,
    /// The cause that it spent most on beyond the median.
    pub cause: String,
    /// How much beyond the median.
    pub beyond_ns: u64,
    /// Its time by cause, ns.
    pub shares_ns: BTreeMap<String, u64>,
}
