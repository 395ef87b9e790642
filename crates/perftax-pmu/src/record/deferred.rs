//! Records that complete or accompany samples: deferred call chains, counts at a thread's end.

use super::callchain::Callchain;
use super::counts::Counts;
use super::cursor::Cursor;
use super::header::Header;
use super::layout::Layout;
use super::sample_id::{SampleId, Task};
use super::words::Words;
use crate::Result;

/// `PERF_RECORD_CALLCHAIN_DEFERRED`: the user part of earlier samples' chains, taken when the task went back to user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallchainDeferred<'a> {
    /// What the samples have after `PERF_CONTEXT_USER_DEFERRED`.
    pub cookie: u64,
    /// The user part.
    pub callchain: Callchain<'a>,
    /// Whose record it is.
    pub sample_id: SampleId,
}

/// `PERF_RECORD_READ`: the counts of a thread that ended (`inherit_stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read<'a> {
    /// Who.
    pub task: Task,
    /// The counts.
    pub counts: Counts<'a>,
    /// Whose record it is.
    pub sample_id: SampleId,
}

impl<'a> CallchainDeferred<'a> {
    pub(super) fn decode(header: Header, body: &'a [u8], sample_id: SampleId) -> Result<Self> {
        let cursor = &mut Cursor::new(header.kind_name(), Header::BYTES, body);
        let cookie = cursor.u64("cookie")?;
        let count = cursor.u64("number of entries")?;
        let callchain = Callchain { entries: Words::new(cursor.chunks(count, "entries")?) };
        cursor.finish()?;
        Ok(Self { cookie, callchain, sample_id })
    }
}

impl<'a> Read<'a> {
    pub(super) fn decode(header: Header, body: &'a [u8], layout: &Layout, sample_id: SampleId) -> Result<Self> {
        let cursor = &mut Cursor::new(header.kind_name(), Header::BYTES, body);
        let task = Task::decode(cursor)?;
        let counts = Counts::decode(cursor, layout)?;
        cursor.finish()?;
        Ok(Self { task, counts, sample_id })
    }
}
