//! Where a record says which event, thread, time and CPU it belongs to.
//!
//! The places are the kernel's for this machine and any other ([`FixedPlaces`]); the byte order is the recording's.

use perftax_pmu::record::{FixedPlaces, Offsets};

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
pub struct Layout(FixedPlaces);

impl Layout {
    /// The layout of an event's records.
    pub fn of(attribute: &Attribute) -> Self {
        Self(attribute.layout().fixed_places())
    }

    /// Where counter values begin in a sample's body, if it has them.
    pub fn sample_read(&self) -> Option<usize> {
        self.0.counts
    }

    /// Where the number of a call chain's entries stands, if that is a fixed place.
    pub fn sample_chain(&self) -> Option<usize> {
        self.0.callchain
    }

    /// The id in a sample.
    pub fn sample_id(&self, order: Order, body: &[u8]) -> Option<u64> {
        order.u64(body, self.0.sample.id?)
    }

    /// How many bytes of the user's stack a sample holds: none at all of a kernel thread, whose sample says so in the same place.
    pub fn stack_bytes(&self, order: Order, body: &[u8]) -> Option<u64> {
        order.u64(body, body.len().checked_sub(self.0.stack_from_end?)?)
    }

    /// Where a sample has its address, or its period.
    pub fn place_in_sample(&self, field: u64) -> Option<usize> {
        match field {
            bit::IP => self.0.sample.ip,
            bit::PERIOD => self.0.sample.period,
            _ => None,
        }
    }

    /// The id at the end of another record.
    pub fn trailer_id(&self, order: Order, body: &[u8]) -> Option<u64> {
        order.u64(self.trailer_of(body)?, self.0.trailer.id?)
    }

    /// Whether both find the id at the same place, in samples and in other records.
    pub fn agrees_with(&self, other: &Self) -> bool {
        let from_end = |l: &Self| l.0.trailer.id.map(|at| l.0.trailer.bytes - at);
        self.0.sample.id == other.0.sample.id && from_end(self) == from_end(other)
    }

    /// Whose a sample is.
    pub fn of_sample(&self, order: Order, body: &[u8]) -> Belonging {
        read(&self.0.sample, order, body)
    }

    /// Whose another record is, as its trailer says.
    pub fn of_trailer(&self, order: Order, body: &[u8]) -> Belonging {
        self.trailer_of(body).map_or_else(Belonging::default, |trailer| read(&self.0.trailer, order, trailer))
    }

    fn trailer_of<'a>(&self, body: &'a [u8]) -> Option<&'a [u8]> {
        let bytes = Some(self.0.trailer.bytes).filter(|bytes| *bytes > 0)?;
        body.len().checked_sub(bytes).map(|at| &body[at..])
    }
}

/// `OFF_CPU_TIMESTAMP` of perf (`util/off_cpu.h`).
const OFF_CPU_TIMESTAMP: u64 = !0 << 32;

fn read(fields: &Offsets, order: Order, bytes: &[u8]) -> Belonging {
    Belonging {
        thread: fields.task.and_then(|at| Some((order.u32(bytes, at)?, order.u32(bytes, at + 4)?))),
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
