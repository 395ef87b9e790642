//! What a reader beside the counter sees of a recording while it is read.

use perftax_pmu::Result;
use perftax_pmu::record::{self, Header, Record, Sample};

use super::attribute::{Attribute, sample_type as bit};
use super::bytes::Order;
use super::kind;
use super::layout::{Belonging, Layout};

/// Sees the records of a recording, in the order of the file.
pub trait Observer {
    /// A sample of a known event.
    fn sample(&mut self, sample: &SeenSample<'_>);

    /// Any other record, of the kernel's or perf's own.
    fn record(&mut self, _: &SeenRecord<'_>) {}
}

/// A sample as it stands in the recording.
pub struct SeenSample<'a> {
    /// Byte order of the body.
    pub order: Order,
    /// Its event, by its place in [`super::Recording::events`].
    pub event: usize,
    /// How that event was sampled.
    pub attribute: &'a Attribute,
    /// Bits of its header (`misc`).
    pub misc: u16,
    /// Everything behind its header.
    pub body: &'a [u8],
    /// Thread, time and CPU.
    pub belongs: Belonging,
    pub(super) layout: &'a Layout,
}

impl<'a> SeenSample<'a> {
    /// All of its fields, of a recording in this machine's byte order.
    ///
    /// # Errors
    /// Where the body is shorter or longer than its event's attributes say.
    pub fn decoded(&self) -> Result<Option<Sample<'a>>> {
        let size = u16::try_from(Header::BYTES + self.body.len()).unwrap_or(u16::MAX);
        match record::decode(Header { kind: kind::SAMPLE, misc: self.misc, size }, self.body, &self.attribute.layout())? {
            Record::Sample(sample) => Ok(Some(sample)),
            _ => Ok(None),
        }
    }

    /// The instruction's address.
    pub fn ip(&self) -> Option<u64> {
        self.order.u64(self.body, self.layout.place_in_sample(bit::IP)?)
    }

    /// Where the number of its call chain's entries stands; none where it has no chain, or at no fixed place.
    pub fn chain_at(&self) -> Option<usize> {
        self.layout.sample_chain()
    }

    /// Events that it stands for: its own period, or the fixed one of its event.
    pub fn period(&self) -> Option<u64> {
        let own = self.layout.place_in_sample(bit::PERIOD).and_then(|at| self.order.u64(self.body, at));
        own.or(self.attribute.period)
    }

    /// Whether it was taken in the kernel, or in user mode; none where its header tells neither.
    pub fn is_user(&self) -> Option<bool> {
        match self.misc & kind::MISC_CPUMODE {
            kind::MISC_KERNEL => Some(false),
            kind::MISC_USER => Some(true),
            _ => None,
        }
    }
}

/// Another record.
pub struct SeenRecord<'a> {
    /// Byte order of the body.
    pub order: Order,
    /// `enum perf_event_type`, or perf's own from 64 on.
    pub kind: u32,
    /// Bits of its header.
    pub misc: u16,
    /// Everything behind its header, its trailer with it.
    pub body: &'a [u8],
    /// The event that its trailer names.
    pub event: Option<usize>,
    /// What its trailer says.
    pub belongs: Belonging,
}
