//! What creating and ending a task costs while events are inherited, and what executing a program does.
//!
//! Threads are created and joined one after the other, by a thread that may run on every CPU, as programs do it: a copy of an event that is made on one
//! CPU and given up on another costs twice of one that stays. Each is told of by the records that `perf record` asks for as well (births, deaths, names,
//! mappings of code), and a thread waits for records as `perf record` does: it is woken at the end of every task, which pays for that.

use std::process::{Command, Stdio};

use perftax_doc::ArmName;
use perftax_doc::observation::Block;
use perftax_pmu::event::Event;
use perftax_pmu::guard::{online_cpus, raise_descriptor_limit};
use perftax_pmu::sampler::{Delivered, LiveSampler, Sampler, Sampling, WaitingThread, ring_pages_within_rights};
use perftax_pmu::sys::{Target, create_and_join_thread, monotonic_ns, own_and_children_cpu_ns};
use perftax_pmu::{Error, Result};

use super::beside::Took;
use crate::system::steal_ns;

/// Threads with nothing open.
pub const TASK_OFF: &str = "task-off";
/// The same while an event is inherited, opened for each CPU.
pub const TASK_ON: &str = "task-on";
/// The same while CPUs are watched, which tell of every task, and nothing is inherited.
pub(super) const TASK_CPUS: &str = "task-cpus";
/// Programs with nothing open.
pub const EXEC_OFF: &str = "exec-off";
/// The same while an event is inherited, with its records.
pub const EXEC_ON: &str = "exec-on";
/// The same while CPUs are watched.
pub(super) const EXEC_CPUS: &str = "exec-cpus";

/// Further events, on each CPU a copy. Each end of a copy wakes whoever waits for any of them, so that many take more each than few: as many as recordings have.
const FURTHER: usize = 3;
/// Further copies, where there are many CPUs, at most: each takes two descriptors.
const FURTHER_MAX: usize = 24;
/// Threads of a block: some milliseconds.
const THREADS: u64 = 120;
/// Before the timed part. The kernel gives an event's memory up when a grace period has passed (`call_rcu`), some milliseconds later: what was given up
/// before is paid for in the timed part, for what is given up there is paid for behind it.
const WARM_UP: u64 = 80;
/// Programs of a block: some milliseconds.
const PROGRAMS: u64 = 8;
/// And before the timed ones.
const PROGRAMS_BEFORE: u64 = 6;
/// A small program that every system has.
const PROGRAM: &str = "true";
/// Room for what a block's programs map.
const RING_PAGES: usize = 16;

/// What a block's tasks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tasks {
    /// Whether each is a process that executes a program; else a thread.
    pub(super) executes: bool,
    /// Events that each inherits of every CPU, or with which CPUs are watched.
    pub(super) events: usize,
    /// Whether CPUs are watched: nothing is inherited then.
    pub(super) watches_cpus: bool,
}

/// What no block's time comes near, in events or nanoseconds: what merely is there gives no samples.
const NEVER: u64 = 1 << 40;

impl Tasks {
    pub(super) fn arms(cpus: usize) -> Vec<(String, Self)> {
        let threads = |events| Self { executes: false, events, watches_cpus: false };
        let programs = |events| Self { executes: true, events, watches_cpus: false };
        let on_cpus = |executes| Self { executes, events: 1, watches_cpus: true };
        let further = (FURTHER_MAX / cpus.max(1)).clamp(1, FURTHER);
        vec![
            (TASK_OFF.into(), threads(0)),
            (TASK_ON.into(), threads(1)),
            (ArmName::FurtherCopies((further * cpus) as u32).to_string(), threads(1 + further)),
            (TASK_CPUS.into(), on_cpus(false)),
            (EXEC_OFF.into(), programs(0)),
            (EXEC_ON.into(), programs(1)),
            (EXEC_CPUS.into(), on_cpus(true)),
        ]
    }

