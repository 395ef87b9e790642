//! Recording: a program's marks, samples of it, and what the kernel did meanwhile, all on one clock.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use perftax_pmu::event::{Catalog, Event, RecordFormat, parse};
use perftax_pmu::record::{Header, Layout, Record, Sample, decode};
use perftax_pmu::sampler::{Clock, LiveSampler, Payload, Sampler, Sampling};
use perftax_pmu::sys::{Child, ChildSpec, Exit, Stdio, Target, Tsc, monotonic_raw_ns};
use perftax_pmu::{Error, Result};

use crate::clock::Anchors;
use crate::kernel::{Interruption, KernelEvent, What};
use crate::mark::{Kind, Mark};
use crate::rings::MarkFolder;
use crate::store::{SampleRow, Trace};

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
    /// The CPUs that are watched.
    pub cpus: Vec<u32>,
}

/// What came of it.
#[derive(Debug)]
pub struct Recorded {
    /// The tables.
    pub trace: Trace,
    /// How the program ended.
    pub exit: Exit,
    /// Samples and kernel records that found no room.
    pub lost: u64,
    /// Marks that found no room.
    pub dropped: u64,
    /// Rings that could not be read, each with the reason.
    pub broken: Vec<String>,
    /// Rings that were read: threads that said anything.
    pub rings: usize,
}

/// From one look at the rings to the next.
const LOOK: Duration = Duration::from_millis(10);
/// How long a program that was told to end may take.
const GRACE: Duration = Duration::from_secs(2);
/// signal(7).
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
/// Ring of a CPU, pages: room for some ten thousand records, a hundred times what comes between two looks.
const RING_PAGES: usize = 1024;
/// Readings of both clocks of which the tightest is kept.
const ANCHOR_ATTEMPTS: u32 = 5;

/// Where a program finds the folder for its rings, and their size (`perftax_tag.h`).
const FOLDER_VARIABLE: &str = "PERFTAX_MARKS";
const CAPACITY_VARIABLE: &str = "PERFTAX_MARKS_CAPACITY";

/// The tracepoints that say what a CPU did, and what each means.
const NOISE: [(&str, &str, Meaning); 14] = [
    ("sched", "sched_switch", Meaning::Switch),
    ("sched", "sched_wakeup", Meaning::Wakeup),
    ("irq", "irq_handler_entry", Meaning::Enter(Interruption::Irq)),
    ("irq", "irq_handler_exit", Meaning::Exit(Interruption::Irq)),
    ("irq", "softirq_entry", Meaning::Enter(Interruption::Softirq)),
    ("irq", "softirq_exit", Meaning::Exit(Interruption::Softirq)),
    ("irq_vectors", "local_timer_entry", Meaning::Enter(Interruption::Vector)),
    ("irq_vectors", "local_timer_exit", Meaning::Exit(Interruption::Vector)),
    ("irq_vectors", "reschedule_entry", Meaning::Enter(Interruption::Vector)),
    ("irq_vectors", "reschedule_exit", Meaning::Exit(Interruption::Vector)),
    ("irq_vectors", "call_function_entry", Meaning::Enter(Interruption::Vector)),
    ("irq_vectors", "call_function_exit", Meaning::Exit(Interruption::Vector)),
    ("irq_vectors", "call_function_single_entry", Meaning::Enter(Interruption::Vector)),
    ("irq_vectors", "call_function_single_exit", Meaning::Exit(Interruption::Vector)),
];
/// The tracepoints that say what a thread asked of the kernel.
const SYSCALLS: [(&str, &str, Meaning); 2] =
    [("raw_syscalls", "sys_enter", Meaning::SyscallEnter), ("raw_syscalls", "sys_exit", Meaning::SyscallExit)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Sample,
    Switch,
    Wakeup,
    Enter(Interruption),
    Exit(Interruption),
    SyscallEnter,
    SyscallExit,
}

/// The two tracepoints whose fields are looked at.
struct Formats {
    switch: RecordFormat,
    wakeup: RecordFormat,
}

