//! The bench: fixed work and the arms it is timed in, on the calling (pinned) thread.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use perftax_doc::observation::Block;
use perftax_doc::steps::Setting;
use perftax_doc::{ArmName, Mechanism};
use perftax_pmu::event::{Catalog, Event, parse_one};
use perftax_pmu::guard::check_interrupted;
use perftax_pmu::sys::{Tsc, monotonic_ns, thread_cpu_ns, thread_involuntary_switches};
use perftax_pmu::{Error, Result};

use super::arm::{Arm, Monitoring, OFF_AGAIN, Skipped, Work};
use super::cross_check::{CrossCheckSample, Handler};
use super::feedback;
use super::floor::FloorSample;
use super::source::{Source, Stopped};
use super::spec::Spec;
use crate::stimulus::Stimulus;
use crate::system::steal_ns;

/// Everything a session needs; belongs to the thread that made it, since its events watch that thread.
pub struct Bench {
    spec: Spec,
    event: Event,
    stimulus: Box<dyn Stimulus>,
    /// The work of the arms that do not have the usual one.
    others: BTreeMap<Work, Box<dyn Stimulus>>,
    arms: Vec<(Arm, Option<Source>)>,
    opening: Opening,
    tsc: Tsc,
    rng: fastrand::Rng,
    skipped: Vec<Skipped>,
    /// Events of a block that are not of its work: what times the block makes system calls, too.
    own_events: u64,
}

/// When events are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// All the time: one that is off costs nothing.
    Throughout,
    /// All at once, and closed while what is not monitored is measured.
    InTurn,
    /// For the block that needs it.
    ForEachBlock,
}

impl Opening {
    /// What costs by merely being open, enabled or not, must not be so where nothing is to be there.
    fn of(mechanism: Mechanism) -> Self {
        match mechanism {
            // Whoever raises the event sees whether anybody asked for it, and then looks for who did (kernel/events/core.c, perf_swevent_enabled); with a
            // tracepoint of system calls, each call takes the slow way in and out (kernel/tracepoint.c, syscall_regfunc).
            Mechanism::Software | Mechanism::Tracepoint => Self::InTurn,
            // Each uprobe at a place costs, there are only four debug registers, and the counters are either perf's or our module's.
            Mechanism::Uprobe | Mechanism::Breakpoint | Mechanism::PebsDirect => Self::ForEachBlock,
            _ => Self::Throughout,
        }
    }
}

/// What a block took.
#[derive(Clone, Copy, Debug)]
struct Timed {
    wall_ns: u64,
    cpu_ns: u64,
    involuntary_switches: u64,
}

/// Does work, which is told when it began.
fn timed(work: impl FnOnce(u64)) -> Timed {
    let switches = thread_involuntary_switches();
    let (wall_before, cpu_before) = (monotonic_ns(), thread_cpu_ns());
    work(wall_before);
    let (cpu_after, wall_after) = (thread_cpu_ns(), monotonic_ns());
    let involuntary_switches = thread_involuntary_switches() - switches;
    Timed { wall_ns: wall_after - wall_before, cpu_ns: cpu_after - cpu_before, involuntary_switches }
}

