//! Whose record it is: the trailer of every record but samples.

use super::cursor::Cursor;
use super::layout::Layout;
use crate::Result;
use perf_event_open_sys::bindings as abi;

/// A process and one of its threads. `u32::MAX` where the kernel could not name it in the reader's namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Task {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
}

impl Task {
    #[inline]
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(Self { pid: cursor.u32("pid")?, tid: cursor.u32("tid")? })
    }
}

/// `struct sample_id`: present as far as `sample_type` asks, with `sample_id_all`; all empty otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleId {
    /// `TID`.
    pub task: Option<Task>,
    /// `TIME`: ns on the event's clock.
    pub time_ns: Option<u64>,
    /// `ID`: of the group's leader where events are inherited.
    pub id: Option<u64>,
    /// `STREAM_ID`: of this very event.
    pub stream_id: Option<u64>,
    /// `CPU`.
    pub cpu: Option<u32>,
    /// `IDENTIFIER`: the same as `ID`, at a fixed place.
    pub identifier: Option<u64>,
}

impl SampleId {
    /// Cuts the trailer off `body` and decodes it.
    pub(super) fn split<'a>(what: &'static str, body: &'a [u8], layout: &Layout) -> Result<(&'a [u8], Self)> {
        let bytes = layout.trailer_bytes();
        let Some((front, trailer)) = body.len().checked_sub(bytes).and_then(|middle| body.split_at_checked(middle)) else {
            return Err(Cursor::new(what, super::Header::BYTES, body)
                .malformed(format!("sample_id needs {bytes} bytes, {} are left", body.len())));
        };
        let mut sample_id = Self::default();
        if bytes > 0 {
            let cursor = &mut Cursor::new(what, super::Header::BYTES + front.len(), trailer);
            sample_id.task = layout.samples(abi::PERF_SAMPLE_TID).then(|| Task::decode(cursor)).transpose()?;
            sample_id.time_ns = layout.samples(abi::PERF_SAMPLE_TIME).then(|| cursor.u64("TIME")).transpose()?;
            sample_id.id = layout.samples(abi::PERF_SAMPLE_ID).then(|| cursor.u64("ID")).transpose()?;
            sample_id.stream_id = layout.samples(abi::PERF_SAMPLE_STREAM_ID).then(|| cursor.u64("STREAM_ID")).transpose()?;
            sample_id.cpu = layout.samples(abi::PERF_SAMPLE_CPU).then(|| cpu(cursor)).transpose()?;
            sample_id.identifier = layout.samples(abi::PERF_SAMPLE_IDENTIFIER).then(|| cursor.u64("IDENTIFIER")).transpose()?;
        }
        Ok((front, sample_id))
    }
}

/// `CPU` with its reserved half.
#[inline]
pub(super) fn cpu(cursor: &mut Cursor<'_>) -> Result<u32> {
    let cpu = cursor.u32("CPU")?;
    cursor.u32("CPU's reserved half")?;
    Ok(cpu)
}
