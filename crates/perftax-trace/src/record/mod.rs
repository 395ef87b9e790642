//! Recording: a program's marks, samples of it, and what the kernel did meanwhile, all on one clock.

mod attach;
mod contexts;
mod cpu_counters;
mod descriptors;
mod events;
mod family;
mod hold;
mod identity;
mod listener;
mod locks;
mod mappings;
mod marks_place;
mod moment;
mod objects;
mod opening;
mod peers;
mod perf_clock;
mod probes;
mod row_queue;
mod runtimes;
mod served;
mod session;
mod source;
mod under_way;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use perftax_doc::{Mechanism, PriceChecked, TraceSpent};
use perftax_pmu::Result;
use perftax_pmu::event::{Catalog, Event};
use perftax_pmu::process::has_call_filter;
use perftax_pmu::sys::{Exit, HostClock, own_cpu_ns, process_tree};
use perftax_target::{Program, Watch, run_loop};

use crate::names::Names;
use crate::rings::RingCounters;
pub use crate::row::{EventRow, Row};
use crate::store::Function;
use crate::tag::Tag;
use attach::Attached;
pub use identity::Seen;
use marks_place::MarksPlace;
use moment::Rows;
#[cfg(test)]
pub(crate) use moment::Still;
pub use moment::{Audience, Moment};
pub use perftax_target::Subject;
use probes::Probes;
use session::Session;

/// What is recorded.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The program.
    pub subject: Subject,
    /// What is sampled, and how often.
    pub event: Event,
    /// Its period.
    pub period: u64,
    /// Events that are counted by message beside it: each so-many-th is sampled, with the address that it is about.
    pub counted: Vec<(Event, u64)>,
    /// Instructions and cycles in user mode that are counted of each message: read in marks where the program can, at probes, and whenever a thread leaves its CPU where CPUs may be
    /// watched. The first is pinned: both count all the time, or not at all.
    pub counters: Option<[Event; 2]>,
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
    /// Whether functions that were inlined are named, too, by debug information.
    pub names_inlined: bool,
    /// The share of the program's CPU time that a recording which goes on and on may take: it rests for as long as that is exceeded, once the price was checked on the program.
    pub rests_above: Option<f64>,
    /// It is followed while it runs: nothing is remembered of what is over, and at its end addresses have no names.
    pub is_live: bool,
    /// Without a budget: whether the price is checked on the program, which is not recorded for a fiftieth of the time for it.
    pub checks_price: bool,
}

impl Recording {
    /// Whether a clock samples whatever runs on the CPUs, and what is of others is dropped: where CPUs may be watched at all. One that is of threads is started and stopped whenever one of
    /// them comes or leaves (kernel/events/core.c, `cpu_clock_event_add`): 11 µs a switch on a 6.18 guest, which is most of what recording a server took.
    pub fn clock_is_of_cpus(&self) -> bool {
        // Others' registers are none of ours.
        let is_tagged = matches!(self.tag, Tag::Register(_));
        self.kernel_noise && self.event.mechanism == Mechanism::CpuClock && !is_tagged
    }

    /// Whether counters of CPUs are read: in the group of probes, or where it is recorded who leaves them.
    pub fn counts_cpus(&self) -> bool {
        self.counters.is_some() && (self.kernel_noise || self.tag.is_probed())
    }
}

/// Why events of threads are not closed while nothing is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaysOpen {
    /// Threads of the program follow each other on a CPU too often, or it is not known how often.
    TakesTurns,
    /// There are more of them than this process may have open files for.
    NoRoom,
}

