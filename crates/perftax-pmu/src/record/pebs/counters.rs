//! Counters that a record holds: "counters snapshotting" of adaptive records from format 6 on, and of architectural ones.

use super::super::cursor::Cursor;
use super::super::words::Words;
use crate::Result;

/// What the header says where a record holds the top-down metrics (Linux 7.1 `asm/perf_event.h`, `INTEL_CNTR_METRICS`).
const METRICS: u32 = 3;

/// Counters as they stood when the record was written: a header of 16 bytes, then a word for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted<'a> {
    /// Bit *n* set where general counter *n* is there.
    pub general_mask: u32,
    /// Bit *n* set where fixed counter *n* is there.
    pub fixed_mask: u32,
    /// Values of the general counters, in order of number.
    pub general: Words<'a>,
    /// Values of the fixed counters, in order of number.
    pub fixed: Words<'a>,
    /// The base (slots) and the metrics, where the record has them.
    pub metrics: Option<(u64, u64)>,
}

impl<'a> Counted<'a> {
    pub(super) fn decode(c: &mut Cursor<'a>) -> Result<Self> {
        let header = c.clone();
        let (general_mask, fixed_mask) = (c.u32("mask of general counters")?, c.u32("mask of fixed counters")?);
        let (metrics, _reserved) = (c.u32("metrics")?, c.u32("reserved word of counters")?);
        // How long the group is hangs on it: other values are not guessed at.
        if metrics != 0 && metrics != METRICS {
            return Err(header.malformed(format!("metrics are {metrics:#x}, known are 0 and {METRICS}")));
        }
        let general = Words::new(c.chunks(general_mask.count_ones().into(), "general counters")?);
        let fixed = Words::new(c.chunks(fixed_mask.count_ones().into(), "fixed counters")?);
        let metrics =
            (metrics == METRICS).then(|| Ok::<_, crate::Error>((c.u64("metrics' base")?, c.u64("metrics")?))).transpose()?;
        Ok(Self { general_mask, fixed_mask, general, fixed, metrics })
    }
}
