//! A trace's tables as one stream in order of time.

use std::path::Path;
use std::sync::mpsc::sync_channel;

use perftax_pmu::Result;

use super::reader::{Batches, Store, mark, read_ahead};
use super::table::TableReader;
use super::{EVENTS, EXECUTED, KERNEL, MARKS, SAMPLES, codes, executed_of};
use crate::kernel::KernelEvent;
use crate::spot::Spot;
use crate::tracker::{Counted, Record, Sampled};

/// The columns of a sample that a message's time is judged by.
const SAMPLE_COLUMNS: [&str; 4] = ["time_ns", "pid", "tid", "ip"];

/// The columns of a counted event that are looked at.
const EVENT_COLUMNS: [&str; 6] = ["time_ns", "pid", "tid", "ip", "event", "object"];

/// The tables, each read ahead.
pub(super) struct Merge<'s> {
    store: &'s Store,
    marks: Stream<4>,
    kernel: Stream<5>,
    samples: Stream<4>,
    /// Where there are any.
    events: Stream<6>,
    executed: Stream<5>,
}

impl<'s> Merge<'s> {
    /// Of a trace, from its beginning.
    ///
    /// # Errors
    /// Where a table cannot be read.
    pub fn of(store: &'s Store) -> Result<Self> {
        let folder = &store.folder;
        Ok(Self {
            store,
            marks: Stream::of(read_ahead(TableReader::open(folder, MARKS.0, MARKS.1)?))?,
            kernel: Stream::of(read_ahead(TableReader::open(folder, KERNEL.0, KERNEL.1)?))?,
            samples: Stream::of(read_ahead(TableReader::open(folder, SAMPLES.0, SAMPLE_COLUMNS)?))?,
            events: Stream::where_there(folder, (EVENTS.0, EVENT_COLUMNS))?,
            executed: Stream::where_there(folder, EXECUTED)?,
        })
    }

    /// The next so many records, fewer at the end; none after it. At one time the kernel's come before samples before what threads have executed before marks.
    ///
    /// # Errors
    /// Where a table cannot be read, or holds what it cannot; `records` then has what came before.
    pub fn next(&mut self, records: &mut Vec<Record>, most: usize) -> Result<()> {
        let Self { store, marks, kernel, samples, events, executed } = self;
        while records.len() < most {
            let (mark_ns, kernel_ns, sample_ns) = (marks.time_ns(), kernel.time_ns(), samples.time_ns());
            let (event_ns, executed_ns) = (events.time_ns(), executed.time_ns());
            if executed_ns != u64::MAX
                && executed_ns < kernel_ns
                && executed_ns < sample_ns
                && executed_ns < event_ns
                && executed_ns <= mark_ns
            {
                let of = |at: usize| executed.batch[at][executed.row] as u64;
                records.push(Record::Executed(executed_of(std::array::from_fn(of))));
                executed.advance()?;
            } else if event_ns != u64::MAX && event_ns < kernel_ns && event_ns < sample_ns && event_ns <= mark_ns {
                let of = |at: usize| events.batch[at][events.row];
                let function = store.symbols.function(of(1) as u32, of(3) as u64);
                let spot = Spot { event: of(4) as u32, function, object: of(5) as u32 };
                records.push(Record::Counted(Counted { time_ns: event_ns, tid: of(2) as u32, spot }));
                events.advance()?;
            } else if kernel_ns <= sample_ns && kernel_ns <= mark_ns {
                if kernel.is_over() {
                    return Ok(());
                }
                let of = |at: usize| kernel.batch[at][kernel.row];
                let what = codes::what(of(3) as u64, of(4) as u64).ok_or_else(|| store.odd(KERNEL.0, (0..5).map(of)))?;
                records.push(Record::Kernel(KernelEvent { time_ns: kernel_ns, cpu: of(1) as u32, tid: of(2) as u32, what }));
                kernel.advance()?;
            } else if sample_ns <= mark_ns {
                // All that come before anything else does: most rows are samples.
                let before_ns =
                    kernel_ns.min(mark_ns.saturating_add(1)).min(event_ns.saturating_add(1)).min(executed_ns.saturating_add(1));
                let [times, pids, tids, ips] = &samples.batch;
                let rows = samples.row..times.len().min(samples.row + most - records.len());
                let run = rows.take_while(|row| (times[*row] as u64) < before_ns);
                let before = records.len();
                records.extend(run.map(|row| {
                    let function = store.symbols.function(pids[row] as u32, ips[row] as u64);
                    Record::Sample(Sampled { time_ns: times[row] as u64, tid: tids[row] as u32, function })
                }));
                samples.skip(records.len() - before)?;
            } else {
                let odd = || store.odd(MARKS.0, (0..4).map(|at| marks.batch[at][marks.row]));
                records.push(Record::Mark(mark(&marks.batch, marks.row).ok_or_else(odd)?));
                marks.advance()?;
            }
        }
        Ok(())
    }
}

/// A table's rows; the first column is the time.
struct Stream<const N: usize> {
    batches: Batches<N>,
    batch: [Vec<i64>; N],
    row: usize,
}

impl<const N: usize> Stream<N> {
    /// Of a table that not every trace has.
    fn where_there(folder: &Path, (name, columns): (&str, [&str; N])) -> Result<Self> {
        if folder.join(name).exists() {
            return Self::of(read_ahead(TableReader::open(folder, name, columns)?));
        }
        // Nobody sends: it is over at once.
        let (_, none) = sync_channel(0);
        Self::of(none)
    }

    fn of(batches: Batches<N>) -> Result<Self> {
        let mut stream = Self { batches, batch: std::array::from_fn(|_| Vec::new()), row: 0 };
        stream.fill()?;
        Ok(stream)
    }

    fn is_over(&self) -> bool {
        self.row >= self.batch[0].len()
    }

    /// Of the next row; after the last one, later than any.
    fn time_ns(&self) -> u64 {
        self.batch[0].get(self.row).map_or(u64::MAX, |time| *time as u64)
    }

    fn advance(&mut self) -> Result<()> {
        self.skip(1)
    }

    fn skip(&mut self, rows: usize) -> Result<()> {
        self.row += rows;
        self.fill()
    }

    fn fill(&mut self) -> Result<()> {
        while self.is_over() {
            match self.batches.recv() {
                Ok(batch) => (self.batch, self.row) = (batch?, 0),
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }
}
