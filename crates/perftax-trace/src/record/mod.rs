//! Recording: a program's marks, samples of it, and what the kernel did meanwhile, all on one clock.

mod events;
mod hold;
mod identity;
mod listener;
mod mappings;
mod perf_clock;
mod probes;
mod reorder;
mod source;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use perftax_cost::Mechanism;
use perftax_pmu::event::{Catalog, Event};
use perftax_pmu::machine::Machine;
use perftax_pmu::oracle::CpuFacts;
use perftax_pmu::sampler::{Clock, Payload, Sampler, Sampling};
use perftax_pmu::sys::{Child, ChildSpec, Exit, Stdio, Target, monotonic_raw_ns};
use perftax_pmu::{Error, Result};

use crate::kernel::KernelEvent;
use crate::mark::Mark;
use crate::names::Names;
use crate::store::{Function, SampleRow};
use crate::tag::Tag;
use events::{FAULTS, Formats, INTERRUPTS, LEAVING, Meaning, NOISE, SYSCALLS, Tracepoints};
use identity::Identity;
pub use identity::Seen;
use listener::Listener;
use mappings::Mappings;
use probes::Probes;
use reorder::Reorder;
use source::Source;

/// What is recorded.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The program.
    pub argv: Vec<OsString>,
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
}

impl Recorded {
    /// Losses whose time is kept.
    pub const MOST_LOSSES: usize = 10_000;
}

/// From one look at the rings to the next.
const LOOK: Duration = Duration::from_millis(10);
/// Looks for which rows are held back, so that those that are written late find their place: a thread may be taken off its CPU between
/// reading the counter and writing the mark.
const HOLD_BACK: usize = 10;
/// How long a program that was told to end may take.
const GRACE: Duration = Duration::from_secs(2);
/// signal(7).
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
/// Ring of a CPU, pages: room for some ten thousand records, a hundred times what comes between two looks.
const RING_PAGES: usize = 1024;

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
    let mut child = Child::spawn(&child_spec(recording, marks.path()))?;
    let mut session = Session::open(recording, catalog, child.pid(), marks.path(), probes)?;
    session.listener.anchor();
    let stolen_before = steal_s();
    child.release()?;
    let mut told_to_end: Option<Instant> = None;
    loop {
        // Whoever interrupts us wants the program to end, and what was recorded.
        if perftax_pmu::guard::check_interrupted().is_err() {
            match told_to_end {
                None => child.signal(SIGINT),
                Some(since) if since.elapsed() > GRACE => child.signal(SIGKILL),
                Some(_) => {}
            }
            told_to_end.get_or_insert_with(Instant::now);
        }
        // Asked before looking: what is written after its end is nobody's.
        let last = child.has_ended();
        if let Err(error) = session.look(keep) {
            child.signal(SIGKILL);
            return Err(error);
        }
        if last {
            break;
        }
        std::thread::sleep(LOOK);
    }
    let exit = child.wait()?;
    session.flush(u64::MAX, keep)?;
    let steal_s = steal_s().zip(stolen_before).map(|(after, before)| after - before);
    session.finish(exit, steal_s)
}

/// A recording that runs.
struct Session {
    sources: Vec<Source>,
    formats: Option<Formats>,
    /// Behind the events: they are closed when their definitions go.
    probes: Option<Probes>,
    listener: Listener,
    reorder: Reorder,
    identity: Identity,
    mappings: Mappings,
    names: Names,
    missing: Vec<String>,
    /// When the last looks began.
    looks_ns: VecDeque<u64>,
    rows: [u64; 3],
}

impl Session {
    fn open(recording: &Recording, catalog: &Catalog, pid: i32, marks: &Path, probes: Option<Probes>) -> Result<Self> {
        let register = identity::register(recording).map(|register| register.number);
        let ring_bytes = RING_PAGES * rustix::param::page_size();
        let payload = identity::with_register(Payload::BASIC.with_place().with_raw(), recording, false);
        let every = |period| Sampling { clock: Clock::MonotonicRaw, ..Sampling::every(period, ring_bytes).carrying(payload) };
        let of_threads: Vec<Target> = recording.cpus.iter().map(|&cpu| Target::ThreadOnCpu(pid, cpu)).collect();
        let of_cpus: Vec<Target> = recording.cpus.iter().map(|&cpu| Target::Cpu(cpu)).collect();
        let sampled = Sampling { mapping_records: true, task_records: true, ..every(recording.period).for_command() };
        // Who may watch the program's own mode alone sees no switches; the event still says what was mapped.
        let leaving = |sampling| {
            let mut events = Tracepoints::resolve(&LEAVING, sampling, catalog)?.events;
            for (event, ..) in &mut events {
                event.modifiers.exclude_kernel = !recording.kernel_noise && recording.event.modifiers.exclude_kernel;
            }
            Ok::<_, Error>(events)
        };
        // PEBS puts many records together only where none of it is asked: neither our clock nor what tracepoints record.
        let is_precise = recording.event.mechanism == Mechanism::Pebs;
        let mut own = vec![(recording.event.clone(), sampled, Meaning::Sample)];
        let mut sources = Vec::new();
        if is_precise {
            let payload = identity::with_register(Payload::BASIC.with_place(), recording, true);
            let precise = Sampling { clock: Clock::Perf, ..every(recording.period).for_command().carrying(payload) };
            let event = (recording.event.clone(), precise, Meaning::Sample);
            sources.push(Source::open_precise(event, &of_threads, register, catalog)?);
            own = leaving(Sampling { period: Some(1), ..sampled })?;
        }
        let (mut formats, mut missing) = (None, Vec::new());
        if register.is_some() && !is_precise {
            own.extend(leaving(every(1).for_command())?);
        }
        let plain = every(1).carrying(Payload::BASIC.with_place().with_raw());
        if let Some(probes) = &probes {
            let mut passes = Source::open(&probes.events(plain, catalog)?, &of_cpus, None)?;
            passes.sampler.enable()?;
            sources.push(passes);
        }
        if recording.kernel_noise {
            // Other programs' registers are none of ours.
            let noise = Tracepoints::resolve(&NOISE, plain, catalog)?;
            let of_program = Tracepoints::resolve(&SYSCALLS, every(1).for_command(), catalog)?;
            own.extend(of_program.events);
            own.extend(Tracepoints::resolve(&FAULTS, every(1).for_command(), catalog)?.events);
            missing.extend(noise.missing);
            let mut of_all = noise.events;
            // Where each sample takes an interrupt a record of each would cost as much again.
            if is_precise && records_hold_time() {
                of_all.extend(Tracepoints::resolve(&INTERRUPTS, plain, catalog)?.events);
            }
            let mut noise = Source::open(&of_all, &of_cpus, None)?;
            noise.sampler.enable()?;
            sources.push(noise);
            formats = Some(Formats::read(catalog)?);
        }
        sources.push(Source::open(&own, &of_threads, register)?);
        Ok(Self {
            sources,
            formats,
            probes,
            listener: Listener::new(marks),
            reorder: Reorder::default(),
            identity: Identity::new(recording, pid),
            mappings: Mappings::default(),
            names: Names::default(),
            missing,
            looks_ns: VecDeque::new(),
            rows: [0; 3],
        })
    }