impl Bench {
    /// Opens everything on the calling thread, which must be pinned to `spec.cpu` already.
    pub fn new(spec: &Spec, catalog: &Catalog, seed: u64) -> Result<Self> {
        let (stimulus, own_event) = spec.stimulus()?;
        let event = match (&spec.event, own_event) {
            (Some(event), _) => event.clone(),
            (None, Some(text)) => parse_one(&text, catalog)?,
            (None, None) => {
                return Err(Error::Argument {
                    argument: Setting::Event.name(),
                    value: "none".into(),
                    needed: format!("an event of mechanism {}", spec.mechanism),
                });
            }
        };
        event.check_supported(catalog)?;
        let opening = Opening::of(spec.mechanism);
        let mut bench = Self {
            spec: spec.clone(),
            event,
            stimulus,
            others: BTreeMap::new(),
            arms: Vec::new(),
            opening,
            tsc: Tsc::calibrated(),
            rng: fastrand::Rng::with_seed(seed),
            skipped: Vec::new(),
            own_events: 0,
        };
        if bench.spec.mechanism == Mechanism::Tracepoint {
            bench.own_events = bench.count_own_events(catalog)?;
        }
        for arm in spec.arms() {
            check_interrupted()?;
            let opened = arm.monitoring.map(|monitoring| bench.open(&monitoring, catalog)).transpose();
            let tested = opened.and_then(|mut source| {
                source
                    .iter_mut()
                    .filter(|_| opening != Opening::ForEachBlock)
                    .try_for_each(|source| bench.check_feedback(source))?;
                Ok(source)
            });
            let source = match tested {
                Ok(source) => source,
                Err(error @ Error::Interrupted(_)) => return Err(error),
                // Only the arms that α does not depend on may be missing, and it is said which.
                Err(error) if is_optional(&arm) => {
                    bench.skipped.push(Skipped::by(&arm.name, &error));
                    continue;
                }
                Err(error) => return Err(error),
            };
            if !bench.others.contains_key(&arm.work) {
                bench.others.extend(spec.other_stimulus(arm.work).map(|stimulus| (arm.work, stimulus)));
            }
            bench.arms.push((arm, source.filter(|_| opening != Opening::ForEachBlock)));
        }
        if opening == Opening::InTurn {
            bench.close_all();
        }
        Ok(bench)
    }

    /// The event measured.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Arms that could not be opened, each with the reason.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Counts the events of a block without work.
    fn count_own_events(&mut self, catalog: &Catalog) -> Result<u64> {
        let Some(monitoring) = Arm::counting("", true).monitoring else { return Ok(0) };
        let mut source = self.open(&monitoring, catalog)?;
        let before = source.counted()?;
        source.start()?;
        timed(|_| ());
        source.stop(self.tsc)?;
        Ok(source.counted()? - before)
    }

    /// Refuses an arm that raises the event that it samples. An event that the work brings along (a watched variable, a probed function) is raised by
    /// nothing else.
    fn check_feedback(&mut self, source: &mut Source) -> Result<()> {
        let Source::Perf(perf) = &*source else { return Ok(()) };
        self.stimulus.prepare()?;
        let (event, truth) = (perf.event(), self.stimulus.truth());
        let stimulus = &mut self.stimulus;
        let feedback = feedback::test(event, truth, || {
            event.enable()?;
            stimulus.run();
            event.disable()
        })?;
        // What came is nobody's.
        source.stop(self.tsc)?;
        match feedback.why_not(&self.event.name) {
            None => Ok(()),
            Some(why) => Err(Error::Unsupported {
                what: format!("measure {} so", self.event.name),
                why,
                remedy: format!(
                    "another event of its mechanism (the cost belongs to the mechanism, hardly to the event), or a longer period with {}",
                    Setting::Period
                ),
            }),
        }
    }

    /// One session, which must be done by `until`: `rounds` passes over all arms in random order. Where events are open in turn, those that need one and
    /// those that do not are passed over for themselves, either first; where every block opens its own, those that α does not come from take part in one
    /// round of [`DEAR_ROUNDS`] only.
    pub fn session(&mut self, session: u32, rounds: u32, until: Instant, catalog: &Catalog) -> Result<Vec<Block>> {
        let blocks = self.rounds(session, rounds, until, catalog);
        if self.opening == Opening::InTurn {
            self.close_all();
        }
        blocks
    }

    fn rounds(&mut self, session: u32, rounds: u32, until: Instant, catalog: &Catalog) -> Result<Vec<Block>> {
        let mut blocks = Vec::new();
        let mut order: Vec<usize> = (0..self.arms.len()).collect();
        for round in 0..rounds {
            self.rng.shuffle(&mut order);
            if self.opening == Opening::InTurn {
                let first = self.rng.bool();
                order.sort_by_key(|&index| self.arms[index].0.monitoring.is_some() == first);
            }
            for &index in &order {
                if self.opening_is_dear() && round % DEAR_ROUNDS != 0 && !decides_alpha(&self.arms[index].0) {
                    continue;
                }
                check_interrupted()?;
                if Instant::now() >= until {
                    return Err(overdue(blocks.len()));
                }
                if self.opening == Opening::InTurn {
                    self.turn(self.arms[index].0.monitoring.is_some(), catalog)?;
                }
                blocks.push(self.block(index, session, round, catalog)?);
            }
        }
        Ok(blocks)
    }

