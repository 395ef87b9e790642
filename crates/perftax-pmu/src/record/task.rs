//! The life of tasks: names, births, deaths, switches.

use super::cursor::Cursor;
use super::header::Header;
use super::sample_id::{SampleId, Task};
use crate::Result;
use perf_event_open_sys::bindings as abi;

/// `PERF_RECORD_COMM`: a task took a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comm<'a> {
    /// Who.
    pub task: Task,
    /// The name, without NUL.
    pub name: &'a [u8],
    /// By `execve`, not by `prctl`.
    pub by_exec: bool,
    /// Whose record it is.
    pub sample_id: SampleId,
}

/// `PERF_RECORD_FORK` or `PERF_RECORD_EXIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Who was born or died.
    pub task: Task,
    /// Its parent.
    pub parent: Task,
    /// ns on the event's clock.
    pub time_ns: u64,
    /// Whose record it is.
    pub sample_id: SampleId,
}

/// `PERF_RECORD_SWITCH` or `PERF_RECORD_SWITCH_CPU_WIDE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The task of [`Self::sample_id`] leaves the CPU; else it comes.
    pub out: bool,
    /// It was preempted while runnable (only said of leaving).
    pub preempted: bool,
    /// CPU-wide only: who comes after, or who was there before.
    pub other: Option<Task>,
    /// Whose record it is.
    pub sample_id: SampleId,
}

impl<'a> Comm<'a> {
    pub(super) fn decode(header: Header, body: &'a [u8], sample_id: SampleId) -> Result<Self> {
        let cursor = &mut Cursor::new(header.kind_name(), Header::BYTES, body);
        Ok(Self {
            task: Task::decode(cursor)?,
            name: cursor.text("name")?,
            by_exec: header.has(abi::PERF_RECORD_MISC_COMM_EXEC),
            sample_id,
        })
    }
}

impl Lifetime {
    pub(super) fn decode(header: Header, body: &[u8], sample_id: SampleId) -> Result<Self> {
        let cursor = &mut Cursor::new(header.kind_name(), Header::BYTES, body);
        let pid = cursor.u32("pid")?;
        let parent_pid = cursor.u32("parent's pid")?;
        let tid = cursor.u32("tid")?;
        let parent_tid = cursor.u32("parent's tid")?;
        let time_ns = cursor.u64("time")?;
        cursor.finish()?;
        Ok(Self { task: Task { pid, tid }, parent: Task { pid: parent_pid, tid: parent_tid }, time_ns, sample_id })
    }
}

impl Switch {
    pub(super) fn decode(header: Header, body: &[u8], sample_id: SampleId) -> Result<Self> {
        let cursor = &mut Cursor::new(header.kind_name(), Header::BYTES, body);
        let cpu_wide = header.kind == abi::PERF_RECORD_SWITCH_CPU_WIDE;
        let other = cpu_wide.then(|| Task::decode(cursor)).transpose()?;
        cursor.finish()?;
        Ok(Self {
            out: header.has(abi::PERF_RECORD_MISC_SWITCH_OUT),
            preempted: header.has(abi::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT),
            other,
            sample_id,
        })
    }
}
