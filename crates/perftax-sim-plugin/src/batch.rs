// SPDX-License-Identifier: GPL-2.0-or-later
//! Accesses of one thread, in order, with the records that the hardware wrote in between.

use perftax_model::Records;

use crate::stream::Entry;

/// Accesses in a batch at most: 128 KiB, which a second-level cache holds twice.
const ROOM: usize = 16_384;

/// A batch.
#[derive(Debug)]
pub struct Batch {
    /// Thread that made them.
    pub thread: u32,
    /// Instructions that it had retired when the batch was closed.
    pub instructions: u64,
    /// Records, each with the number of accesses before it.
    pub records: Vec<(u32, Records)>,
    filled: u32,
    entries: Box<[Entry]>,
}

impl Default for Batch {
    fn default() -> Self {
        let entries = vec![Entry::default(); ROOM].into();
        Self { thread: 0, instructions: 0, records: Vec::new(), filled: 0, entries }
    }
}

impl Batch {
    /// Adds an access; whether the batch is full then, and must be handed over before the next.
    #[inline(always)]
    pub fn push(&mut self, entry: Entry) -> bool {
        if let Some(free) = self.entries.get_mut(self.filled as usize) {
            *free = entry;
        }
        self.filled += 1;
        self.filled as usize >= ROOM
    }

    /// Adds records behind the accesses so far.
    pub fn push_records(&mut self, records: Records) {
        if !records.is_nothing() {
            self.records.push((self.filled, records));
        }
    }

    /// The accesses.
    pub fn entries(&self) -> &[Entry] {
        &self.entries[..self.filled as usize]
    }

    /// Empty again.
    pub fn clear(&mut self) {
        self.filled = 0;
        self.records.clear();
    }
}
