//! Files of tables: rows to Parquet, column by column, and back. The same rows give the same bytes.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Encoding, Repetition, Type as Physical, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{ChunkReader, FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

use crate::error::{Error, Result};
use crate::rows::{Row, Value};
use crate::schema::{Column, Kind, Table};

/// Rows that are written together.
const GROUP_ROWS: usize = 1 << 17;
/// Of these, values differ from row to row: a dictionary would be a second copy.
const ALL_DIFFERENT: [&str; 4] = ["message", "number", "span", "trace"];
/// Of these, they grow mostly.
const GROWING: [&str; 2] = ["begin_ns", "time_ns"];

/// The cells of a column.
#[derive(Clone, Debug, PartialEq)]
enum Cells {
    Int(Vec<Option<i64>>),
    Text(Vec<Option<ByteArray>>),
    Double(Vec<Option<f64>>),
}

impl Cells {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Int => Self::Int(Vec::new()),
            Kind::Text => Self::Text(Vec::new()),
            Kind::Double => Self::Double(Vec::new()),
        }
    }

    /// Adds a cell; false where it is of another kind.
    fn push(&mut self, value: Value) -> bool {
        match (self, value) {
            (Self::Int(cells), Value::Int(value)) => cells.push(value),
            (Self::Text(cells), Value::Text(value)) => cells.push(value),
            (Self::Double(cells), Value::Double(value)) => cells.push(value),
            _ => return false,
        }
        true
    }

    fn push_nulls(&mut self, n: usize) {
        match self {
            Self::Int(cells) => cells.resize(cells.len() + n, None),
            Self::Text(cells) => cells.resize(cells.len() + n, None),
            Self::Double(cells) => cells.resize(cells.len() + n, None),
        }
    }

    fn clear(&mut self) {
        match self {
            Self::Int(cells) => cells.clear(),
            Self::Text(cells) => cells.clear(),
            Self::Double(cells) => cells.clear(),
        }
    }
}

/// Rows of a table, by columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    table: Table,
    columns: Vec<Cells>,
    len: usize,
}

impl Rows {
    /// None yet.
    pub fn of(table: Table) -> Self {
        Self { table, columns: table.columns().iter().map(|column| Cells::of(column.kind)).collect(), len: 0 }
    }

    /// The table.
    pub fn table(&self) -> Table {
        self.table
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a row.
    pub fn push<R: Row>(&mut self, row: R) {
        debug_assert_eq!(self.table, R::TABLE);
        let fits = self.columns.iter_mut().zip(row.cells()).all(|(column, value)| column.push(value));
        debug_assert!(fits);
        self.len += 1;
    }

    /// Texts of a column, NULL as none; none where there is no such column of texts.
    pub fn texts(&self, column: &str) -> Option<Vec<Option<String>>> {
        let Cells::Text(cells) = self.cells(column)? else { return None };
        let text = |cell: &Option<ByteArray>| cell.as_ref().map(|cell| String::from_utf8_lossy(cell.data()).into_owned());
        Some(cells.iter().map(text).collect())
    }

    /// Integers of a column, likewise.
    pub fn ints(&self, column: &str) -> Option<Vec<Option<i64>>> {
        let Cells::Int(cells) = self.cells(column)? else { return None };
        Some(cells.clone())
    }

    /// Doubles of a column, likewise.
    pub fn doubles(&self, column: &str) -> Option<Vec<Option<f64>>> {
        let Cells::Double(cells) = self.cells(column)? else { return None };
        Some(cells.clone())
    }

    fn cells(&self, column: &str) -> Option<&Cells> {
        let at = self.table.columns().iter().position(|of| of.name == column)?;
        self.columns.get(at)
    }

    fn clear(&mut self) {
        self.columns.iter_mut().for_each(Cells::clear);
        self.len = 0;
    }
}

/// Writes a file of a table, group by group.
pub struct FileWriter<W: Write + Send> {
    path: String,
    writer: SerializedFileWriter<W>,
    waiting: Rows,
    columns: Vec<Column>,
    rows: u64,
}

impl<W: Write + Send> FileWriter<W> {
    /// Begins one; `path` is what errors name. Of an older version it has no columns that came later.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn new(table: Table, version: u32, path: &str, to: W) -> Result<Self> {
        let failed = |error: ParquetError| Error::content(path, error);
        let columns: Vec<Column> = table.columns().iter().filter(|column| column.since <= version).copied().collect();
        let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let schema = Type::group_type_builder(table.name()).with_fields(fields).build().map_err(failed)?;
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            // Whoever writes the same rows writes the same bytes.
            .set_created_by("perftax".into());
        for column in &columns {
            let at = ColumnPath::from(column.name);
            if GROWING.contains(&column.name) {
                properties = properties.set_column_encoding(at.clone(), Encoding::DELTA_BINARY_PACKED);
            }
            let is_different = ALL_DIFFERENT.contains(&column.name) || GROWING.contains(&column.name);
            properties = properties.set_column_dictionary_enabled(at, !is_different);
        }
        let writer = SerializedFileWriter::new(to, Arc::new(schema), Arc::new(properties.build())).map_err(failed)?;
        Ok(Self { path: path.into(), writer, waiting: Rows::of(table), columns, rows: 0 })
    }

