//! Messages over services: what `perftax trace join` says of them.

use serde::{Deserialize, Serialize};

use crate::{Estimate, Latencies, WaterfallPiece};

/// Requests: messages that no other one encloses, with all that they called in other services.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JoinedRequests {
    /// The service that they begin in.
    pub entry: String,
    /// Other services that requests begin in, and how many: not among these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_entries: Vec<(String, u64)>,
    /// How long they took, by the clock of the service that they begin in.
    pub latency: Latencies,
    /// The quantile from which on they are slow.
    pub slow_from: f64,
    /// That latency, ns.
    pub slow_ns: u64,
    /// Requests that are not slow, by which the usual is told: all of them, or some by chance.
    pub usual: u64,
    /// How long these took on average, ns.
    pub usual_ns: f64,
    /// Messages that came from a service of which no trace tells.
    pub from_elsewhere: u64,
    /// Messages of a number that occurs again in its trace: not taken.
    pub repeated: u64,
    /// What the slow ones' extra time went to; none with fewer than two of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blame: Option<RequestBlame>,
    /// What is not known of slow requests, and of how many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flaws: Vec<(String, u64)>,
    /// The slow ones, slowest first.
    pub slow: Vec<SlowRequest>,
    /// Slow ones that are not listed.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub slow_left_out: u64,
    /// The slowest ones, and those that were asked for, part by part.
    pub waterfalls: Vec<RequestWaterfall>,
}

/// Where time went, over services.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Charged {
    /// The service; of ways between two the one that called.
    pub service: String,
    /// Its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// A cause; or `network or queue`, `not traced` (a call that no trace tells of), `not recorded` (a message that is there by its marks alone).
    pub cause: String,
    /// Of ways between two services the one that was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// What slow requests' extra time went to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestBlame {
    /// Slow requests.
    pub requests: u64,
    /// Mean time beyond the mean of those that are not slow, ns.
    pub extra_ns: Estimate,
    /// The largest first; they add up to it.
    pub charges: Vec<BlamedCharge>,
}

/// One charge's part in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlamedCharge {
    /// What.
    #[serde(flatten)]
    pub to: Charged,
    /// Mean time of a slow request beyond the mean of those that are not slow, ns.
    pub extra_ns: Estimate,
    /// In particular: mean time of a slow request, ns; the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<(String, f64)>,
}

/// A slow request, in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowRequest {
    /// What tracing systems call it: `TRACE-SPAN`; none where nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Its number in the service that it begins in.
    pub id: u64,
    /// What it is called there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// From its beginning to its end, ns.
    pub latency_ns: u64,
    /// What it spent most of its time beyond the usual on.
    pub foremost: Charged,
    /// How long beyond the usual, ns.
    pub beyond_ns: f64,
    /// Of it in particular.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub which: Option<String>,
    /// The function with the most samples in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// What is not known of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flaws: Vec<String>,
}

/// A request, part by part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestWaterfall {
    /// In short.
    #[serde(flatten)]
    pub request: SlowRequest,
    /// When it began, by the CLOCK_REALTIME of the host that it begins on, ns since 1970; none of traces without clocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin_unix_ns: Option<u64>,
    /// Its parts; each one after the one that encloses it.
    pub parts: Vec<RequestPart>,
    /// Where its time went, the longest first; adds up to its latency, ns.
    pub charges: Vec<(Charged, f64)>,
}

/// A message of one service, as part of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestPart {
    /// The service.
    pub service: String,
    /// The host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its number there.
    pub id: u64,
    /// What it is called there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// How many parts enclose it.
    pub depth: usize,
    /// The part that encloses it, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<usize>,
    /// When it began, after the request did, ns: at least and at most.
    pub from_ns: (i64, i64),
    /// How long it went on, by its own service's clock, ns.
    pub ns: u64,
    /// Of one that another service called: how long it was away from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop: Option<RequestHop>,
    /// What its time went to, from its own beginning on; none where marks alone are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pieces: Option<Vec<WaterfallPiece>>,
}

/// The ways of a message to another service and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestHop {
    /// How long it was away, by the caller's clock, ns.
    pub away_ns: u64,
    /// The ways there and back together: network, and queues of either host; whatever the clocks show, ns.
    pub ways_ns: u64,
    /// The way there: at least and at most, ns.
    pub there_ns: (u64, u64),
    /// The way back, likewise.
    pub back_ns: (u64, u64),
    /// What the two clocks are known to be apart to, ns; none where that is not known: then a way is known by the other one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clocks_known_to_ns: Option<u64>,
    /// Both ways together are shorter than that: how they share is not known.
    pub is_shorter_than_known: bool,
}
