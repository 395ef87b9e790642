//! Kinds of records (`PERF_RECORD_*`; include/uapi/linux/perf_event.h).

pub const LOST: u32 = 2;
pub const COMM: u32 = 3;
pub const EXIT: u32 = 4;
pub const THROTTLE: u32 = 5;
pub const FORK: u32 = 7;
pub const SAMPLE: u32 = 9;
pub const MMAP2: u32 = 10;
pub const LOST_SAMPLES: u32 = 13;