/// What came of it, apart from the rows.
#[derive(Debug)]
pub struct Recorded {
    /// How the program ended.
    pub exit: Exit,
    /// Marks, samples, records of the kernel's.
    pub rows: [u64; 3],
    /// What came of each event that was counted.
    pub counted: Vec<Counting>,
    /// What lies at their addresses, by number from 1.
    pub objects: Vec<String>,
    /// Where instructions and cycles are counted: how well.
    pub executed: Option<ExecutedSight>,
    /// Samples and kernel records that found no room.
    pub lost: u64,
    /// When the kernel said so: messages around may lack what was lost. At most [`Recorded::MAX_LOSSES`].
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
    /// Files whose functions have no names, since what was mapped is not to be had any more.
    pub unread: BTreeSet<PathBuf>,
    /// Processes that ran code which their runtimes made and wrote nothing about: by name, and at how many addresses.
    pub unnamed_code: BTreeMap<String, usize>,
    /// What threads and interrupts are called.
    pub names: Names,
    /// What the hypervisor took from the CPUs meanwhile, as the kernel's own accounts say, s.
    pub steal_s: Option<f64>,
    /// The host's clocks meanwhile, in order of time.
    pub clocks: Vec<HostClock>,
    /// How well messages were seen.
    pub seen: Seen,
    /// The program or library whose places were watched.
    pub probed: Option<PathBuf>,
    /// Within a budget: what it cost.
    pub spent: Option<TraceSpent>,
    /// What it cost otherwise, as checked on the program itself; none where it was too short for that, or what the program did is not known.
    pub checked: Option<PriceChecked>,
    /// Why the tracepoints of system calls stayed open while the price was checked, if they did: what was found lacks what they cost then.
    pub stays_open: Option<StaysOpen>,
    /// Why probes and system calls were not watched any more after a check of the price.
    pub not_opened: Option<String>,
    /// Our own CPU time meanwhile, s.
    pub own_cpu_s: f64,
    /// Within a budget: when recording was on, from and to, CLOCK_MONOTONIC_RAW, ns.
    pub windows_ns: Option<Vec<(u64, u64)>>,
}

/// What came of an event that was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counting {
    /// Samples.
    pub samples: u64,
    /// Of those with an address, the ones at which nothing is known to lie.
    pub unplaced: u64,
    /// The share of the time in which it was counted: less than 1 where it took turns with others; none where the kernel says nothing of it.
    pub share: Option<f64>,
}

/// How well instructions and cycles were counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutedSight {
    /// Readings of CPUs' counters: whenever a thread left one, and at probes.
    pub of_cpus: u64,
    /// Readings by threads themselves, in their marks.
    pub in_marks: u64,
    /// Marks in which a counter did not count.
    pub without_count: u64,
    /// Counters of CPUs were taken by somebody else meanwhile: nothing was read of those from then on, and no probe beside them was seen.
    pub are_taken: bool,
    /// Processes that have a filter of system calls, which might kill them for opening counters: they were not asked to.
    pub filtered: Vec<u32>,
    /// What came with the marks of how many threads.
    pub rings: BTreeMap<RingCounters, usize>,
}

impl Recorded {
    /// Losses whose time is kept.
    pub const MAX_LOSSES: usize = 10_000;
}

/// From one look at the rings to the next.
const LOOK: Duration = Duration::from_millis(10);
/// Where a program finds the folder for its rings, and their size (`perftax_tag.h`).
const FOLDER_VARIABLE: &str = "PERFTAX_MARKS";
const CAPACITY_VARIABLE: &str = "PERFTAX_MARKS_CAPACITY";

/// Runs the program, its output untouched, and records it to its end; hands every row to `keep`, in order of time.
///
/// # Errors
/// Where events cannot be opened, the program cannot be executed, or a row cannot be kept. A program that fails has been recorded all
/// the same.
pub fn record(recording: &Recording, catalog: &Catalog, keep: &mut dyn FnMut(&Row) -> Result<()>) -> Result<Recorded> {
    record_live(recording, catalog, &mut Rows(keep))
}

