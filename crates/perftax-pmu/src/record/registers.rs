//! Register dumps: of user space, or of the instant of the interrupt (or PEBS record).

use super::cursor::Cursor;
use super::words::Words;
use crate::Result;
use perf_event_open_sys::bindings as abi;

/// Registers by the number that `asm/perf_regs.h` gives them (x86: AX 0, BX 1, … IP 8, FLAGS 9, … R8 16 to R15 23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers<'a> {
    /// Width of the task's registers.
    pub abi: RegisterAbi,
    /// Which registers there are: the attribute's mask, 0 where there is no dump.
    pub mask: u64,
    /// Their values, in order of number.
    pub values: Words<'a>,
}

/// `PERF_SAMPLE_REGS_ABI_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegisterAbi {
    /// No registers: a kernel thread has none of user space.
    None,
    /// A 32-bit task.
    Bits32,
    /// A 64-bit task.
    Bits64,
}

const NONE: u64 = abi::PERF_SAMPLE_REGS_ABI_NONE as u64;
const BITS_32: u64 = abi::PERF_SAMPLE_REGS_ABI_32 as u64;
const BITS_64: u64 = abi::PERF_SAMPLE_REGS_ABI_64 as u64;

/// `PERF_SAMPLE_REGS_ABI_SIMD` of patches that no kernel has taken up to 7.2: vector registers and masks behind the general ones, by fields of the attribute
/// that are not there yet. Where it is set a dump is longer than its mask says.
const SIMD: u64 = 1 << 2;

impl<'a> Registers<'a> {
    pub(super) fn decode(cursor: &mut Cursor<'a>, mask: u64, field: &'static str) -> Result<Self> {
        let before = cursor.clone();
        let abi = match cursor.u64(field)? {
            NONE => {
                return Ok(Self { abi: RegisterAbi::None, mask: 0, values: Words::default() });
            }
            BITS_32 => RegisterAbi::Bits32,
            BITS_64 => RegisterAbi::Bits64,
            abi if abi & SIMD != 0 => {
                let why = format!(
                    "{field} has ABI {abi}: sets of SIMD registers, which no released kernel's ABI has (up to 7.2) and which are not read"
                );
                return Err(before.malformed(why));
            }
            abi => return Err(before.malformed(format!("{field} has ABI {abi}, which is none of 0, 1, 2"))),
        };
        let values = Words::new(cursor.chunks(u64::from(mask.count_ones()), field)?);
        Ok(Self { abi, mask, values })
    }

    /// The value of register `number`, where it is in the dump.
    pub fn get(&self, number: u32) -> Option<u64> {
        let bit = 1_u64.checked_shl(number)?;
        if self.mask & bit == 0 {
            return None;
        }
        self.values.get((self.mask & (bit - 1)).count_ones() as usize)
    }

    /// (number, value) in order of number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + use<'a> {
        let mask = self.mask;
        (0..u64::BITS).filter(move |number| mask >> number & 1 != 0).zip(self.values.iter())
    }
}
