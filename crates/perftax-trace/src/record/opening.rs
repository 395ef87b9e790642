//! What of the kernel is opened for a recording.

use perftax_doc::Mechanism;
use perftax_pmu::event::{Catalog, Event, parse_one};
use perftax_pmu::machine::Machine;
use perftax_pmu::oracle::CpuFacts;
use perftax_pmu::sampler::{Clock, Payload, Sampler, Sampling};
use perftax_pmu::sys::{OpenEvent, Target};
use perftax_pmu::{Error, Result};
use perftax_target::{Program, Subject, on_all_threads};

use super::events::{FAULTS, Formats, INTERRUPTS, LEAVING, Meaning, NOISE, SYSCALLS, Tracepoints};
use super::probes::Probes;
use super::source::Source;
use super::{Recording, identity};
use crate::tag::Tag;

/// Events that are open, and off.
pub struct Opened {
    /// What watches CPUs.
    pub of_cpus: Vec<Source>,
    /// What watches the program's threads.
    pub of_threads: Vec<Source>,
    /// Where a clock samples CPUs: what says which threads and mappings are the program's. It stays on when the others are off.
    pub tasks: Option<Source>,
    /// What costs as long as it is open, on or off.
    pub lasting: Lasting,
    /// How tracepoints' records are read; none where none are open.
    pub formats: Option<Formats>,
    /// Tracepoints that this kernel does not have.
    pub missing: Vec<String>,
    /// Those of the program's threads come on when it is executed.
    pub is_on_exec: bool,
}

/// A probe is a trap in the program, and all threads take the long way through system calls while any of those is watched anywhere (kernel/entry/common.c,
/// SYSCALL_WORK_SYSCALL_TRACEPOINT).
#[derive(Default)]
pub struct Lasting {
    /// Probes, watched by CPU.
    pub probes: Option<Source>,
    /// System calls of the program's threads.
    pub calls: Option<Source>,
}

impl Lasting {
    pub fn sources(&mut self) -> impl Iterator<Item = &mut Source> {
        self.probes.iter_mut().chain(&mut self.calls)
    }
}

/// Pages of a ring for what is told of threads and mappings alone.
const TASK_RING_PAGES: usize = 64;

