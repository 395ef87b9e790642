//! Who ended a thread's waiting, and what a thread worked on while a message waited for it.

use serde::{Deserialize, Serialize};

/// Who ended a thread's waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waker {
    /// The thread's number; 0 where an interrupt did.
    pub tid: u32,
    /// The thread's name; none where an interrupt did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The message that the thread was working on; none where it was at none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<u64>,
    /// What that is called, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What it was in: a system call, a page fault, or which interrupt it was; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// What the thread that came to a message in the end worked on while the message was on none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Meanwhile {
    /// The thread's number.
    pub tid: u32,
    /// Its name.
    pub thread: String,
    /// Stretches in which it was at other messages.
    pub stretches: u32,
    /// How long they were together, ns.
    pub ns: u64,
    /// There were more of them than are remembered: they and their time are at least so much.
    #[serde(default)]
    pub is_partial: bool,
    /// The message that had the longest of the last ones.
    pub most: u64,
    /// What that is called, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}
