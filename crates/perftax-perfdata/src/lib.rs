//! Recordings by `perf record` (perf.data files, pipes, directories): [`recording`] reads one and counts, [`bill`] prices what was counted,
//! [`lint`] says what in it cannot be trusted. No profile of the program is made of it.

pub mod bill;
pub mod lint;
pub mod recording;
pub mod writing;