/// Opens what a recording takes.
///
/// # Errors
/// Where an event cannot be opened.
pub fn open(recording: &Recording, catalog: &Catalog, program: &Program, probes: Option<&Probes>) -> Result<Opened> {
    let register = identity::register(recording).map(|register| register.number);
    let ring_bytes = recording.ring_pages * rustix::param::page_size();
    let payload = identity::with_register(Payload::BASIC.with_place().with_raw(), recording, false);
    let every = |period| Sampling { clock: Clock::MonotonicRaw, ..Sampling::every(period, ring_bytes).carrying(payload) };
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
    let (mut precise, mut own) = (None, vec![(recording.event.clone(), sampled, Meaning::Sample)]);
    let mut tasks = None;
    if recording.clock_is_of_cpus() {
        own.clear();
        tasks = Some((recording.event.dummy_beside(), Sampling { period: Some(1), ..sampled }, Meaning::Sample));
    }
    if is_precise {
        let payload = identity::with_register(Payload::BASIC.with_place(), recording, true);
        let sampled_precisely = Sampling { clock: Clock::Perf, ..of_program(recording.period).carrying(payload) };
        precise = Some((recording.event.clone(), sampled_precisely, Meaning::Sample));
        own = leaving(Sampling { period: Some(1), ..sampled })?;
    }
    let (mut of_cpus, mut missing) = (Vec::new(), Vec::new());
    if register.is_some() && !is_precise {
        own.extend(leaving(of_program(1))?);
    }
    let plain = every(1).carrying(Payload::BASIC.with_place().with_raw());
    if recording.kernel_noise {
        // Other programs' registers are none of ours.
        let noise = Tracepoints::resolve(&NOISE, plain, catalog)?;
        own.extend(Tracepoints::resolve(&FAULTS, of_program(1), catalog)?.events);
        missing.extend(noise.missing);
        let mut of_all = noise.events;
        // Where each sample takes an interrupt a record of each would cost as much again.
        if is_precise && records_hold_time() {
            of_all.extend(Tracepoints::resolve(&INTERRUPTS, plain, catalog)?.events);
        }
        if recording.clock_is_of_cpus() {
            let busy = Sampling { without_idle: true, ..every(recording.period) };
            of_all.push((recording.event.clone(), busy, Meaning::Sample));
        }
        of_cpus.push(Source::open(&of_all, &on_cpus(recording), recording.ring_pages, None)?);
    }
    // Probes are in the counters' group themselves.
    let reads_switches = recording.kernel_noise && !recording.tag.is_probed();
    if let Some(counters) = recording.counters.as_ref().filter(|_| reads_switches) {
        let switches = vec![switches(recording, catalog)?];
        of_cpus.push(open_counting(counters, &switches, recording)?);
    }
    let has_formats = recording.kernel_noise
        || matches!(recording.tag, Tag::Sockets(_))
        || recording.counters.is_some() && recording.tag.is_probed();
    let formats = has_formats.then(|| Formats::read(catalog)).transpose()?;
    let with_address = Payload::BASIC.with_place().with_address();
    let all_counted = (0..).zip(&recording.counted).map(|(number, (event, period))| {
        let is_precise = event.mechanism == Mechanism::Pebs;
        let clock = if is_precise { Clock::Perf } else { Clock::MonotonicRaw };
        (event.clone(), Sampling { clock, ..of_program(*period).carrying(with_address) }, Meaning::Counted(number))
    });
    let (counted_precisely, counted): (Vec<_>, Vec<_>) = all_counted.partition(|(event, ..)| event.mechanism == Mechanism::Pebs);
    let watch = |threads: &[i32]| -> Result<Vec<Source>> {
        let mut sources = Vec::new();
        if let Some(precise) = &precise {
            sources.push(Source::open_precise(
                std::slice::from_ref(precise),
                &on_threads(recording, threads),
                recording.ring_pages,
                register,
                catalog,
            )?);
        }
        sources.push(open_own(recording, &own, threads)?);
        let targets = on_threads(recording, threads);
        if !counted_precisely.is_empty() {
            sources.push(Source::open_precise(&counted_precisely, &targets, recording.ring_pages, None, catalog)?);
        }
        if !counted.is_empty() {
            sources.push(Source::open(&counted, &targets, recording.ring_pages, None)?);
        }
        Ok(sources)
    };
    let of_threads = on_all_threads(&|| program.threads(), watch)?;
    let probes = probes.map(|probes| open_probes(recording, catalog, probes)).transpose()?;
    let tasks = tasks.map(|tasks| {
        let open = |threads: &[i32]| {
            let ring_pages = recording.ring_pages.min(TASK_RING_PAGES);
            Source::open(std::slice::from_ref(&tasks), &on_threads(recording, threads), ring_pages, None)
        };
        on_all_threads(&|| program.threads(), open)
    });
    let tasks = tasks.transpose()?;
    let lasting = Lasting { probes, calls: open_calls(recording, catalog, &|| program.threads(), is_ours)? };
    Ok(Opened { of_cpus, of_threads, tasks, lasting, formats, missing, is_on_exec: is_ours })
}

/// Opens probes, on all CPUs.
///
/// # Errors
/// Where one cannot be opened.
pub fn open_probes(recording: &Recording, catalog: &Catalog, probes: &Probes) -> Result<Source> {
    let payload = Payload::BASIC.with_place().with_raw();
    let Some(counters) = &recording.counters else {
        let events = probes.events(every_one(recording).carrying(payload), catalog)?;
        return Source::open(&events, &on_cpus(recording), recording.ring_pages, None);
    };
    let mut events = probes.events(every_one(recording).carrying(payload.with_group_read()), catalog)?;
    events.push(switches(recording, catalog)?);
    open_counting(counters, &events, recording)
}

/// What reads a CPU's counters whenever a thread leaves it.
fn switches(recording: &Recording, catalog: &Catalog) -> Result<(Event, Sampling, Meaning)> {
    let sampling = every_one(recording).carrying(Payload::BASIC.with_place().with_raw().with_group_read());
    Ok((parse_one(NOISE[0].0, catalog)?, sampling, Meaning::Reading))
}

