//! What samples carry beside the basic record.

/// What an event's samples carry on average, as far as a recording tells.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Carried {
    /// Entries of a call chain, markers with them.
    pub chain_entries: Option<f64>,
    /// Bytes of the user's stack that were copied: at most what was asked for, and no more than there are.
    pub stack_bytes: Option<f64>,
}
