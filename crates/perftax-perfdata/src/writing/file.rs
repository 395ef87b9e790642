//! A recording as a file (`struct perf_file_header`, perf's `util/header.h`; `perf.data-file-format.txt`).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::features::Features;

/// An event, as a recording describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDescription {
    /// What it is called.
    pub name: String,
    /// `struct perf_event_attr`; all events' have the same length.
    pub attribute: Vec<u8>,
    /// What its records are told by, where they carry an id.
    pub ids: Vec<u64>,
}

/// Size of the header (`struct perf_file_header`).
const HEADER_BYTES: u64 = 104;
/// Where the size of the data section stands in it.
const DATA_SIZE_AT: u64 = 48;
/// Where the features stand that there are.
const FEATURES_AT: u64 = 72;

/// Writes a recording that can be read at any time: after each [`FileWriter::write`] the header says how much there is, so that what a recorder has written
/// before it was killed is a recording without features.
#[derive(Debug)]
pub struct FileWriter {
    file: File,
    events: Vec<EventDescription>,
    data_at: u64,
    data_bytes: u64,
}

impl FileWriter {
    /// Writes the head of a file that is empty.
    ///
    /// # Errors
    /// The file's.
    pub fn create(file: File, events: Vec<EventDescription>) -> io::Result<Self> {
        let ids_bytes: u64 = events.iter().map(|event| 8 * event.ids.len() as u64).sum();
        let attribute_bytes = events.first().map_or(0, |event| event.attribute.len() as u64);
        let attributes_at = HEADER_BYTES + ids_bytes;
        let attributes_bytes = (attribute_bytes + 16) * events.len() as u64;
        let data_at = attributes_at + attributes_bytes;
        let words = [HEADER_BYTES, attribute_bytes + 16, attributes_at, attributes_bytes, data_at];
        let mut head: Vec<u8> = b"PERFILE2".iter().copied().chain(words.iter().flat_map(|word| word.to_le_bytes())).collect();
        // The size of the data, event types, features: nothing yet.
        head.resize(HEADER_BYTES as usize, 0);
        head.extend(events.iter().flat_map(|event| &event.ids).flat_map(|id| id.to_le_bytes()));
        let mut ids_at = HEADER_BYTES;
        for event in &events {
            let bytes = 8 * event.ids.len() as u64;
            head.extend(&event.attribute);
            head.extend([ids_at, bytes].iter().flat_map(|word| word.to_le_bytes()));
            ids_at += bytes;
        }
        file.write_all_at(&head, 0)?;
        Ok(Self { file, events, data_at, data_bytes: 0 })
    }

    /// Appends whole records, and has the header say so.
    ///
    /// # Errors
    /// The file's: then the header says what there was before, and that stays readable.
    pub fn write(&mut self, records: &[u8]) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        self.file.write_all_at(records, self.data_at + self.data_bytes)?;
        let all = self.data_bytes + records.len() as u64;
        self.file.write_all_at(&all.to_le_bytes(), DATA_SIZE_AT)?;
        // Whoever writes once more after a failure writes there again.
        self.data_bytes = all;
        Ok(())
    }

    /// Bytes of records so far.
    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Writes what is said behind the records. Returns the file, which is complete; or where that could not be written, is a recording without it, and why.
    pub fn finish(self, features: &Features) -> (File, io::Result<()>) {
        let table_at = self.data_at + self.data_bytes;
        // What a full disk has cut off of records that did not fit.
        let written = self.file.set_len(table_at).and_then(|()| self.write_features(features, table_at));
        if written.is_err() {
            // Half of it would be none.
            self.file.set_len(table_at).ok();
        }
        (self.file, written)
    }

    fn write_features(&self, features: &Features, table_at: u64) -> io::Result<()> {
        let sections = features.sections(&self.events);
        let mut at = table_at + 16 * sections.len() as u64;
        let (mut table, mut bodies, mut bits) = (Vec::<u8>::new(), Vec::<u8>::new(), [0u64; 4]);
        for (feature, section) in &sections {
            table.extend([at, section.len() as u64].iter().flat_map(|word| word.to_le_bytes()));
            at += section.len() as u64;
            bodies.extend(section);
            bits[*feature as usize / 64] |= 1 << (feature % 64);
        }
        table.extend(bodies);
        self.file.write_all_at(&table, table_at)?;
        let bits: Vec<u8> = bits.iter().flat_map(|word| word.to_le_bytes()).collect();
        // They are read only where they are said to be there.
        self.file.write_all_at(&bits, FEATURES_AT)
    }
}
