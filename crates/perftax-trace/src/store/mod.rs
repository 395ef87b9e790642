//! A trace on disk: a folder of Parquet tables. Times are CLOCK_MONOTONIC_RAW in ns; rows are in order of time.
//!
//! | table | columns (int64, but for text) |
//! |---|---|
//! | marks | time_ns, tid, id, kind (1 begin, 2 end, 3 switch, 4 wake) |
//! | samples | time_ns, cpu, pid, tid, ip, tag |
//! | kernel | time_ns, cpu, tid, what, other |
//! | events | time_ns, cpu, pid, tid, ip, address, event (from 0, in the order asked for), object; where events are counted by message |
//! | executed | time_ns, tid, by (0 the thread itself, 1 us, 2 us as it leaves its CPU), instructions, cycles: what the thread has executed by then; both -1: not known |
//! | objects | object, name (text): what lies at those addresses; 0 is what is not known |
//! | symbols | pid (0: the kernel's), ip, function (text), module (text) |
//! | labels | id, text |
//! | relations | id, parent (0: none), trace_high, trace_low, span: what others call it (zeros: nothing); where programs say so |
//! | hops | time_ns, tid, id, way (1 sent to another process, 2 received; 3 and 4 likewise where nobody said so, but a guest's message began or ended), trace_high, trace_low, span: what others call it then |
//! | clocks | raw_ns, within_ns, realtime_ns, state (0 not known, 1 kept right, 2 not), tai_offset_s, max_error_ns, estimated_error_ns, frequency (1/65536 ppm), offset_ns (what is left to be made good): the host's, again and again |
//! | windows | from_ns, to_ns: when recording was on, where it was on and off in turn (`--budget`); marks there are of all time |
//!
//! `what` of the kernel's records, and what `other` then is:
//!
//! | what | is | other |
//! |---|---|---|
//! | 1, 2 | the thread leaves the CPU by waiting, by preemption | the thread that comes |
//! | 3 | a thread is woken | that thread |
//! | 4, 5, 6 | an irq, a softirq, a vector begins | its number |
//! | 7, 8, 9 | it ends | its number |
//! | 10, 11 | a system call begins, ends | its number |
//! | 12, 13 | a page fault begins, ends | 0 |
//! | 14 | the thread has run since the last of these | ns |
//! | 15 | a thread goes to another CPU | that thread, and above bit 32 the CPU and 1; 0 there where that is not known |
//! | 16 | TLB entries are flushed | the reason |
//! | 17 | a non-maskable interrupt's handler ends | the ns that it took |
//! | 18, 19 | recording goes off, is on again (`--budget`) | 0 |

mod background;
mod clocks;
mod codes;
mod merge;
mod reader;
mod relations;
mod table;
mod writer;

pub use background::Background;
pub use clocks::{read_clocks, realtime_ns, write_clocks};
pub use reader::{Store, Symbols};
pub use relations::{Relations, write_relations};
pub use table::{Function, TableReader};
pub use writer::{Room, StoreWriter, write_objects, write_windows};

use crate::executed::{Executed, ReadBy, Reading};
use crate::mark::Mark;
pub use crate::row::SampleRow;

/// The tables and their columns.
pub(crate) const MARKS: (&str, [&str; 4]) = ("marks.parquet", ["time_ns", "tid", "id", "kind"]);
pub(crate) const SAMPLES: (&str, [&str; 6]) = ("samples.parquet", ["time_ns", "cpu", "pid", "tid", "ip", "tag"]);
pub(crate) const KERNEL: (&str, [&str; 5]) = ("kernel.parquet", ["time_ns", "cpu", "tid", "what", "other"]);
pub(crate) const EVENTS: (&str, [&str; 8]) =
    ("events.parquet", ["time_ns", "cpu", "pid", "tid", "ip", "address", "event", "object"]);
pub(crate) const EXECUTED: (&str, [&str; 5]) = ("executed.parquet", ["time_ns", "tid", "by", "instructions", "cycles"]);
pub(crate) const OBJECTS: (&str, ([&str; 1], [&str; 1])) = ("objects.parquet", (["object"], ["name"]));
pub(crate) const SYMBOLS: &str = "symbols.parquet";
pub(crate) const LABELS: &str = "labels.parquet";
pub(crate) const WINDOWS: &str = "windows.parquet";
pub(crate) const WINDOW_COLUMNS: ([&str; 2], [&str; 0]) = (["from_ns", "to_ns"], []);

/// Rows of a table that are written together.
pub(crate) const GROUP_ROWS: usize = 1 << 18;

/// A mark, as its row.
pub(crate) fn mark_row(mark: &Mark) -> [u64; 4] {
    [mark.time_ns, u64::from(mark.tid), mark.id, codes::of_kind(mark.kind)]
}

/// What a thread has executed, as its row.
pub(crate) fn executed_row(reading: &Reading) -> [u64; 5] {
    let Executed { instructions, cycles } = reading.executed.unwrap_or(Executed { instructions: u64::MAX, cycles: u64::MAX });
    [reading.time_ns, u64::from(reading.tid), reading.by as u64, instructions, cycles]
}

/// The same from its row.
pub(crate) fn executed_of([time_ns, tid, by, instructions, cycles]: [u64; 5]) -> Reading {
    let is_known = instructions != u64::MAX && cycles != u64::MAX;
    let executed = is_known.then_some(Executed { instructions, cycles });
    let by = match by {
        0 => ReadBy::Itself,
        1 => ReadBy::Us,
        _ => ReadBy::UsAsItLeaves,
    };
    Reading { time_ns, tid: tid as u32, executed, by }
}

#[cfg(test)]
mod tests;