/// The same for whoever asks more than rows, in a recording that is live.
///
/// # Errors
/// As [`record`].
pub fn record_live(recording: &Recording, catalog: &Catalog, audience: &mut dyn Audience) -> Result<Recorded> {
    // Nobody listens where messages are told otherwise.
    let is_marked = recording.tag == Tag::Marks;
    let running = recording.subject.running();
    let marks = if is_marked && !running.is_empty() { places(running)? } else { vec![(0, MarksPlace::here()?)] };
    let mut filtered = Vec::new();
    if recording.counters.is_some() {
        for (pid, place) in &marks {
            // What we start ourselves has our own filter.
            let tree = if *pid == 0 { BTreeSet::new() } else { process_tree(*pid) };
            match tree.into_iter().find(|pid| has_call_filter(*pid)) {
                Some(pid) => filtered.push(pid),
                None => place.want_counters()?,
            }
        }
    }
    let probes = Probes::define(recording, catalog)?;
    let variables = [(FOLDER_VARIABLE, marks[0].1.path().into()), (CAPACITY_VARIABLE, recording.ring_marks.to_string().into())];
    let variables = variables.into_iter().filter(|_| is_marked).map(|(name, value)| (name.into(), value)).collect();
    let mut program = Program::open(&recording.subject, variables)?;
    let first = program.pid();
    let folders = marks.iter().map(|(pid, marks)| (marks.path().to_path_buf(), if *pid == 0 { first } else { *pid }));
    let mut session = Session::open(recording, catalog, &program, folders, probes)?;
    session.listener.anchor();
    let stolen_before = steal_s();
    let own_before_ns = own_cpu_ns();
    // Nothing is recorded yet: whoever interrupts now wants nothing to begin.
    perftax_pmu::guard::check_interrupted()?;
    program.release()?;
    let joined = is_marked && !program.is_ours();
    let attached = if joined { attach(&marks)? } else { Vec::new() };
    let mut recorder = Recorder { session, audience, is_over: false };
    run_loop(&mut program, recording.at_most, &mut recorder)?;
    drop(attached);
    let Recorder { mut session, audience, .. } = recorder;
    session.off()?;
    session.look(&mut |row| audience.row(row))?;
    let exit = program.finish()?;
    session.flush(u64::MAX, &mut |row| audience.row(row))?;
    if recording.is_live {
        audience.looked(&mut Moment { is_over: true, ..session.moment() })?;
    }
    let steal_s = steal_s().zip(stolen_before).map(|(after, before)| after - before);
    let mut recorded = session.finish(exit, steal_s, own_cpu_ns().saturating_sub(own_before_ns) as f64 * 1e-9)?;
    recorded.executed.iter_mut().for_each(|sight| sight.filtered = filtered.clone());
    Ok(recorded)
}

/// Folders for the rings of processes; those are left out that have no room for one, or are gone meanwhile, unless all are.
fn places(pids: &[u32]) -> Result<Vec<(u32, MarksPlace)>> {
    those_that_can(pids.iter().map(|pid| Ok((*pid, MarksPlace::seen_by(*pid)?))))
}

/// Has processes make rings, each in its folder; of several those that mark nothing, or cannot be told to, are left alone, where any does.
fn attach(marks: &[(u32, MarksPlace)]) -> Result<Vec<Attached>> {
    those_that_can(marks.iter().map(|(pid, marks)| Attached::attach(*pid, marks)))
}

/// What came of as many as any came of; where none did, why the first one could not.
fn those_that_can<T>(all: impl Iterator<Item = Result<T>>) -> Result<Vec<T>> {
    let (mut done, mut failed) = (Vec::new(), None);
    for one in all {
        match one {
            Ok(one) => done.push(one),
            Err(error) => drop(failed.get_or_insert(error)),
        }
    }
    match failed.filter(|_| done.is_empty()) {
        Some(error) => Err(error),
        None => Ok(done),
    }
}

/// A session, and where its rows go.
struct Recorder<'a> {
    session: Session<'a>,
    audience: &'a mut dyn Audience,
    is_over: bool,
}

impl Watch for Recorder<'_> {
    fn stop(&mut self) -> Result<()> {
        self.is_over = true;
        // Only writing is left, which is given its time.
        perftax_pmu::guard::take_interrupt_as_end();
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.is_over
    }

    fn look(&mut self) -> Result<()> {
        let Self { session, audience, .. } = self;
        session.look(&mut |row| audience.row(row))?;
        if session.is_live() { audience.looked(&mut session.moment()) } else { Ok(()) }
    }

    fn wait(&mut self) -> Result<()> {
        self.session.turn()?;
        std::thread::sleep(LOOK);
        Ok(())
    }
}

/// What the hypervisor has taken from all CPUs since they started, s (`/proc/stat`, the eighth number, in 1/100 s).
fn steal_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let ticks: u64 = text.lines().next()?.split_whitespace().nth(8)?.parse().ok()?;
    Some(ticks as f64 / 100.0)
}