    /// Adds all of these rows.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn add(&mut self, rows: &Rows) -> Result<()> {
        for (to, from) in self.waiting.columns.iter_mut().zip(&rows.columns) {
            match (to, from) {
                (Cells::Int(to), Cells::Int(from)) => to.extend_from_slice(from),
                (Cells::Text(to), Cells::Text(from)) => to.extend_from_slice(from),
                (Cells::Double(to), Cells::Double(from)) => to.extend_from_slice(from),
                _ => {}
            }
        }
        self.waiting.len += rows.len;
        if self.waiting.len >= GROUP_ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let failed = |error: ParquetError| Error::content(&self.path, error);
        let all = self.waiting.table.columns().iter().zip(&self.waiting.columns);
        let mut group = self.writer.next_row_group().map_err(failed)?;
        for (column, cells) in all.filter(|(column, _)| self.columns.contains(column)) {
            let Some(mut writer) = group.next_column().map_err(failed)? else { break };
            match (writer.untyped(), cells) {
                (ColumnWriter::Int64ColumnWriter(_), Cells::Int(cells)) => {
                    let (values, levels) = apart(cells);
                    writer.typed::<Int64Type>().write_batch(&values, column.is_nullable.then_some(&levels[..]), None)
                }
                (ColumnWriter::ByteArrayColumnWriter(_), Cells::Text(cells)) => {
                    let (values, levels) = apart(cells);
                    writer.typed::<ByteArrayType>().write_batch(&values, column.is_nullable.then_some(&levels[..]), None)
                }
                (ColumnWriter::DoubleColumnWriter(_), Cells::Double(cells)) => {
                    let (values, levels) = apart(cells);
                    writer.typed::<DoubleType>().write_batch(&values, column.is_nullable.then_some(&levels[..]), None)
                }
                _ => return Err(Error::content(&self.path, format!("column {} is of another kind", column.name))),
            }
            .map_err(failed)?;
            writer.close().map_err(failed)?;
        }
        group.close().map_err(failed)?;
        self.rows += self.waiting.len as u64;
        self.waiting.clear();
        Ok(())
    }

    /// Bytes that are written so far.
    pub fn bytes(&self) -> u64 {
        self.writer.bytes_written() as u64
    }

    /// Ends it. Returns its rows and what it was written to.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn finish(mut self) -> Result<(u64, W)> {
        self.flush()?;
        let to = self.writer.into_inner().map_err(|error| Error::content(&self.path, error))?;
        Ok((self.rows, to))
    }
}

/// Values that are none of them NULL, and where they stand.
fn apart<T: Clone>(cells: &[Option<T>]) -> (Vec<T>, Vec<i16>) {
    (cells.iter().flatten().cloned().collect(), cells.iter().map(|cell| i16::from(cell.is_some())).collect())
}

fn field(column: &Column) -> Result<Arc<Type>, ParquetError> {
    let physical = physical(column.kind);
    let repetition = if column.is_nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let field = Type::primitive_type_builder(column.name, physical).with_repetition(repetition);
    let field = if column.kind == Kind::Text { field.with_converted_type(ConvertedType::UTF8) } else { field };
    field.build().map(Arc::new)
}

fn physical(kind: Kind) -> Physical {
    match kind {
        Kind::Int => Physical::INT64,
        Kind::Text => Physical::BYTE_ARRAY,
        Kind::Double => Physical::DOUBLE,
    }
}

