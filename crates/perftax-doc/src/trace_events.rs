//! Events that a trace counts by message, beside the clock that says where its time went.

use serde::{Deserialize, Serialize};

use crate::Estimate;

/// An event that was counted by message: each so-many-th of them was sampled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceEvent {
    /// What it is called.
    pub name: String,
    /// Events from one sample to the next.
    pub period: u64,
    /// Samples that were taken, in messages and outside of them.
    pub samples: u64,
    /// Of those with an address, the ones at which nothing is known to lie.
    #[serde(default)]
    pub unplaced: u64,
    /// The share of the time in which it was counted: less than 1 where it took turns with other events, and what is said of it is too little then. None where the kernel says nothing of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_share: Option<f64>,
}

impl TraceEvent {
    /// An event that was counted for less of the time took turns with others.
    const COUNTED: f64 = 0.98;

    /// The share of the time in which it was counted, where it took turns with other events; none where it did not, or nobody knows.
    pub fn in_turns(&self) -> Option<f64> {
        self.counted_share.filter(|share| *share < Self::COUNTED)
    }
}

/// How many of an event slow messages had more than the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlamedEvents {
    /// What it is called.
    pub event: String,
    /// Events of a message that is not slow, the mean.
    pub usual_events: f64,
    /// Events of a slow message beyond that, the mean; 95 % by bootstrap over messages.
    pub extra_events: Estimate,
    /// Slow messages that surely had more than twice as many as is usual.
    pub with_many: u64,
    /// Time on CPU of those beyond the median message's for each of their events beyond the usual, ns; none where there are not two of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each_ns: Option<Estimate>,
    /// Where, the most first.
    pub places: Vec<BlamedPlace>,
}

/// A place where slow messages had more of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlamedPlace {
    /// The function; none where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// What lies at the addresses: a variable, the heap, a mapping of so many bytes; none where that is not known, or the event has no address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Events of a slow message beyond those of a message that is not slow.
    pub extra_events: Estimate,
}

/// What one message had of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessageEvents {
    /// What it is called.
    pub event: String,
    /// Samples.
    pub samples: u64,
    /// Events: at least, at most.
    pub between_events: (u64, u64),
    /// Events of a message that is not slow, the mean.
    pub usual_events: f64,
    /// Whether it surely had more than twice as many, by three samples or more.
    pub are_many: bool,
    /// The function with most of them; none where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// What lies at the addresses of most of them; none where that is not known, or the event has no address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Samples in that function at that object.
    pub samples_there: u64,
}
