//! How many records of what kind went by, and what is missing.

use super::cursor::Cursor;
use super::header::Header;
use crate::Result;
use perf_event_open_sys::bindings as abi;
use std::collections::BTreeMap;

/// Counts over records: all kinds accounted for, none decoded further than needed, so it fits into a drain loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Samples.
    pub samples: u64,
    /// Records that did not fit into the ring (sum over `LOST`). Samples nearly always, but not only.
    pub lost: u64,
    /// Samples that the hardware or perf reported as lost (sum over `LOST_SAMPLES`).
    pub lost_samples: u64,
    /// Times that an event was throttled.
    pub throttled: u64,
    /// Times that one was let go on.
    pub unthrottled: u64,
    /// `AUX` records.
    pub aux_records: u64,
    /// Bytes announced by them.
    pub aux_bytes: u64,
    /// Those with collided samples.
    pub aux_collisions: u64,
    /// Those that were cut.
    pub aux_truncated: u64,
    /// Those with gaps.
    pub aux_partial: u64,
    /// All other records, by kind.
    pub other: BTreeMap<u32, u64>,
    /// Bytes of all records, headers included, AUX data not.
    pub bytes: u64,
}

impl Tally {
    /// Counts one record.
    ///
    /// # Errors
    /// [`crate::Error::Malformed`] where a record that says what is missing ends before its number; it is not counted then.
    #[inline]
    pub fn add(&mut self, header: Header, body: &[u8]) -> Result<()> {
        if header.kind == abi::PERF_RECORD_SAMPLE {
            self.samples += 1;
        } else {
            self.add_other(header, body)?;
        }
        self.bytes += u64::from(header.size);
        Ok(())
    }

    fn add_other(&mut self, header: Header, body: &[u8]) -> Result<()> {
        let cursor = &mut Cursor::new(header.kind_name(), Header::BYTES, body);
        match header.kind {
            abi::PERF_RECORD_LOST => {
                cursor.u64("id")?;
                self.lost = self.lost.saturating_add(cursor.u64("lost")?);
            }
            abi::PERF_RECORD_LOST_SAMPLES => self.lost_samples = self.lost_samples.saturating_add(cursor.u64("lost")?),
            abi::PERF_RECORD_THROTTLE => self.throttled += 1,
            abi::PERF_RECORD_UNTHROTTLE => self.unthrottled += 1,
            abi::PERF_RECORD_AUX => {
                cursor.u64("offset")?;
                let size = cursor.u64("size")?;
                let flags = super::AuxFlags(cursor.u64("flags")?);
                self.aux_records += 1;
                self.aux_bytes = self.aux_bytes.saturating_add(size);
                self.aux_collisions += u64::from(flags.collision());
                self.aux_truncated += u64::from(flags.truncated());
                self.aux_partial += u64::from(flags.partial());
            }
            kind => *self.other.entry(kind).or_default() += 1,
        }
        Ok(())
    }

    /// Adds what another drain counted.
    pub fn merge(&mut self, more: &Self) {
        self.samples += more.samples;
        self.lost = self.lost.saturating_add(more.lost);
        self.lost_samples = self.lost_samples.saturating_add(more.lost_samples);
        self.throttled += more.throttled;
        self.unthrottled += more.unthrottled;
        self.aux_records += more.aux_records;
        self.aux_bytes = self.aux_bytes.saturating_add(more.aux_bytes);
        self.aux_collisions += more.aux_collisions;
        self.aux_truncated += more.aux_truncated;
        self.aux_partial += more.aux_partial;
        for (kind, count) in &more.other {
            *self.other.entry(*kind).or_default() += count;
        }
        self.bytes += more.bytes;
    }

    /// Whether something is missing that the kernel knows of: such a run is no measurement.
    pub fn is_discarded(&self) -> bool {
        [self.lost, self.lost_samples, self.throttled, self.aux_collisions, self.aux_truncated, self.aux_partial]
            .iter()
            .any(|&n| n > 0)
    }
}
