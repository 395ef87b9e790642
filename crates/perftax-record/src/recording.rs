//! What is recorded, and what came of it.

use std::fs::File;
use std::io;
use std::time::Duration;

use perftax_cost::governor::{Governor, Pricing, Witness};
use perftax_perfdata::writing::{Destination, Features};
use perftax_pmu::event::Event;
use perftax_pmu::guard::online_cpus;
use perftax_pmu::sampler::{Clock, Payload};
use perftax_pmu::sys::{Exit, Stdio};
use perftax_pmu::{Error, Result};
use perftax_target::Subject;

use crate::callers::Callers;
use crate::place::Place;
use crate::whom::Whom;

/// What is recorded.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The program that it lasts as long as.
    pub subject: Subject,
    /// Who is sampled.
    pub whom: Whom,
    /// Where the events of a program are open to begin with.
    pub place: Place,
    /// What sampling costs on CPUs, where the events may go over to them once threads and context switches take too much of the budget.
    pub on_cpus: Option<Pricing>,
    /// What is sampled.
    pub event: Event,
    /// What each sample carries beside instruction pointer, thread, time, CPU and weight.
    pub payload: Payload,
    /// How callers are found.
    pub callers: Callers,
    /// Which clock samples take their times from.
    pub clock: Clock,
    /// What sampling costs, and what it may: periods follow from it.
    pub pricing: Pricing,
    /// Where a command's output goes.
    pub output: Stdio,
    /// CPUs that the program may run on.
    pub cpus: Vec<u32>,
    /// CPUs that we may run on ourselves, and so take from the program.
    pub own_cpus: Vec<u32>,
    /// Pages of each CPU's ring; a power of two.
    pub ring_pages: usize,
    /// An event that counts the program's pieces of work: sampling pauses now and then, and what it costs is judged by it.
    pub work: Option<Event>,
    /// How long it is recorded; none: until it ends, or we are interrupted.
    pub at_most: Option<Duration>,
}

/// What a recording came to so far, beside what was spent.
#[derive(Clone, Copy, Debug)]
pub struct Totals {
    /// Samples that found no room in a ring.
    pub lost: u64,
    /// Times that the kernel throttled the event.
    pub throttled: u64,
    /// What the event counted, and what samples stand for, in its unit.
    pub counted: u64,
    /// The sum of the samples' weights.
    pub weight: u64,
    /// CPU time of the recorder, s.
    pub recorder_cpu_s: f64,
    /// Where the events are open.
    pub place: Place,
    /// When they went over from threads to CPUs, s from the beginning.
    pub went_over_s: Option<f64>,
    /// Samples of others that were dropped.
    pub of_others: u64,
    /// Samples whose copy of the stack ended before their callers did.
    pub cut: u64,
    /// Samples that could not be written.
    pub unwritten: u64,
    /// Bytes of records written.
    pub bytes: u64,
}

/// How it goes, or went.
#[derive(Clone, Copy, Debug)]
pub struct Status<'a> {
    /// What was spent, and how it went.
    pub governor: &'a Governor,
    /// What it came to.
    pub totals: Totals,
    /// Why samples could not be written.
    pub failure: Option<&'a io::Error>,
    /// What it cost by the work that was done, where that is counted.
    pub witness: Option<&'a Witness>,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// How the program ended.
    pub exit: Exit,
    pub(crate) governor: Governor,
    pub(crate) totals: Totals,
    pub(crate) failure: Option<io::Error>,
    pub(crate) witness: Option<Witness>,
}

impl Outcome {
    /// How it went.
    pub fn status(&self) -> Status<'_> {
        Status { governor: &self.governor, totals: self.totals, failure: self.failure.as_ref(), witness: self.witness.as_ref() }
    }
}

/// Who attends to a recording: gives it files, and hears how it goes.
pub trait Attendant {
    /// Where to write.
    ///
    /// # Errors
    /// Where it cannot be made.
    fn open(&mut self) -> Result<Destination>;

    /// The last one that was opened cannot be begun.
    fn abandon(&mut self) {}

    /// One is complete.
    ///
    /// # Errors
    /// Where it cannot be put in its place.
    fn close(&mut self, file: File) -> Result<()>;

    /// Whether it is time for another file: this one has so many bytes of records and has been written for so long.
    fn is_full(&mut self, _bytes: u64, _age: Duration) -> bool {
        false
    }

    /// The disk is full: whether something was given up, so that it is worth trying again.
    fn make_room(&mut self) -> bool {
        false
    }

    /// A window is over.
    fn look(&mut self, _status: &Status<'_>) {}
}

/// Who records, as the recording says.
#[derive(Clone, Debug)]
pub struct Recorder {
    /// Name and version.
    pub name: String,
    /// The command line.
    pub command: Vec<String>,
    /// The CPU's model name.
    pub cpu: String,
    /// The machine's PMUs, by their types.
    pub pmus: Vec<(u32, String)>,
}

impl Recorder {
    pub(crate) fn features(&self) -> Features {
        let uname = rustix::system::uname();
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let memory_kib = memory.lines().next().and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        Features {
            hostname: text(uname.nodename()),
            kernel: text(uname.release()),
            recorder: self.name.clone(),
            arch: text(uname.machine()),
            cpus: online_cpus().map_or(0, |cpus| cpus.len() as u32),
            cpu: self.cpu.clone(),
            memory_kib: memory_kib.unwrap_or(0),
            command: self.command.clone(),
            pmus: self.pmus.clone(),
            ..Features::default()
        }
    }
}

/// The file cannot be written.
pub fn unwritable(error: io::Error) -> Error {
    Error::System { call: "write of the recording".into(), source: error }
}