    /// Opens all events or closes them, where they are not yet so.
    fn turn(&mut self, to_open: bool, catalog: &Catalog) -> Result<()> {
        let is_open = self.arms.iter().any(|(_, source)| source.is_some());
        if is_open == to_open {
            return Ok(());
        }
        if to_open {
            for index in 0..self.arms.len() {
                self.arms[index].1 = self.arms[index].0.monitoring.map(|m| self.open(&m, catalog)).transpose()?;
            }
        } else {
            self.close_all();
            std::thread::sleep(AFTER_CLOSING);
        }
        Ok(())
    }

    fn close_all(&mut self) {
        for (_, source) in &mut self.arms {
            *source = None;
        }
    }

    /// Durations of single operations with and without sampling: what the floor is made of.
    pub fn floor_session(&mut self, catalog: &Catalog) -> Result<FloorSample> {
        let (mut off, mut on) = (Vec::new(), Vec::new());
        self.stimulus.prepare()?;
        self.stimulus.run_noting(&mut off);
        let index = self.arms.iter().position(|(arm, _)| arm.name == super::ON).unwrap_or(0);
        let mut own = self.open_if_needed(index, catalog)?;
        self.stimulus.prepare()?;
        let source = own.as_mut().or(self.arms[index].1.as_mut());
        let mut stopped = Stopped::default();
        if let Some(source) = source {
            source.start()?;
            self.stimulus.run_noting(&mut on);
            stopped = source.stop(self.tsc)?;
        }
        Ok(FloorSample::new(off, on, stopped.samples, self.stimulus.truth()))
    }

    /// Handler time of one block of sampled work, less that of one block of the same work without.
    pub fn cross_check_session(&mut self, handler: &Handler) -> Result<CrossCheckSample> {
        let cpu = self.spec.cpu;
        self.stimulus.prepare()?;
        let stimulus = &mut self.stimulus;
        let background_ns = handler.watch(cpu, || {
            stimulus.run();
            Ok(())
        })?;
        let Some((_, Some(source))) = self.arms.iter_mut().find(|(arm, _)| arm.name == super::ON) else {
            return Ok(CrossCheckSample::default());
        };
        self.stimulus.prepare()?;
        source.start()?;
        let stimulus = &mut self.stimulus;
        let watched = handler.watch(cpu, || {
            stimulus.run();
            Ok(())
        });
        let samples = source.stop(self.tsc)?.samples;
        Ok(CrossCheckSample { handler_ns: watched? - background_ns, samples })
    }

    fn block(&mut self, index: usize, session: u32, round: u32, catalog: &Catalog) -> Result<Block> {
        let mut own = self.open_if_needed(index, catalog)?;
        let arm = self.arms[index].0.clone();
        let steal_before = steal_ns(Some(self.spec.cpu))?;
        let keeps_a_buffer = self.spec.mechanism.keeps_a_buffer();
        let stimulus = self.others.get_mut(&arm.work).unwrap_or(&mut self.stimulus);
        stimulus.prepare()?;
        if self.opening == Opening::InTurn {
            // Once for nobody: what came before has left its traces in the caches, and nothing that is monitored comes before what is not.
            stimulus.run();
            stimulus.prepare()?;
        }
        let enabled = arm.monitoring.is_some_and(|m| m.enabled);
        if let Some(source) = own.as_mut().or(self.arms[index].1.as_mut()).filter(|_| enabled) {
            source.start()?;
        }

        let bias = self.spec.planted_bias;
        let Timed { wall_ns, cpu_ns, involuntary_switches } = timed(|began_ns| {
            stimulus.run();
            if bias > 0.0 && arm.name == OFF_AGAIN {
                linger(began_ns, bias);
            }
        });
        let stopped = match own.as_mut().or(self.arms[index].1.as_mut()) {
            Some(source) => source.stop(self.tsc)?,
            None => Stopped::default(),
        };
        let steal_ns = steal_ns(Some(self.spec.cpu))?.saturating_sub(steal_before);
        let mut block = Block {
            session,
            round,
            period: arm.period(),
            samples: stopped.samples,
            expected: self.expected(&arm, cpu_ns, stopped.samples),
            arm: arm.name,
            lost: stopped.lost,
            throttled: stopped.throttled,
            wall_ns,
            cpu_ns,
            involuntary_switches,
            steal_ns,
            settling: stopped.settling.filter(|_| keeps_a_buffer),
            discarded: None,
        };
        block.discarded = why_discarded(&block).or_else(|| self.stimulus.truth().and_then(|_| miscounted(&block)));
        Ok(block)
    }

