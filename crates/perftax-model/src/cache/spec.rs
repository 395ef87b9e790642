//! Caches as data.

use serde::{Deserialize, Serialize};

use super::{LINE_BYTES, Policy};

/// Whether a last-level cache holds what the levels above it hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inclusion {
    /// Always: a line that leaves it leaves all.
    Inclusive,
    /// As filled: each level for itself.
    NonInclusive,
    /// Only what the second level gave up.
    Victim,
}

/// One cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    /// Its size.
    pub bytes: u64,
    /// Its associativity.
    pub ways: usize,
    /// Its replacement policy.
    pub policy: Policy,
    /// Cycles from the access to the data.
    pub latency_cycles: u64,
}

impl CacheSpec {
    /// Its sets.
    pub fn sets(&self) -> usize {
        (self.bytes / LINE_BYTES) as usize / self.ways.max(1)
    }
}
