//! A recording as a stream (`struct perf_pipe_file_header`): what a file says in its head and behind the records comes as records of its own.

use std::fs::File;
use std::io::{self, Write};

use super::features::Features;
use super::file::EventDescription;
use crate::recording::kind::{HEADER_ATTR, HEADER_BUILD_ID, HEADER_FEATURE};

/// Size of the head.
const HEAD_BYTES: u64 = 16;

/// Writes a recording into a pipe, front to back.
#[derive(Debug)]
pub struct PipeWriter {
    to: File,
    data_bytes: u64,
}

impl PipeWriter {
    /// Writes the head, the events, and what is known of the machine and the command by now.
    ///
    /// # Errors
    /// The pipe's.
    pub fn create(to: File, events: &[EventDescription], features: &Features) -> io::Result<Self> {
        let mut head: Vec<u8> = b"PERFILE2".iter().copied().chain(HEAD_BYTES.to_le_bytes()).collect();
        for event in events {
            let ids = event.ids.iter().flat_map(|id| id.to_le_bytes());
            head.extend(record(HEADER_ATTR, &event.attribute.iter().copied().chain(ids).collect::<Vec<u8>>()));
        }
        for (feature, section) in features.sections(events) {
            head.extend(record(HEADER_FEATURE, &[&u64::from(feature).to_le_bytes()[..], &section].concat()));
        }
        let mut writer = Self { to, data_bytes: 0 };
        writer.to.write_all(&head)?;
        Ok(writer)
    }

    /// Appends whole records.
    ///
    /// # Errors
    /// The pipe's: that nobody reads it any more, above all.
    pub fn write(&mut self, records: &[u8]) -> io::Result<()> {
        self.to.write_all(records)?;
        self.data_bytes += records.len() as u64;
        Ok(())
    }

    /// Bytes of records so far.
    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Writes what is only known at the end: the build ids.
    pub fn finish(mut self, features: &Features) -> (File, io::Result<()>) {
        let ids: Vec<u8> = features.build_ids.iter().flat_map(|id| id.bytes(HEADER_BUILD_ID)).collect();
        let written = self.to.write_all(&ids);
        (self.to, written)
    }
}

/// A record of words behind its header.
fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let bytes = body.len().next_multiple_of(8);
    let mut record = kind.to_le_bytes().to_vec();
    record.extend(0u16.to_le_bytes());
    record.extend(((8 + bytes) as u16).to_le_bytes());
    record.extend(body);
    record.resize(8 + bytes, 0);
    record
}
