//! Where fields stand that are always at the same place: enough to tell whose a record is without decoding it, whatever its byte order.
//!
//! Samples have most one-word fields at the front, in the order of the kernel's `perf_output_sample`; other records have some of them at the
//! very end, in the order of `perf_event__output_id_sample`.

use perf_event_open_sys::bindings as abi;

use super::layout::Layout;

/// Offsets in bytes, from the front of a sample's body or of a trailer; none where the record has no such field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offsets {
    /// `IDENTIFIER`, or `ID` without it.
    pub id: Option<usize>,
    /// `TID`: process, then thread, 32 bits each.
    pub task: Option<usize>,
    /// `TIME`, ns.
    pub time: Option<usize>,
    /// `CPU`, 32 bits.
    pub cpu: Option<usize>,
    /// `IP`.
    pub ip: Option<usize>,
    /// `PERIOD`.
    pub period: Option<usize>,
    /// All of them.
    pub bytes: usize,
}

/// The fixed places of a layout's records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FixedPlaces {
    /// From the front of a sample's body.
    pub sample: Offsets,
    /// From the front of the trailer that ends other records; without bytes where they have none.
    pub trailer: Offsets,
    /// Where counts begin in a sample's body (`READ`).
    pub counts: Option<usize>,
    /// Where the number of a call chain's entries stands, if no field of any length is before it.
    pub callchain: Option<usize>,
    /// How far before the end of a sample's body stands how much of the user's stack was copied, if no field of any length is behind it.
    pub stack_from_end: Option<usize>,
}

/// The fields in front of a sample's first one of any length.
const FRONT: [u32; 9] = [
    abi::PERF_SAMPLE_IDENTIFIER,
    abi::PERF_SAMPLE_IP,
    abi::PERF_SAMPLE_TID,
    abi::PERF_SAMPLE_TIME,
    abi::PERF_SAMPLE_ADDR,
    abi::PERF_SAMPLE_ID,
    abi::PERF_SAMPLE_STREAM_ID,
    abi::PERF_SAMPLE_CPU,
    abi::PERF_SAMPLE_PERIOD,
];
/// The fields of one word behind the copy of the stack.
const BEHIND_STACK: [u32; 8] = [
    abi::PERF_SAMPLE_WEIGHT,
    abi::PERF_SAMPLE_WEIGHT_STRUCT,
    abi::PERF_SAMPLE_DATA_SRC,
    abi::PERF_SAMPLE_TRANSACTION,
    abi::PERF_SAMPLE_PHYS_ADDR,
    abi::PERF_SAMPLE_CGROUP,
    abi::PERF_SAMPLE_DATA_PAGE_SIZE,
    abi::PERF_SAMPLE_CODE_PAGE_SIZE,
];
/// The fields of the trailer.
const TRAILER: [u32; 6] = [
    abi::PERF_SAMPLE_TID,
    abi::PERF_SAMPLE_TIME,
    abi::PERF_SAMPLE_ID,
    abi::PERF_SAMPLE_STREAM_ID,
    abi::PERF_SAMPLE_CPU,
    abi::PERF_SAMPLE_IDENTIFIER,
];

impl Offsets {
    fn of(layout: &Layout, order: &[u32]) -> Self {
        let mut offsets = Self::default();
        for &field in order.iter().filter(|&&field| layout.samples(field)) {
            let at = Some(offsets.bytes);
            match field {
                abi::PERF_SAMPLE_IDENTIFIER => offsets.id = at,
                abi::PERF_SAMPLE_ID => offsets.id = offsets.id.or(at),
                abi::PERF_SAMPLE_TID => offsets.task = at,
                abi::PERF_SAMPLE_TIME => offsets.time = at,
                abi::PERF_SAMPLE_CPU => offsets.cpu = at,
                abi::PERF_SAMPLE_IP => offsets.ip = at,
                abi::PERF_SAMPLE_PERIOD => offsets.period = at,
                _ => {}
            }
            offsets.bytes += 8;
        }
        offsets
    }
}

impl Layout {
    /// Where fields stand that are always at the same place.
    pub fn fixed_places(&self) -> FixedPlaces {
        let sample = Offsets::of(self, &FRONT);
        let is_cut_off = self.samples(abi::PERF_SAMPLE_REGS_INTR) || self.samples(abi::PERF_SAMPLE_AUX);
        let has_fixed_stack = self.samples(abi::PERF_SAMPLE_STACK_USER) && !is_cut_off;
        let has_fixed_chain = self.samples(abi::PERF_SAMPLE_CALLCHAIN) && !self.samples(abi::PERF_SAMPLE_READ);
        FixedPlaces {
            trailer: if self.sample_id_all { Offsets::of(self, &TRAILER) } else { Offsets::default() },
            counts: self.samples(abi::PERF_SAMPLE_READ).then_some(sample.bytes),
            callchain: has_fixed_chain.then_some(sample.bytes),
            stack_from_end: has_fixed_stack.then(|| 8 + Offsets::of(self, &BEHIND_STACK).bytes),
            sample,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use crate::record::{Header, Record, decode};

    /// Every combination of the front's fields, told by the decoder of whole samples: it reads each word as that of its place.
    #[test]
    fn places_are_those_that_the_decoder_reads() {
        for chosen in 0..1_u32 << FRONT.len() {
            let sample_type =
                FRONT.iter().enumerate().filter(|(i, _)| chosen >> i & 1 == 1).map(|(_, field)| u64::from(*field)).sum();
            let layout = Layout { sample_type, sample_id_all: true, ..Layout::default() };
            let places = layout.fixed_places();
            let body: Vec<u8> = (0..places.sample.bytes as u64 / 8).flat_map(|word| (100 + word).to_le_bytes()).collect();
            let header = Header { kind: 9, misc: 0, size: (Header::BYTES + body.len()) as u16 };
            let Record::Sample(sample) = decode(header, &body, &layout).unwrap() else { panic!("no sample") };
            let word = |at: Option<usize>| at.map(|at| 100 + at as u64 / 8);
            assert_eq!(sample.identifier.or(sample.id), word(places.sample.id));
            assert_eq!(
                (sample.ip, sample.time_ns, sample.period),
                (word(places.sample.ip), word(places.sample.time), word(places.sample.period))
            );
            assert_eq!(sample.task.map(|task| u64::from(task.pid)), word(places.sample.task));
            assert_eq!(sample.cpu.map(u64::from), word(places.sample.cpu));
            assert_eq!(places.trailer.bytes, layout.trailer_bytes());
        }
    }
}
