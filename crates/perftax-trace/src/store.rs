//! A trace on disk: a folder of Parquet tables, one row a mark, a sample, a record of the kernel's. Times are CLOCK_MONOTONIC_RAW, ns.
//!
//! | table | columns (int64) |
//! |---|---|
//! | marks | time_ns, tid, id, kind (1 begin, 2 end, 3 switch) |
//! | samples | time_ns, cpu, tid, ip |
//! | kernel | time_ns, cpu, tid, what, other |
//!
//! `what`: 1 the thread leaves the CPU by waiting and 2 by preemption, `other` is who comes; 3 thread `other` is woken; 4, 5, 6 an irq, a
//! softirq, a vector begins and 7, 8, 9 ends; 10 a system call begins and 11 ends.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, Repetition, Type as Physical, ZstdLevel};
use parquet::column::reader::ColumnReader;
use parquet::data_type::Int64Type;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use perftax_pmu::{Error, Result};

use crate::kernel::{Interruption, KernelEvent, What};
use crate::mark::{Kind, Mark};

/// Rows that are written together.
const GROUP_ROWS: usize = 1 << 18;

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleRow {
    /// When.
    pub time_ns: u64,
    /// On which CPU.
    pub cpu: u32,
    /// The thread.
    pub tid: u32,
    /// The instruction.
    pub ip: u64,
}

/// Everything that was recorded, each table in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// What the program said.
    pub marks: Vec<Mark>,
    /// Where it was.
    pub samples: Vec<SampleRow>,
    /// What the kernel did.
    pub kernel: Vec<KernelEvent>,
}

const MARKS: (&str, [&str; 4]) = ("marks.parquet", ["time_ns", "tid", "id", "kind"]);
const SAMPLES: (&str, [&str; 4]) = ("samples.parquet", ["time_ns", "cpu", "tid", "ip"]);
const KERNEL: (&str, [&str; 5]) = ("kernel.parquet", ["time_ns", "cpu", "tid", "what", "other"]);

impl Trace {
    /// Writes the tables into a folder that is there.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let kind = |kind: Kind| match kind {
            Kind::Begin => 1,
            Kind::End => 2,
            Kind::Switch => 3,
        };
        write(folder, MARKS, &self.marks, |m| [m.time_ns, u64::from(m.tid), m.id, kind(m.kind)])?;
        write(folder, SAMPLES, &self.samples, |s| [s.time_ns, u64::from(s.cpu), u64::from(s.tid), s.ip])?;
        write(folder, KERNEL, &self.kernel, |e| {
            let (what, other) = code(e.what);
            [e.time_ns, u64::from(e.cpu), u64::from(e.tid), what, u64::from(other)]
        })
    }

    /// Reads them.
    ///
    /// # Errors
    /// Where a table is missing, is no such table, or holds what it cannot.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut trace = Self::default();
        read(folder, MARKS, |[time_ns, tid, id, kind]| {
            trace.marks.push(Mark { time_ns, tid: tid as u32, id, kind: Kind::of(kind)? });
            Some(())
        })?;
        read(folder, SAMPLES, |[time_ns, cpu, tid, ip]| {
            trace.samples.push(SampleRow { time_ns, cpu: cpu as u32, tid: tid as u32, ip });
            Some(())
        })?;
        read(folder, KERNEL, |[time_ns, cpu, tid, what, other]| {
            let (cpu, tid) = (cpu as u32, tid as u32);
            trace.kernel.push(KernelEvent { time_ns, cpu, tid, what: decode(what, tid, other as u32)? });
            Some(())
        })?;
        Ok(trace)
    }
}

fn code(what: What) -> (u64, u32) {
    let of = |interruption| match interruption {
        Interruption::Irq => 0,
        Interruption::Softirq => 1,
        Interruption::Vector => 2,
    };
    match what {
        What::Switch { is_runnable, next, .. } => (1 + u64::from(is_runnable), next),
        What::Wakeup { tid } => (3, tid),
        What::Enter(interruption) => (4 + of(interruption), 0),
        What::Exit(interruption) => (7 + of(interruption), 0),
        What::SyscallEnter => (10, 0),
        What::SyscallExit => (11, 0),
    }
}

fn decode(what: u64, tid: u32, other: u32) -> Option<What> {
    let interruption = |n| [Interruption::Irq, Interruption::Softirq, Interruption::Vector][n as usize];
    Some(match what {
        1 | 2 => What::Switch { previous: tid, is_runnable: what == 2, next: other },
        3 => What::Wakeup { tid: other },
        4..=6 => What::Enter(interruption(what - 4)),
        7..=9 => What::Exit(interruption(what - 7)),
        10 => What::SyscallEnter,
        11 => What::SyscallExit,
        _ => return None,
    })
}

fn failed(path: &Path) -> impl Fn(ParquetError) -> Error {
    let path = path.to_path_buf();
    move |error| match error {
        ParquetError::External(source) if source.is::<std::io::Error>() => {
            let source = source.downcast::<std::io::Error>().map_or_else(|_| std::io::ErrorKind::Other.into(), |source| *source);
            Error::File { path: path.clone(), source }
        }
        other => Error::Malformed { what: path.display().to_string(), offset: 0, why: other.to_string() },
    }
}

