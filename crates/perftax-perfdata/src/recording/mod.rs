//! Recordings by `perf record`: what a perf.data file says about its own sampling, without any of its profile.
//!
//! [`Recording::open`] streams the file once, front to back, so that a pipe (`perf record -o - | perftax bill -`) and a
//! file of many gigabytes cost the same small memory. Only record headers and the few fields that say which event, thread,
//! CPU and time a record belongs to are looked at. Layouts: Linux `tools/perf/Documentation/perf.data-file-format.txt` and
//! `include/uapi/linux/perf_event.h`, perf 4 to 7, both byte orders.
//!
//! The `linux-perf-data` crate reads the same container, and the tests compare with it. It is not used here because it
//! gives up on truncated files, gives records of unknown ids to the first event, does not skip the tracing data that a
//! pipe carries inline, and allocates whatever sizes a damaged file names.

pub(crate) mod attribute;
mod bytes;
mod carried;
pub(crate) mod command_line;
mod command_span;
mod compressed;
mod counts;
mod event_counts;
pub(crate) mod feature;
mod features;
mod header;
pub(crate) mod kind;
mod layout;
mod mechanism;
mod names;
mod observer;
mod repeated;
mod slices;
mod source;
mod times;
mod tracing_data;
mod walk;

use std::os::fd::AsFd;
use std::path::Path;

use perftax_pmu::{Error, Result};

pub use attribute::Attribute;
pub use bytes::Order;
pub(crate) use bytes::text;
pub use carried::Carried;
pub use counts::{Counts, Thread};
pub use event_counts::EventCounts;
pub use features::Features;
pub use layout::Belonging;
pub use mechanism::mechanism_of;
pub use observer::{Observer, SeenRecord, SeenSample};
pub use slices::{Slices, Track};

/// What one recording says about its sampling.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The file's name, `-` for standard input.
    pub name: String,
    /// Whether it was written to a pipe (metadata among the records) and not to a file.
    pub piped: bool,
    /// The events, in the order of the recording.
    pub events: Vec<EventCounts>,
    /// What was counted over all events.
    pub counts: Counts,
    /// What the header says of the machine, the command and the PMUs.
    pub features: Features,
    /// Where reading had to stop, if it did not reach the end.
    pub fault: Option<Fault>,
}

/// Where and why a recording could not be read any further. Everything before it was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Byte of the file at which the trouble begins.
    pub at_byte: u64,
    /// What is wrong there.
    pub why: String,
}

impl Recording {
    /// Reads a recording: a file, the directory that `perf record --threads` writes, or standard input for `-`.
    ///
    /// # Errors
    /// [`Error::File`] where it cannot be opened or read, [`Error::Malformed`] where it is not a recording by perf or its
    /// header is damaged. Damage further back is a [`Fault`] of the recording, not an error.
    pub fn open(path: &Path) -> Result<Self> {
        Self::opened(path, None)
    }

    /// As [`Recording::open`]; `observer` sees each record.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn open_observed(path: &Path, observer: &mut dyn Observer) -> Result<Self> {
        Self::opened(path, Some(observer))
    }

    fn opened(path: &Path, observer: Option<&mut dyn Observer>) -> Result<Self> {
        if path.as_os_str() == "-" {
            let input = std::io::stdin();
            // Standard input may be a file, too.
            let file = input.as_fd().try_clone_to_owned().map(std::fs::File::from).ok();
            return walk::stream(input.lock(), file.as_ref().and_then(anywhere), "-", observer);
        }
        let name = path.display().to_string();
        if path.is_dir() {
            return walk::directory(path, &name, observer);
        }
        if let Some(whole) = part_of(path) {
            let why = format!("it is one part of the recording {0}, which perf record --threads made: give {0}", whole.display());
            return Err(Error::Malformed { what: name, offset: 0, why });
        }
        let file = std::fs::File::open(path).map_err(Error::file(path))?;
        walk::stream(&file, anywhere(&file), &name, observer)
    }

    /// Reads a recording from any stream of bytes; `name` is for messages.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn read(input: impl std::io::Read, name: &str) -> Result<Self> {
        walk::stream(input, None, name, None)
    }

    /// As [`Recording::read`]; `observer` sees each record.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn read_observed(input: impl std::io::Read, name: &str, observer: &mut dyn Observer) -> Result<Self> {
        walk::stream(input, None, name, Some(observer))
    }

    /// CPUs that were online, or that samples tell of; 1 at least.
    pub fn cpus(&self) -> u64 {
        let seen = || self.counts.by_cpu.keys().map(|(cpu, _)| u64::from(*cpu) + 1).max().unwrap_or(1);
        self.features.cpus_online.map_or_else(seen, u64::from).max(1)
    }

    /// First to last sample, seconds; None where samples carry no time or there are fewer than two.
    pub fn sample_span_s(&self) -> Option<f64> {
        span_s(self.counts.first_sample_ns?, self.counts.last_sample_ns?)
    }

    /// From the exec of the recorded command to its exit, seconds; None where the recording does not show both (it was
    /// attached to a running process or a CPU, or records carry no time).
    pub fn command_span_s(&self) -> Option<f64> {
        span_s(self.counts.exec_ns?, self.counts.exit_ns?)
    }
}

/// A file that can be read anywhere, and not from front to back alone.
fn anywhere(file: &std::fs::File) -> Option<&std::fs::File> {
    file.metadata().is_ok_and(|it| it.is_file()).then_some(file)
}

/// The folder that a file is a part of, if it is one of the files of `perf record --threads`: `data` begins as a recording does, `data.0` and so on with records.
fn part_of(path: &Path) -> Option<&Path> {
    let name = path.file_name()?.to_str()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_numbered = name.strip_prefix("data.").is_some_and(|number| number.parse::<u32>().is_ok());
    let is_part = |numbered: &Path| numbered.is_file() && !header::begins_recording(numbered);
    ((is_numbered && is_part(path) && folder.join("data").is_file()) || (name == "data" && is_part(&folder.join("data.0"))))
        .then_some(folder)
}

fn span_s(from_ns: u64, to_ns: u64) -> Option<f64> {
    to_ns.checked_sub(from_ns).filter(|&ns| ns > 0).map(|ns| ns as f64 * 1e-9)
}
