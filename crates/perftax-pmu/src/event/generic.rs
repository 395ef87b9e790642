//! Names that the kernel gives the same number on every machine (linux/perf_event.h): generic hardware events and
//! software events.

/// One name and its synonyms.
pub(super) struct Named {
    /// perf's first name, then the synonyms.
    pub(super) names: &'static [&'static str],
    /// `perf_event_attr.config`.
    pub(super) config: u64,
    /// What it counts.
    pub(super) meaning: &'static str,
}

const fn named(names: &'static [&'static str], config: u64, meaning: &'static str) -> Named {
    Named { names, config, meaning }
}

/// `enum perf_hw_id`.
pub(super) const HARDWARE: &[Named] = &[
    named(&["cycles", "cpu-cycles"], 0, "core clock cycles while not halted"),
    named(&["instructions"], 1, "instructions retired"),
    named(&["cache-references"], 2, "accesses to the last cache level, as a rule"),
    named(&["cache-misses"], 3, "misses of the last cache level, as a rule"),
    named(&["branches", "branch-instructions"], 4, "branch instructions retired"),
    named(&["branch-misses"], 5, "branches predicted wrongly"),
    named(&["bus-cycles"], 6, "bus clock cycles"),
    named(&["stalled-cycles-frontend", "idle-cycles-frontend"], 7, "cycles in which the front end delivered nothing"),
    named(&["stalled-cycles-backend", "idle-cycles-backend"], 8, "cycles in which the back end accepted nothing"),
    named(&["ref-cycles"], 9, "cycles at the reference clock while not halted"),
];

/// `enum perf_sw_ids`.
pub(super) const SOFTWARE: &[Named] = &[
    named(&[CPU_CLOCK_NAME], CPU_CLOCK, "the kernel's timer, per CPU; a sample every period, in ns"),
    named(&["task-clock"], TASK_CLOCK, "the kernel's timer, while the thread runs; a sample every period, in ns"),
    named(&["page-faults", "faults"], 2, "page faults, minor and major"),
    named(&["context-switches", "cs"], 3, "context switches; they happen in the kernel, so :u counts none"),
    named(&["cpu-migrations", "migrations"], 4, "moves of a thread to another CPU"),
    named(&["minor-faults"], 5, "page faults served without I/O"),
    named(&["major-faults"], 6, "page faults that had to wait for I/O"),
    named(&["alignment-faults"], 7, "unaligned accesses that the kernel fixed up; none on x86"),
    named(&["emulation-faults"], 8, "instructions that the kernel emulated; none on x86"),
    named(&["dummy"], 9, "counts nothing; carries side-band records"),
    named(&["bpf-output"], 10, "records that BPF programs write"),
    named(&["cgroup-switches"], 11, "context switches into another control group (Linux 5.13)"),
];

const CPU_CLOCK_NAME: &str = "cpu-clock";

/// `PERF_COUNT_SW_CPU_CLOCK`: driven by a high-resolution timer.
pub(super) const CPU_CLOCK: u64 = 0;

/// `PERF_COUNT_SW_TASK_CLOCK`: the same timer, stopped while the thread is off the CPU.
pub(super) const TASK_CLOCK: u64 = 1;

/// Looks a name or synonym up.
pub(super) fn find(table: &'static [Named], name: &str) -> Option<&'static Named> {
    table.iter().find(|entry| entry.names.contains(&name))
}