    fn open_if_needed(&self, index: usize, catalog: &Catalog) -> Result<Option<Source>> {
        match self.arms[index].0.monitoring {
            Some(monitoring) if self.opening != Opening::Throughout && self.arms[index].1.is_none() => {
                self.open(&monitoring, catalog).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn open(&self, monitoring: &Monitoring, catalog: &Catalog) -> Result<Source> {
        Source::open(&self.event, monitoring, self.spec.cpu, self.spec.mechanism.keeps_a_buffer(), catalog)
    }

    /// Whether opening an event takes longer than measuring with it: registering a uprobe takes 60 ms, its calls 10.
    fn opening_is_dear(&self) -> bool {
        self.opening == Opening::ForEachBlock && self.spec.mechanism != Mechanism::PebsDirect
    }

    /// What the truth by construction says: samples of a sampled arm, events of one that only counts (or is only armed).
    fn expected(&self, arm: &Arm, cpu_ns: u64, delivered: u64) -> f64 {
        let Some(period) = arm.monitoring.map(|m| m.sampling.period.unwrap_or(1)) else { return 0.0 };
        match self.stimulus.truth() {
            Some(truth) => (truth + self.own_events) as f64 / period as f64,
            None if self.spec.mechanism.is_time_driven() => cpu_ns as f64 / period as f64,
            // A free-running counter has no truth by construction; its own samples are all there is.
            None => delivered as f64,
        }
    }
}

/// The kernel frees the rings of closed events behind everybody's back, after a grace period of read-copy-update, and must not do so within a block.
const AFTER_CLOSING: Duration = Duration::from_millis(20);
/// One round in so many has all arms where opening takes longer than measuring.
const DEAR_ROUNDS: u32 = 3;

fn is_optional(arm: &Arm) -> bool {
    let needed = matches!(arm.name.as_str(), super::ON | super::arm::EACH | super::arm::COUNTING | super::arm::ARMED);
    !(needed || ArmName::of(&arm.name).is_idle())
}

fn decides_alpha(arm: &Arm) -> bool {
    arm.monitoring.is_none() || !is_optional(arm)
}

/// Lost and throttled blocks are not measurements; preempted and stolen ones measure somebody else's work.
fn why_discarded(block: &Block) -> Option<String> {
    if block.lost > 0 {
        Some(format!("{} samples lost", block.lost))
    } else if block.throttled > 0 {
        Some(format!("throttled {} times", block.throttled))
    } else if block.steal_ns > 0 {
        Some(format!("{} ms stolen by the hypervisor", block.steal_ns / 1_000_000))
    } else if block.involuntary_switches > 0 {
        Some(format!("preempted {} times", block.involuntary_switches))
    } else {
        None
    }
}

/// Samples and losses must be what the construction says; beyond period 1 a remainder of the block before may complete one.
fn miscounted(block: &Block) -> Option<String> {
    let slack = if block.period == 1 { 0.0 } else { 1.0 };
    let found = (block.samples + block.lost) as f64;
    (block.period > 0 && (found - block.expected).abs() > slack)
        .then(|| format!("{found} samples, {} by construction", block.expected))
}

fn overdue(blocks: usize) -> Error {
    Error::Discarded {
        why: format!("the time was up after {blocks} blocks of a session, which takes a second or so on a quiet machine"),
        remedy: format!("quieten the machine, or give it more time with {}", Setting::Time),
    }
}

/// Burns the given share of the time since `start_ns`.
fn linger(start_ns: u64, share: f64) {
    let taken = monotonic_ns() - start_ns;
    let until = Instant::now() + std::time::Duration::from_nanos((taken as f64 * share) as u64);
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}
