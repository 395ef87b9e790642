//! Samples of a simulation as a Parquet file: any data frame or SQL engine opens it.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use perftax_model::run::SampleRow;

/// Rows that are written together: memory for so many is all that the writer needs.
const GROUP_ROWS: usize = 1 << 18;

/// A table of samples, a row each.
///
/// | column | type | meaning |
/// |---|---|---|
/// | run | int32 | position in the sweep, from 0 |
/// | period | int64 | events between samples |
/// | buffer_bytes | int64, optional | size of the buffer of records |
/// | instructions | int64 | instructions that the thread had retired before |
/// | ip | uint64 | address of the instruction |
/// | data_address | uint64, optional | address of the data |
/// | core | int32 | modelled core |
/// | thread | int32 | thread, in the order of creation |
/// | symbol | string, optional | function and offset, or file and offset |
pub struct Samples<W: Write + Send> {
    file: SerializedFileWriter<W>,
    pending: Vec<SampleRow>,
}

/// What all samples of one run share.
#[derive(Clone, Copy, Debug)]
pub struct SampledRun {
    /// Position in the sweep.
    pub run: u32,
    /// Events between samples.
    pub period: u64,
    /// Size of the buffer of records, where there is one.
    pub buffer_bytes: Option<u64>,
}

fn schema() -> Result<Type> {
    let column = |name: &str, physical: Physical, logical: Option<LogicalType>, repetition: Repetition| {
        Type::primitive_type_builder(name, physical).with_logical_type(logical).with_repetition(repetition).build().map(Arc::new)
    };
    let address = || Some(LogicalType::integer(64, false));
    let (always, sometimes) = (Repetition::REQUIRED, Repetition::OPTIONAL);
    let columns = vec![
        column("run", Physical::INT32, None, always)?,
        column("period", Physical::INT64, None, always)?,
        column("buffer_bytes", Physical::INT64, None, sometimes)?,
        column("instructions", Physical::INT64, None, always)?,
        column("ip", Physical::INT64, address(), always)?,
        column("data_address", Physical::INT64, address(), sometimes)?,
        column("core", Physical::INT32, None, always)?,
        column("thread", Physical::INT32, None, always)?,
        column("symbol", Physical::BYTE_ARRAY, Some(LogicalType::String), sometimes)?,
    ];
    Type::group_type_builder("samples").with_fields(columns).build()
}

impl<W: Write + Send> Samples<W> {
    /// Into a file.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn new(file: W) -> Result<Self> {
        let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
        let file = SerializedFileWriter::new(file, Arc::new(schema()?), Arc::new(properties))?;
        Ok(Self { file, pending: Vec::new() })
    }

    /// Adds the samples of one run; `name` tells the symbol of an address.
    ///
    /// # Errors
    /// Where they cannot be read or written.
    pub fn add(
        &mut self,
        run: SampledRun,
        rows: impl Iterator<Item = std::io::Result<SampleRow>>,
        mut name: impl FnMut(u64) -> Option<String>,
    ) -> Result<()> {
        for row in rows {
            self.pending.push(row?);
            if self.pending.len() == GROUP_ROWS {
                self.write_group(run, &mut name)?;
            }
        }
        self.write_group(run, &mut name)
    }

    /// Completes the file.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn finish(self) -> Result<W> {
        self.file.into_inner()
    }

    fn write_group(&mut self, run: SampledRun, name: &mut impl FnMut(u64) -> Option<String>) -> Result<()> {
        let rows = std::mem::take(&mut self.pending);
        if rows.is_empty() {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        numbers32(&mut group, rows.iter().map(|_| run.run))?;
        numbers64(&mut group, rows.iter().map(|_| Some(run.period)), false)?;
        numbers64(&mut group, rows.iter().map(|_| run.buffer_bytes), true)?;
        numbers64(&mut group, rows.iter().map(|row| Some(row.instructions)), false)?;
        numbers64(&mut group, rows.iter().map(|row| Some(row.ip)), false)?;
        numbers64(&mut group, rows.iter().map(|row| Some(row.data).filter(|data| *data != 0)), true)?;
        numbers32(&mut group, rows.iter().map(|row| row.core as u32))?;
        numbers32(&mut group, rows.iter().map(|row| row.thread as u32))?;
        let names: Vec<Option<ByteArray>> =
            rows.iter().map(|row| name(row.ip).map(|name| ByteArray::from(name.into_bytes()))).collect();
        let levels: Vec<i16> = names.iter().map(|name| i16::from(name.is_some())).collect();
        let names: Vec<ByteArray> = names.into_iter().flatten().collect();
        if let Some(mut column) = group.next_column()? {
            column.typed::<ByteArrayType>().write_batch(&names, Some(&levels), None)?;
            column.close()?;
        }
        group.close()?;
        self.pending = rows;
        self.pending.clear();
        Ok(())
    }
}

