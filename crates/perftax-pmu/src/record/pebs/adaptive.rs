//! Records that say what they hold: format 4 and later.

use super::super::bits::{bit, bits};
use super::super::cursor::Cursor;
use super::super::words::Words;
use super::counters::Counted;
use super::{GeneralRegisters, TsxTuning};
use crate::Result;

/// One record; beside the basic group each may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adaptive<'a> {
    /// The basic group.
    pub basic: Basic,
    /// The access.
    pub memory: Option<MemoryInfo>,
    /// General registers; their `ip` is that of the basic group or of the next instruction, by model.
    pub registers: Option<GeneralRegisters>,
    /// XMM0 to XMM15, two words each, low one first.
    pub xmm: Option<Words<'a>>,
    lbr: &'a [[u8; 24]],
    /// Counters and top-down metrics (format 6).
    pub counters: Option<Counted<'a>>,
    /// Bytes of groups that this decoder does not know, in machines later than format 6.
    pub other: &'a [u8],
}

/// What every record has: 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Basic {
    /// Which groups follow: bit 0 memory, 1 registers, 2 XMM, 3 LBR with its number of entries less one in bits 31:24, 4 counters, 5 metrics (both in one
    /// group).
    pub groups: u32,
    /// Cycles that the instruction waited to retire after the one before (from Sierra Forest and Meteor Lake; else 0).
    pub retire_latency_cycles: u16,
    /// Bytes of the whole record.
    pub record_bytes: u16,
    /// Address of the instruction itself.
    pub ip: u64,
    /// Which counters asked for the record.
    pub counters: u64,
    /// Time stamp counter.
    pub tsc: u64,
}

/// The access: 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Address of the data.
    pub address: u64,
    /// Source, in the model's own encoding.
    pub source: u64,
    /// One latency up to Ice Lake; see the methods for later models.
    pub latency: u64,
    /// Its transaction.
    pub tsx: TsxTuning,
}

impl MemoryInfo {
    /// From Alder Lake and Sapphire Rapids on: cycles of the whole instruction.
    pub fn instruction_latency_cycles(self) -> u16 {
        bits(self.latency, 0, 16) as u16
    }

    /// From Alder Lake and Sapphire Rapids on: cycles of the access to the cache.
    pub fn cache_latency_cycles(self) -> u16 {
        bits(self.latency, 32, 16) as u16
    }
}

/// One branch of the LBR group: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LbrEntry {
    /// Address of the branch.
    pub from: u64,
    /// Its target.
    pub to: u64,
    /// `IA32_LBR_x_INFO`: cycles in bits 15:0, mispredicted in bit 63.
    pub info: u64,
}

const BASIC_BYTES: u16 = 32;
const XMM_WORDS: u64 = 32;

impl<'a> Adaptive<'a> {
    /// The first record of `bytes`; [`Basic::record_bytes`] says where the next one begins.
    ///
    /// # Errors
    /// [`crate::Error::Malformed`] where it says that it is longer than the bytes or shorter than its groups.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        Self::decode_at(0, bytes)
    }

    fn decode_at(offset: usize, bytes: &'a [u8]) -> Result<Self> {
        let mut whole = Cursor::new("adaptive PEBS record", offset, bytes);
        let start = whole.clone();
        let format = whole.u64("format")?;
        let basic = Basic {
            groups: bits(format, 0, 32) as u32,
            retire_latency_cycles: bits(format, 32, 16) as u16,
            record_bytes: bits(format, 48, 16) as u16,
            ip: whole.u64("ip")?,
            counters: whole.u64("counters")?,
            tsc: whole.u64("tsc")?,
        };
        let record = match bytes.get(usize::from(BASIC_BYTES)..usize::from(basic.record_bytes)) {
            Some(record) => record,
            None => {
                let why = format!("it says {} bytes, needs 32 to {}", basic.record_bytes, bytes.len());
                return Err(start.malformed(why));
            }
        };
        let c = &mut Cursor::new("adaptive PEBS record", offset + usize::from(BASIC_BYTES), record);
        let has = |group| bit(format, group);
        let memory = has(0).then(|| memory(c)).transpose()?;
        let registers = has(1).then(|| registers(c)).transpose()?;
        let xmm = has(2).then(|| c.chunks(XMM_WORDS, "XMM")).transpose()?.map(Words::new);
        let lbr = if has(3) { c.chunks(bits(format, 24, 8) + 1, "LBR")? } else { &[] };
        let counters = (has(4) || has(5)).then(|| Counted::decode(c)).transpose()?;
        Ok(Self { basic, memory, registers, xmm, lbr, counters, other: c.rest() })
    }

    /// The LBR group, most recent branch first; none where the group is missing.
    pub fn lbr(&self) -> impl ExactSizeIterator<Item = LbrEntry> + use<'a> {
        self.lbr.iter().map(|entry| {
            let words = Words::new(entry.as_chunks::<8>().0);
            let word = |at| words.get(at).unwrap_or(0);
            LbrEntry { from: word(0), to: word(1), info: word(2) }
        })
    }
}

fn memory(c: &mut Cursor<'_>) -> Result<MemoryInfo> {
    Ok(MemoryInfo {
        address: c.u64("data address")?,
        source: c.u64("data source")?,
        latency: c.u64("latency")?,
        tsx: TsxTuning(c.u64("tsx tuning")?),
    })
}

pub(super) fn registers(c: &mut Cursor<'_>) -> Result<GeneralRegisters> {
    // The machine's own order: not the one of the fixed records. Fields are read in the order written here.
    let mut registers = GeneralRegisters {
        flags: c.u64("flags")?,
        ip: c.u64("ip")?,
        ax: c.u64("ax")?,
        cx: c.u64("cx")?,
        dx: c.u64("dx")?,
        bx: c.u64("bx")?,
        sp: c.u64("sp")?,
        bp: c.u64("bp")?,
        si: c.u64("si")?,
        di: c.u64("di")?,
        r8_to_r15: [0; 8],
    };
    for register in &mut registers.r8_to_r15 {
        *register = c.u64("r8 to r15")?;
    }
    Ok(registers)
}

/// Walks the adaptive records of a buffer, which may differ in size. Ends after the last byte or the first error.
#[derive(Clone, Debug)]
pub struct AdaptiveStream<'a> {
    bytes: &'a [u8],
    offset: usize,
}

/// The records of a DS buffer, from its base to its index.
pub fn adaptive(buffer: &[u8]) -> AdaptiveStream<'_> {
    AdaptiveStream { bytes: buffer, offset: 0 }
}

impl<'a> Iterator for AdaptiveStream<'a> {
    type Item = Result<Adaptive<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.offset..).filter(|rest| !rest.is_empty())?;
        let record = Adaptive::decode_at(self.offset, rest);
        match &record {
            Ok(record) => self.offset += usize::from(record.basic.record_bytes),
            Err(_) => self.bytes = &[],
        }
        Some(record)
    }
}
