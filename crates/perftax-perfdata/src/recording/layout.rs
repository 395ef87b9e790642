//! Where a record says which event, thread, time and CPU it belongs to.
//!
//! Samples carry the fields at the front, in the order of the kernel's `perf_output_sample`; other records carry some of
//! them at the very end, in the order of `perf_event__output_id_sample`.

use super::attribute::{Attribute, sample_type as bit};
use super::bytes::Order;

/// The few fields of a record that a bill needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Belonging {
    /// Process and thread.
    pub thread: Option<(u32, u32)>,
    /// Time, ns of the recording's clock.
    pub time_ns: Option<u64>,
    /// CPU.
    pub cpu: Option<u32>,
}

/// Offsets of the fields for one event's records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// From the front of a sample's body.
    sample: Fields,
    /// Where counter values begin in a sample's body, if it has them.
    pub sample_read: Option<usize>,
    /// Where the number of a call chain's entries stands, if that is a fixed place.
    pub sample_chain: Option<usize>,
    /// How far before the end of a sample's body stands how much of the user's stack was copied, if that is a fixed place.
    pub stack_from_end: Option<usize>,
    /// From the front of the trailer.
    trailer: Fields,
    /// Bytes of trailer at the end of other records; 0 where they carry none.
    trailer_bytes: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Fields {
    id: Option<usize>,
    thread: Option<usize>,
    time: Option<usize>,
    cpu: Option<usize>,
    ip: Option<usize>,
    period: Option<usize>,
}

impl Layout {
    /// The layout of an event's records.
    pub fn of(attribute: &Attribute) -> Self {
        let has = |mask| attribute.samples(mask);
        let place = |order: &[u64]| {
            let mut at = 0;
            let mut fields = Fields::default();
            for &field in order.iter().filter(|&&f| has(f)) {
                match field {
                    bit::IDENTIFIER => fields.id = Some(at),
                    bit::ID if fields.id.is_none() => fields.id = Some(at),
                    bit::TID => fields.thread = Some(at),
                    bit::TIME => fields.time = Some(at),
                    bit::CPU => fields.cpu = Some(at),
                    bit::IP => fields.ip = Some(at),
                    bit::PERIOD => fields.period = Some(at),
                    _ => {}
                }
                at += 8;
            }
            (fields, at)
        };
        let (sample, front_bytes) =
            place(&[bit::IDENTIFIER, bit::IP, bit::TID, bit::TIME, bit::ADDR, bit::ID, bit::STREAM_ID, bit::CPU, bit::PERIOD]);
        let (_, behind_stack) = place(&[
            bit::WEIGHT,
            bit::WEIGHT_STRUCT,
            bit::DATA_SRC,
            bit::TRANSACTION,
            bit::PHYS_ADDR,
            bit::CGROUP,
            bit::DATA_PAGE_SIZE,
            bit::CODE_PAGE_SIZE,
        ]);
        let (trailer, trailer_bytes) = place(&[bit::TID, bit::TIME, bit::ID, bit::STREAM_ID, bit::CPU, bit::IDENTIFIER]);
        Self {
            sample,
            sample_read: has(bit::READ).then_some(front_bytes),
            sample_chain: (has(bit::CALLCHAIN) && !has(bit::READ)).then_some(front_bytes),
            stack_from_end: (has(bit::STACK_USER) && !has(bit::REGS_INTR) && !has(bit::AUX)).then_some(8 + behind_stack),
            trailer,
            trailer_bytes: if attribute.sample_id_all { trailer_bytes } else { 0 },
        }
    }

    /// The id in a sample.
    pub fn sample_id(&self, order: Order, body: &[u8]) -> Option<u64> {
        order.u64(body, self.sample.id?)
    }

    /// How many bytes of the user's stack a sample holds: none at all of a kernel thread, whose sample says so in the same place.
    pub fn stack_bytes(&self, order: Order, body: &[u8]) -> Option<u64> {
        order.u64(body, body.len().checked_sub(self.stack_from_end?)?)
    }

    /// Where a sample has its address, or its period.
    pub fn place_in_sample(&self, field: u64) -> Option<usize> {
        match field {
            bit::IP => self.sample.ip,
            bit::PERIOD => self.sample.period,
            _ => None,
        }
    }

