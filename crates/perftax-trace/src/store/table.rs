//! One Parquet table: written group by group, never more than the disk has room for; read group by group.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Encoding, Repetition, Type as Physical, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};
use perftax_pmu::{Error, Result};
use rustix::fs::{FallocateFlags, fallocate};

use super::GROUP_ROWS;

/// What a table's footer takes: so much, and so much for each column of a group, bytes (thrift-encoded metadata; some 100 measured).
const FOOTER_BYTES: u64 = 1 << 16;
const FOOTER_BYTES_COLUMN: u64 = 512;

/// Rows that are read together: a batch of a table's columns stays in a core's second-level cache.
const READ_ROWS: usize = 1 << 13;

/// Fewer rows are not tried where the disk is full.
const MIN_ROWS: usize = 4096;

/// Writes a table of 64-bit integers.
pub struct TableWriter<const N: usize> {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    room: File,
    rows: Vec<[u64; N]>,
    written: u64,
    groups: u64,
    /// Rows that the disk had no room for.
    refused: u64,
}

impl<const N: usize> TableWriter<N> {
    /// Makes the table's file.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn create(folder: &Path, (name, columns): (&str, [&str; N])) -> Result<Self> {
        let path = folder.join(name);
        let failed = failed(&path);
        let fields = columns.iter().map(|name| field(name, Physical::INT64)).collect::<Result<Vec<_>, _>>().map_err(&failed)?;
        let schema = schema(name, fields).map_err(&failed)?;
        // What grows from row to row.
        let properties = properties(columns.into_iter().filter(|column| ["time_ns", "id"].contains(column)));
        let file = File::create(&path).map_err(Error::file(&path))?;
        let room = file.try_clone().map_err(Error::file(&path))?;
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).map_err(&failed)?;
        let table = Self { path, writer, room, rows: Vec::new(), written: 0, groups: 0, refused: 0 };
        table.reserve(0).map_err(|error| Error::file(&table.path)(error.into()))?;
        Ok(table)
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Where the file cannot be written for another reason than a full disk: of that, `refused` tells.
    pub fn push(&mut self, row: [u64; N]) -> Result<()> {
        self.rows.push(row);
        if self.rows.len() >= GROUP_ROWS { self.flush() } else { Ok(()) }
    }

    /// Whether the next row completes a group, which is written then.
    pub fn is_nearly_full(&self) -> bool {
        self.rows.len() + 1 >= GROUP_ROWS
    }

    /// Ends the table: only now can it be read. Returns its rows, and those that the disk had no room for.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn finish(mut self) -> Result<(u64, u64)> {
        self.flush()?;
        let failed = failed(&self.path);
        let file = self.writer.into_inner().map_err(&failed)?;
        // What was reserved and not needed goes back.
        let bytes = file.metadata().map_err(Error::file(&self.path))?.len();
        file.set_len(bytes).map_err(Error::file(&self.path))?;
        file.sync_all().map_err(Error::file(&self.path))?;
        Ok((self.written, self.refused))
    }

    /// Sees to it that so many rows and the footer have room.
    fn reserve(&self, rows: usize) -> rustix::io::Result<()> {
        let columns = N as u64;
        // Plain values; a column that compresses badly takes a little more than that.
        let data = rows as u64 * columns * 9;
        let footer = FOOTER_BYTES + (self.groups + 1) * columns * FOOTER_BYTES_COLUMN;
        let at = self.writer.bytes_written() as u64;
        match fallocate(&self.room, FallocateFlags::KEEP_SIZE, at, data + footer) {
            // A file system that cannot reserve says so when it writes.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
            other => other,
        }
    }

    /// Writes the rows that wait for a group to be complete.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn flush(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() { Ok(()) } else { self.write(&rows) }
    }

    /// Writes rows as a group; where there is no room for so many, by halves.
    fn write(&mut self, rows: &[[u64; N]]) -> Result<()> {
        match self.reserve(rows.len()) {
            Ok(()) => {}
            Err(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT) if rows.len() > MIN_ROWS => {
                let (first, second) = rows.split_at(rows.len() / 2);
                self.write(first)?;
                return self.write(second);
            }
            Err(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT) => {
                self.refused += rows.len() as u64;
                return Ok(());
            }
            Err(error) => return Err(Error::file(&self.path)(error.into())),
        }
        let failed = failed(&self.path);
        let mut group = self.writer.next_row_group().map_err(&failed)?;
        let mut values: Vec<i64> = Vec::with_capacity(rows.len());
        for at in 0..N {
            values.clear();
            values.extend(rows.iter().map(|row| row[at] as i64));
            if let Some(mut column) = group.next_column().map_err(&failed)? {
                column.typed::<Int64Type>().write_batch(&values, None, None).map_err(&failed)?;
                column.close().map_err(&failed)?;
            }
        }
        group.close().map_err(&failed)?;
        self.written += rows.len() as u64;
        self.groups += 1;
        Ok(())
    }
}