    /// How many copies of an event an arm has beyond the one of each CPU; none where that is not what it is for.
    pub(super) fn further_copies(arm: &ArmName) -> Option<u32> {
        if let ArmName::FurtherCopies(copies) = arm { Some(*copies) } else { None }
    }

    fn make(self, times: u64) -> Result<()> {
        for _ in 0..times {
            if self.executes {
                let status = Command::new(PROGRAM).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
                status.map_err(|source| match source.kind() {
                    std::io::ErrorKind::NotFound => Error::Unsupported {
                        what: "time what executing a program costs".into(),
                        why: format!("there is no program called {PROGRAM} in PATH"),
                        remedy: "install coreutils".into(),
                    },
                    _ => Error::System { call: format!("executing {PROGRAM}"), source },
                })?;
            } else {
                create_and_join_thread().map_err(|source| Error::System { call: "a thread that does nothing".into(), source })?;
            }
        }
        Ok(())
    }
}

/// One block. All that is open is switched on, as `perf record` has it: a task pays for each event at every switch, too. Further ones are the kernel's own: of
/// another timer, or of hardware that has too few counters, tasks would pay for what further events need not be.
pub(super) fn tasks(event: &Event, period: u64, doing: Tasks) -> Result<Block> {
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    // All that there are, as perf record opens them, whichever of them we may use.
    let target = |cpu| if doing.watches_cpus { Target::Cpu(cpu) } else { Target::ThreadOnCpu(own, cpu) };
    let targets: Vec<Target> = online_cpus()?.into_iter().map(target).collect();
    let ring_pages = ring_pages_within_rights(RING_PAGES, targets.len());
    // Samples of whatever else runs on a CPU are none of these tasks'.
    let period = if doing.watches_cpus { NEVER } else { period };
    let every =
        |period| Sampling { inherit: !doing.watches_cpus, ..Sampling::every(period, ring_pages * rustix::param::page_size()) };
    let telling = Sampling { task_records: true, mapping_records: true, ..every(period) };
    let first = (event.clone(), telling);
    let events: Vec<(Event, Sampling)> =
        std::iter::once(first).chain(std::iter::repeat((event.dummy_beside(), every(NEVER)))).take(doing.events).collect();
    // Each event has a descriptor, and whoever waits for it another.
    raise_descriptor_limit();
    // Started before there is anything to inherit.
    let waiting = (doing.events > 0).then(WaitingThread::start).transpose()?;
    let mut sampler = (doing.events > 0).then(|| LiveSampler::open(&events, &targets, ring_pages)).transpose()?;
    if let (Some(sampler), Some(waiting)) = (&mut sampler, &waiting) {
        waiting.wait_for(sampler)?;
        sampler.enable()?;
    }
    // Of what waits itself, no task pays anything.
    let cpu_time = || own_and_children_cpu_ns().saturating_sub(waiting.as_ref().map_or(0, WaitingThread::cpu_ns));
    let (before, times) = if doing.executes { (PROGRAMS_BEFORE, PROGRAMS) } else { (WARM_UP, THREADS) };
    doing.make(before)?;
    if let Some(sampler) = &mut sampler {
        sampler.drain(&mut |_, _| ())?;
    }
    let steal_before = steal_ns(None)?;
    let (wall, cpu_before) = (monotonic_ns(), cpu_time());
    doing.make(times)?;
    let (cpu_ns, wall_ns) = (cpu_time().saturating_sub(cpu_before), monotonic_ns() - wall);
    let steal_ns = steal_ns(None)?.saturating_sub(steal_before);
    let mut delivered = Delivered::default();
    if let Some(sampler) = &mut sampler {
        sampler.disable()?;
        sampler.drain(&mut |header, body| delivered.count(0, header, body))?;
        delivered.lost = delivered.lost.max(sampler.lost()?);
    }
    let period = if doing.events == 0 { 0 } else { period };
    Ok(Took { period, times, wall_ns, cpu_ns, steal_ns, delivered }.block())
}
