//! What is recorded, and what came of it.

use std::fs::File;
use std::io;
use std::time::Duration;

use perftax_cost::governor::{Governor, Pricing};
use perftax_perfdata::writing::{BuildId, Features};
use perftax_pmu::event::Event;
use perftax_pmu::guard::online_cpus;
use perftax_pmu::sampler::Payload;
use perftax_pmu::sys::Exit;
use perftax_pmu::{Error, Result};
use perftax_symbols::elf::Elf;
use perftax_target::{Program, Subject, run_loop};

use crate::session::Session;

/// What is recorded.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The program.
    pub subject: Subject,
    /// What is sampled.
    pub event: Event,
    /// What each sample carries beside instruction pointer, thread, time, CPU and weight.
    pub payload: Payload,
    /// What sampling costs, and what it may: periods follow from it.
    pub pricing: Pricing,
    /// CPUs that the program may run on.
    pub cpus: Vec<u32>,
    /// CPUs that we may run on ourselves, and so take from the program.
    pub own_cpus: Vec<u32>,
    /// Pages of each CPU's ring; a power of two.
    pub ring_pages: usize,
    /// How long it is recorded; none: until it ends, or we are interrupted.
    pub at_most: Option<Duration>,
}

/// What came of it.
pub struct Outcome {
    /// How the program ended.
    pub exit: Exit,
    /// What was spent, and how it went.
    pub governor: Governor,
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
    /// The file, complete.
    pub file: File,
    /// Samples that could not be written, and why.
    pub unwritten: u64,
    /// Why not.
    pub failure: Option<io::Error>,
}

/// Who records, as the recording says.
#[derive(Clone, Debug)]
pub struct Recorder {
    /// Name and version.
    pub name: String,
    /// The command line.
    pub command: Vec<String>,
}

impl Recorder {
    fn features(&self) -> Features {
        let uname = rustix::system::uname();
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let memory_kib = memory.lines().next().and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpus.lines().find_map(|line| Some(line.strip_prefix("model name")?.split_once(": ")?.1.to_string()));
        Features {
            hostname: text(uname.nodename()),
            kernel: text(uname.release()),
            recorder: self.name.clone(),
            arch: text(uname.machine()),
            cpus: online_cpus().map_or(0, |cpus| cpus.len() as u32),
            cpu: cpu.unwrap_or_default(),
            memory_kib: memory_kib.unwrap_or(0),
            command: self.command.clone(),
            pmus: pmus(),
            ..Features::default()
        }
    }
}

/// The names of the PMU types that this machine has.
fn pmus() -> Vec<(u32, String)> {
    let devices = std::fs::read_dir("/sys/bus/event_source/devices").into_iter().flatten().flatten();
    let mut pmus: Vec<(u32, String)> = devices
        .filter_map(|device| {
            let kind = std::fs::read_to_string(device.path().join("type")).ok()?.trim().parse().ok()?;
            Some((kind, device.file_name().into_string().ok()?))
        })
        .collect();
    pmus.sort();
    pmus
}

/// Runs the program, its output untouched, or joins it, and records it into a file that is empty.
///
/// # Errors
/// Where events cannot be opened, the program cannot be executed, or nothing can be written at all. A program that fails has been recorded all the same.
pub fn record(recording: &Recording, file: File, recorder: &Recorder) -> Result<Outcome> {
    let mut program = Program::open_to_survive(&recording.subject)?;
    let mut session = Session::open(recording, &program, file)?;
    // Nothing is recorded yet: whoever interrupts now wants nothing to begin.
    perftax_pmu::guard::check_interrupted()?;
    session.begin()?;
    program.release()?;
    run_loop(&mut program, recording.at_most, &mut session)?;
    session.end(&mut program)?;
    let exit = program.finish()?;
    session.finish(exit, recorder.features())
}

/// The build ids of files, each with a process that has it mapped.
pub fn build_ids<'a>(files: impl Iterator<Item = (&'a [u8], u32)>) -> Vec<BuildId> {
    let mut ids: Vec<BuildId> = files
        .filter(|(path, _)| path.starts_with(b"/") && !path.starts_with(b"//"))
        .filter_map(|(path, pid)| {
            let path = String::from_utf8(path.to_vec()).ok()?;
            let id = Elf::open(&perftax_pmu::process::seen_by(pid, path.as_ref())).ok()?.build_id()?;
            Some(BuildId { path, id, is_kernel: false })
        })
        .collect();
    ids.sort_by(|a, b| a.path.cmp(&b.path));
    ids
}

/// The file cannot be written.
pub fn unwritable(error: io::Error) -> Error {
    Error::System { call: "write of the recording".into(), source: error }
}
