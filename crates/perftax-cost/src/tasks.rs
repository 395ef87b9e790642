//! Threads and processes that come and go: what of them an inherited event samples, and what it costs that they do.
//!
//! A task that is created while events are inherited gets a copy of each event, one for every CPU that was opened (kernel/events/core.c,
//! `inherit_event`), and loses it when it ends. Each copy begins a period anew, so what a task does on a CPU is sampled once for every *whole* period
//! of it there, and a task shorter than the period not at all.

use std::collections::BTreeMap;

use perftax_doc::observation::Block;
use perftax_doc::tasks::{Portions, Tasks};
use perftax_doc::{Estimate, median};

use crate::bootstrap::{REPLICATES, SEED, cluster_bootstrap};
use crate::drive::Drive;

/// The term of what creating and ending a task costs while one event is inherited that was opened for each CPU, ns a task.
pub const TASK_TERM: &str = "task";

/// The term of what each further inherited event adds to it, ns a task and event; an event opened for two CPUs is two.
pub const TASK_EVENT_TERM: &str = "task-event";

/// The term of a context switch between two tasks whose events are copies of the same: the kernel swaps their contexts.
pub const SWITCH_INHERITED_TERM: &str = "switch-inherited";

/// The term of one between tasks of which each has events of its own, or one has none: they are stopped and started.
pub const SWITCH_SEPARATE_TERM: &str = "switch-separate";

/// The same where the event is a timer that is due long after the kernel's next tick.
pub const SWITCH_SEPARATE_RARE_TERM: &str = "switch-separate-rare";

/// The term of what executing a program costs while an event records what it maps, ns an exec.
pub const EXEC_TERM: &str = "exec";

/// The term of what telling of a task costs (its birth, its name, its death) where CPUs are watched, ns a task.
pub const TASK_CPUS_TERM: &str = "task-cpus";

/// The term of what telling of a program executed costs (its name, what it maps) where CPUs are watched, ns an exec.
pub const EXEC_CPUS_TERM: &str = "exec-cpus";

/// The share of what drives a sampler of an event that gives samples ([`Portions::seen`]); where records were lost, from what is certain on.
pub fn seen(tasks: &Tasks, drive: Drive, event: &str, rate: f64) -> Estimate {
    let Some(portions) = driving(drive, event, &tasks.cpu_s, &tasks.counts) else { return Estimate::exact(1.0) };
    let seen = portions.seen(rate);
    if tasks.lost > 0 { Estimate::new(seen.estimate, 0.0, seen.high) } else { seen }
}

/// Of CPU time and counts by event, what drives a sampler of an event; none where that was not looked at.
pub fn driving<'a>(
    drive: Drive,
    event: &str,
    cpu_s: &'a Portions,
    counts: &'a BTreeMap<String, Portions>,
) -> Option<&'a Portions> {
    match drive {
        Drive::Time => Some(cpu_s),
        Drive::Event { .. } => counts.get(event),
    }
}

/// CPU time that arm `on` takes more than arm `off` each time that its work is done ([`Block::expected`]), ns, samples at `alpha_ns` apart; `None` while there are
/// fewer than two sessions of both.
///
/// Tasks run on any CPU, where whatever else runs may come between: so it is CPU time that counts, of all tasks; each session gives the difference of the
/// medians of its blocks, and sessions are resampled whole, by their median.
pub fn more_each(blocks: &[Block], off: &str, on: &str, alpha_ns: &Estimate) -> Option<Estimate> {
    let mut sessions: BTreeMap<u32, [Vec<f64>; 2]> = BTreeMap::new();
    for block in blocks.iter().filter(|block| block.discarded.is_none() && block.expected > 0.0) {
        let of_arm = [off, on].iter().position(|arm| *arm == block.arm);
        let each_ns = (block.cpu_ns as f64 - block.samples as f64 * alpha_ns.estimate) / block.expected;
        if let Some(arm) = of_arm {
            sessions.entry(block.session).or_default()[arm].push(each_ns);
        }
    }
    let differences: Vec<f64> = sessions
        .into_values()
        .filter(|arms| arms.iter().all(|arm| !arm.is_empty()))
        .map(|[mut off, mut on]| median(&mut on) - median(&mut off))
        .collect();
    let middle = |sample: &[&f64]| median(&mut sample.iter().map(|value| **value).collect::<Vec<_>>());
    cluster_bootstrap(&differences, middle, REPLICATES, SEED)
}

/// A program's tasks may cost so many times as much as those that the calibration creates, and so many times less: of threads and of a shell's programs
/// under `perf record` 0.97 to 1.2 times as much was seen in the emulated machine, which has one processor, and 1.75 to 2.3 times on two, where tasks work for
/// longer, sleep in between, and begin on another processor than their parent's (docs/explain/cost-model.md, *task*; docs/results/recordings.md).
const TASKS_MORE: f64 = 2.3;
const TASKS_LESS: f64 = 1.1;

