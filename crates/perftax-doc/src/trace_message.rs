//! `perftax trace show`: one message, piece by piece.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Meanwhile, MessageEvents, MessageExecution, SampledFunction, TraceMeta, Waker};

/// One message of a trace, and what was around it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceMessage {
    /// How the trace was recorded.
    #[serde(flatten)]
    pub meta: TraceMeta,
    /// How often the trace has a message of this id.
    pub occurrences: usize,
    /// Which of them this is, from 1 on, in order of their beginnings.
    pub occurrence: usize,
    /// Messages of the trace that ended.
    pub messages: u64,
    /// The share of them that took less time.
    pub faster_share: f64,
    /// Half of the messages took at most so long, ns.
    pub median_ns: u64,
    /// What the median message spent on each cause, ns.
    pub median_shares_ns: BTreeMap<String, u64>,
    /// The message.
    pub waterfall: Waterfall,
    /// What others call it: W3C's trace and span, as `TRACE-SPAN`; none where nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The message that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RelatedMessage>,
    /// Where it is part of one that has other parts: whether that waited for it at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub among_parts: Option<AmongParts>,
    /// Messages that are part of it and ended: the slowest [`TraceMessage::MAX_PARTS`], slowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<RelatedMessage>,
    /// Those that are not listed.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub parts_left_out: u64,
    /// The part that ended last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_part: Option<LastPart>,
    /// Where it was sent to another process or came from one, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<MessageHop>,
    /// Its critical path: its time along who ended each stretch of its waiting, in order of time; adds up to its latency. Empty where it waited for nobody who is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<PathStep>,
    /// Messages before, during and after it on its threads.
    pub neighbours: Vec<Neighbour>,
}

impl TraceMessage {
    /// Parts that are listed.
    pub const MAX_PARTS: usize = 100;
}

/// The part of a message that ended last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LastPart {
    /// It.
    pub part: RelatedMessage,
    /// For how long before its end no other part was under way, ns: had it been no slower than the others, the message would have ended so much earlier.
    pub alone_ns: u64,
}

/// How a part of a message stands among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AmongParts {
    /// Parts that ended, it among them.
    pub parts: u64,
    /// It ended last: for so long before that no other part was under way, ns; none where another one ended later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_ns: Option<u64>,
    /// From its end to that of the last part, ns.
    pub before_last_ns: u64,
}

/// A message that has to do with another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RelatedMessage {
    /// Its number.
    pub id: u64,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Who worked on it first, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// How long it took, ns; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<u64>,
    /// What it spent most on beyond the median of all messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Which of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub which: Option<String>,
}

/// A message goes to another process, or has come from one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessageHop {
    /// When, from the message's beginning on, ns; negative: before it.
    pub from_ns: i64,
    /// The thread's number.
    pub tid: u32,
    /// Its name.
    pub thread: String,
    /// It was sent; otherwise it was received.
    pub is_sent: bool,
    /// Where it was received: what was between that and where it was sent; none where nobody said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<BetweenHops>,
}

/// What was between sending a message and receiving it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BetweenHops {
    /// How long that took, ns.
    pub ns: u64,
    /// While the receiver waited for it: it was in the kernel, or on its way, ns.
    pub kernel_ns: u64,
    /// While the receiver was at something else, or waited for a CPU: it was in a queue, ns.
    pub queue_ns: u64,
    /// While nothing is known of the receiver, ns.
    pub unseen_ns: u64,
}

/// A message in pieces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waterfall {
    /// As the program named it.
    pub id: u64,
    /// What the program called it, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// When it began, from the first message on.
    pub begin_s: f64,
    /// From its beginning to its end; none where it never ended.
    pub latency_ns: Option<u64>,
    /// Its time by cause, ns; adds up to its latency.
    pub shares_ns: BTreeMap<String, u64>,
    /// What its threads did, in order of time.
    pub pieces: Vec<WaterfallPiece>,
    /// Functions by samples, most samples first.
    pub functions: Vec<SampledFunction>,
    /// What it had of the counted events, of which there was any sample.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<MessageEvents>,
    /// What it executed, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executed: Option<MessageExecution>,
    /// Page faults.
    pub faults: u32,
    /// Times that a thread was moved to another CPU while at it.
    pub migrations: u32,
    /// Pieces and samples that are not listed.
    pub left_out: u64,
    /// Records were lost while it was under way: what is said of it may lack something.
    pub is_doubtful: bool,
}

/// A stretch of a thread's time that went to one thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaterfallPiece {
    /// When it began, from the message's beginning on, ns.
    pub from_ns: u64,
    /// How long it took.
    pub ns: u64,
    /// The thread's number; 0 where none worked on the message.
    pub tid: u32,
    /// The thread's name.
    pub thread: String,
    /// The cause.
    pub cause: String,
    /// Which system call, who preempted, which interrupt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub which: Option<String>,
    /// Who ended it, where it waited: what the kernel says of who woke the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_by: Option<Waker>,
    /// Where no thread was at the message: what the one that came to it then worked on meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meanwhile: Option<Meanwhile>,
    /// Functions that samples were taken in meanwhile, most samples first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<SampledFunction>,
}

/// A message that the same thread handled before, during or after another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Neighbour {
    /// The thread, or threads, that both have.
    pub thread: String,
    /// Where it lies.
    pub place: Place,
    /// As the program named it.
    pub id: u64,
    /// What the program called it, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// From its end to the other's beginning, or from the other's end to its beginning; 0 where they overlap. ns.
    pub apart_ns: u64,
    /// From its beginning to its end.
    pub latency_ns: u64,
    /// The cause that it spent most on beyond the median.
    pub cause: String,
}

/// Where a neighbour lies in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// It ended before the other began.
    Before,
    /// Both were under way at some time.
    During,
    /// It began when the other had ended.
    After,
}

impl Place {
    /// The word in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::During => "during",
            Self::After => "after",
        }
    }
}

/// A stretch of a message's critical path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathStep {
    /// When it began, from the message's beginning on, ns.
    pub from_ns: u64,
    /// How long it took.
    pub ns: u64,
    /// The thread's number; 0 where none was at the message, and nobody is known for whom it waited.
    pub tid: u32,
    /// The thread's name.
    pub thread: String,
    /// The message that the thread was at; none where it was at none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<u64>,
    /// What that is called, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What it was at.
    pub cause: String,
    /// Which system call, who preempted, which interrupt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub which: Option<String>,
    /// How many wakers away from the message it is; 0: its own.
    pub depth: u32,
    /// Functions that its thread was sampled in meanwhile, whatever it was at, most samples first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<SampledFunction>,
}
