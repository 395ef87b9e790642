//! Which tasks a program creates, and what each does, from one run of it.

use std::collections::BTreeMap;

use perftax_cost::tasks::{Portions, Tasks};
use perftax_pmu::Result;
use perftax_pmu::event::Event;
use perftax_pmu::sampler::{Delivered, LiveSampler, ReaderThread, Sampling, ring_pages_within_rights};
use perftax_pmu::sys::{Child, Target};

use super::Command;
use super::monitor::{TASK_CLOCK, succeeded};

/// Pages of a ring where memory may be locked: a thousand tasks' records before it must be read.
const RING_PAGES: usize = 32;

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
}

/// Runs the command once. A task that ends leaves a record of what it has counted on each CPU (`inherit_stat`); what is missing to the whole is the first
/// one's.
///
/// # Errors
/// Where the command cannot be executed, fails, or is killed; where an event cannot be opened.
pub fn look_at_tasks(command: &Command, look: &Look) -> Result<Tasks> {
    let mut child = Child::spawn(&command.spec)?;
    let first = child.pid() as u32;
    let targets: Vec<Target> = look.cpus.iter().map(|&cpu| Target::ThreadOnCpu(child.pid(), cpu)).collect();
    let counted: Vec<&Event> = std::iter::once(look.task_clock).chain(look.events).collect();
    let ring_pages = ring_pages_within_rights(RING_PAGES, targets.len() * (1 + counted.len()));
    let births = Sampling { task_records: true, ..Sampling::every(1, ring_pages * rustix::param::page_size()).for_command() };
    let counts = Sampling { task_counts: true, ..Sampling::COUNTING.for_command() };
    // Each in a ring of its own, so that nothing has to say whose a record is.
    let reader = |event: &Event, sampling: Sampling| {
        let sampler = LiveSampler::open(&[(event.clone(), sampling)], &targets, ring_pages)?;
        ReaderThread::start(sampler, targets.len())
    };
    let births = reader(look.dummy, births)?;
    let counts = counted.iter().map(|event| reader(event, counts)).collect::<Result<Vec<_>>>()?;
    child.release()?;
    let exit = command.lifetime.wait(child)?;
    let births = births.finish()?;
    let counts = counts.into_iter().map(ReaderThread::finish).collect::<Result<Vec<_>>>()?;
    succeeded(command, &exit)?;
    let mut tasks = Tasks {
        threads: births.forks - births.processes,
        processes: births.processes,
        execs: births.execs,
        lost: births.lost + counts.iter().map(|delivered| delivered.lost).sum::<u64>(),
        ..Tasks::default()
    };
    for (event, delivered) in counted.into_iter().zip(&counts) {
        let portions = portions(delivered, &births.created_by, first);
        if event.name == TASK_CLOCK {
            tasks.cpu_s = Portions::of_pieces(portions.into_iter().map(|(ns, pieces)| (ns as f64 * 1e-9, pieces)));
        } else {
            let counts = portions.into_iter().map(|(count, pieces)| (count as f64, pieces));
            tasks.counts.insert(event.name.clone(), Portions::of_pieces(counts));
        }
    }
    Ok(tasks)
}

/// What each task counted on each CPU, and in how many pieces.
///
/// One that waits for what it has created hands its context to it where that runs on the same CPU (`perf_event_context_sched_out` swaps the two), and goes on
/// with one whose period has only begun. So what a task does is taken to be cut wherever it created another.
fn portions(delivered: &Delivered, created_by: &BTreeMap<u32, u64>, first: u32) -> Vec<(u64, u64)> {
    let mut of_first = delivered.counted.clone();
    for ended in &delivered.ended {
        let rest = of_first.get_mut(ended.target);
        rest.into_iter().for_each(|rest| *rest = rest.saturating_sub(ended.value));
    }
    let pieces = |tid: u32| 1 + created_by.get(&tid).copied().unwrap_or_default();
    let ended = delivered.ended.iter().map(|ended| (ended.value, pieces(ended.tid)));
    ended.chain(of_first.into_iter().map(|count| (count, pieces(first)))).collect()
}