/// An open source of records, and what each of its events means.
struct Source {
    sampler: LiveSampler,
    layout: Layout,
    meanings: HashMap<u64, Meaning>,
    /// As its records say.
    lost: u64,
}

impl Source {
    fn open(events: &[(Event, Sampling, Meaning)], targets: &[Target]) -> Result<Self> {
        let asked: Vec<(Event, Sampling)> = events.iter().map(|(event, sampling, _)| (event.clone(), *sampling)).collect();
        let sampler = LiveSampler::open(&asked, targets, RING_PAGES)?;
        let meanings = sampler.events().iter().zip(events.iter().cycle()).map(|(open, (.., meaning))| Ok((open.id()?, *meaning)));
        Ok(Self { layout: *sampler.layout(), meanings: meanings.collect::<Result<_>>()?, sampler, lost: 0 })
    }

    fn drain(&mut self, formats: Option<&Formats>, trace: &mut Trace) -> Result<()> {
        let (layout, meanings, lost) = (&self.layout, &self.meanings, &mut self.lost);
        self.sampler.drain(&mut |header: Header, body| match decode(header, body, layout) {
            Ok(Record::Sample(sample)) => {
                let meaning = sample.identifier.and_then(|id| meanings.get(&id));
                if let Some(meaning) = meaning {
                    take(*meaning, &sample, formats, trace);
                }
            }
            Ok(Record::Lost(record)) => *lost += record.lost,
            Ok(Record::LostSamples(record)) => *lost += record.lost,
            _ => {}
        })?;
        Ok(())
    }
}

fn take(meaning: Meaning, sample: &Sample<'_>, formats: Option<&Formats>, trace: &mut Trace) {
    let (Some(time_ns), Some(cpu), Some(task)) = (sample.time_ns, sample.cpu, sample.task) else { return };
    let tid = task.tid;
    let field = |format: fn(&Formats) -> &RecordFormat, name: &str| format(formats?).number(name, sample.raw?);
    let what = match meaning {
        Meaning::Sample => {
            trace.samples.push(SampleRow { time_ns, cpu, tid, ip: sample.ip.unwrap_or(0) });
            return;
        }
        Meaning::Switch => {
            let fields = (field(|f| &f.switch, "prev_pid"), field(|f| &f.switch, "prev_state"), field(|f| &f.switch, "next_pid"));
            let (Some(previous), Some(state), Some(next)) = fields else { return };
            // TASK_RUNNING is 0; what lies above the states that can be reported says that it was preempted.
            What::Switch { previous: previous as u32, is_runnable: state & 0xff == 0, next: next as u32 }
        }
        Meaning::Wakeup => match field(|f| &f.wakeup, "pid") {
            Some(woken) => What::Wakeup { tid: woken as u32 },
            None => return,
        },
        Meaning::Enter(interruption) => What::Enter(interruption),
        Meaning::Exit(interruption) => What::Exit(interruption),
        Meaning::SyscallEnter => What::SyscallEnter,
        Meaning::SyscallExit => What::SyscallExit,
    };
    // A switch belongs to the thread that leaves, whoever the sample says was there.
    let tid = if let What::Switch { previous, .. } = what { previous } else { tid };
    trace.kernel.push(KernelEvent { time_ns, cpu, tid, what });
}

fn tracepoints(
    wanted: &[(&str, &str, Meaning)],
    sampling: Sampling,
    catalog: &Catalog,
) -> Result<Vec<(Event, Sampling, Meaning)>> {
    let mut events = Vec::new();
    for (system, name, meaning) in wanted {
        match parse(&format!("{system}:{name}"), catalog) {
            Ok(parsed) => events.extend(parsed.into_iter().map(|event| (event, sampling, *meaning))),
            // Vectors of the processor's differ between architectures; the scheduler's do not.
            Err(Error::UnknownEvent { .. }) if *system == "irq_vectors" => {}
            Err(error) => return Err(error),
        }
    }
    Ok(events)
}

