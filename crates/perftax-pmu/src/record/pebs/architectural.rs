//! Records of architectural PEBS (Clearwater Forest, Panther Lake, Diamond Rapids and later), as Linux 7.1 reads them.
//!
//! A record begins with a header that says its size and its groups, which stand in one order: basic, access, general registers, vector registers, branches,
//! counters. It may be cut into fragments, each with a header of its own; those that follow have other groups than the first one.
//! Source: `struct arch_pebs_*` in arch/x86/include/asm/perf_event.h, `setup_arch_pebs_sample_data` in arch/x86/events/intel/ds.c.

use super::super::bits::{bit, bits};
use super::super::cursor::Cursor;
use super::super::words::Words;
use super::counters::Counted;
use super::{GeneralRegisters, LbrEntry, MemoryInfo, TsxTuning};
use crate::Result;

/// Bytes of a fragment's header.
const HEADER_BYTES: u16 = 16;
const XMM_WORDS: u64 = 32;

/// One record, its fragments put together; each group may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Architectural<'a> {
    /// Bytes of all fragments.
    pub bytes: usize,
    /// The basic group: every record that the kernel asks for has it.
    pub basic: Option<ArchitecturalBasic>,
    /// The access.
    pub memory: Option<MemoryInfo>,
    /// General registers.
    pub registers: Option<GeneralRegisters>,
    /// The shadow stack's pointer, which stands behind the general registers.
    pub shadow_stack_pointer: Option<u64>,
    /// XMM0 to XMM15, two words each, low one first.
    pub xmm: Option<Words<'a>>,
    lbr: &'a [[u8; 24]],
    /// Counters.
    pub counters: Option<Counted<'a>>,
}

/// The basic group: 48 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchitecturalBasic {
    /// Address of the instruction itself.
    pub ip: u64,
    /// Which counters asked for the record.
    pub counters: u64,
    /// Time stamp counter.
    pub tsc: u64,
    /// Cycles that the instruction waited to retire after the one before; `None` where the record says that it is not valid.
    pub retire_latency_cycles: Option<u16>,
}

/// Groups that Linux 7.1 never switches on, and whose layout is documentation's alone: bit of the header, and name. A record with one is refused, for what
/// follows it would be misread.
const NOT_READ: [(u32, &str); 4] =
    [(50, "the upper halves of YMM"), (53, "the mask registers"), (54, "the upper halves of ZMM"), (55, "ZMM16 to ZMM31")];

/// Bits of the header that have a meaning: size, mode, continued, counters, branches, XMM, those above, and the three groups at the top.
const KNOWN_BITS: u64 = 0xffff | 0b11 << 30 | 0x1f << 35 | 0b11 << 40 | 0b11 << 49 | 0b111 << 53 | 0b111 << 61;