fn numbers32<W: Write + Send>(group: &mut SerializedRowGroupWriter<W>, values: impl Iterator<Item = u32>) -> Result<()> {
    let values: Vec<i32> = values.map(|value| value as i32).collect();
    if let Some(mut column) = group.next_column()? {
        column.typed::<Int32Type>().write_batch(&values, None, None)?;
        column.close()?;
    }
    Ok(())
}

fn numbers64<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<W>,
    values: impl Iterator<Item = Option<u64>> + Clone,
    optional: bool,
) -> Result<()> {
    let levels: Vec<i16> = values.clone().map(|value| i16::from(value.is_some())).collect();
    let values: Vec<i64> = values.flatten().map(|value| value as i64).collect();
    if let Some(mut column) = group.next_column()? {
        column.typed::<Int64Type>().write_batch(&values, optional.then_some(&levels[..]), None)?;
        column.close()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    #[test]
    fn what_was_written_is_read_again() {
        let row = |i: u64| SampleRow { instructions: 1000 * i, ip: 0x40_0000 + i, data: i % 2 * 64, core: 1, thread: i % 3 };
        let mut samples = Samples::new(Vec::new()).unwrap();
        let run = |run| SampledRun { run, period: 1009, buffer_bytes: (run == 1).then_some(65_536) };
        let many = GROUP_ROWS as u64 + 5;
        samples.add(run(0), (0..many).map(|i| Ok(row(i))), |ip| (ip % 2 == 0).then(|| format!("f+{ip:#x}"))).unwrap();
        samples.add(run(1), (0..3).map(|i| Ok(row(i))), |_| None).unwrap();
        let file = bytes::Bytes::from(samples.finish().unwrap());
        let reader = SerializedFileReader::new(file).unwrap();
        assert_eq!((reader.num_row_groups(), reader.metadata().file_metadata().num_rows()), (3, many as i64 + 3));
        for (i, read) in reader.get_row_iter(None).unwrap().enumerate() {
            let read = read.unwrap();
            let (run, i) = if (i as u64) < many { (0, i as u64) } else { (1, i as u64 - many) };
            let expected = row(i);
            assert_eq!((read.get_int(0).unwrap(), read.get_long(1).unwrap()), (run, 1009));
            assert_eq!(read.get_long(2).ok(), (run == 1).then_some(65_536));
            assert_eq!((read.get_long(3).unwrap() as u64, read.get_ulong(4).unwrap()), (expected.instructions, expected.ip));
            assert_eq!(read.get_ulong(5).ok(), Some(expected.data).filter(|data| *data != 0));
            assert_eq!((read.get_int(6).unwrap(), read.get_int(7).unwrap() as u64), (1, expected.thread));
            let name = (run == 0 && expected.ip % 2 == 0).then(|| format!("f+{:#x}", expected.ip));
            assert_eq!(read.get_string(8).ok(), name.as_ref());
        }
    }
}