    /// Takes what has come since the last look, and hands out what is old enough.
    fn look(&mut self, keep: &mut dyn FnMut(&Row) -> Result<()>) -> Result<()> {
        self.looks_ns.push_back(monotonic_raw_ns());
        self.listener.listen(&mut self.reorder)?;
        for source in &mut self.sources {
            source.drain(self.formats.as_ref(), self.probes.as_ref(), &mut self.reorder, &mut self.mappings, &mut self.names)?;
        }
        match self.looks_ns.len() > HOLD_BACK {
            true => self.looks_ns.pop_front().map_or(Ok(()), |until_ns| self.flush(until_ns, keep)),
            false => Ok(()),
        }
    }

    /// Hands out the rows before a time.
    fn flush(&mut self, until_ns: u64, keep: &mut dyn FnMut(&Row) -> Result<()>) -> Result<()> {
        let (mappings, rows, identity) = (&mut self.mappings, &mut self.rows, &mut self.identity);
        let mut keep = |row: &Row| {
            let kind = match row {
                Row::Mark(_) => 0,
                Row::Sample(sample) => {
                    mappings.seen(sample.pid, sample.ip);
                    1
                }
                Row::Kernel(_) => 2,
            };
            rows[kind] += 1;
            keep(row)
        };
        self.reorder.flush(until_ns, |held| identity.take(held, &mut keep))?;
        identity.release(until_ns, &mut keep)
    }

    fn finish(mut self, exit: Exit, steal_s: Option<f64>) -> Result<Recorded> {
        // LOST records are written only when there is room again; the counter knows of all (Linux 6.0 on).
        let lost = self.sources.iter().map(|source| Ok(source.lost.max(source.sampler.lost()?))).sum::<Result<u64>>()?;
        let mut losses_ns: Vec<u64> = self.sources.iter_mut().flat_map(|source| std::mem::take(&mut source.losses_ns)).collect();
        losses_ns.sort_unstable();
        losses_ns.truncate(Recorded::MOST_LOSSES);
        // The kernel keeps definitions that events are open on.
        drop(self.sources);
        Ok(Recorded {
            exit,
            rows: self.rows,
            lost,
            losses_ns,
            dropped: self.listener.folder.dropped(),
            late: self.reorder.late,
            broken: self.listener.folder.broken().map(String::from).collect(),
            rings: self.listener.folder.rings(),
            missing: self.missing,
            symbols: self.mappings.resolve(),
            names: self.names,
            steal_s,
            seen: self.identity.finish(),
            probed: self.probes.map(|probes| probes.binary),
        })
    }
}

fn child_spec(recording: &Recording, marks: &Path) -> ChildSpec {
    let environment = match recording.tag {
        Tag::Marks => {
            vec![(FOLDER_VARIABLE.into(), marks.into()), (CAPACITY_VARIABLE.into(), recording.ring_marks.to_string().into())]
        }
        // Nobody listens.
        _ => Vec::new(),
    };
    ChildSpec { argv: recording.argv.clone(), directory: None, stdin: None, output: Stdio::Inherit, cpus: None, environment }
}

/// A folder in memory, where the machine has one: marks must not wait for a disk.
fn memory_folder() -> PathBuf {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { shm.into() } else { std::env::temp_dir() }
}

/// Whether PEBS records hold a time here, as Skylake's and later ones do (format 3): only then does one interrupt bring many of them.
fn records_hold_time() -> bool {
    CpuFacts::of_machine(&Machine::here()).format.is_some_and(|format| format >= 3)
}

/// What the hypervisor has taken from all CPUs since they started, s (`/proc/stat`, the eighth number, in 1/100 s).
fn steal_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let ticks: u64 = text.lines().next()?.split_whitespace().nth(8)?.parse().ok()?;
    Some(ticks as f64 / 100.0)
}
