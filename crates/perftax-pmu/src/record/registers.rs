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

impl<'a> Registers<'a> {
    pub(super) fn decode(cursor: &mut Cursor<'a>, mask: u64, field: &'static str) -> Result<Self> {
        let before = cursor.clone();
        let abi = match u32::try_from(cursor.u64(field)?) {
            Ok(abi::PERF_SAMPLE_REGS_ABI_NONE) => {
                return Ok(Self { abi: RegisterAbi::None, mask: 0, values: Words::default() });
            }
            Ok(abi::PERF_SAMPLE_REGS_ABI_32) => RegisterAbi::Bits32,
            Ok(abi::PERF_SAMPLE_REGS_ABI_64) => RegisterAbi::Bits64,
            _ => return Err(before.malformed(format!("{field} has an ABI that is none of 0, 1, 2"))),
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
