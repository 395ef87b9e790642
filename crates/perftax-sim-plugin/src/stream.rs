// SPDX-License-Identifier: GPL-2.0-or-later
//! Memory accesses on their way from the program to the simulated caches, and the filter that drops most of them.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

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

/// Entries that make a batch full: 128 KiB, which a second-level cache holds twice.
pub const ROOM: usize = 16_384;

/// Sets that a filter tells apart: those of a first-level cache of 32 KiB and 8 ways.
const FILTER_SETS: usize = 64;
/// No access: as a key, the last line written.
const NONE: u32 = u32::MAX;

/// Takes accesses in, and says of most at once that they change nothing.
///
/// An access to the line that was used last in its set hits the first level whatever the policy, and changes nothing unless it
/// is the first that writes: it is dropped. (A line that an inclusive last level, or a record of a sampled miss, takes away
/// meanwhile is missed one access too late: such lines are in constant use, which a real last level is told of.)
///
/// Each intake belongs to one thread; its fields are atomic only because all of them stand in one static, where they are reached
/// without following a pointer.
#[repr(C, align(64))]
pub struct Intake {
    /// For each set, the line used last and, in the lowest bit, whether it was written.
    last: [AtomicU32; FILTER_SETS],
    /// Accesses taken in since the batch was begun.
    filled: AtomicU32,
    /// The batch's entries.
    entries: AtomicPtr<Entry>,
}

impl Intake {
    /// Knows nothing, and has nowhere to put anything.
    pub const fn new() -> Self {
        Self {
            last: [const { AtomicU32::new(NONE) }; FILTER_SETS],
            filled: AtomicU32::new(0),
            entries: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Takes an access in; whether the batch is full then, and another must be begun before the next.
    ///
    /// Without branches, since nothing foretells which accesses are dropped: every one is written behind the last that was kept.
    ///
    /// # Safety
    /// A batch has been begun, by the calling thread.
    #[inline(always)]
    pub unsafe fn take(&self, line: u32, write: bool, instruction: u32) -> bool {
        let key = line << 1 | u32::from(write);
        let last = &self.last[line as usize % FILTER_SETS];
        let before = last.load(Ordering::Relaxed);
        let kept = if write { key != before } else { key ^ before > 1 };
        last.store(if kept { key } else { before }, Ordering::Relaxed);
        let filled = self.filled.load(Ordering::Relaxed);
        // SAFETY: a batch has room for one entry more than make it full.
        unsafe { *self.entries.load(Ordering::Relaxed).add(filled as usize) = Entry::new(line, write, instruction) };
        let filled = filled + u32::from(kept);
        self.filled.store(filled, Ordering::Relaxed);
        filled as usize >= ROOM
    }

    /// A batch with room for [`ROOM`] entries and one is begun. It must not move or end before the next is.
    pub fn begin(&self, entries: *mut Entry) {
        self.entries.store(entries, Ordering::Relaxed);
        self.filled.store(0, Ordering::Relaxed);
    }

    /// Accesses taken in since then.
    pub fn filled(&self) -> u32 {
        self.filled.load(Ordering::Relaxed)
    }

    /// Somebody else used the caches, or another thread this intake: nothing is known of what they hold.
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
        let (intake, mut entries) = (Intake::new(), vec![Entry::default(); ROOM + 1]);
        intake.begin(entries.as_mut_ptr());
        // SAFETY: the batch was begun above.
        let take = |address, write| unsafe { intake.take(line_of(address), write, 7) };
        let accesses = [
            (0x1000, false, 1),
            (0x1030, false, 1),
            (0x2040, false, 2),
            (0x1008, true, 3),
            (0x1010, false, 3),
            (0x2040, false, 3),
            (0x2000, false, 4),
            (0x1000, false, 5),
        ];
        for (address, write, kept) in accesses {
            assert!(!take(address, write));
            assert_eq!(intake.filled(), kept, "{address:#x} {write}");
        }
        intake.forget();
        take(0x2040, false);
        assert_eq!(intake.filled(), 6);
        let entry = entries[2];
        assert_eq!((entry.line(), entry.is_write(), entry.instruction()), (0x40, true, 7));
    }

    #[test]
    fn a_filter_must_be_as_coarse_as_the_cache() {
        assert!(filter_fits(64) && filter_fits(128) && !filter_fits(32) && !filter_fits(96));
    }
}
