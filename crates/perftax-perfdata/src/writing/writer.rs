//! A recording that is written, wherever to.

use std::fs::File;
use std::io;

use super::features::Features;
use super::file::{EventDescription, FileWriter};
use super::pipe::PipeWriter;

/// Where a recording goes.
#[derive(Debug)]
pub enum Destination {
    /// A file, empty, whose head is kept up to date.
    File(File),
    /// Whatever can only be written from front to back.
    Pipe(File),
}

/// Writes a recording.
#[derive(Debug)]
pub enum Writer {
    /// As a file.
    File(FileWriter),
    /// As a stream.
    Pipe(PipeWriter),
}

impl Writer {
    /// Begins: a stream says at once what is known of the machine and the command, a file at its end.
    ///
    /// # Errors
    /// The destination's.
    pub fn create(to: Destination, events: &[EventDescription], features: &Features) -> io::Result<Self> {
        Ok(match to {
            Destination::File(file) => Self::File(FileWriter::create(file, events.to_vec())?),
            Destination::Pipe(pipe) => Self::Pipe(PipeWriter::create(pipe, events, features)?),
        })
    }

    /// Appends whole records.
    ///
    /// # Errors
    /// The destination's.
    pub fn write(&mut self, records: &[u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.write(records),
            Self::Pipe(pipe) => pipe.write(records),
        }
    }

    /// Bytes of records so far.
    pub fn data_bytes(&self) -> u64 {
        match self {
            Self::File(file) => file.data_bytes(),
            Self::Pipe(pipe) => pipe.data_bytes(),
        }
    }

    /// Ends: what was written stands, whatever of the rest cannot be.
    pub fn finish(self, features: &Features) -> (File, io::Result<()>) {
        match self {
            Self::File(file) => file.finish(features),
            Self::Pipe(pipe) => pipe.finish(features),
        }
    }
}
