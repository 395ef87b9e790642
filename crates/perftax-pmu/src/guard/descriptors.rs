//! How many descriptors a process may have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one: an event of each copy of a program is a descriptor, and 1024 (the usual soft limit) are soon used up.
/// The limit is this process's own; programs that it starts inherit it.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused, opening the event that is too many says so.
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).ok();
}