/// The bytes of a file of these rows.
///
/// # Errors
/// Where they cannot be made.
pub fn encode(rows: &Rows, version: u32) -> Result<Vec<u8>> {
    let mut writer = FileWriter::new(rows.table, version, rows.table.name(), Vec::new())?;
    writer.add(rows)?;
    Ok(writer.finish()?.1)
}

/// Reads a file of a table, group by group: at most so many rows at a time as were written together.
pub struct FileReader<R: ChunkReader + 'static> {
    path: String,
    reader: SerializedFileReader<R>,
    table: Table,
    /// Where each column of the table is; none where the file is older.
    places: Vec<Option<usize>>,
    rows: u64,
}

impl<R: ChunkReader + 'static> FileReader<R> {
    /// Opens one; `path` is what errors name.
    ///
    /// # Errors
    /// Where it is no Parquet, or lacks columns of its version.
    pub fn open(table: Table, version: u32, path: &str, from: R) -> Result<Self> {
        let reader = caught(path, || SerializedFileReader::new(from))?;
        let metadata = reader.metadata().file_metadata();
        let schema = metadata.schema_descr();
        let place = |column: &Column| {
            let at = schema.columns().iter().position(|of| of.name() == column.name);
            match at {
                None if column.since > version => Ok(None),
                None => Err(Error::content(path, format!("lacks the column {}", column.name))),
                Some(at) => {
                    let of = schema.column(at);
                    let fits = of.physical_type() == physical(column.kind) && of.max_rep_level() == 0 && of.max_def_level() <= 1;
                    let wrong = || Error::content(path, format!("column {} is of another kind", column.name));
                    fits.then_some(Some(at)).ok_or_else(wrong)
                }
            }
        };
        let places = table.columns().iter().map(place).collect::<Result<_>>()?;
        let rows = u64::try_from(metadata.num_rows()).unwrap_or(0);
        Ok(Self { path: path.into(), reader, table, places, rows })
    }

    /// Rows, as its footer says.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Groups of rows.
    pub fn groups(&self) -> usize {
        self.reader.num_row_groups()
    }

    /// A group.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn group(&self, at: usize) -> Result<Rows> {
        let group = caught(&self.path, || self.reader.get_row_group(at))?;
        let n = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let mut rows = Rows::of(self.table);
        for ((place, cells), column) in self.places.iter().zip(&mut rows.columns).zip(self.table.columns()) {
            let Some(place) = place else {
                cells.push_nulls(n);
                continue;
            };
            let read = caught(&self.path, || match (group.get_column_reader(*place)?, &mut *cells) {
                (ColumnReader::Int64ColumnReader(reader), Cells::Int(cells)) => read(reader, n, cells),
                (ColumnReader::ByteArrayColumnReader(reader), Cells::Text(cells)) => read(reader, n, cells),
                (ColumnReader::DoubleColumnReader(reader), Cells::Double(cells)) => read(reader, n, cells),
                _ => Ok(0),
            })?;
            if read != n {
                return Err(Error::content(&self.path, format!("column {} ends {} values early", column.name, n - read)));
            }
            if !column.is_nullable && is_any_null(cells) {
                return Err(Error::content(&self.path, format!("column {} is NULL somewhere", column.name)));
            }
        }
        rows.len = n;
        Ok(rows)
    }
}

fn is_any_null(cells: &Cells) -> bool {
    match cells {
        Cells::Int(cells) => cells.iter().any(Option::is_none),
        Cells::Text(cells) => cells.iter().any(Option::is_none),
        Cells::Double(cells) => cells.iter().any(Option::is_none),
    }
}

/// A decoder may panic at a torn file: that is an error like others.
fn caught<T>(path: &str, decode: impl FnOnce() -> Result<T, ParquetError>) -> Result<T> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(decode)) {
        Ok(done) => done.map_err(|error| Error::content(path, error)),
        Err(_) => Err(Error::content(path, "the decoder failed")),
    }
}

