// SPDX-License-Identifier: GPL-2.0-or-later
//! Samples: counted by address, and written down where that was asked for.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::{Arc, Mutex};

use perftax_model::Sample;
use perftax_model::run::SampleRow;

use crate::lock::lock;

/// The file of all samples, if there is one.
#[derive(Clone, Default)]
pub struct Rows(Option<Arc<Mutex<BufWriter<File>>>>);

impl Rows {
    /// Into a file.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn create(path: Option<&str>) -> Result<Self, String> {
        let Some(path) = path else { return Ok(Self::default()) };
        let file = File::create(path).map_err(|e| format!("cannot write {path}: {e}"))?;
        Ok(Self(Some(Arc::new(Mutex::new(BufWriter::new(file))))))
    }

    /// All samples are written.
    ///
    /// # Errors
    /// Where they could not be.
    pub fn flush(&self) -> std::io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |rows| lock(rows).flush())
    }
}

/// Samples of one thread.
#[derive(Default)]
pub struct Samples {
    /// How many, by address of the instruction.
    pub by_address: HashMap<u64, u64>,
}

impl Samples {
    /// Keeps one.
    pub fn keep(&mut self, sample: &Sample, thread: u32, rows: &Rows) {
        *self.by_address.entry(sample.ip).or_default() += 1;
        let Some(rows) = &rows.0 else { return };
        let row = SampleRow {
            instructions: sample.instructions,
            ip: sample.ip,
            data: sample.data.unwrap_or(0),
            core: u64::from(sample.core),
            thread: u64::from(thread),
        };
        // A full disk shows at the end, when the file is flushed.
        lock(rows).write_all(&row.to_bytes()).ok();
    }
}
