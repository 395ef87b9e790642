//! What the attribute fixed about the shape of its records.

use super::cursor::HEADER_BYTES;
use perf_event_open_sys::bindings as abi;

/// The fields of `perf_event_attr` that decide how the bytes of its records are to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// `PERF_SAMPLE_*`.
    pub sample_type: u64,
    /// `PERF_FORMAT_*`.
    pub read_format: u64,
    /// `PERF_SAMPLE_BRANCH_*`.
    pub branch_sample_type: u64,
    /// Which registers a `REGS_USER` dump holds.
    pub sample_regs_user: u64,
    /// Which registers a `REGS_INTR` dump holds.
    pub sample_regs_intr: u64,
    /// Whether records other than samples end in the identity of their event.
    pub sample_id_all: bool,
}

/// The parts of a sample whose length the attribute does not fix, to estimate a sample's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// Entries of the call chain, context markers included (one per kernel and one per user part).
    pub callchain_entries: u64,
    /// Bytes of stack dumped (`sample_stack_user`, less where the stack is shorter).
    pub stack_bytes: u64,
    /// Bytes of raw data before padding: a tracepoint's record, IBS's registers.
    pub raw_bytes: u64,
    /// Branch entries (at most the depth of the LBR).
    pub branches: u64,
    /// Events in the group, where the read format has `GROUP`.
    pub group_events: u64,
    /// Bytes of AUX data per sample.
    pub aux_bytes: u64,
}

/// The sample fields of one word each, wherever they stand.
const ONE_WORD: u64 = (abi::PERF_SAMPLE_IDENTIFIER
    | abi::PERF_SAMPLE_IP
    | abi::PERF_SAMPLE_TID
    | abi::PERF_SAMPLE_TIME
    | abi::PERF_SAMPLE_ADDR
    | abi::PERF_SAMPLE_ID
    | abi::PERF_SAMPLE_STREAM_ID
    | abi::PERF_SAMPLE_CPU
    | abi::PERF_SAMPLE_PERIOD
    | abi::PERF_SAMPLE_DATA_SRC
    | abi::PERF_SAMPLE_TRANSACTION
    | abi::PERF_SAMPLE_PHYS_ADDR
    | abi::PERF_SAMPLE_CGROUP
    | abi::PERF_SAMPLE_DATA_PAGE_SIZE
    | abi::PERF_SAMPLE_CODE_PAGE_SIZE) as u64;

/// The sample fields that other records repeat at their end.
const IN_TRAILER: u64 = (abi::PERF_SAMPLE_TID
    | abi::PERF_SAMPLE_TIME
    | abi::PERF_SAMPLE_ID
    | abi::PERF_SAMPLE_STREAM_ID
    | abi::PERF_SAMPLE_CPU
    | abi::PERF_SAMPLE_IDENTIFIER) as u64;

impl Layout {
    /// Whether samples hold a field (`PERF_SAMPLE_*`).
    #[inline]
    pub fn samples(&self, field: u32) -> bool {
        self.sample_type & u64::from(field) != 0
    }

    /// Whether counts are read with a part (`PERF_FORMAT_*`).
    #[inline]
    pub(super) fn reads(&self, part: u32) -> bool {
        self.read_format & u64::from(part) != 0
    }

    /// Whether branch stacks hold a part (`PERF_SAMPLE_BRANCH_*`).
    #[inline]
    pub(super) fn branches(&self, part: u32) -> bool {
        self.branch_sample_type & u64::from(part) != 0
    }

    /// Bytes of the trailer that says whose record it is; 0 without `sample_id_all`.
    pub fn trailer_bytes(&self) -> usize {
        if self.sample_id_all { 8 * (self.sample_type & IN_TRAILER).count_ones() as usize } else { 0 }
    }

    /// Bytes that one sample of this layout takes in the ring, its header included, if its variable parts are as in
    /// `payload`. A register dump is taken as present (the kernel writes one word only where there are no registers, as
    /// for the user registers of a kernel thread), so this is the size of a full sample.
    ///
    /// A record never exceeds 65535 bytes: the kernel cuts the stack dump first. The estimate is cut likewise.
    pub fn sample_size_bytes(&self, payload: &Payload) -> u64 {
        let mut words = u64::from((self.sample_type & ONE_WORD).count_ones());
        if self.samples(abi::PERF_SAMPLE_WEIGHT | abi::PERF_SAMPLE_WEIGHT_STRUCT) {
            words += 1;
        }
        if self.samples(abi::PERF_SAMPLE_READ) {
            words += self.read_words(payload.group_events);
        }
        if self.samples(abi::PERF_SAMPLE_CALLCHAIN) {
            words = words.saturating_add(payload.callchain_entries).saturating_add(1);
        }
        if self.samples(abi::PERF_SAMPLE_RAW) {
            // A 32-bit length in front, and both together padded to words; an absent payload still takes one word.
            words = words.saturating_add(payload.raw_bytes.saturating_add(4).div_ceil(8));
        }
        if self.samples(abi::PERF_SAMPLE_BRANCH_STACK) {
            let per_branch = if self.branches(abi::PERF_SAMPLE_BRANCH_COUNTERS) { 4 } else { 3 };
            let index = u64::from(self.branches(abi::PERF_SAMPLE_BRANCH_HW_INDEX));
            words = words.saturating_add(payload.branches.saturating_mul(per_branch)).saturating_add(1 + index);
        }
        if self.samples(abi::PERF_SAMPLE_REGS_USER) {
            words = words.saturating_add(1 + u64::from(self.sample_regs_user.count_ones()));
        }
        if self.samples(abi::PERF_SAMPLE_REGS_INTR) {
            words = words.saturating_add(1 + u64::from(self.sample_regs_intr.count_ones()));
        }
        if self.samples(abi::PERF_SAMPLE_STACK_USER) {
            let dump = payload.stack_bytes.div_ceil(8);
            // Size in front, and after a dump that is not empty how much of it is valid.
            words = words.saturating_add(dump).saturating_add(1 + u64::from(dump > 0));
        }
        if self.samples(abi::PERF_SAMPLE_AUX) {
            words = words.saturating_add(payload.aux_bytes.div_ceil(8)).saturating_add(1);
        }
        words.saturating_mul(8).saturating_add(HEADER_BYTES as u64).min(LARGEST_RECORD_BYTES)
    }

    /// Words of one read of counts.
    fn read_words(&self, group_events: u64) -> u64 {
        let times = u64::from(self.reads(abi::PERF_FORMAT_TOTAL_TIME_ENABLED))
            + u64::from(self.reads(abi::PERF_FORMAT_TOTAL_TIME_RUNNING));
        let each = 1 + u64::from(self.reads(abi::PERF_FORMAT_ID)) + u64::from(self.reads(abi::PERF_FORMAT_LOST));
        if self.reads(abi::PERF_FORMAT_GROUP) {
            group_events.max(1).saturating_mul(each).saturating_add(1 + times)
        } else {
            each + times
        }
    }
}

/// `header.size` has 16 bits and sizes are whole words.
const LARGEST_RECORD_BYTES: u64 = 65_528;
