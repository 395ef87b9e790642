// SPDX-License-Identifier: GPL-2.0-or-later
//! Memory accesses on their way from the program to the simulated caches, and the filter that drops most of them.

use std::sync::atomic::{AtomicU32, Ordering};

use perftax_model::cache::LINE_BITS;

const LINE_MASK: u64 = (1 << LINE_BITS) - 1;
const WRITE: u64 = 1 << 31;
const _: () = assert!(LINE_BITS <= 31);

/// One access: line in bits 29:0, whether it writes in bit 31, number of the instruction in bits 63:32.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry(u64);

impl Entry {
    /// An access of an instruction to a line.
    #[inline]
    pub fn new(line: u32, write: bool, instruction: u32) -> Self {
        Self(u64::from(line) | if write { WRITE } else { 0 } | u64::from(instruction) << 32)
    }

    /// The line.
    #[inline]
    pub fn line(self) -> u32 {
        (self.0 & LINE_MASK) as u32
    }

    /// Whether it writes.
    #[inline]
    pub fn is_write(self) -> bool {
        self.0 & WRITE != 0
    }

    /// The instruction's number.
    #[inline]
    pub fn instruction(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Sets that a filter tells apart: those of a first-level cache of 32 KiB and 8 ways.
const FILTER_SETS: usize = 64;
/// No access: as a key, the last line written.
const NONE: u32 = u32::MAX;

/// Says of most accesses at once that they change nothing.
///
/// An access to the line that was used last in its set hits the first level whatever the policy, and changes nothing unless it
/// is the first that writes: it is dropped. (A line that an inclusive last level, or a record of a sampled miss, takes away
/// meanwhile is missed one access too late: such lines are in constant use, which a real last level is told of.)
#[repr(C, align(64))]
pub struct Filter {
    /// For each set, the line used last and, in the lowest bit, whether it was written. Each filter belongs to one thread; atomic
    /// only because all of them stand in one static.
    last: [AtomicU32; FILTER_SETS],
}

impl Filter {
    /// Knows nothing.
    pub const fn new() -> Self {
        Self { last: [const { AtomicU32::new(NONE) }; FILTER_SETS] }
    }

    /// Whether an access changes nothing; else it is noted as its set's last.
    #[inline(always)]
    pub fn drops(&self, line: u32, write: bool) -> bool {
        let key = line << 1 | u32::from(write);
        let last = &self.last[line as usize % FILTER_SETS];
        let before = last.load(Ordering::Relaxed);
        if key ^ before <= 1 && key <= before {
            return true;
        }
        last.store(key, Ordering::Relaxed);
        false
    }

    /// Somebody else used the caches, or another thread this filter: nothing is known of what they hold.
    pub fn forget(&self) {
        self.last.iter().for_each(|last| last.store(NONE, Ordering::Relaxed));
    }
}

/// Whether the filter speaks the truth before a first-level cache of so many sets: two lines of one set there must share one here.
pub fn filter_fits(sets: usize) -> bool {
    sets.is_multiple_of(FILTER_SETS)
}

#[cfg(test)]
mod tests {
    use perftax_model::cache::line_of;

    use super::*;

    #[test]
    fn a_sets_last_line_is_dropped_until_one_writes() {
        let (filter, mut kept) = (Filter::new(), Vec::new());
        let accesses = [
            (0x1000, false, true),
            (0x1030, false, false),
            (0x2040, false, true),
            (0x1008, true, true),
            (0x1010, false, false),
            (0x2040, false, false),
            (0x2000, false, true),
            (0x1000, false, true),
        ];
        for (address, write, keeps) in accesses {
            assert_eq!(!filter.drops(line_of(address), write), keeps, "{address:#x} {write}");
            if keeps {
                kept.push(Entry::new(line_of(address), write, 7));
            }
        }
        let entry = kept[2];
        assert_eq!((entry.line(), entry.is_write(), entry.instruction()), (0x40, true, 7));
        filter.forget();
        assert!(!filter.drops(line_of(0x2040), false));
    }

    #[test]
    fn a_filter_must_be_as_coarse_as_the_cache() {
        assert!(filter_fits(64) && filter_fits(128) && !filter_fits(32) && !filter_fits(96));
    }
}
