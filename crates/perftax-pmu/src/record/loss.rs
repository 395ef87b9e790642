//! What is missing: lost records, lost samples, throttling.

use super::cursor::Cursor;
use super::header::Header;
use super::sample_id::SampleId;
use crate::Result;

/// `PERF_RECORD_LOST`: records of any kind did not fit into the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// `ID` of the event whose ring it was.
    pub id: u64,
    /// Records lost since the last of these.
    pub lost: u64,
    /// Whose record it is.
    pub sample_id: SampleId,
}

/// `PERF_RECORD_LOST_SAMPLES`: samples lost by the hardware (a PEBS record that the kernel could not attribute, as where
/// counters overflowed together), or by perf itself at the end of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostSamples {
    /// Samples lost.
    pub lost: u64,
    /// Lost by a BPF filter, hence on purpose (`PERF_RECORD_MISC_LOST_SAMPLES_BPF`, written by perf).
    pub by_filter: bool,
    /// Whose record it is.
    pub sample_id: SampleId,
}

/// `PERF_RECORD_THROTTLE` or `PERF_RECORD_UNTHROTTLE`: the kernel stopped an event that interrupted too often, or let it go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// ns on the event's clock.
    pub time_ns: u64,
    /// `ID` of the event.
    pub id: u64,
    /// `STREAM_ID` of the event.
    pub stream_id: u64,
    /// Whose record it is.
    pub sample_id: SampleId,
}

/// Shared with `PERF_RECORD_MISC_EXT_RESERVED`; perf's own, so the kernel's header does not name it.
const MISC_LOST_SAMPLES_BPF: u32 = 1 << 15;

impl Lost {
    pub(super) fn decode(header: Header, body: &[u8], sample_id: SampleId) -> Result<Self> {
        let cursor = &mut Cursor::new(header.kind_name(), Header::BYTES, body);
        let id = cursor.u64("id")?;
        let lost = cursor.u64("lost")?;
        cursor.finish()?;
        Ok(Self { id, lost, sample_id })
    }
}

impl LostSamples {
    pub(super) fn decode(header: Header, body: &[u8], sample_id: SampleId) -> Result<Self> {
        let cursor = &mut Cursor::new(header.kind_name(), Header::BYTES, body);
        let lost = cursor.u64("lost")?;
        cursor.finish()?;
        Ok(Self { lost, by_filter: header.has(MISC_LOST_SAMPLES_BPF), sample_id })
    }
}

impl Throttle {
    pub(super) fn decode(header: Header, body: &[u8], sample_id: SampleId) -> Result<Self> {
        let cursor = &mut Cursor::new(header.kind_name(), Header::BYTES, body);
        let time_ns = cursor.u64("time")?;
        let id = cursor.u64("id")?;
        let stream_id = cursor.u64("stream id")?;
        cursor.finish()?;
        Ok(Self { time_ns, id, stream_id, sample_id })
    }
}
