// SPDX-License-Identifier: GPL-2.0-or-later
//! Memory accesses on their way from the program to the simulated caches.

use perftax_model::cache::{LINE_BITS, line_of};

/// Accesses that wait at most: 32 KiB, about a first-level cache's size, so that they stay near.
const ROOM: usize = 4096;

const LINE_MASK: u64 = (1 << LINE_BITS) - 1;
const WRITE: u64 = 1 << 31;
const _: () = assert!(LINE_BITS <= 31);

/// One access: line in bits 29:0, whether it writes in bit 31, number of the instruction in bits 63:32.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry(u64);

impl Entry {
    /// An access of an instruction to the line of an address.
    #[inline]
    pub fn new(address: u64, write: bool, instruction: u32) -> Self {
        Self(u64::from(line_of(address)) | if write { WRITE } else { 0 } | u64::from(instruction) << 32)
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

/// What waits.
pub struct Stream {
    /// Line and, in the lowest bit, write of the access before.
    last: u32,
    filled: usize,
    entries: Box<[Entry; ROOM]>,
}

impl Stream {
    /// Empty.
    pub fn new() -> Self {
        Self { last: u32::MAX, filled: 0, entries: Box::new([Entry::default(); ROOM]) }
    }

    /// Adds an access; whether the stream is full then.
    ///
    /// An access to the line of the one before hits the first level whatever its policy, and changes nothing unless it is the
    /// first that writes: it is dropped here, at once.
    #[inline]
    pub fn push(&mut self, entry: Entry) -> bool {
        let key = entry.line() << 1 | u32::from(entry.is_write());
        if key | 1 == self.last | 1 && key <= self.last {
            return false;
        }
        self.last = key;
        // In bounds: whoever is told that it is full clears it.
        self.entries[self.filled & (ROOM - 1)] = entry;
        self.filled += 1;
        self.filled == ROOM
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.filled
    }

    /// One of them.
    #[inline]
    pub fn get(&self, position: usize) -> Entry {
        self.entries[position & (ROOM - 1)]
    }

    /// All were simulated.
    pub fn clear(&mut self) {
        self.filled = 0;
        // Records may have taken the line's place since.
        self.last = u32::MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_lines_are_dropped_until_one_writes() {
        let mut stream = Stream::new();
        for (address, write, waiting) in
            [(0x1000, false, 1), (0x1030, false, 1), (0x1008, true, 2), (0x1010, false, 2), (0x2000, false, 3)]
        {
            stream.push(Entry::new(address, write, 7));
            assert_eq!(stream.waiting(), waiting, "{address:#x} {write}");
        }
        let entry = stream.get(1);
        assert_eq!((entry.line(), entry.is_write(), entry.instruction()), (0x40, true, 7));
        stream.clear();
        assert_eq!(stream.waiting(), 0);
    }
}