    /// The id at the end of another record.
    pub fn trailer_id(&self, order: Order, body: &[u8]) -> Option<u64> {
        order.u64(self.trailer_of(body)?, self.trailer.id?)
    }

    /// Whether both find the id at the same place, in samples and in other records.
    pub fn agrees_with(&self, other: &Self) -> bool {
        let from_end = |l: &Self| l.trailer.id.map(|at| l.trailer_bytes.wrapping_sub(at));
        self.sample.id == other.sample.id && from_end(self) == from_end(other)
    }

    /// Whose a sample is.
    pub fn of_sample(&self, order: Order, body: &[u8]) -> Belonging {
        read(&self.sample, order, body)
    }

    /// Whose another record is, as its trailer says.
    pub fn of_trailer(&self, order: Order, body: &[u8]) -> Belonging {
        self.trailer_of(body).map_or_else(Belonging::default, |trailer| read(&self.trailer, order, trailer))
    }

    fn trailer_of<'a>(&self, body: &'a [u8]) -> Option<&'a [u8]> {
        (self.trailer_bytes > 0).then(|| body.len().checked_sub(self.trailer_bytes).map(|at| &body[at..])).flatten()
    }
}

/// `OFF_CPU_TIMESTAMP` of perf (`util/off_cpu.h`).
const OFF_CPU_TIMESTAMP: u64 = !0 << 32;

fn read(fields: &Fields, order: Order, bytes: &[u8]) -> Belonging {
    Belonging {
        thread: fields.thread.and_then(|at| Some((order.u32(bytes, at)?, order.u32(bytes, at + 4)?))),
        // Samples of --off-cpu have no time: perf gives them one behind all others, to have them last.
        time_ns: fields.time.and_then(|at| order.u64(bytes, at)).filter(|time_ns| *time_ns < OFF_CPU_TIMESTAMP),
        // What perf puts together from traces may be of none.
        cpu: fields.cpu.and_then(|at| order.u32(bytes, at)).filter(|cpu| *cpu != u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifier_leads_a_sample_and_ends_a_trailer() {
        let attribute = Attribute {
            sample_type: bit::IDENTIFIER | bit::IP | bit::TID | bit::TIME | bit::CPU,
            sample_id_all: true,
            ..Attribute::default()
        };
        let layout = Layout::of(&attribute);
        let sample: Vec<u8> = [77u64, 0x401000, 5 | 6 << 32, 1000, 3].iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(layout.sample_id(Order::Little, &sample), Some(77));
        let expected = Belonging { thread: Some((5, 6)), time_ns: Some(1000), cpu: Some(3) };
        assert_eq!(layout.of_sample(Order::Little, &sample), expected);
        let other: Vec<u8> = [9u64, 9, 5 | 6 << 32, 1000, 3, 77].iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(layout.trailer_id(Order::Little, &other), Some(77));
        assert_eq!(layout.of_trailer(Order::Little, &other), expected);
    }

    #[test]
    fn what_was_copied_of_a_stack_stands_before_what_follows_it() {
        let of = |sample_type, words: &[u64]| {
            let body: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            Layout::of(&Attribute { sample_type, ..Attribute::default() }).stack_bytes(Order::Little, &body)
        };
        // Size, the dump, how much of it is true.
        assert_eq!(of(bit::IP | bit::STACK_USER, &[0x401000, 16, 1, 2, 12]), Some(12));
        assert_eq!(of(bit::IP | bit::STACK_USER | bit::DATA_SRC | bit::PHYS_ADDR, &[0x401000, 16, 1, 2, 12, 7, 8]), Some(12));
        // Of a kernel thread.
        assert_eq!(of(bit::IP | bit::STACK_USER | bit::WEIGHT_STRUCT, &[0x401000, 0, 7]), Some(0));
        assert_eq!(of(bit::STACK_USER | bit::REGS_INTR, &[16, 1, 2, 12, 0]), None);
        assert_eq!(of(bit::IP, &[16, 1, 2, 12]), None);
    }

    #[test]
    fn short_bodies_give_nothing() {
        let layout = Layout::of(&Attribute { sample_type: bit::TID | bit::ID, sample_id_all: true, ..Attribute::default() });
        assert_eq!(layout.trailer_id(Order::Little, &[0; 15]), None);
        assert_eq!(layout.of_sample(Order::Little, &[0; 7]), Belonging::default());
    }
}
