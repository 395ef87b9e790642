//! Who ended a thread's waiting.

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
