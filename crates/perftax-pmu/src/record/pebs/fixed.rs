//! Records of one fixed size: formats 0 to 3.

use super::super::cursor::Cursor;
use super::{GeneralRegisters, TsxTuning};
use crate::Result;

/// `IA32_PERF_CAPABILITIES` bits 11:8, as far as records are of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Core 2: registers.
    Format0,
    /// Nehalem to Ivy Bridge: and what the counters and the access did.
    Format1,
    /// Haswell, Broadwell: and the instruction itself, and its transaction.
    Format2,
    /// Skylake to Cascade Lake: and the time.
    Format3,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// Registers after the instruction; their `ip` is the *next* instruction's.
    pub registers: GeneralRegisters,
    /// `IA32_PERF_GLOBAL_STATUS` (format 1 and 2) or the applicable counters (format 3): bit per counter.
    pub status: Option<u64>,
    /// The access, where the event has one; else its words are 0.
    pub access: Option<MemoryAccess>,
    /// Address of the instruction itself ("eventing IP").
    pub eventing_ip: Option<u64>,
    /// Its transaction.
    pub tsx: Option<TsxTuning>,
    /// Time stamp counter.
    pub tsc: Option<u64>,
}

/// What a load (or, where the event allows, a store) did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// Address of the data.
    pub address: u64,
    /// Source, in the model's own encoding (SDM tables by model).
    pub source: u64,
    /// Cycles, for loads of the load latency event.
    pub latency_cycles: u64,
}

impl Format {
    /// Bytes of a record.
    pub const fn record_bytes(self) -> usize {
        match self {
            Self::Format0 => 144,
            Self::Format1 => 176,
            Self::Format2 => 192,
            Self::Format3 => 200,
        }
    }

    /// All records of a buffer. The hardware writes whole ones only, so a rest is an error.
    pub fn records(self, buffer: &[u8]) -> impl Iterator<Item = Result<Fixed>> {
        buffer.chunks(self.record_bytes()).map(move |record| Fixed::decode(self, record))
    }
}

impl Fixed {
    /// From the bytes of exactly one record.
    ///
    /// # Errors
    /// [`crate::Error::Malformed`] where there are fewer or more than [`Format::record_bytes`]; the offset is the record's.
    pub fn decode(format: Format, record: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new("PEBS record", 0, record);
        let c = &mut cursor;
        // The order of the general registers is not the adaptive records'.
        let mut registers = GeneralRegisters {
            flags: c.u64("flags")?,
            ip: c.u64("ip")?,
            ax: c.u64("ax")?,
            bx: c.u64("bx")?,
            cx: c.u64("cx")?,
            dx: c.u64("dx")?,
            si: c.u64("si")?,
            di: c.u64("di")?,
            bp: c.u64("bp")?,
            sp: c.u64("sp")?,
            r8_to_r15: [0; 8],
        };
        for register in &mut registers.r8_to_r15 {
            *register = c.u64("r8 to r15")?;
        }
        let mut fixed = Self { registers, status: None, access: None, eventing_ip: None, tsx: None, tsc: None };
        if format != Format::Format0 {
            fixed.status = Some(c.u64("status")?);
            let address = c.u64("data address")?;
            let source = c.u64("data source")?;
            fixed.access = Some(MemoryAccess { address, source, latency_cycles: c.u64("latency")? });
        }
        if matches!(format, Format::Format2 | Format::Format3) {
            fixed.eventing_ip = Some(c.u64("eventing ip")?);
            fixed.tsx = Some(TsxTuning(c.u64("tsx tuning")?));
        }
        if format == Format::Format3 {
            fixed.tsc = Some(c.u64("tsc")?);
        }
        cursor.finish()?;
        Ok(fixed)
    }
}