impl<'a> Architectural<'a> {
    /// The first record of `bytes`; [`Self::bytes`] says where the next one begins.
    ///
    /// # Errors
    /// [`crate::Error::Malformed`] where a fragment says that it is longer than the bytes or shorter than its groups, has a group whose layout is not known, or
    /// a bit that has no meaning.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        Self::decode_at(0, bytes)
    }

    fn decode_at(offset: usize, bytes: &'a [u8]) -> Result<Self> {
        let mut record = Self::default();
        loop {
            let at = record.bytes;
            let rest = bytes.get(at..).unwrap_or_default();
            let is_continued = record.fragment(offset + at, rest)?;
            if !is_continued {
                return Ok(record);
            }
        }
    }

    /// Reads one fragment, and says whether another one follows.
    fn fragment(&mut self, offset: usize, bytes: &'a [u8]) -> Result<bool> {
        let mut whole = Cursor::new(WHAT, offset, bytes);
        let start = whole.clone();
        let header = whole.u64("header")?;
        whole.u64("reserved word of the header")?;
        if let Some((_, name)) = NOT_READ.iter().find(|(at, _)| bit(header, *at)) {
            return Err(start.malformed(format!("it holds {name}, whose layout is not known here")));
        }
        if header & !KNOWN_BITS != 0 {
            return Err(
                start.malformed(format!("bits {:#x} of its header have no meaning that is known here", header & !KNOWN_BITS))
            );
        }
        let size = bits(header, 0, 16) as u16;
        let Some(groups) = bytes.get(usize::from(HEADER_BYTES)..usize::from(size)) else {
            return Err(start.malformed(format!("it says {size} bytes, needs {HEADER_BYTES} to {}", bytes.len())));
        };
        let c = &mut Cursor::new(WHAT, offset + usize::from(HEADER_BYTES), groups);
        let has = |at| bit(header, at);
        if has(63) {
            self.basic = Some(basic(c)?);
        }
        if has(62) {
            self.memory = Some(access(c)?);
        }
        if has(61) {
            let (registers, pointer) = registers(c)?;
            (self.registers, self.shadow_stack_pointer) = (Some(registers), Some(pointer));
        }
        if has(49) {
            c.bytes(16, "header of vector registers")?;
            self.xmm = Some(Words::new(c.chunks(XMM_WORDS, "XMM")?));
        }
        match bits(header, 40, 2) {
            0 => {}
            kind => self.lbr = branches(c, kind)?,
        }
        if bits(header, 35, 5) != 0 {
            self.counters = Some(Counted::decode(c)?);
        }
        c.finish()?;
        self.bytes += usize::from(size);
        // A fragment without any group is followed by another one as well (`arch_pebs_record_continued`).
        Ok(has(31) || header >> 16 == 0)
    }

    /// The branches, most recent first; none where the group is missing.
    pub fn lbr(&self) -> impl ExactSizeIterator<Item = LbrEntry> + use<'a> {
        self.lbr.iter().map(|entry| {
            let words = Words::new(entry.as_chunks::<8>().0);
            let word = |at| words.get(at).unwrap_or(0);
            LbrEntry { from: word(0), to: word(1), info: word(2) }
        })
    }
}

const WHAT: &str = "architectural PEBS record";

fn basic(c: &mut Cursor<'_>) -> Result<ArchitecturalBasic> {
    let (ip, counters, tsc) = (c.u64("ip")?, c.u64("counters")?, c.u64("tsc")?);
    let retire = c.u64("retire latency")?;
    c.bytes(16, "reserved words of the basic group")?;
    Ok(ArchitecturalBasic { ip, counters, tsc, retire_latency_cycles: bit(retire, 16).then(|| bits(retire, 0, 16) as u16) })
}

fn access(c: &mut Cursor<'_>) -> Result<MemoryInfo> {
    let address = c.u64("data address")?;
    c.bytes(32, "reserved words of the access")?;
    let (source, latency, tsx) = (c.u64("data source")?, c.u64("latency")?, TsxTuning(c.u64("tsx tuning")?));
    Ok(MemoryInfo { address, source, latency, tsx })
}

/// The order of adaptive records, then the shadow stack's pointer and a reserved word.
fn registers(c: &mut Cursor<'_>) -> Result<(GeneralRegisters, u64)> {
    let registers = super::adaptive::registers(c)?;
    let pointer = c.u64("ssp")?;
    c.u64("reserved word of registers")?;
    Ok((registers, pointer))
}

/// Eight, sixteen, or as many as its header says (`ARCH_PEBS_LBR_NUM_*`): three words about the last event record stand between header and entries.
fn branches<'a>(c: &mut Cursor<'a>, kind: u64) -> Result<&'a [[u8; 24]]> {
    c.bytes(16, "branches' reserved word and control")?;
    let depth = c.u64("branches' depth")?;
    c.bytes(24, "last event record")?;
    c.chunks(if kind == 3 { depth } else { 8 * kind }, "branches")
}

/// Walks the records of a buffer. Ends after the last byte or the first error.
#[derive(Clone, Debug)]
pub struct ArchitecturalStream<'a> {
    bytes: &'a [u8],
    offset: usize,
}

/// The records of a buffer of architectural PEBS, from its base to where the CPU writes next.
pub fn architectural(buffer: &[u8]) -> ArchitecturalStream<'_> {
    ArchitecturalStream { bytes: buffer, offset: 0 }
}

impl<'a> Iterator for ArchitecturalStream<'a> {
    type Item = Result<Architectural<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.offset..).filter(|rest| !rest.is_empty())?;
        let record = Architectural::decode_at(self.offset, rest);
        match &record {
            Ok(record) => self.offset += record.bytes,
            Err(_) => self.bytes = &[],
        }
        Some(record)
    }
}