fn write<R, const N: usize>(
    folder: &Path,
    (name, columns): (&str, [&str; N]),
    rows: &[R],
    values: impl Fn(&R) -> [u64; N],
) -> Result<()> {
    let path = folder.join(name);
    let failed = failed(&path);
    let column = |name: &&str| {
        let column = Type::primitive_type_builder(name, Physical::INT64).with_repetition(Repetition::REQUIRED).build();
        column.map(Arc::new)
    };
    let fields = columns.iter().map(column).collect::<Result<Vec<_>, _>>().map_err(&failed)?;
    let table = name.trim_end_matches(".parquet");
    let schema = Type::group_type_builder(table).with_fields(fields).build().map_err(&failed)?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
    let file = BufWriter::new(File::create(&path).map_err(Error::file(&path))?);
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).map_err(&failed)?;
    for rows in rows.chunks(GROUP_ROWS) {
        let rows: Vec<[u64; N]> = rows.iter().map(&values).collect();
        let mut group = writer.next_row_group().map_err(&failed)?;
        for at in 0..N {
            let values: Vec<i64> = rows.iter().map(|row| row[at] as i64).collect();
            if let Some(mut column) = group.next_column().map_err(&failed)? {
                column.typed::<Int64Type>().write_batch(&values, None, None).map_err(&failed)?;
                column.close().map_err(&failed)?;
            }
        }
        group.close().map_err(&failed)?;
    }
    let file = writer.into_inner().map_err(&failed)?;
    let file = file.into_inner().map_err(|error| Error::file(&path)(error.into_error()))?;
    file.sync_all().map_err(Error::file(&path))
}

/// Hands every row to `each`, which says whether it can be.
fn read<const N: usize>(
    folder: &Path,
    (name, columns): (&str, [&str; N]),
    mut each: impl FnMut([u64; N]) -> Option<()>,
) -> Result<()> {
    let path = folder.join(name);
    let failed = failed(&path);
    let malformed = |why: String| Error::Malformed { what: path.display().to_string(), offset: 0, why };
    let file = File::open(&path).map_err(Error::file(&path))?;
    let reader = SerializedFileReader::new(file).map_err(&failed)?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let named: Vec<&str> = schema.columns().iter().map(|column| column.name()).collect();
    if named != columns || schema.columns().iter().any(|column| column.physical_type() != Physical::INT64) {
        return Err(malformed(format!("has columns {}, needs {} of 64 bits", named.join(", "), columns.join(", "))));
    }
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(&failed)?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let mut values: Vec<Vec<i64>> = Vec::with_capacity(N);
        for (at, name) in columns.iter().enumerate() {
            let mut column = Vec::new();
            if let ColumnReader::Int64ColumnReader(mut reader) = group.get_column_reader(at).map_err(&failed)? {
                while column.len() < rows {
                    let (read, _, _) = reader.read_records(rows - column.len(), None, None, &mut column).map_err(&failed)?;
                    if read == 0 {
                        return Err(malformed(format!("column {name} ends after {} of {rows} rows", column.len())));
                    }
                }
            }
            values.push(column);
        }
        for row in 0..rows {
            let cells: [u64; N] = std::array::from_fn(|at| values[at].get(row).map_or(0, |value| *value as u64));
            each(cells).ok_or_else(|| malformed(format!("row {row} of a group holds what it cannot: {cells:?}")))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn trace() -> Trace {
        let kinds = [Kind::Begin, Kind::Switch, Kind::End];
        let whats = [
            What::Switch { previous: 5, is_runnable: false, next: 6 },
            What::Switch { previous: 5, is_runnable: true, next: 0 },
            What::Wakeup { tid: 9 },
            What::Enter(Interruption::Softirq),
            What::Exit(Interruption::Vector),
            What::SyscallEnter,
            What::SyscallExit,
        ];
        Trace {
            marks: (0..GROUP_ROWS as u64 + 3)
                .map(|i| Mark { time_ns: i, tid: 7, id: u64::MAX >> 2, kind: kinds[i as usize % 3] })
                .collect(),
            samples: vec![SampleRow { time_ns: 3, cpu: 1, tid: 7, ip: u64::MAX - 5 }],
            kernel: whats.into_iter().map(|what| KernelEvent { time_ns: 4, cpu: 1, tid: 5, what }).collect(),
        }
    }

    #[test]
    fn what_was_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        trace().write(folder.path()).unwrap();
        assert_eq!(Trace::read(folder.path()).unwrap(), trace());
    }

    #[test]
    fn what_is_no_trace_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let error = |folder: &Path| Trace::read(folder).unwrap_err().to_string();
        assert!(error(folder.path()).contains("marks.parquet"));
        trace().write(folder.path()).unwrap();
        let samples = folder.path().join("samples.parquet");
        let whole = std::fs::read(&samples).unwrap();
        std::fs::write(&samples, &whole[..whole.len() - 10]).unwrap();
        assert!(error(folder.path()).contains("samples.parquet is malformed"), "{}", error(folder.path()));
        std::fs::copy(folder.path().join("kernel.parquet"), &samples).unwrap();
        assert!(error(folder.path()).contains("has columns time_ns, cpu, tid, what, other"), "{}", error(folder.path()));
        assert!(trace().write(&folder.path().join("missing")).is_err());
    }
}
