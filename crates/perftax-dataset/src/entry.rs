//! A file of a data set, as a place lists it.

use std::time::SystemTime;

/// A file of a data set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its place in the data set.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// When it was written.
    pub written: Option<SystemTime>,
}