/// Runs the program, its output untouched, and records it to its end.
///
/// # Errors
/// Where events cannot be opened or the program cannot be executed. A program that fails has been recorded all the same.
pub fn record(recording: &Recording, catalog: &Catalog) -> Result<Recorded> {
    let marks =
        tempfile::Builder::new().prefix("perftax-marks-").tempdir_in(memory_folder()).map_err(Error::file(memory_folder()))?;
    let mut child = Child::spawn(&child_spec(recording, marks.path()))?;
    let payload = Payload::BASIC.with_place().with_raw();
    let ring_bytes = RING_PAGES * rustix::param::page_size();
    let every = |period| Sampling { clock: Clock::MonotonicRaw, ..Sampling::every(period, ring_bytes).carrying(payload) };
    let formats = match recording.kernel_noise {
        true => Some(Formats {
            switch: catalog.record_format("sched", "sched_switch")?,
            wakeup: catalog.record_format("sched", "sched_wakeup")?,
        }),
        false => None,
    };
    let of_threads: Vec<Target> = recording.cpus.iter().map(|&cpu| Target::ThreadOnCpu(child.pid(), cpu)).collect();
    let of_cpus: Vec<Target> = recording.cpus.iter().map(|&cpu| Target::Cpu(cpu)).collect();
    let mut own = vec![(recording.event.clone(), every(recording.period).for_command(), Meaning::Sample)];
    let mut sources = Vec::new();
    if recording.kernel_noise {
        own.extend(tracepoints(&SYSCALLS, every(1).for_command(), catalog)?);
        let mut noise = Source::open(&tracepoints(&NOISE, every(1), catalog)?, &of_cpus)?;
        noise.sampler.enable()?;
        sources.push(noise);
    }
    sources.push(Source::open(&own, &of_threads)?);

    let mut listener = Listener { folder: MarkFolder::new(marks.path()), anchors: Anchors::default(), raw: Vec::new() };
    let mut trace = Trace::default();
    listener.anchor();
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
        listener.listen()?;
        for source in &mut sources {
            source.drain(formats.as_ref(), &mut trace)?;
        }
        if last {
            break;
        }
        std::thread::sleep(LOOK);
    }
    let exit = child.wait()?;
    // LOST records are written only when there is room again; the counter knows of all (Linux 6.0 on).
    let lost = sources.iter().map(|source| Ok(source.lost.max(source.sampler.lost()?))).sum::<Result<u64>>()?;
    let Listener { folder, anchors, raw } = listener;
    let mark = |(tid, counter, id, kind)| Some(Mark { time_ns: anchors.time_ns(counter)?, tid, id, kind });
    trace.marks = raw.into_iter().filter_map(mark).collect();
    trace.marks.sort_by_key(|mark| mark.time_ns);
    trace.samples.sort_by_key(|sample| sample.time_ns);
    trace.kernel.sort_by_key(|event| event.time_ns);
    let broken = folder.broken().map(String::from).collect();
    Ok(Recorded { trace, exit, lost, dropped: folder.dropped(), broken, rings: folder.rings() })
}

/// Who reads the marks.
struct Listener {
    folder: MarkFolder,
    anchors: Anchors,
    raw: Vec<(u32, u64, u64, Kind)>,
}

impl Listener {
    fn listen(&mut self) -> Result<()> {
        let raw = &mut self.raw;
        self.folder.drain(|owner, counter, id, kind| raw.push((owner.tid, counter, id, kind)))?;
        self.anchor();
        Ok(())
    }

    fn anchor(&mut self) {
        self.anchors.take(ANCHOR_ATTEMPTS, || {
            let before = monotonic_raw_ns();
            let counter = Tsc::now();
            (counter, before, monotonic_raw_ns())
        });
    }
}

fn child_spec(recording: &Recording, marks: &Path) -> ChildSpec {
    ChildSpec {
        argv: recording.argv.clone(),
        directory: None,
        stdin: None,
        output: Stdio::Inherit,
        cpus: None,
        environment: vec![
            (FOLDER_VARIABLE.into(), marks.into()),
            (CAPACITY_VARIABLE.into(), recording.ring_marks.to_string().into()),
        ],
    }
}

/// A folder in memory, where the machine has one: marks must not wait for a disk.
fn memory_folder() -> PathBuf {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { shm.into() } else { std::env::temp_dir() }
}
