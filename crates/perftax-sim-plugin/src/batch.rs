// SPDX-License-Identifier: GPL-2.0-or-later
//! Accesses of one thread, in order, with the records that the hardware wrote in between.

use perftax_model::Records;

use crate::stream::{Entry, ROOM};

/// A batch.
#[derive(Debug)]
pub struct Batch {
    /// Thread that made them.
    pub thread: u32,
    /// Instructions that it had retired when the batch was closed.
    pub instructions: u64,
    /// Records, each with the number of accesses before it.
    pub records: Vec<(u32, Records)>,
    /// Accesses in it.
    pub filled: u32,
    entries: Box<[Entry]>,
}

impl Default for Batch {
    fn default() -> Self {
        let entries = vec![Entry::default(); ROOM + 1].into();
        Self { thread: 0, instructions: 0, records: Vec::new(), filled: 0, entries }
    }
}

impl Batch {
    /// Where accesses are put: room for [`ROOM`] and one.
    pub fn room(&mut self) -> *mut Entry {
        self.entries.as_mut_ptr()
    }

    /// Adds records behind so many accesses.
    pub fn push_records(&mut self, behind: u32, records: Records) {
        if !records.is_nothing() {
            self.records.push((behind, records));
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
