//! Packets, one by one.

use super::super::bits::{bit, bits};
use super::super::cursor::Cursor;
use super::operation::{Events, Operation};
use crate::Result;

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Nothing: a byte of padding, or what was passed over to reach an alignment.
    Padding,
    /// A sample without a time stamp ends here.
    End,
    /// A sample ends here; ticks of the generic timer.
    Timestamp(u64),
    /// An address.
    Address(Address),
    /// A count of cycles.
    Counter {
        /// Of what.
        kind: CounterKind,
        /// Cycles; saturates at 4095 or 65535 by implementation.
        cycles: u16,
    },
    /// Number of the process' context (`CONTEXTIDR`).
    Context {
        /// Exception level whose register it is: 1 or 2.
        exception_level: u8,
        /// The number.
        id: u32,
    },
    /// What the sampled operation is.
    Operation(Operation),
    /// What happened to it.
    Events(Events),
    /// Where data came from, in the implementation's own encoding.
    DataSource(u64),
}

/// An address packet: which address, and the word with its attributes in the top byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Which.
    pub kind: AddressKind,
    /// As the hardware wrote it.
    pub word: u64,
}

/// Which address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressKind {
    /// Of the instruction.
    Instruction,
    /// A branch's target.
    BranchTarget,
    /// Of the data, virtual.
    DataVirtual,
    /// Of the data, physical.
    DataPhysical,
    /// Target of the branch before.
    PreviousBranchTarget,
    /// An index that this decoder does not know.
    Other(u8),
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CounterKind {
    /// Dispatch to completion.
    Total,
    /// Dispatch to issue.
    Issue,
    /// Translation of the address.
    Translation,
    /// An index that this decoder does not know.
    Other(u8),
}

impl Address {
    /// The address itself, as a program sees it: the attributes of the top byte removed and its sign restored.
    pub fn address(self) -> u64 {
        let low = bits(self.word, 0, 56);
        let negative = match self.kind {
            // The top byte holds the state, so the level tells: EL1 and EL2 run in the upper half.
            AddressKind::Instruction | AddressKind::BranchTarget | AddressKind::PreviousBranchTarget => {
                matches!(self.exception_level(), 1 | 2) && bit(low, 55)
            }
            // The top byte may hold a tag.
            AddressKind::DataVirtual => bit(low, 55),
            AddressKind::DataPhysical | AddressKind::Other(_) => false,
        };
        if negative { low | 0xff << 56 } else { low }
    }

    /// Of an instruction or a target: the exception level.
    pub fn exception_level(self) -> u8 {
        bits(self.word, 61, 2) as u8
    }

    /// Of an instruction, a target or a physical address: not in the secure state.
    pub fn non_secure(self) -> bool {
        bit(self.word, 63)
    }
}

/// Walks the packets of a piece of AUX area. Ends after the last byte or the first error.
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    bytes: &'a [u8],
    offset: usize,
}

/// The packets in `aux`. It must begin where the AUX buffer begins or a whole number of pages after it: an alignment packet
/// counts from there.
pub fn packets(aux: &[u8]) -> Packets<'_> {
    Packets { bytes: aux, offset: 0 }
}

impl Packets<'_> {
    /// Bytes walked so far; where the bad packet begins, after an error.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// A packet and its bytes.
    fn read(&self, rest: &[u8]) -> Result<(Packet, usize)> {
        let cursor = &mut Cursor::new("SPE trace", self.offset, rest);
        let first = cursor.u8("header")?;
        // An extended header is a byte in front of a short one, with the high bits of its index.
        let (extended, header) = match first {
            0x20..=0x2f => (true, cursor.u8("second byte of the header")?),
            _ => (false, first),
        };
        if extended && header == 0 {
            // Up to the next multiple of 2^(n+1), or to the end of what was written.
            let alignment = 2_usize << (first & 0xf);
            let padding = alignment - self.offset % alignment;
            return Ok((Packet::Padding, padding.min(rest.len())));
        }
        let bad = |byte: u8| Cursor::new("SPE trace", self.offset, rest).malformed(format!("no packet begins with {byte:#04x}"));
        if extended && first > 0x23 {
            return Err(bad(first));
        }
        let index = (header & 7) | if extended { (first & 3) << 3 } else { 0 };
        let size = 1_u64 << (header >> 4 & 3);
        let plain = !extended;
        let packet = match header {
            0x00 if plain => Packet::Padding,
            0x01 if plain => Packet::End,
            0x71 if plain => Packet::Timestamp(cursor.u64("timestamp")?),
            0x42 | 0x52 | 0x62 | 0x72 if plain => Packet::Events(Events(payload(cursor, size, "events")?)),
            0x43 | 0x53 | 0x63 | 0x73 if plain => Packet::DataSource(payload(cursor, size, "data source")?),
            0x64..=0x67 if plain => Packet::Context { exception_level: (header & 3) + 1, id: cursor.u32("context")? },
            0x48..=0x4b if plain => Packet::Operation(Operation { class: header & 3, subclass: cursor.u8("operation")? }),
            0xb0..=0xb7 => Packet::Address(Address { kind: address_kind(index), word: cursor.u64("address")? }),
            0x98..=0x9f => Packet::Counter { kind: counter_kind(index), cycles: cursor.u16("counter")? },
            _ => return Err(bad(header)),
        };
        Ok((packet, rest.len() - cursor.rest().len()))
    }
}

fn payload(cursor: &mut Cursor<'_>, size: u64, field: &'static str) -> Result<u64> {
    let bytes = cursor.bytes(size, field)?;
    Ok(bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
}

fn address_kind(index: u8) -> AddressKind {
    match index {
        0 => AddressKind::Instruction,
        1 => AddressKind::BranchTarget,
        2 => AddressKind::DataVirtual,
        3 => AddressKind::DataPhysical,
        4 => AddressKind::PreviousBranchTarget,
        other => AddressKind::Other(other),
    }
}

fn counter_kind(index: u8) -> CounterKind {
    match index {
        0 => CounterKind::Total,
        1 => CounterKind::Issue,
        2 => CounterKind::Translation,
        other => CounterKind::Other(other),
    }
}

impl Iterator for Packets<'_> {
    type Item = Result<Packet>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.offset..).filter(|rest| !rest.is_empty())?;
        match self.read(rest) {
            Ok((packet, bytes)) => {
                self.offset += bytes;
                Some(Ok(packet))
            }
            Err(error) => {
                self.bytes = &[];
                Some(Err(error))
            }
        }
    }
}
