//! IBS fetch sampling (AMD64 APM volume 2, 13.3.2; PPR for family 17h models 31h, 2.1.14.3, IbsFetchCtl and what follows).

use super::{Random, msr};
use crate::emulated::Retired;

/// IbsFetchMaxCnt, in units of 16.
const MAXIMUM: u64 = 0xffff;
const CURRENT_SHIFT: u32 = 16;
/// IbsFetchCnt: bits 19:4 of the count.
const CURRENT: u64 = 0xffff;
/// IbsFetchEn.
const ENABLE: u64 = 1 << 48;
/// IbsFetchVal: a sample waits, and nothing counts.
const VALID: u64 = 1 << 49;
/// IbsFetchComp: the fetch was of use.
const COMPLETE: u64 = 1 << 50;
/// IbsRandEn: the count's low bits start at random.
const RANDOM: u64 = 1 << 57;
const RANDOM_BITS: u32 = 4;
/// IbsFetchL3MissOnly, of Zen 4: fetches that missed the last level alone. None does: no cache holds instructions here.
const MISSES_ALONE: u64 = 1 << 59;
/// What a sample says of the fetch: latency, complete, misses, page size.
const OUTCOME: u64 = 0xffff << 32 | 0x7f << 50 | 1 << 58;

/// The registers. A fetch counts when the first instruction of it retires ([`crate::emulated::Class::Fetches`]): there is no wrong
/// path, and the tagged fetch always completes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetch {
    /// What Zen 4 added is there.
    is_extended: bool,
    control: u64,
    count: u64,
    linear: u64,
    physical: u64,
}

impl Fetch {
    /// As after a reset; with or without what Zen 4 added.
    pub fn new(is_extended: bool) -> Self {
        Self { is_extended, ..Self::default() }
    }

    /// Whether fetches are counted now.
    pub fn counts(&self) -> bool {
        self.control & (ENABLE | VALID) == ENABLE && self.maximum() > 0
    }

    /// Fetches that may pass until the next one is tagged.
    pub fn left(&self) -> u64 {
        self.maximum().saturating_sub(self.count)
    }

    /// So many fetches have passed; whether one of them was tagged: the first after the count was the maximum.
    pub fn pass(&mut self, fetches: i64) -> bool {
        self.count = self.count.saturating_add_signed(fetches);
        self.count > self.maximum()
    }

    /// The tagged fetch was that of this instruction; whether that is a sample. The count stays, as the driver expects it.
    pub fn sample(&mut self, retired: &Retired) -> bool {
        if self.control & MISSES_ALONE != 0 {
            self.count = 0;
            return false;
        }
        self.linear = retired.ip;
        self.physical = 0;
        self.control = self.control & !OUTCOME | VALID | COMPLETE;
        self.count = self.maximum();
        true
    }

    /// Reads a register; `None` where it is not one of these.
    pub fn read(&self, number: u32) -> Option<u64> {
        Some(match number {
            msr::IBS_FETCH_CTL => self.control | (self.count >> 4 & CURRENT) << CURRENT_SHIFT,
            msr::IBS_FETCH_LINEAR => self.linear,
            msr::IBS_FETCH_PHYSICAL => self.physical,
            msr::IBS_FETCH_CTL_EXTENDED => 0,
            _ => return None,
        })
    }

    /// Writes a register; false where it is not one of these.
    pub fn write(&mut self, number: u32, value: u64, random: Option<&mut Random>) -> bool {
        match number {
            msr::IBS_FETCH_CTL => {
                let filter = if self.is_extended { MISSES_ALONE } else { 0 };
                self.control = value & (MAXIMUM | OUTCOME | ENABLE | VALID | RANDOM | filter);
                self.count = (value >> CURRENT_SHIFT & CURRENT) << 4;
                if let Some(random) = random.filter(|_| self.counts() && value & RANDOM != 0) {
                    self.count |= random.bits(RANDOM_BITS);
                }
            }
            msr::IBS_FETCH_LINEAR => self.linear = value,
            msr::IBS_FETCH_PHYSICAL => self.physical = value,
            msr::IBS_FETCH_CTL_EXTENDED => {}
            _ => return false,
        }
        true
    }

    fn maximum(&self) -> u64 {
        (self.control & MAXIMUM) << 4
    }
}
