//! Record types (`enum perf_event_type` of the kernel, below 64; `enum perf_user_event_type` of the tool, from 64).

/// A file that was mapped for execution.
pub const MMAP: u32 = 1;
/// Records that the kernel lost because a ring was full.
pub const LOST: u32 = 2;
/// The name of a thread, and that it has run exec.
pub const COMM: u32 = 3;
/// A thread ended.
pub const EXIT: u32 = 4;
/// An event was throttled.
pub const THROTTLE: u32 = 5;
/// It samples again.
pub const UNTHROTTLE: u32 = 6;
/// A thread began.
pub const FORK: u32 = 7;
/// Counter values of a thread that ended (`perf record -s`).
pub const READ: u32 = 8;
/// A sample.
pub const SAMPLE: u32 = 9;
/// As MMAP, with the file's inode or build id, and its protection (Linux 3.16).
pub const MMAP2: u32 = 10;
/// A task goes, or comes (`perf record --switch-events`).
pub const SWITCH: u32 = 14;
/// A piece of an AUX area, with flags.
pub const AUX: u32 = 11;
/// Samples lost by hardware, or by an event as its read format says (written by perf ≥ 6.1 at the end).
pub const LOST_SAMPLES: u32 = 13;
/// Pipe mode: an event's attributes and ids.
pub const HEADER_ATTR: u32 = 64;
/// Tracepoint formats; the data follow the record.
pub const HEADER_TRACING_DATA: u32 = 66;
/// Pipe mode: the build id of a file.
pub const HEADER_BUILD_ID: u32 = 67;
/// All rings were read once.
pub const FINISHED_ROUND: u32 = 68;
/// Which CPU and thread each id belongs to.
pub const ID_INDEX: u32 = 69;
/// What AUX data hold.
pub const AUXTRACE_INFO: u32 = 70;
/// AUX data; the data follow the record.
pub const AUXTRACE: u32 = 71;
/// Bytes of its fields: size, offset, reference, index, thread, CPU.
pub const AUXTRACE_BYTES: u64 = 40;
/// A name, unit or scale of an event.
pub const EVENT_UPDATE: u32 = 78;
/// Pipe mode: a header feature.
pub const HEADER_FEATURE: u32 = 80;
/// Compressed records (Linux 5.2).
pub const COMPRESSED: u32 = 81;
/// Compressed records, padded to eight bytes (Linux 6.16).
pub const COMPRESSED2: u32 = 83;

/// `misc`: where the processor was (PERF_RECORD_MISC_CPUMODE_MASK): in the kernel, or in user mode.
pub const MISC_CPUMODE: u16 = 7;
pub const MISC_KERNEL: u16 = 1;
pub const MISC_USER: u16 = 2;
/// `misc` of MMAP: data, not code; of MMAP2: a build id instead of the inode (Linux 5.12).
pub const MISC_MMAP_DATA: u16 = 1 << 13;
pub const MISC_MMAP_BUILD_ID: u16 = 1 << 14;
/// `misc` of COMM: by exec (Linux 3.16).
pub const MISC_COMM_EXEC: u16 = 1 << 13;
/// `misc` of LOST_SAMPLES: dropped by a BPF filter, on purpose (perf 6.4).
pub const MISC_LOST_SAMPLES_BPF: u16 = 1 << 15;
/// Flags of AUX: data were cut off, have gaps, or samples collided.
pub const AUX_FLAGS_LOSSY: u64 = 1 | 4 | 8;
/// What perf adds to the id of an event that traced, for events whose samples it puts together from the trace.
pub const SYNTHESISED_ID: u64 = 1_000_000_000;