/// A function that samples were taken in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Function {
    /// Its name; empty where no symbol is known.
    pub name: String,
    /// The file that it is in, without its folders; `[kernel]`.
    pub module: String,
}

/// Writes a small table of numbers and texts.
///
/// # Errors
/// Where it cannot be written.
pub fn write_texts<const N: usize, const T: usize, S: AsRef<str>>(
    path: &Path,
    columns: ([&str; N], [&str; T]),
    rows: &[([u64; N], [S; T])],
) -> Result<()> {
    let failed = failed(path);
    let numbers = columns.0.iter().map(|name| field(name, Physical::INT64));
    let texts = columns.1.iter().map(|name| field(name, Physical::BYTE_ARRAY));
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let schema = schema(&name, numbers.chain(texts).collect::<Result<_, _>>().map_err(&failed)?).map_err(&failed)?;
    // Such tables are in order of their numbers.
    let properties = properties(columns.0.into_iter());
    let file = File::create(path).map_err(Error::file(path))?;
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).map_err(&failed)?;
    let mut group = writer.next_row_group().map_err(&failed)?;
    for at in 0..N {
        let values: Vec<i64> = rows.iter().map(|(numbers, _)| numbers[at] as i64).collect();
        if let Some(mut column) = group.next_column().map_err(&failed)? {
            column.typed::<Int64Type>().write_batch(&values, None, None).map_err(&failed)?;
            column.close().map_err(&failed)?;
        }
    }
    for at in 0..T {
        let values: Vec<ByteArray> = rows.iter().map(|(_, texts)| texts[at].as_ref().into()).collect();
        if let Some(mut column) = group.next_column().map_err(&failed)? {
            column.typed::<ByteArrayType>().write_batch(&values, None, None).map_err(&failed)?;
            column.close().map_err(&failed)?;
        }
    }
    group.close().map_err(&failed)?;
    let file = writer.into_inner().map_err(&failed)?;
    file.sync_all().map_err(Error::file(path))
}

/// How a table is written: some columns as differences from row to row.
fn properties<'a>(differences: impl Iterator<Item = &'a str>) -> WriterProperties {
    let mut properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()));
    for column in differences.map(ColumnPath::from) {
        properties = properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

/// Reads what [`write_texts`] wrote.
///
/// # Errors
/// As [`TableReader::open`].
pub fn read_texts<const N: usize, const T: usize>(
    path: &Path,
    columns: ([&str; N], [&str; T]),
) -> Result<Vec<([u64; N], [String; T])>> {
    let failed = failed(path);
    let file = File::open(path).map_err(Error::file(path))?;
    let reader = SerializedFileReader::new(file).map_err(&failed)?;
    let numbers = places(&reader, &columns.0, Physical::INT64, path)?;
    let texts = places(&reader, &columns.1, Physical::BYTE_ARRAY, path)?;
    let mut all = Vec::new();
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(&failed)?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let mut values: [Vec<i64>; N] = std::array::from_fn(|_| Vec::new());
        for (column, at) in values.iter_mut().zip(numbers) {
            if let ColumnReader::Int64ColumnReader(mut reader) = group.get_column_reader(at).map_err(&failed)? {
                read_values(&mut reader, rows, column, path)?;
            }
        }
        let mut words: [Vec<ByteArray>; T] = std::array::from_fn(|_| Vec::new());
        for (column, at) in words.iter_mut().zip(texts) {
            if let ColumnReader::ByteArrayColumnReader(mut reader) = group.get_column_reader(at).map_err(&failed)? {
                read_values(&mut reader, rows, column, path)?;
            }
        }
        let text = |column: usize, row: usize| {
            words[column].get(row).map_or_else(String::new, |word| String::from_utf8_lossy(word.data()).into_owned())
        };
        let row = |row: usize| (std::array::from_fn(|at| values[at][row] as u64), std::array::from_fn(|at| text(at, row)));
        all.extend((0..rows).map(row));
    }
    Ok(all)
}

/// Reads columns of a table, so many rows at a time.
pub struct TableReader<const N: usize> {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    places: [usize; N],
    /// The group to be opened next.
    group: usize,
    /// Of the group that is open.
    columns: Vec<ColumnReaderImpl<Int64Type>>,
    rows: usize,
    read: usize,
}

