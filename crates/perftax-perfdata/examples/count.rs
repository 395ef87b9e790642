//! Counts the records of a recording by a reader that others wrote: a line for each kind, as `perf report --stats` names them.
//!
//! ```text
//! cargo run --example count -- FILE
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::BufReader;

use linux_perf_data::linux_perf_event_reader::RecordType;
use linux_perf_data::{PerfFileReader, PerfFileRecord};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("needs a recording")?;
    let PerfFileReader { mut perf_file, mut record_iter } = PerfFileReader::parse_file(BufReader::new(File::open(path)?))?;
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    while let Some(record) = record_iter.next_record(&mut perf_file)? {
        let PerfFileRecord::EventRecord { record, .. } = record else { continue };
        // What cannot be decoded ends it.
        record.parse()?;
        let kind = match record.record_type {
            RecordType::SAMPLE => "SAMPLE",
            RecordType::COMM => "COMM",
            RecordType::FORK => "FORK",
            RecordType::EXIT => "EXIT",
            RecordType::MMAP => "MMAP",
            RecordType::MMAP2 => "MMAP2",
            _ => continue,
        };
        *counts.entry(kind).or_default() += 1;
    }
    for (kind, count) in counts {
        println!("{kind} {count}");
    }
    Ok(())
}
