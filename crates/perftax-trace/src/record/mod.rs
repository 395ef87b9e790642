//! Recording: a program's marks, samples of it, and what the kernel did meanwhile, all on one clock.

mod attach;
mod events;
mod hold;
mod identity;
mod listener;
mod mappings;
mod perf_clock;
mod probes;
mod program;
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
use perftax_pmu::sys::{Exit, Target, monotonic_raw_ns};
use perftax_pmu::{Error, Result};

use crate::budget::{Controller, Progress, Spent};
use crate::kernel::{KernelEvent, What};
use crate::mark::Mark;
use crate::names::Names;
use crate::store::{Function, SampleRow};
use crate::tag::Tag;
use events::{FAULTS, Formats, INTERRUPTS, LEAVING, Meaning, NOISE, SYSCALLS, Tracepoints};
pub use identity::Seen;
use identity::{Held, Identity};
use listener::Listener;
use mappings::Mappings;
use probes::Probes;
use program::Program;
use reorder::Reorder;
use source::Source;

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
            Self::Process(pid) => std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default(),
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
    pub spent: Option<Spent>,
    /// Within a budget: when recording was on, from and to, CLOCK_MONOTONIC_RAW, ns.
    pub windows_ns: Option<Vec<(u64, u64)>>,
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
/// Times that a process's threads are looked up again where they change while their events are opened.
const ATTEMPTS: usize = 10;
/// From one reading of a process's mappings to the next, at least, ns.
const REMAP_NS: u64 = 2_000_000_000;

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
    program.release(recording, marks.path())?;
    let mut told_to_end: Option<Instant> = None;
    loop {
        // Whoever interrupts us wants the program to end, and what was recorded.
        let is_over = recording.at_most.is_some_and(|at_most| began.elapsed() >= at_most);
        if is_over || perftax_pmu::guard::check_interrupted().is_err() {
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
    pid: u32,
    /// Whether the events are on.
    is_on: bool,
    budget: Option<Controller>,
    windows_ns: Vec<(u64, u64)>,
    mapped_ns: u64,
}

impl Session {
    fn open(recording: &Recording, catalog: &Catalog, program: &Program, marks: &Path, probes: Option<Probes>) -> Result<Self> {
        let register = identity::register(recording).map(|register| register.number);
        let ring_bytes = recording.ring_pages * rustix::param::page_size();
        let payload = identity::with_register(Payload::BASIC.with_place().with_raw(), recording, false);
        let every = |period| Sampling { clock: Clock::MonotonicRaw, ..Sampling::every(period, ring_bytes).carrying(payload) };
        let of = |threads: &[i32]| -> Vec<Target> {
            threads.iter().flat_map(|&tid| recording.cpus.iter().map(move |&cpu| Target::ThreadOnCpu(tid, cpu))).collect()
        };
        let mut threads = program.threads();
        let of_threads = of(&threads);
        let of_cpus: Vec<Target> = recording.cpus.iter().map(|&cpu| Target::Cpu(cpu)).collect();
        // What runs already, or is on and off in turn, is switched on by hand.
        let is_ours = matches!(recording.subject, Subject::Command(_)) && recording.budget.is_none();
        let of_program = |period| Sampling { inherit: true, enable_on_exec: is_ours, ..every(period) };
        let sampled = Sampling { mapping_records: true, task_records: true, ..of_program(recording.period) };
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
        // Places of the sources that watch CPUs.
        let mut of_cpus_alone = Vec::new();
        if is_precise {
            let payload = identity::with_register(Payload::BASIC.with_place(), recording, true);
            let precise = Sampling { clock: Clock::Perf, ..of_program(recording.period).carrying(payload) };
            let event = (recording.event.clone(), precise, Meaning::Sample);
            sources.push(Source::open_precise(event, &of_threads, recording.ring_pages, register, catalog)?);
            own = leaving(Sampling { period: Some(1), ..sampled })?;
        }
        let (mut formats, mut missing) = (None, Vec::new());
        if register.is_some() && !is_precise {
            own.extend(leaving(of_program(1))?);
        }
        let plain = every(1).carrying(Payload::BASIC.with_place().with_raw());
        if let Some(probes) = &probes {
            sources.push(Source::open(&probes.events(plain, catalog)?, &of_cpus, recording.ring_pages, None)?);
            of_cpus_alone.push(sources.len() - 1);
        }
        if recording.kernel_noise {
            // Other programs' registers are none of ours.
            let noise = Tracepoints::resolve(&NOISE, plain, catalog)?;
            if recording.budget.is_none() {
                own.extend(Tracepoints::resolve(&SYSCALLS, of_program(1), catalog)?.events);
            }
            own.extend(Tracepoints::resolve(&FAULTS, of_program(1), catalog)?.events);
            missing.extend(noise.missing);
            let mut of_all = noise.events;
            // Where each sample takes an interrupt a record of each would cost as much again.
            if is_precise && records_hold_time() {
                of_all.extend(Tracepoints::resolve(&INTERRUPTS, plain, catalog)?.events);
            }
            sources.push(Source::open(&of_all, &of_cpus, recording.ring_pages, None)?);
            of_cpus_alone.push(sources.len() - 1);
            formats = Some(Formats::read(catalog)?);
        }
        let mut watched = Source::open(&own, &of_threads, recording.ring_pages, register);
        // Threads come and go meanwhile: those that are watched are to be those that there are.
        for _ in 0..ATTEMPTS {
            let now = program.threads();
            if watched.is_ok() && now.iter().all(|tid| threads.contains(tid)) {
                break;
            }
            threads = now;
            watched = Source::open(&own, &of(&threads), recording.ring_pages, register);
        }
        sources.push(watched?);
        let mut session = Self {
            sources,
            formats,
            probes,
            listener: Listener::new(marks),
            reorder: Reorder::default(),
            identity: Identity::new(recording, program.pid() as i32),
            mappings: Mappings::default(),
            names: Names::default(),
            missing,
            looks_ns: VecDeque::new(),
            rows: [0; 3],
            pid: program.pid(),
            is_on: false,
            budget: recording.budget.map(Controller::new),
            windows_ns: Vec::new(),
            mapped_ns: 0,
        };
        if is_ours {
            // The program's own events come on when it is executed.
            of_cpus_alone.into_iter().try_for_each(|at: usize| session.sources[at].sampler.enable())?;
        } else if session.budget.is_none() {
            session.on()?;
        } else {
            session.say(What::Paused);
        }
        Ok(session)
    }

    /// Switches the events on.
    fn on(&mut self) -> Result<()> {
        // Mappings are told only while they are made.
        let now_ns = monotonic_raw_ns();
        if self.mapped_ns == 0 || now_ns > self.mapped_ns + REMAP_NS {
            self.mapped_ns = now_ns;
            self.mappings.read(self.pid, &mut self.names);
        }
        self.sources.iter_mut().try_for_each(|source| source.sampler.enable())?;
        self.is_on = true;
        let time_ns = self.say(What::Resumed);
        self.windows_ns.push((time_ns, u64::MAX));
        Ok(())
    }

    /// Notes in the trace that recording goes off or is on. Returns when.
    fn say(&mut self, what: What) -> u64 {
        let time_ns = monotonic_raw_ns();
        self.reorder.push(Held::Row(Row::Kernel(KernelEvent { time_ns, cpu: 0, tid: 0, what })));
        time_ns
    }

    /// Switches them off, where it is us who switched them on.
    fn off(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_on) {
            let time_ns = self.say(What::Paused);
            if let Some(window) = self.windows_ns.last_mut() {
                window.1 = time_ns;
            }
            self.sources.iter_mut().try_for_each(|source| source.sampler.disable())?;
        }
        Ok(())
    }

    /// Within a budget: on or off, when it is time.
    fn turn(&mut self) -> Result<()> {
        if !self.budget.as_ref().is_some_and(|controller| controller.is_due(monotonic_raw_ns())) {
            return Ok(());
        }
        // What switching takes belongs to the slice with recording on.
        self.off()?;
        // Messages and CPU time of one moment, and of the same processes.
        self.listener.listen(&mut self.reorder)?;
        let (messages, cpu_ns) = self.listener.progress(self.pid);
        let now = Progress { time_ns: monotonic_raw_ns(), cpu_ns, messages };
        match self.budget.as_mut().is_some_and(|controller| controller.next(now)) {
            true => self.on(),
            false => Ok(()),
        }
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
            spent: self.budget.as_ref().and_then(Controller::spent),
            windows_ns: self.budget.is_some().then_some(self.windows_ns),
        })
    }
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
