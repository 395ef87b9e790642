//! Accesses to memory.

use serde::{Deserialize, Serialize};

use crate::line::{Bytes, Line};

/// A thread, by its number in the order of creation.
pub type Thread = u32;

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It reads.
    Load,
    /// It writes, whether it reads first or not: a core needs the line for itself either way.
    Store,
}

impl Kind {
    /// Whether it writes.
    pub fn is_store(self) -> bool {
        self == Self::Store
    }
}

/// One access to bytes of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Who.
    pub thread: Thread,
    /// The line.
    pub line: Line,
    /// Its bytes that are touched.
    pub bytes: Bytes,
    /// What it does.
    pub kind: Kind,
    /// Address of the instruction.
    pub ip: u64,
}
