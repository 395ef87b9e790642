//! Samples: the packets up to an end or a time stamp.

use super::operation::{Events, Operation};
use super::packet::{Address, AddressKind, CounterKind, Packet, Packets};
use crate::Result;

/// One sampled operation. What the hardware did not write is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpeSample {
    /// Of the instruction.
    pub instruction: Option<Address>,
    /// A branch's target.
    pub branch_target: Option<Address>,
    /// Of the data, virtual.
    pub data_virtual: Option<Address>,
    /// Of the data, physical.
    pub data_physical: Option<Address>,
    /// Dispatch to completion.
    pub total_cycles: Option<u16>,
    /// Dispatch to issue.
    pub issue_cycles: Option<u16>,
    /// Translation of the address.
    pub translation_cycles: Option<u16>,
    /// What it is.
    pub operation: Option<Operation>,
    /// What happened to it.
    pub events: Option<Events>,
    /// Where its data came from, in the implementation's own encoding.
    pub data_source: Option<u64>,
    /// The process' context number.
    pub context: Option<u32>,
    /// Ticks of the generic timer.
    pub timestamp: Option<u64>,
}

/// Walks the samples of a piece of AUX area.
#[derive(Clone, Debug)]
pub struct Samples<'a> {
    packets: Packets<'a>,
}

/// The samples in `aux`, which must begin as [`super::packets`] says. A sample that is cut at the end is left out: the AUX
/// record says `TRUNCATED` then.
pub fn samples(aux: &[u8]) -> Samples<'_> {
    Samples { packets: super::packets(aux) }
}

impl Iterator for Samples<'_> {
    type Item = Result<SpeSample>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut sample = SpeSample::default();
        loop {
            match self.packets.next()? {
                Err(error) => return Some(Err(error)),
                Ok(Packet::End) => return Some(Ok(sample)),
                Ok(Packet::Timestamp(ticks)) => {
                    sample.timestamp = Some(ticks);
                    return Some(Ok(sample));
                }
                Ok(packet) => sample.take(packet),
            }
        }
    }
}

impl SpeSample {
    fn take(&mut self, packet: Packet) {
        match packet {
            Packet::Address(address) => match address.kind {
                AddressKind::Instruction => self.instruction = Some(address),
                AddressKind::BranchTarget => self.branch_target = Some(address),
                AddressKind::DataVirtual => self.data_virtual = Some(address),
                AddressKind::DataPhysical => self.data_physical = Some(address),
                AddressKind::PreviousBranchTarget | AddressKind::Other(_) => {}
            },
            Packet::Counter { kind, cycles } => match kind {
                CounterKind::Total => self.total_cycles = Some(cycles),
                CounterKind::Issue => self.issue_cycles = Some(cycles),
                CounterKind::Translation => self.translation_cycles = Some(cycles),
                CounterKind::Other(_) => {}
            },
            Packet::Context { id, .. } => self.context = Some(id),
            Packet::Operation(operation) => self.operation = Some(operation),
            Packet::Events(events) => self.events = Some(events),
            Packet::DataSource(source) => self.data_source = Some(source),
            Packet::Padding | Packet::End | Packet::Timestamp(_) => {}
        }
    }
}