impl<const N: usize> TableReader<N> {
    /// Opens a table for the columns named.
    ///
    /// # Errors
    /// Where the file is missing, is no Parquet, or has no such columns of 64-bit integers.
    pub fn open(folder: &Path, name: &str, columns: [&str; N]) -> Result<Self> {
        let path = folder.join(name);
        let file = File::open(&path).map_err(Error::file(&path))?;
        let reader = SerializedFileReader::new(file).map_err(failed(&path))?;
        let places = places(&reader, &columns, Physical::INT64, &path)?;
        Ok(Self { path, reader, places, group: 0, columns: Vec::new(), rows: 0, read: 0 })
    }

    /// An error about a row of this table.
    pub fn malformed(&self, why: String) -> Error {
        malformed(&self.path, why)
    }

    /// Opens the next group; false where there is none.
    fn turn(&mut self) -> Result<bool> {
        if self.group >= self.reader.num_row_groups() {
            return Ok(false);
        }
        let failed = failed(&self.path);
        let group = self.reader.get_row_group(self.group).map_err(&failed)?;
        self.group += 1;
        self.rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        self.read = 0;
        self.columns.clear();
        for at in self.places {
            if let ColumnReader::Int64ColumnReader(column) = group.get_column_reader(at).map_err(&failed)? {
                self.columns.push(column);
            }
        }
        Ok(true)
    }

    fn batch(&mut self) -> Result<[Vec<i64>; N]> {
        // A table's own word for its size is not trusted with memory before there are values.
        let rows = READ_ROWS.min(self.rows - self.read);
        let mut values: [Vec<i64>; N] = std::array::from_fn(|_| Vec::with_capacity(rows));
        for (column, values) in self.columns.iter_mut().zip(&mut values) {
            read_values(column, rows, values, &self.path)?;
        }
        self.read += rows;
        Ok(values)
    }
}

impl<const N: usize> Iterator for TableReader<N> {
    type Item = Result<[Vec<i64>; N]>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.read == self.rows {
            match self.turn() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
        Some(self.batch())
    }
}

/// Reads so many values of a column.
fn read_values<T: DataType>(column: &mut ColumnReaderImpl<T>, rows: usize, values: &mut Vec<T::T>, path: &Path) -> Result<()> {
    while values.len() < rows {
        let (read, ..) = column.read_records(rows - values.len(), None, None, values).map_err(failed(path))?;
        if read == 0 {
            return Err(malformed(path, format!("a column ends {} values before its group does", rows - values.len())));
        }
    }
    Ok(())
}

fn places<const N: usize>(
    reader: &SerializedFileReader<File>,
    columns: &[&str; N],
    physical: Physical,
    path: &Path,
) -> Result<[usize; N]> {
    let schema = reader.metadata().file_metadata().schema_descr();
    let mut places = [0; N];
    for (place, wanted) in places.iter_mut().zip(columns) {
        let has = |column: &parquet::schema::types::ColumnDescPtr| column.name() == *wanted && column.physical_type() == physical;
        *place = schema.columns().iter().position(has).ok_or_else(|| {
            let named: Vec<&str> = schema.columns().iter().map(|column| column.name()).collect();
            malformed(path, format!("has columns {}, needs {wanted} of type {physical}", named.join(", ")))
        })?;
    }
    Ok(places)
}

fn field(name: &str, physical: Physical) -> Result<Arc<Type>, ParquetError> {
    let field = Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED);
    let field = if physical == Physical::BYTE_ARRAY { field.with_converted_type(ConvertedType::UTF8) } else { field };
    field.build().map(Arc::new)
}

fn schema(name: &str, fields: Vec<Arc<Type>>) -> Result<Arc<Type>, ParquetError> {
    Type::group_type_builder(name.trim_end_matches(".parquet")).with_fields(fields).build().map(Arc::new)
}

fn malformed(path: &Path, why: String) -> Error {
    Error::Malformed { what: path.display().to_string(), offset: 0, why }
}

fn failed(path: &Path) -> impl Fn(ParquetError) -> Error + use<> {
    let path = path.to_path_buf();
    move |error| match error {
        ParquetError::External(source) if source.is::<std::io::Error>() => {
            let source = source.downcast::<std::io::Error>().map_or_else(|_| std::io::ErrorKind::Other.into(), |source| *source);
            Error::File { path: path.clone(), source }
        }
        other => malformed(&path, other.to_string()),
    }
}
