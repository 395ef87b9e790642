//! The host that a trace was recorded on.

use serde::{Deserialize, Serialize};

/// The host that a trace was recorded on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceHost {
    /// Its name.
    pub name: String,
    /// Which start of its kernel: two traces with the same have one raw clock.
    pub boot_id: String,
}
