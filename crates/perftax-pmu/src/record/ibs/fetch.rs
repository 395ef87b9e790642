//! Samples of `ibs_fetch`.

use super::super::bits::{bit, bits};
use super::super::cursor::Cursor;
use super::Capabilities;
use crate::Result;

/// One tagged fetch of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// What the machine can.
    pub capabilities: Capabilities,
    /// `IbsFetchCtl`.
    pub control: FetchControl,
    /// `IbsFetchLinAd`: address fetched.
    pub linear_address: u64,
    /// `IbsFetchPhysAd`: the physical one, if [`FetchControl::physical_address_valid`] is set. The kernel zeroes it for users
    /// without privilege.
    pub physical_address: u64,
    /// `IcIbsExtdCtl`: cycles that the refill of the instruction TLB took.
    pub tlb_refill_cycles: Option<u16>,
}

/// `IbsFetchCtl`, MSRC001_1030.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FetchControl(pub u64);

impl Fetch {
    /// From the raw data of a sample.
    ///
    /// # Errors
    /// [`crate::Error::Malformed`] where the data end inside the registers, or after those that a kernel writes.
    pub fn decode(raw: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new("IBS fetch sample", 0, raw);
        let c = &mut cursor;
        let capabilities = Capabilities(c.u32("capabilities")?);
        let control = FetchControl(c.u64("IbsFetchCtl")?);
        let linear_address = c.u64("IbsFetchLinAd")?;
        let physical_address = c.u64("IbsFetchPhysAd")?;
        // Kernels before 5.10 appended two registers of the *op* side here, as far as the machine has them.
        let of_old = 8 * (usize::from(capabilities.branch_target()) + usize::from(capabilities.op_data_4()));
        let mut tlb_refill_cycles = None;
        if c.rest().len() == 8 && capabilities.fetch_control_extended() {
            tlb_refill_cycles = Some(bits(c.u64("IcIbsExtdCtl")?, 0, 16) as u16);
        } else if c.rest().len() == of_old {
            c.bytes(of_old as u64, "registers of ops")?;
        }
        cursor.finish()?;
        Ok(Self { capabilities, control, linear_address, physical_address, tlb_refill_cycles })
    }
}

impl FetchControl {
    /// The period: fetches that the counter counts up to. Multiples of 16.
    pub fn period(self) -> u64 {
        bits(self.0, 0, 16) << 4
    }

    /// Where the counter stood, in fetches.
    pub fn current_count(self) -> u64 {
        bits(self.0, 16, 16) << 4
    }

    /// Cycles from the fetch to its end.
    pub fn latency_cycles(self) -> u16 {
        bits(self.0, 32, 16) as u16
    }

    /// Sampling is enabled.
    pub fn enabled(self) -> bool {
        bit(self.0, 48)
    }

    /// The other registers hold a sample.
    pub fn valid(self) -> bool {
        bit(self.0, 49)
    }

    /// The fetch delivered its bytes; else it was aborted.
    pub fn complete(self) -> bool {
        bit(self.0, 50)
    }

    /// Missed the instruction cache.
    pub fn cache_miss(self) -> bool {
        bit(self.0, 51)
    }

    /// [`Fetch::physical_address`] is one.
    pub fn physical_address_valid(self) -> bool {
        bit(self.0, 52)
    }

    /// Page size in the first TLB, where the physical address is valid: 0 4 KiB, 1 2 MiB, 2 1 GiB, 3 by family.
    pub fn page_size(self) -> u8 {
        bits(self.0, 53, 2) as u8
    }

    /// Missed the first instruction TLB.
    pub fn l1_tlb_miss(self) -> bool {
        bit(self.0, 55)
    }

    /// Missed the second.
    pub fn l2_tlb_miss(self) -> bool {
        bit(self.0, 56)
    }

    /// The counter's low bits are set at random.
    pub fn randomised(self) -> bool {
        bit(self.0, 57)
    }

    /// Missed L2, where the fetch is complete.
    pub fn l2_miss(self) -> bool {
        bit(self.0, 58)
    }

    /// Fetches that miss L3 only (Zen 4 and later).
    pub fn l3_miss_only(self) -> bool {
        bit(self.0, 59)
    }

    /// Missed the op cache (Zen 4 and later).
    pub fn op_cache_miss(self) -> bool {
        bit(self.0, 60)
    }

    /// Missed L3 (Zen 4 and later).
    pub fn l3_miss(self) -> bool {
        bit(self.0, 61)
    }
}