/// Opens events with counters of instructions and cycles on all CPUs, and sees whether those count.
///
/// # Errors
/// Where one cannot be opened, or others hold the counters.
fn open_counting(counters: &[Event; 2], events: &[(Event, Sampling, Meaning)], recording: &Recording) -> Result<Source> {
    let mut source = Source::open_beside(counters, events, &on_cpus(recording), recording.ring_pages, None)?;
    source.sampler.enable()?;
    source.sampler.check_counters().map_err(|error| match error {
        Error::Discarded { .. } => Error::Unsupported {
            what: "count instructions and cycles of each message".into(),
            why: "the CPUs' counters are taken: two that are to count all the time found no room".into(),
            remedy: "fewer events beside them, sudo sysctl kernel.nmi_watchdog=0, and no other perf".into(),
        },
        other => other,
    })?;
    source.sampler.disable()?;
    Ok(source)
}

/// Opens what BPF programs write, on all CPUs; on.
///
/// # Errors
/// Where it cannot be opened.
pub fn open_contexts(recording: &Recording, catalog: &Catalog) -> Result<Source> {
    let sampling = every_one(recording).carrying(Payload::BASIC.with_place().with_raw());
    let event = parse_one("bpf-output", catalog)?;
    let source = Source::open(&[(event, sampling, Meaning::Context)], &on_cpus(recording), recording.ring_pages, None)?;
    source.sampler.events().iter().try_for_each(OpenEvent::enable)?;
    Ok(source)
}

/// Opens the system calls of a program's threads that there are now, and of what they start; none where they are not asked for.
///
/// # Errors
/// Where they cannot be opened.
pub fn open_calls(
    recording: &Recording,
    catalog: &Catalog,
    threads: &dyn Fn() -> Vec<i32>,
    is_on_exec: bool,
) -> Result<Option<Source>> {
    if !matches!(recording.tag, Tag::Sockets(_)) && (!recording.kernel_noise || recording.budget.is_some()) {
        return Ok(None);
    }
    let sampling = Sampling { inherit: true, enable_on_exec: is_on_exec, ..every_one(recording) };
    let sampling = sampling.carrying(identity::with_register(Payload::BASIC.with_place().with_raw(), recording, false));
    let events = Tracepoints::resolve(&SYSCALLS, sampling, catalog)?.events;
    on_all_threads(threads, |threads| open_own(recording, &events, threads)).map(Some)
}

fn every_one(recording: &Recording) -> Sampling {
    let ring_bytes = recording.ring_pages * rustix::param::page_size();
    Sampling { clock: Clock::MonotonicRaw, ..Sampling::every(1, ring_bytes) }
}

/// Opens what watches the program's own threads.
fn open_own(recording: &Recording, events: &[(Event, Sampling, Meaning)], threads: &[i32]) -> Result<Source> {
    let register = identity::register(recording).map(|register| register.number);
    let mut source = Source::open(events, &on_threads(recording, threads), recording.ring_pages, register)?;
    (source.is_of_sockets, source.has_rows) = (matches!(recording.tag, Tag::Sockets(_)), recording.kernel_noise);
    Ok(source)
}

fn on_cpus(recording: &Recording) -> Vec<Target> {
    recording.cpus.iter().map(|&cpu| Target::Cpu(cpu)).collect()
}

/// Each thread, on each CPU.
fn on_threads(recording: &Recording, threads: &[i32]) -> Vec<Target> {
    let on_each = |&tid: &i32| recording.cpus.iter().map(move |&cpu| Target::ThreadOnCpu(tid, cpu));
    threads.iter().flat_map(on_each).collect()
}

/// Whether PEBS records hold a time here, as Skylake's and later ones do (format 3): only then does one interrupt bring many of them.
fn records_hold_time() -> bool {
    CpuFacts::each_of_machine(&Machine::here()).iter().all(|cpu| cpu.pebs.holds_time() == Some(true))
}
