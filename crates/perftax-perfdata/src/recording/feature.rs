//! Numbers of header features (`HEADER_*` of perf's `util/header.h`).

/// Tracing data, in a file as a section, in a pipe behind a record.
pub const TRACING_DATA: u32 = 1;
/// Build ids of files.
pub const BUILD_ID: u32 = 2;
/// Host name.
pub const HOSTNAME: u32 = 3;
/// Kernel release.
pub const OSRELEASE: u32 = 4;
/// Who recorded.
pub const VERSION: u32 = 5;
/// Architecture.
pub const ARCH: u32 = 6;
/// CPUs available, and online.
pub const NRCPUS: u32 = 7;
/// CPU model name.
pub const CPUDESC: u32 = 8;
/// Vendor, family, model, stepping.
pub const CPUID: u32 = 9;
/// Memory, KiB.
pub const TOTAL_MEM: u32 = 10;
/// The command line.
pub const CMDLINE: u32 = 11;
/// Events by name.
pub const EVENT_DESC: u32 = 12;
/// Names of the PMU types.
pub const PMU_MAPPINGS: u32 = 16;
/// Times of the first and the last sample.
pub const SAMPLE_TIME: u32 = 21;