/// What creating and ending tasks costs while events are inherited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskCost {
    /// With one event, opened for each CPU: ns a task.
    pub first_ns: Estimate,
    /// Each further copy, ns a task and copy; none where it was not measured.
    pub further_ns: Option<Estimate>,
    /// What executing a program adds, ns an exec; none where it was not measured.
    pub exec_ns: Option<Estimate>,
}

impl TaskCost {
    /// From the terms of a calibration; none where it did not ask.
    pub fn of(terms: &BTreeMap<String, Estimate>) -> Option<Self> {
        let term = |name: &str| terms.get(name).copied();
        Some(Self { first_ns: term(TASK_TERM)?, further_ns: term(TASK_EVENT_TERM), exec_ns: term(EXEC_TERM) })
    }

    /// All tasks created and programs executed in a run, ns, while so many events are inherited, on so many CPUs each; by a calibration of so much drift, and
    /// of tasks that are a program's own and not the calibration's.
    pub fn of_run_ns(&self, created: u64, executed: u64, (events, cpus): (u32, u32), drift: f64) -> Estimate {
        let created_ns = self.with_events(events, cpus).scaled(created as f64);
        let all_ns = self.exec_ns.map_or(created_ns, |exec_ns| created_ns.plus(&exec_ns.scaled(executed as f64))).widened(drift);
        // How well the calibration knows its own tasks, and how much others differ from them, have nothing to do with each other.
        all_ns.widened_apart(1.0 - 1.0 / TASKS_LESS, TASKS_MORE - 1.0)
    }

    /// Where CPUs are watched: what telling of tasks and of programs costs; none where the calibration did not ask, or may not watch CPUs.
    pub fn of_cpus(terms: &BTreeMap<String, Estimate>) -> Option<Self> {
        let term = |name: &str| terms.get(name).copied();
        Some(Self { first_ns: term(TASK_CPUS_TERM)?, further_ns: Some(Estimate::exact(0.0)), exec_ns: term(EXEC_CPUS_TERM) })
    }

    /// With so many events on so many CPUs each, ns a task. Where only the first was measured, a further event costs something between nothing and as much.
    pub fn with_events(&self, events: u32, cpus: u32) -> Estimate {
        if events == 0 {
            return Estimate::exact(0.0);
        }
        let (first, further) = (self.first_ns, f64::from(events - 1));
        let event_ns = match self.further_ns {
            Some(copy_ns) => copy_ns.scaled(f64::from(cpus)),
            None => Estimate::new(first.estimate / 2.0, 0.0, first.high),
        };
        first.plus(&event_ns.scaled(further))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_events_are_paid_for_each() {
        let cost = TaskCost { first_ns: Estimate::exact(4000.0), further_ns: Some(Estimate::exact(1500.0)), exec_ns: None };
        assert_eq!([0, 1, 3].map(|events| cost.with_events(events, 2).estimate), [0.0, 4000.0, 10_000.0]);
        let unknown = TaskCost { further_ns: None, ..cost }.with_events(3, 2);
        assert!(unknown.low <= 4000.0 && unknown.high >= 12_000.0, "{unknown:?}");
    }

    #[test]
    fn what_a_task_costs_is_found_among_disturbances() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut blocks = Vec::new();
        for session in 0..20 {
            for (round, (arm, each_ns)) in [("off", 40_000.0), ("on", 52_000.0)].into_iter().cycle().take(8).enumerate() {
                // One block in eight is in the way of somebody else.
                let disturbed = if random.u32(0..8) == 0 { 3e6 } else { 0.0 };
                let cpu_ns =
                    (40.0 * each_ns * (1.0 + 0.05 * (random.f64() - 0.5)) + disturbed) as u64 + 40 * 500 * u64::from(arm == "on");
                let samples = if arm == "on" { 2 } else { 0 };
                blocks.push(Block {
                    session,
                    round: round as u32,
                    arm: arm.into(),
                    samples,
                    expected: 40.0,
                    cpu_ns,
                    ..nothing()
                });
            }
        }
        let more = more_each(&blocks, "off", "on", &Estimate::exact(10_000.0)).unwrap();
        assert!(more.contains(12_000.0) && more.relative_half_width() < 0.1, "{more:?}");
        assert_eq!(more_each(&blocks, "off", "other", &Estimate::exact(10_000.0)), None);
    }

    fn nothing() -> Block {
        Block {
            session: 0,
            round: 0,
            arm: String::new(),
            period: 0,
            samples: 0,
            expected: 0.0,
            lost: 0,
            throttled: 0,
            wall_ns: 0,
            cpu_ns: 0,
            involuntary_switches: 0,
            steal_ns: 0,
            settling: None,
            discarded: None,
        }
    }
}
