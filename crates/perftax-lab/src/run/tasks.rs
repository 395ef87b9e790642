//! Which tasks a program creates, and what each does, from one run of it or a look at it.

use std::collections::BTreeMap;

use perftax_doc::code::CodeFootprint;
use perftax_doc::tasks::Busiest;
use perftax_doc::tasks::{Portions, Tasks};
use perftax_pmu::Result;
use perftax_pmu::event::Event;
use perftax_pmu::guard::raise_descriptor_limit;
use perftax_pmu::process::running_threads;
use perftax_pmu::sampler::{Delivered, LiveSampler, ReaderThread, Sampler, Sampling, ring_pages_within_rights};
use perftax_pmu::sys::Target;

use super::Command;
use super::code::{CodeClock, CodeLook};
use super::monitor::{TASK_CLOCK, check_running, succeeded};

/// Pages of a ring where memory may be locked: a thousand tasks' records before it must be read.
pub(super) const RING_PAGES: usize = 32;

/// What is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// CPUs that the command may run on.
    pub cpus: &'a [u32],
    /// `task-clock`, resolved.
    pub task_clock: &'a Event,
    /// `dummy:u`, resolved: carries the records of tasks, and needs no right to the kernel's mode for it.
    pub dummy: &'a Event,
    /// Events whose counts are wanted by task, too.
    pub events: &'a [Event],
    /// What code is looked at with; none where it is not.
    pub code: Option<&'a CodeClock>,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The tasks.
    pub tasks: Tasks,
    /// How wide their code is; none where nobody looked, or too little was seen.
    pub code: Option<CodeFootprint>,
}

/// Runs the command once. A task that ends leaves a record of what it has counted on each CPU (`inherit_stat`); what is missing to the whole is the first
/// one's.
///
/// # Errors
/// Where the command cannot be executed, fails, or is killed; where an event cannot be opened.
pub fn look_at_tasks(command: &Command, look: &Look) -> Result<Seen> {
    let (_copy, mut child) = command.spawn()?;
    let looking = Looking::begin(&[child.pid()], look, Begins::AtExec)?;
    child.release()?;
    let exit = command.lifetime.wait(child)?;
    let (seen, _) = looking.finish()?;
    succeeded(command, &exit)?;
    command.note_what_is_left();
    Ok(seen)
}

/// Looks at the threads of a process while somebody waits, and at what they create from then on. Returns the counts as well, by event and CPU.
///
/// # Errors
/// Where an event cannot be opened on them; what waiting meets.
pub fn look_at_threads(pid: u32, look: &Look, wait: impl FnOnce() -> Result<()>) -> Result<(Seen, BTreeMap<String, Vec<u64>>)> {
    raise_descriptor_limit();
    // Threads come and go while events are opened: one that has gone cannot be opened, and one that came from another that was not is followed by nobody.
    let mut attempts = 0..ATTEMPTS;
    let looking = loop {
        let threads = running_threads(pid);
        let looking = Looking::begin(&threads, look, Begins::Now);
        let now = running_threads(pid);
        let is_same =
            now.iter().all(|tid| threads.contains(tid)) && (looking.is_ok() || threads.iter().all(|tid| now.contains(tid)));
        if is_same || now.is_empty() || attempts.next().is_none() {
            break looking?;
        }
    };
    wait()?;
    looking.finish()
}

/// Times that a process's threads are looked up again where they change while their events are opened.
const ATTEMPTS: usize = 20;

/// When a look begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    /// When the program is executed.
    AtExec,
    /// Now.
    Now,
}

/// A look that goes on: who creates tasks, and what each counts.
struct Looking<'a> {
    firsts: Vec<u32>,
    cpus: usize,
    counted: Vec<&'a Event>,
    births: ReaderThread,
    counts: Vec<ReaderThread>,
    code: Option<CodeLook<'a>>,
}

impl<'a> Looking<'a> {
    fn begin(firsts: &[i32], look: &Look<'a>, begins: Begins) -> Result<Self> {
        let on_cpus = |tid: &i32| look.cpus.iter().map(|&cpu| Target::ThreadOnCpu(*tid, cpu)).collect::<Vec<_>>();
        let targets: Vec<Target> = firsts.iter().flat_map(on_cpus).collect();
        let counted: Vec<&Event> = std::iter::once(look.task_clock).chain(look.events).collect();
        let ring_pages = ring_pages_within_rights(RING_PAGES, look.cpus.len() * (2 + counted.len()));
        let inherited = |sampling: Sampling| match begins {
            Begins::AtExec => sampling.for_command(),
            Begins::Now => Sampling { inherit: true, ..sampling },
        };
        let births = Sampling { task_records: true, ..Sampling::every(1, ring_pages * rustix::param::page_size()) };
        let counts = Sampling { task_counts: true, ..Sampling::COUNTING };
        // Each in a ring of its own, so that nothing has to say whose a record is.
        let reader = |event: &Event, sampling: Sampling| {
            let mut sampler = LiveSampler::open(&[(event.clone(), inherited(sampling))], &targets, ring_pages)?;
            if begins == Begins::Now {
                Sampler::enable(&mut sampler)?;
            }
            ReaderThread::start(sampler, look.cpus.len())
        };
        let births = reader(look.dummy, births)?;
        let counts = counted.iter().map(|event| reader(event, counts)).collect::<Result<Vec<_>>>()?;
        let code = look.code.map(|clock| CodeLook::begin(clock, &targets, begins, ring_pages)).transpose()?;
        Ok(Self { firsts: firsts.iter().map(|tid| *tid as u32).collect(), cpus: look.cpus.len(), counted, births, counts, code })
    }

