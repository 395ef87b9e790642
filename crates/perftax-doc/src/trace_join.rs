//! `perftax trace join`: traces of several hosts beside each other.

use serde::{Deserialize, Serialize};

use crate::{JoinedRequests, Latencies, Origin, TraceHost};

/// Traces of several hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceJoin {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The traces.
    pub traces: Vec<JoinedTrace>,
    /// Each two of them.
    pub pairs: Vec<JoinedPair>,
    /// Clocks that causality contradicts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lying: Vec<LyingClock>,
    /// Messages over all of the services; none where no message is told of by others, or has parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<JoinedRequests>,
}

/// One of the traces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JoinedTrace {
    /// Its folder.
    pub folder: String,
    /// What its service is called.
    #[serde(default)]
    pub service: String,
    /// Where it was recorded; none of traces of before 2026-11-29.
    pub host: Option<TraceHost>,
    /// Messages that it sent or received under a name that others know, too (`perftax_identity`, `perftax_send`, `perftax_receive`).
    pub named: usize,
    /// Readings of its clocks.
    pub clocks: usize,
    /// How wrong CLOCK_REALTIME is at most, by its kernel's word, ns; none where nobody keeps it right, or nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub realtime_error_ns: Option<u64>,
    /// CLOCK_TAI less CLOCK_REALTIME, s; none where nobody has told the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tai_offset_s: Option<i32>,
}

/// Two traces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JoinedPair {
    /// Which, from 0.
    pub traces: [usize; 2],
    /// Messages from the first to the second, and back.
    pub crossings: [usize; 2],
    /// Messages under names that both know that say nothing of their clocks: used more than once on one side, or such as a third one sent through both.
    #[serde(default)]
    pub left_out: usize,
    /// Of one host: messages that were received before they were sent, by their marks.
    #[serde(default)]
    pub contradictions: usize,
    /// Both were recorded on one host since it was started: their raw clock is one.
    pub is_one_host: bool,
    /// The second one's raw clock less the first one's by causality; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causal: Option<CausalDifference>,
    /// Why it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unaligned: Option<String>,
    /// What other clocks say of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stated: Vec<StatedDifference>,
    /// Messages that the first one sent to the second one and had back, and those that it was sent; where there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub round_trips: Vec<RoundTrips>,
}

/// Messages that one host sent to another one and had back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundTrips {
    /// The trace that sent them, and the one that they went to, from 0.
    pub from_to: [usize; 2],
    /// How long they were away, by the sender's clock alone.
    pub away: Latencies,
    /// Of that on the other host, by that one's clock alone.
    pub there: Latencies,
    /// Of that on the way, there and back, or in queues of either host: whatever their clocks show, but for how much faster one is than the other.
    pub ways: Latencies,
    /// By that they are known to so much at least, ns.
    #[serde(default)]
    pub ways_known_to_ns: u64,
    /// Those that were away longest, longest first.
    pub slowest: Vec<SlowRoundTrip>,
}

/// A message that was away for long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowRoundTrip {
    /// What both call it: W3C's trace and span, as `TRACE-SPAN`.
    pub identity: String,
    /// How long it was away, ns.
    pub away_ns: u64,
    /// Of that on the other host, ns.
    pub there_ns: u64,
    /// The way there: at least and at most, by what the clocks are known to be apart, ns.
    pub way_there_ns: (u64, u64),
    /// The way back, likewise.
    pub way_back_ns: (u64, u64),
}

/// A difference of raw clocks that no message contradicts, and whose rate changes by less than 1 ppb a second: a bound, not an interval of confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CausalDifference {
    /// When, by the first one's raw clock, ns: in the middle of its readings.
    pub time_ns: u64,
    /// At least, ns.
    #[serde(default)]
    pub low_ns: i64,
    /// At most, ns.
    #[serde(default)]
    pub high_ns: i64,
    /// At least, s.
    pub low_s: f64,
    /// At most, s.
    pub high_s: f64,
    /// How wide that is, ns.
    pub width_ns: u64,
    /// By how much the second one is faster: at least and at most, ppm.
    pub drift_ppm: (f64, f64),
    /// The shortest way there and back, ns, or more than that where messages are few: a hop that is shorter than the width is shorter than is known.
    pub shortest_round_trip_ns: u64,
}

/// A difference of raw clocks by a clock that both hosts share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatedDifference {
    /// Which.
    pub clock: String,
    /// At least by what their kernels say of it, s.
    pub low_s: f64,
    /// At most, s.
    pub high_s: f64,
    /// By how much causality contradicts it at least, ns; 0: it does not.
    pub contradicted_by_ns: u64,
}

/// A clock that causality contradicts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LyingClock {
    /// The trace whose host has it, from 0.
    pub trace: usize,
    /// Which.
    pub clock: String,
    /// By how much it and another one are further apart than their kernels admit together, at least, ns.
    pub by_ns: u64,
    /// That of this trace's host may be wrong instead: of two that contradict each other nobody tells which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub or_trace: Option<usize>,
}
