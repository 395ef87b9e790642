//! What a calibration measures beside samples: context switches and tasks that come and go, while events are open and while none is.
//!
//! Each block has a thread of its own, so that its perf context holds nothing but what the arm opens.

use perftax_doc::observation::Block;
use perftax_pmu::event::Event;
use perftax_pmu::guard::{check_interrupted, online_cpus};
use perftax_pmu::sampler::Delivered;
use perftax_pmu::{Error, Result};

use super::arm::Skipped;
use super::spec::{Depth, Spec};
use super::switching::{self, SWITCH_ARMS, SWITCH_OFF, SWITCH_RARE, switch_arm_at, switches};
use super::tasking::{Tasks, tasks};
use crate::run::Attach;

/// One condition.
#[derive(Clone, Debug)]
struct Arm {
    name: String,
    doing: Doing,
    /// Rounds of a session that it takes part in, one in so many.
    one_in: u32,
}

/// What is timed in a block.
#[derive(Clone, Copy, Debug)]
enum Doing {
    /// Context switches, and how the event is attached and at which period it samples; none opens nothing.
    Switches(Option<(Attach, u64)>),
    /// Tasks, and how many copies of the event each inherits.
    Tasks(Tasks),
}

impl Doing {
    /// Whether a calibration goes on without it: what needs more than one's own program (rights, programs, descriptors for each CPU) may be missing.
    fn may_lack(self, error: &Error) -> bool {
        match error {
            Error::Interrupted(_) => false,
            Error::Permission { .. } | Error::Unsupported { .. } => true,
            _ => matches!(self, Self::Tasks(Tasks { executes, watches_cpus, .. }) if executes || watches_cpus),
        }
    }

    fn executes(self) -> bool {
        matches!(self, Self::Tasks(Tasks { executes: true, .. }))
    }
}

/// Blocks of all of them.
pub struct Beside {
    cpu: u32,
    event: Event,
    period: u64,
    rng: fastrand::Rng,
    arms: Vec<Arm>,
    skipped: Vec<Skipped>,
}

/// Tasks are created in one round of so many: what a calibration is about are samples.
const TASKS_ONE_IN: u32 = 5;
/// Programs are executed in one round of so many.
const EXECS_ONE_IN: u32 = 5;
/// Where only α is wanted, switches are measured in one round of so many, too.
const SWITCHES_ONE_IN: u32 = 3;

impl Beside {
    /// For one event on one CPU.
    pub fn new(spec: &Spec, event: Event, seed: u64) -> Self {
        let period = if spec.mechanism.is_time_driven() { switching::PERIOD_NS } else { spec.main_period() };
        let mut arms: Vec<Arm> = Vec::new();
        let one_in = if spec.depth == Depth::Alpha { SWITCHES_ONE_IN } else { 1 };
        let mut switches = |name: &str, monitoring| {
            arms.push(Arm { name: name.into(), doing: Doing::Switches(monitoring), one_in });
        };
        match &spec.depth {
            Depth::At { switching, .. } => {
                if !switching.attachments.is_empty() {
                    switches(SWITCH_OFF, None);
                }
                for &attach in &switching.attachments {
                    switching.periods.iter().for_each(|&period| switches(&switch_arm_at(attach, period), Some((attach, period))));
                }
            }
            Depth::Alpha | Depth::Full => {
                switches(SWITCH_OFF, None);
                SWITCH_ARMS.iter().for_each(|&(name, attach)| switches(name, Some((attach, period))));
                if spec.mechanism.is_time_driven() {
                    switches(SWITCH_RARE, Some((Attach::Separate, switching::RARE_PERIOD_NS)));
                }
            }
        }
        // What a task inherits depends on how many CPUs there are.
        for (name, tasks) in Tasks::arms(online_cpus().map_or(1, |cpus| cpus.len())) {
            let one_in = if tasks.executes { EXECS_ONE_IN } else { TASKS_ONE_IN };
            arms.push(Arm { name, doing: Doing::Tasks(tasks), one_in });
        }
        Self { cpu: spec.cpu, event, period, rng: fastrand::Rng::with_seed(seed ^ 0x5157), arms, skipped: Vec::new() }
    }

    /// Arms that could not be opened, each with the reason: watching a CPU takes more rights than watching oneself.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// One session: `rounds` passes over all arms in random order.
    pub fn session(&mut self, session: u32, rounds: u32) -> Result<Vec<Block>> {
        let mut blocks = Vec::new();
        for round in 0..rounds {
            self.rng.shuffle(&mut self.arms);
            for Arm { name, doing, one_in } in self.arms.clone() {
                if round % one_in != 0 {
                    continue;
                }
                check_interrupted()?;
                let (cpu, event, period) = (self.cpu, self.event.clone(), self.period);
                let opens = !matches!(doing, Doing::Switches(None) | Doing::Tasks(Tasks { events: 0, .. }));
                if doing.executes() && !self.arms.iter().any(|kept| kept.name == name) {
                    continue;
                }
                let measured = std::thread::spawn(move || match doing {
                    Doing::Switches(monitoring) => switches(cpu, &event, monitoring),
                    Doing::Tasks(doing) => tasks(&event, period, doing),
                });
                let mut block = match measured.join().unwrap_or_else(|_| Err(failed("a thread that measures", "panicked"))) {
                    // No program to execute is none for the arms with events, either; what cannot be opened is that arm's own affair.
                    Err(error) if doing.executes() && !opens && !matches!(error, Error::Interrupted(_)) => {
                        self.skipped.push(Skipped::by(&name, &error));
                        self.arms.retain(|kept| !kept.doing.executes());
                        continue;
                    }
                    Err(error) if opens && doing.may_lack(&error) => {
                        self.skipped.push(Skipped::by(&name, &error));
                        self.arms.retain(|kept| kept.name != name);
                        continue;
                    }
                    measured => measured?,
                };
                (block.session, block.round, block.arm) = (session, round, name);
                blocks.push(block);
            }
        }
        Ok(blocks)
    }
}

/// What a block took.
pub(super) struct Took {
    pub(super) period: u64,
    /// How often what is timed was done.
    pub(super) times: u64,
    pub(super) wall_ns: u64,
    pub(super) cpu_ns: u64,
    pub(super) steal_ns: u64,
    pub(super) delivered: Delivered,
}

impl Took {
    /// As an observation, of which its arm, session and round are still to be said.
    pub(super) fn block(self) -> Block {
        let Self { period, times, wall_ns, cpu_ns, steal_ns, delivered } = self;
        Block {
            session: 0,
            round: 0,
            arm: String::new(),
            period,
            samples: delivered.samples(),
            expected: times as f64,
            lost: delivered.lost,
            throttled: delivered.throttled,
            wall_ns,
            cpu_ns,
            involuntary_switches: 0,
            steal_ns,
            settling: None,
            discarded: if delivered.lost > 0 {
                Some(format!("{} samples lost", delivered.lost))
            } else {
                (steal_ns > 0).then(|| "time stolen by the hypervisor".into())
            },
        }
    }
}

pub(super) fn failed(what: &str, how: &str) -> Error {
    Error::System { call: what.into(), source: std::io::Error::other(how.to_string()) }
}