/// Reads so many values of a column. Returns how many there were.
fn read<T: DataType>(mut reader: ColumnReaderImpl<T>, n: usize, cells: &mut Vec<Option<T::T>>) -> Result<usize, ParquetError> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let mut records = 0;
    while records < n {
        let (read, ..) = reader.read_records(n - records, Some(&mut levels), None, &mut values)?;
        if read == 0 {
            break;
        }
        records += read;
    }
    if levels.is_empty() {
        cells.extend(values.into_iter().map(Some));
    } else {
        let mut values = values.into_iter();
        cells.extend(levels.iter().map(|level| if *level > 0 { values.next() } else { None }));
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use parquet::file::reader::ChunkReader;

    use super::*;
    use crate::rows::{CauseRow, RecordingRow, Text};
    use crate::schema::VERSION;

    fn causes(n: i64) -> Rows {
        let mut rows = Rows::of(Table::Causes);
        for at in 0..n {
            rows.push(CauseRow {
                host: "web-17".into(),
                recording: "0".repeat(32).into(),
                minute_ns: at / 7 * 60_000_000_000,
                message: (at % 3 != 0).then(|| format!("{at:032x}").into()),
                cause: "blocked".into(),
                detail: (at % 2 == 0).then(|| Text::from("futex, ended by wörker")),
                ns: at * at,
                messages: 1,
                revision: None,
            });
        }
        rows
    }

    fn whole(table: Table, version: u32, bytes: impl ChunkReader + 'static) -> Rows {
        let reader = FileReader::open(table, version, "x", bytes).unwrap();
        let mut all = Rows::of(table);
        for at in 0..reader.groups() {
            let group = reader.group(at).unwrap();
            all.len += group.len;
            for (to, from) in all.columns.iter_mut().zip(group.columns) {
                match (to, from) {
                    (Cells::Int(to), Cells::Int(from)) => to.extend(from),
                    (Cells::Text(to), Cells::Text(from)) => to.extend(from),
                    (Cells::Double(to), Cells::Double(from)) => to.extend(from),
                    _ => unreachable!(),
                }
            }
        }
        all
    }

    #[test]
    fn rows_are_read_as_they_were_written_and_the_bytes_are_the_same() {
        for n in [0, 1, 1000, 300_000] {
            let rows = causes(n);
            let bytes = encode(&rows, VERSION).unwrap();
            assert_eq!(bytes, encode(&causes(n), VERSION).unwrap());
            let read = whole(Table::Causes, VERSION, bytes::Bytes::from(bytes));
            assert!(read == rows, "{n}");
        }
    }

    #[test]
    fn what_is_older_lacks_what_came_later() {
        let rows = causes(10);
        let bytes = bytes::Bytes::from(encode(&rows, 1).unwrap());
        let read = whole(Table::Causes, 1, bytes.clone());
        assert_eq!(read.ints("ns"), rows.ints("ns"));
        assert!(read.texts("detail").unwrap().iter().all(Option::is_none));
        let refused = FileReader::open(Table::Causes, 2, "x", bytes.clone()).err().unwrap().to_string();
        assert!(refused.contains("lacks the column detail"), "{refused}");
        let refused = FileReader::open(Table::Prices, 1, "x", bytes).err().unwrap().to_string();
        assert!(refused.contains("lacks the column fingerprint"), "{refused}");
    }

    #[test]
    fn doubles_may_be_null() {
        let mut rows = Rows::of(Table::Recordings);
        for overhead in [None, Some(0.01)] {
            rows.push(RecordingRow {
                host: "a".into(),
                recording: "b".into(),
                revision: Some("c".into()),
                boot: "d".into(),
                fingerprint: "e".into(),
                from_ns: 1,
                to_ns: 2,
                messages: 3,
                slow_ns: 4,
                lost: 0,
                weakened: None,
                clock_error_ns: None,
                overhead_low: overhead,
                overhead_high: overhead,
                perftax: "0".into(),
            });
        }
        let read = whole(Table::Recordings, VERSION, bytes::Bytes::from(encode(&rows, VERSION).unwrap()));
        assert_eq!(read.doubles("overhead_low").unwrap(), [None, Some(0.01)]);
    }

    #[test]
    fn torn_files_are_refused() {
        let bytes = encode(&causes(50), VERSION).unwrap();
        for cut in (0..bytes.len()).step_by(97) {
            let torn = bytes::Bytes::copy_from_slice(&bytes[..cut]);
            assert!(FileReader::open(Table::Causes, VERSION, "x", torn).is_err(), "{cut}");
        }
    }
}