    /// What was seen, and the counts by event and CPU.
    fn finish(self) -> Result<(Seen, BTreeMap<String, Vec<u64>>)> {
        let code = self.code.map(CodeLook::finish).transpose()?.flatten();
        let births = self.births.finish()?;
        let counts = self.counts.into_iter().map(ReaderThread::finish).collect::<Result<Vec<_>>>()?;
        let mut tasks = Tasks {
            threads: births.forks - births.processes,
            processes: births.processes,
            execs: births.execs,
            lost: births.lost + counts.iter().map(|delivered| delivered.lost).sum::<u64>(),
            ..Tasks::default()
        };
        let (mut by_cpu, mut busiest) = (BTreeMap::new(), None);
        for (event, delivered) in self.counted.into_iter().zip(&counts) {
            // Each thread's own: what one lacks another's time does not make up for.
            delivered.readings.chunks(self.cpus.max(1)).try_for_each(|of_thread| check_running(event, of_thread))?;
            let done = done_by_each(delivered, &births.created_by, &self.firsts);
            if event.name == TASK_CLOCK {
                // The clock comes first.
                busiest = busiest_of(&done).filter(|_| tasks.created() > 0 || self.firsts.len() > 1);
                tasks.cpu_s = portions(&done, 1e-9);
                tasks.busiest = busiest.map(|tid| Busiest { cpu_s: portions(of(tid, &done), 1e-9), ..Busiest::default() });
            } else {
                tasks.counts.insert(event.name.clone(), portions(&done, 1.0));
                if let (Some(tid), Some(found)) = (busiest, &mut tasks.busiest) {
                    found.counts.insert(event.name.clone(), portions(of(tid, &done), 1.0));
                }
            }
            let of_cpu = |cpu: usize| delivered.counted.iter().skip(cpu).step_by(self.cpus.max(1)).sum();
            by_cpu.insert(event.name.clone(), (0..self.cpus).map(of_cpu).collect());
        }
        Ok((Seen { tasks, code }, by_cpu))
    }
}

/// What a task counted on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Done {
    tid: u32,
    count: u64,
    pieces: u64,
}

/// A task with less of all CPU time than this is nobody whom a budget is for: of many alike ones, some one is always the busiest.
const MIN_SHARE: f64 = 0.05;

/// The task that did the most, where that is a noticeable share.
fn busiest_of(done: &[Done]) -> Option<u32> {
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for one in done {
        *sums.entry(one.tid).or_default() += one.count;
    }
    let all: u64 = sums.values().sum();
    let (tid, most) = sums.into_iter().max_by_key(|(_, sum)| *sum)?;
    (most as f64 >= MIN_SHARE * all as f64 && most > 0).then_some(tid)
}

fn of(tid: u32, done: &[Done]) -> impl Iterator<Item = &Done> {
    done.iter().filter(move |one| one.tid == tid)
}

fn portions<'a>(done: impl IntoIterator<Item = &'a Done>, unit: f64) -> Portions {
    Portions::of_pieces(done.into_iter().map(|one| (one.count as f64 * unit, one.pieces)))
}

/// What each task counted on each CPU, and in how many pieces.
///
/// One that waits for what it has created hands its context to it where that runs on the same CPU (`perf_event_context_sched_out` swaps the two), and goes on
/// with one whose period has only begun. So what a task does is taken to be cut wherever it created another.
///
/// Counts are in the order of the tasks that were there at first, and of CPUs; what those count that a first one creates is in its own. Where several were
/// there, nobody says whose an ended one was: on each CPU all lose the same share.
fn done_by_each(delivered: &Delivered, created_by: &BTreeMap<u32, u64>, firsts: &[u32]) -> Vec<Done> {
    let cpus = delivered.counted.len() / firsts.len().max(1);
    let mut ended_on = vec![0u64; cpus];
    for ended in &delivered.ended {
        ended_on.get_mut(ended.target).into_iter().for_each(|sum| *sum += ended.value);
    }
    let pieces = |tid: u32| 1 + created_by.get(&tid).copied().unwrap_or_default();
    let of_task = |tid: u32, count: u64| Done { tid, count, pieces: pieces(tid) };
    let mut done: Vec<Done> = delivered.ended.iter().map(|ended| of_task(ended.tid, ended.value)).collect();
    for (cpu, ended) in ended_on.into_iter().enumerate() {
        let all: u64 = delivered.counted.iter().skip(cpu).step_by(cpus.max(1)).sum();
        let own = all.saturating_sub(ended) as f64 / all.max(1) as f64;
        let counts = firsts.iter().zip(delivered.counted.iter().skip(cpu).step_by(cpus.max(1)));
        done.extend(counts.map(|(tid, count)| of_task(*tid, (*count as f64 * own).round() as u64)));
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_is_so_on_all_its_cpus_together() {
        let done = |tid: u32, count: u64| Done { tid, count, pieces: 1 };
        let all = [done(7, 60), done(8, 100), done(7, 50), done(9, 0)];
        assert_eq!((busiest_of(&all), busiest_of(&[]), busiest_of(&[done(7, 0)])), (Some(7), None, None));
        let alike: Vec<Done> = (0..100).map(|tid| done(tid, 100 + u64::from(tid) / 50)).collect();
        assert_eq!(busiest_of(&alike), None);
        assert_eq!(portions(of(7, &all), 0.5), Portions::of([30.0, 25.0]));
    }
}
