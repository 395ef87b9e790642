//! The AUX area: trace that hardware wrote beside the ring (SPE, Intel PT).

use super::cursor::Cursor;
use super::header::Header;
use super::sample_id::{SampleId, Task};
use crate::Result;
use perf_event_open_sys::bindings as abi;

/// `PERF_RECORD_AUX`: new data are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aux {
    /// Where they begin; counts on without wrapping.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// What went wrong, and the format.
    pub flags: AuxFlags,
    /// Whose record it is.
    pub sample_id: SampleId,
}

/// `PERF_AUX_FLAG_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AuxFlags(pub u64);

/// `PERF_RECORD_ITRACE_START`: from here on a trace is of this task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItraceStart {
    /// Who.
    pub task: Task,
    /// Whose record it is.
    pub sample_id: SampleId,
}

/// `PERF_RECORD_AUX_OUTPUT_HW_ID`: by which number the hardware names the event in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuxOutputHardwareId {
    /// The number.
    pub hardware_id: u64,
    /// Which event.
    pub sample_id: SampleId,
}

impl AuxFlags {
    fn has(self, bit: u32) -> bool {
        self.0 & u64::from(bit) != 0
    }

    /// Cut to what the buffer had room for: data are missing.
    pub fn truncated(self) -> bool {
        self.has(abi::PERF_AUX_FLAG_TRUNCATED)
    }

    /// A snapshot that overwrites itself; what it holds may begin anywhere.
    pub fn overwrite(self) -> bool {
        self.has(abi::PERF_AUX_FLAG_OVERWRITE)
    }

    /// With gaps.
    pub fn partial(self) -> bool {
        self.has(abi::PERF_AUX_FLAG_PARTIAL)
    }

    /// Samples collided: SPE dropped one because the one before was still being made.
    pub fn collision(self) -> bool {
        self.has(abi::PERF_AUX_FLAG_COLLISION)
    }

    /// Format of the trace, where a PMU writes several (CoreSight: 0 formatted, 1 raw).
    pub fn pmu_format(self) -> u8 {
        ((self.0 & u64::from(abi::PERF_AUX_FLAG_PMU_FORMAT_TYPE_MASK)) >> 8) as u8
    }
}

impl Aux {
    pub(super) fn decode(header: Header, body: &[u8], sample_id: SampleId) -> Result<Self> {
        let cursor = &mut Cursor::new(header.kind_name(), Header::BYTES, body);
        let offset = cursor.u64("offset")?;
        let size = cursor.u64("size")?;
        let flags = AuxFlags(cursor.u64("flags")?);
        cursor.finish()?;
        Ok(Self { offset, size, flags, sample_id })
    }
}

impl ItraceStart {
    pub(super) fn decode(header: Header, body: &[u8], sample_id: SampleId) -> Result<Self> {
        let cursor = &mut Cursor::new(header.kind_name(), Header::BYTES, body);
        let task = Task::decode(cursor)?;
        cursor.finish()?;
        Ok(Self { task, sample_id })
    }
}

impl AuxOutputHardwareId {
    pub(super) fn decode(header: Header, body: &[u8], sample_id: SampleId) -> Result<Self> {
        let cursor = &mut Cursor::new(header.kind_name(), Header::BYTES, body);
        let hardware_id = cursor.u64("hardware id")?;
        cursor.finish()?;
        Ok(Self { hardware_id, sample_id })
    }
}
