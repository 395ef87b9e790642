//! Recording: a program's marks, samples of it, and what the kernel did meanwhile, all on one clock.

mod attach;
mod events;
mod hold;
mod identity;
mod listener;
mod mappings;
mod opening;
mod perf_clock;
mod probes;
mod program;
mod reorder;
mod session;
mod source;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use perftax_cost::document::TraceSpent;
use perftax_pmu::event::{Catalog, Event};
use perftax_pmu::process::file_of;
use perftax_pmu::sys::Exit;
use perftax_pmu::{Error, Result};

use crate::kernel::KernelEvent;
use crate::mark::Mark;
use crate::names::Names;
use crate::store::{Function, SampleRow};
use crate::tag::Tag;
pub use identity::Seen;
use probes::Probes;
use program::Program;
use session::Session;

/// Who is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A command that is started, and all that it starts.
    Command(Vec<OsString>),
    /// A process that runs already, and what it will start.
    Process(u32),
}

impl Subject {
    /// The file that is, or was, executed.
    pub fn program(&self) -> PathBuf {
        match self {
            Self::Command(argv) => argv.first().map(PathBuf::from).unwrap_or_default(),
            Self::Process(pid) => std::fs::read_link(file_of(*pid, "exe")).unwrap_or_default(),
        }
    }
}

/// What is recorded.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The program.
    pub subject: Subject,
    /// What is sampled, and how often.
    pub event: Event,
    /// Its period.
    pub period: u64,
    /// Whether what the kernel does is recorded, too: that needs the right to watch CPUs.
    pub kernel_noise: bool,
    /// Marks that a thread may be ahead of us; a power of two.
    pub ring_marks: u64,
    /// What tells messages apart.
    pub tag: Tag,
    /// The CPUs that are watched.
    pub cpus: Vec<u32>,
    /// Pages of each of their rings; a power of two. 1024 have room for some ten thousand records, a hundred times what comes between two
    /// looks as a rule.
    pub ring_pages: usize,
    /// How long a process that runs already is recorded; none: until it ends, or we are interrupted.
    pub at_most: Option<Duration>,
    /// The share of the program's CPU time that recording may take: it is then on and off in turn, and leaves system calls out, whose
    /// tracepoints cost even while off.
    pub budget: Option<f64>,
}

/// A row of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// What the program said.
    Mark(Mark),
    /// Where it was.
    Sample(SampleRow),
    /// What the kernel did.
    Kernel(KernelEvent),
}

impl Row {
    /// When.
    pub fn time_ns(&self) -> u64 {
        match self {
            Self::Mark(mark) => mark.time_ns,
            Self::Sample(sample) => sample.time_ns,
            Self::Kernel(event) => event.time_ns,
        }
    }
}

/// What came of it, apart from the rows.
#[derive(Debug)]
pub struct Recorded {
    /// How the program ended.
    pub exit: Exit,
    /// Marks, samples, records of the kernel's.
    pub rows: [u64; 3],
    /// Samples and kernel records that found no room.
    pub lost: u64,
    /// When the kernel said so: messages around may lack what was lost. At most [`Recorded::MOST_LOSSES`].
    pub losses_ns: Vec<u64>,
    /// Marks that found no room.
    pub dropped: u64,
    /// Rows that came more than [`HOLD_BACK`] late, and are out of order.
    pub late: u64,
    /// Rings that could not be read, each with the reason.
    pub broken: Vec<String>,
    /// Rings that were read: threads that said anything.
    pub rings: usize,
    /// Tracepoints that this kernel does not have.
    pub missing: Vec<String>,
    /// What addresses are called, by process (0: the kernel) and address.
    pub symbols: BTreeMap<(u32, u64), Function>,
    /// What threads and interrupts are called.
    pub names: Names,
    /// What the hypervisor took from the CPUs meanwhile, as the kernel's own accounts say, s.
    pub steal_s: Option<f64>,
    /// How well messages were seen.
    pub seen: Seen,
    /// The program or library whose static probes were watched.
    pub probed: Option<PathBuf>,
    /// Within a budget: what it cost.
    pub spent: Option<TraceSpent>,
    /// Within a budget: when recording was on, from and to, CLOCK_MONOTONIC_RAW, ns.
    pub windows_ns: Option<Vec<(u64, u64)>>,
}

impl Recorded {
    /// Losses whose time is kept.
    pub const MOST_LOSSES: usize = 10_000;
}

/// From one look at the rings to the next.
const LOOK: Duration = Duration::from_millis(10);
/// How long a program that was told to end may take.
const GRACE: Duration = Duration::from_secs(1);
/// Where a program finds the folder for its rings, and their size (`perftax_tag.h`).
const FOLDER_VARIABLE: &str = "PERFTAX_MARKS";
const CAPACITY_VARIABLE: &str = "PERFTAX_MARKS_CAPACITY";

/// Runs the program, its output untouched, and records it to its end; hands every row to `keep`, in order of time.
///
/// # Errors
/// Where events cannot be opened, the program cannot be executed, or a row cannot be kept. A program that fails has been recorded all
/// the same.
pub fn record(recording: &Recording, catalog: &Catalog, keep: &mut dyn FnMut(&Row) -> Result<()>) -> Result<Recorded> {
    let marks =
        tempfile::Builder::new().prefix("perftax-marks-").tempdir_in(memory_folder()).map_err(Error::file(memory_folder()))?;
    let probes = Probes::define(recording, catalog)?;
    let mut program = Program::open(recording, marks.path())?;
    let mut session = Session::open(recording, catalog, &program, marks.path(), probes)?;
    session.listener.anchor();
    let (began, stolen_before) = (Instant::now(), steal_s());
    // Nothing is recorded yet: whoever interrupts now wants nothing to begin.
    perftax_pmu::guard::check_interrupted()?;
    program.release(recording, marks.path())?;
    let mut told_to_end: Option<Instant> = None;
    loop {
        // Whoever interrupts us wants the program to end, and what was recorded.
        let is_over = recording.at_most.is_some_and(|at_most| began.elapsed() >= at_most);
        if is_over || perftax_pmu::guard::check_interrupted().is_err() {
            perftax_pmu::guard::take_interrupt_as_end();
            match told_to_end {
                None => program.stop(),
                Some(since) if since.elapsed() > GRACE => program.kill(),
                Some(_) => {}
            }
            told_to_end.get_or_insert_with(Instant::now);
        }
        // Asked before looking: what is written after its end is nobody's.
        let last = program.has_ended();
        if let Err(error) = session.look(keep) {
            program.kill();
            return Err(error);
        }
        if last {
            break;
        }
        session.turn()?;
        std::thread::sleep(LOOK);
    }
    session.off()?;
    session.look(keep)?;
    let exit = program.finish()?;
    session.flush(u64::MAX, keep)?;
    let steal_s = steal_s().zip(stolen_before).map(|(after, before)| after - before);
    session.finish(exit, steal_s)
}

/// A folder in memory, where the machine has one: marks must not wait for a disk.
fn memory_folder() -> PathBuf {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { shm.into() } else { std::env::temp_dir() }
}

/// What the hypervisor has taken from all CPUs since they started, s (`/proc/stat`, the eighth number, in 1/100 s).
fn steal_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let ticks: u64 = text.lines().next()?.split_whitespace().nth(8)?.parse().ok()?;
    Some(ticks as f64 / 100.0)
}
