//! Writing a trace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use perftax_pmu::{Error, Result};
use rustix::fs::{FallocateFlags, fallocate};

use super::table::{Function, TableWriter, write_texts};
use super::{
    EVENTS, EXECUTED, KERNEL, LABELS, MARKS, OBJECTS, SAMPLES, SYMBOLS, SampleRow, WINDOW_COLUMNS, WINDOWS, codes, executed_row,
    mark_row,
};
use crate::executed::Reading;
use crate::kernel::KernelEvent;
use crate::mark::Mark;
use crate::row::{EventRow, Row};

/// Rows that were written, and rows that the disk had no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Marks written.
    pub marks: u64,
    /// Samples written.
    pub samples: u64,
    /// Records of the kernel's written.
    pub kernel: u64,
    /// Samples of counted events written.
    pub events: u64,
    /// Readings of what threads have executed, written.
    pub executed: u64,
    /// Rows that found no room.
    pub refused: u64,
}

/// Writes a trace's tables, row by row in order of time. Marks go first: where the disk gets full, what else is there tells nothing without them.
pub struct StoreWriter {
    folder: PathBuf,
    marks: TableWriter<4>,
    samples: TableWriter<6>,
    kernel: TableWriter<5>,
    /// Where events are counted.
    events: Option<TableWriter<8>>,
    /// Where counters are read.
    executed: Option<TableWriter<5>>,
}

/// Room that is kept for what is written last, bytes: what addresses are called, `meta.json`.
const BALLAST_BYTES: u64 = 1 << 20;
const BALLAST: &str = "ballast";

impl StoreWriter {
    /// Makes the tables in a folder that is there.
    ///
    /// # Errors
    /// Where they cannot be made.
    pub fn create(folder: &Path) -> Result<Self> {
        let ballast = folder.join(BALLAST);
        let file = std::fs::File::create(&ballast).map_err(Error::file(&ballast))?;
        // Where there is less, or it cannot be had at all, what is written last may fail.
        fallocate(&file, FallocateFlags::empty(), 0, BALLAST_BYTES).ok();
        Ok(Self {
            folder: folder.into(),
            marks: TableWriter::create(folder, MARKS)?,
            samples: TableWriter::create(folder, SAMPLES)?,
            kernel: TableWriter::create(folder, KERNEL)?,
            events: None,
            executed: None,
        })
    }

    /// Makes the table of counted events, too.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn count_events(&mut self) -> Result<()> {
        self.events = Some(TableWriter::create(&self.folder, EVENTS)?);
        Ok(())
    }

    /// Makes the table of what threads have executed, too.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn count_executed(&mut self) -> Result<()> {
        self.executed = Some(TableWriter::create(&self.folder, EXECUTED)?);
        Ok(())
    }

    /// Adds a row.
    ///
    /// # Errors
    /// As [`StoreWriter::mark`].
    pub fn row(&mut self, row: &Row) -> Result<()> {
        match row {
            Row::Mark(mark) => self.mark(mark),
            Row::Sample(sample) => self.sample(sample),
            Row::Kernel(event) => self.kernel(event),
            Row::Event(event) => self.event(event),
            Row::Executed(reading) => self.executed(reading),
        }
    }

    /// Adds a mark.
    ///
    /// # Errors
    /// Where it cannot be written, but for a full disk.
    pub fn mark(&mut self, mark: &Mark) -> Result<()> {
        self.marks.push(mark_row(mark))
    }

    /// Adds a sample.
    ///
    /// # Errors
    /// As [`StoreWriter::mark`].
    pub fn sample(&mut self, s: &SampleRow) -> Result<()> {
        if self.samples.is_nearly_full() {
            self.marks.flush()?;
        }
        self.samples.push([s.time_ns, s.cpu.into(), s.pid.into(), s.tid.into(), s.ip, s.tag])
    }

    /// Adds a record of the kernel's.
    ///
    /// # Errors
    /// As [`StoreWriter::mark`].
    pub fn kernel(&mut self, event: &KernelEvent) -> Result<()> {
        let (what, other) = codes::of_what(event.what);
        if self.kernel.is_nearly_full() {
            self.marks.flush()?;
        }
        self.kernel.push([event.time_ns, event.cpu.into(), event.tid.into(), what, other])
    }

    /// Adds a sample of an event that is counted; nothing without [`StoreWriter::count_events`].
    ///
    /// # Errors
    /// As [`StoreWriter::mark`].
    pub fn event(&mut self, row: &EventRow) -> Result<()> {
        let Some(table) = &mut self.events else { return Ok(()) };
        if table.is_nearly_full() {
            self.marks.flush()?;
        }
        let EventRow { time_ns, cpu, pid, tid, event, object, ip, address } = *row;
        table.push([time_ns, cpu.into(), pid.into(), tid.into(), ip, address, event.into(), object.into()])
    }

    /// Adds what a thread has executed; nothing without [`StoreWriter::count_executed`].
    ///
    /// # Errors
    /// As [`StoreWriter::mark`].
    pub fn executed(&mut self, reading: &Reading) -> Result<()> {
        let Some(table) = &mut self.executed else { return Ok(()) };
        if table.is_nearly_full() {
            self.marks.flush()?;
        }
        table.push(executed_row(reading))
    }

    /// Ends the tables, and writes what addresses are called and how messages are labelled.
    ///
    /// # Errors
    /// Where they cannot be written. What is complete by then stays.
    pub fn finish(self, symbols: &BTreeMap<(u32, u64), Function>, labels: &[(u64, &str)]) -> Result<Room> {
        let (marks, no_marks) = self.marks.finish()?;
        let (samples, no_samples) = self.samples.finish()?;
        let (kernel, no_kernel) = self.kernel.finish()?;
        let (events, no_events) = self.events.map_or(Ok((0, 0)), TableWriter::finish)?;
        let (executed, none_executed) = self.executed.map_or(Ok((0, 0)), TableWriter::finish)?;
        let refused = no_marks + no_samples + no_kernel + no_events + none_executed;
        std::fs::remove_file(self.folder.join(BALLAST)).ok();
        let symbols: Vec<([u64; 2], [String; 2])> = symbols
            .iter()
            .map(|((pid, ip), function)| ([u64::from(*pid), *ip], [function.name.clone(), function.module.clone()]))
            .collect();
        write_texts(&self.folder.join(SYMBOLS), (["pid", "ip"], ["function", "module"]), &symbols)?;
        if !labels.is_empty() {
            let labels: Vec<([u64; 1], [&str; 1])> = labels.iter().map(|(id, text)| ([*id], [*text])).collect();
            write_texts(&self.folder.join(LABELS), (["id"], ["text"]), &labels)?;
        }
        Ok(Room { marks, samples, kernel, events, executed, refused })
    }
}

/// Writes what lies at the addresses of counted events, by number from 1.
///
/// # Errors
/// Where it cannot be written.
pub fn write_objects(folder: &Path, objects: &[String]) -> Result<()> {
    let rows: Vec<([u64; 1], [&str; 1])> = (1..).zip(objects).map(|(number, name)| ([number], [name.as_str()])).collect();
    write_texts(&folder.join(OBJECTS.0), OBJECTS.1, &rows)
}

/// Writes when recording was on.
///
/// # Errors
/// Where it cannot be written.
pub fn write_windows(folder: &Path, windows_ns: &[(u64, u64)]) -> Result<()> {
    let rows: Vec<([u64; 2], [String; 0])> = windows_ns.iter().map(|(from, to)| ([*from, *to], [])).collect();
    write_texts(&folder.join(WINDOWS), WINDOW_COLUMNS, &rows)
}
