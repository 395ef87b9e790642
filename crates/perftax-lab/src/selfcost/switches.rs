//! What a context switch costs while events are open: lmbench's ring of processes that pass a token on (lat_ctx), and Weaver's conditions.
//!
//! As in lat_ctx, what the token's way through a pipe and the reading of the memory take within one process is taken off.

use perftax_doc::median;
use perftax_doc::{Price, PriceSection};
use perftax_pmu::Result;
use perftax_pmu::event::{Event, parse};
use perftax_pmu::sampler::{LiveSampler, Sampler, Sampling};
use perftax_pmu::sys::{OpenEvent, Target};

use super::book::{Book, Entry};
use super::{Bench, Set, Setting};
use crate::stimulus::TokenRing;

/// Processes of a ring, and the bytes that each reads before it passes the token on.
const SHAPES: [(usize, usize); 4] = [(2, 0), (2, 16 << 10), (8, 0), (8, 16 << 10)];
/// Rounds of the token before the timed ones.
const WARM_UP: u64 = 4;
/// Runs of each condition in a round, so that one in which the hypervisor took the CPU away does not make the round's median.
const BLOCKS: u64 = 8;
/// Pages of a sampling event's ring.
const RING_PAGES: usize = 8;

/// Whom events watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watching {
    /// The first process, and by inheritance those that it makes: the kernel swaps contexts that are alike.
    Inherited,
    /// Each process by events of its own.
    Tasks,
    /// The CPU.
    Cpu,
}

/// What is open while contexts are switched.
#[derive(Clone, Debug)]
struct Condition {
    name: &'static str,
    set: &'static str,
    events: Vec<Event>,
    /// None where nothing is open.
    watching: Option<Watching>,
    sampling: Sampling,
}

/// The bench.
pub struct Switches {
    cpu: u32,
    passes: u64,
    random: fastrand::Rng,
    /// Each condition in each shape, with its place in the book.
    cells: Vec<(usize, Condition, Entry)>,
}

/// What all others are held against, and what it is held against itself to show what differs without a reason.
pub(super) const NONE: &str = "no event";
pub(super) const AGAIN: &str = "no event, again";

impl Switches {
    /// Every condition in every shape.
    pub fn new(setting: &Setting, sets: &[Set], book: &mut Book) -> Self {
        let mut cells = Vec::new();
        let conditions = Condition::all(setting, sets);
        for (at, &(processes, bytes)) in SHAPES.iter().enumerate() {
            let operation = format!("{processes} processes of {} KiB", bytes >> 10);
            let price = |condition: &Condition| {
                Price::new(PriceSection::Switch, &operation, condition.name, condition.set, condition.events.len() as u32)
            };
            let mut base = None;
            for condition in &conditions {
                if let Err(error) = condition.tried(setting.cpu) {
                    book.missing(price(condition), &error.headline());
                    continue;
                }
                let per_run = around(setting.passes, processes) * processes as u64;
                let entry = book.open(Price { per_run: per_run as u32, ..price(condition) });
                base.into_iter().for_each(|base| book.compare(entry, base, None));
                base = base.or((condition.name == NONE).then_some(entry));
                cells.push((at, condition.clone(), entry));
            }
        }
        Self { cpu: setting.cpu, passes: setting.passes, random: fastrand::Rng::with_seed(setting.seed ^ 0x7277), cells }
    }
}

/// How often the token goes around in one run.
fn around(passes: u64, processes: usize) -> u64 {
    (passes / BLOCKS / processes as u64).max(1)
}

impl Condition {
    fn all(setting: &Setting, sets: &[Set]) -> Vec<Self> {
        let none = |name| Self { name, set: "", events: Vec::new(), watching: None, sampling: Sampling::COUNTING };
        let mut all = vec![none(NONE), none(AGAIN)];
        for set in sets.iter().filter(|set| set.missing.is_none()) {
            let counting = |name, count, watching| Self {
                name,
                set: set.name,
                events: set.take(count),
                watching: Some(watching),
                sampling: Sampling { inherit: watching == Watching::Inherited, ..Sampling::COUNTING },
            };
            // As many as each kind of core has counters for.
            let many = if set.name == "hardware" { 4 } else { 8 };
            all.extend([
                counting("counting, inherited", 1, Watching::Inherited),
                counting("counting, per task", 1, Watching::Tasks),
                counting("counting, per task", many, Watching::Tasks),
                counting("counting, per CPU", 1, Watching::Cpu),
            ]);
            let (text, period) = set.sampled;
            let Ok(events) = parse(text, setting.catalog) else { continue };
            let sampling = |name, watching| Self {
                name,
                set: set.name,
                events: events.clone(),
                watching: Some(watching),
                sampling: Sampling::every(period, RING_PAGES * rustix::param::page_size()),
            };
            all.extend([sampling("sampling, per task", Watching::Tasks), sampling("sampling, per CPU", Watching::Cpu)]);
        }
        all
    }

    /// Fails where it cannot be had: watching a CPU takes more rights than watching oneself.
    fn tried(&self, cpu: u32) -> Result<()> {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        self.before(own)?;
        self.behind(&[own], cpu).map(|_| ())
    }

    /// Opens what must be open before the processes are there.
    fn before(&self, own: i32) -> Result<Vec<OpenEvent>> {
        if self.watching != Some(Watching::Inherited) {
            return Ok(Vec::new());
        }
        let open = |event: &Event| {
            let opened = OpenEvent::open(event, &self.sampling, Target::Thread(own), None)?;
            opened.enable()?;
            Ok(opened)
        };
        self.events.iter().map(open).collect()
    }

    /// Opens the others. Events that only count get no ring: the kernel keeps the page of an event that has one up to date at each switch
    /// (perf_event_update_userpage), which counting as `perf stat` does it does not pay for.
    fn behind(&self, processes: &[i32], cpu: u32) -> Result<(Vec<OpenEvent>, Option<LiveSampler>)> {
        let targets: Vec<Target> = match self.watching {
            None | Some(Watching::Inherited) => return Ok((Vec::new(), None)),
            Some(Watching::Tasks) => processes.iter().map(|&process| Target::Thread(process)).collect(),
            Some(Watching::Cpu) => vec![Target::Cpu(cpu)],
        };
        if self.sampling.period.is_none() {
            let each = targets.iter().flat_map(|target| self.events.iter().map(move |event| (event, *target)));
            let counters = each.map(|(event, target)| {
                let opened = OpenEvent::open(event, &self.sampling, target, None)?;
                opened.enable()?;
                Ok(opened)
            });
            return Ok((counters.collect::<Result<_>>()?, None));
        }
        let events: Vec<(Event, Sampling)> = self.events.iter().map(|event| (event.clone(), self.sampling)).collect();
        let mut sampler = LiveSampler::open(&events, &targets, RING_PAGES)?;
        sampler.enable()?;
        Ok((Vec::new(), Some(sampler)))
    }
}

impl Bench for Switches {
    fn round(&mut self, book: &mut Book) -> Result<()> {
        // The same memory and pipes within one process: what is no switch.
        let mut alone = Vec::new();
        for (_, bytes) in SHAPES {
            let mut ring = TokenRing::spawn(1, bytes)?;
            ring.go_around(WARM_UP)?;
            let mut blocks = Vec::new();
            for _ in 0..BLOCKS {
                let passes = ring.go_around(self.passes / BLOCKS)?;
                blocks.push(passes.ticks as f64 / passes.passes as f64);
            }
            alone.push(median(&mut blocks));
        }
        self.random.shuffle(&mut self.cells);
        for (shape, condition, entry) in &self.cells {
            let (processes, bytes) = SHAPES[*shape];
            let own = rustix::thread::gettid().as_raw_nonzero().get();
            let opened = condition.before(own)?;
            let mut ring = TokenRing::spawn(processes, bytes)?;
            let all: Vec<i32> = [own].iter().chain(ring.children()).copied().collect();
            let sampler = condition.behind(&all, self.cpu)?;
            ring.go_around(WARM_UP)?;
            for _ in 0..BLOCKS {
                let passes = ring.go_around(around(self.passes, processes))?;
                book.run(*entry, passes.ticks);
                book.take_off(*entry, (alone[*shape] * passes.passes as f64).round() as u64);
            }
            drop((opened, sampler, ring));
        }
        Ok(())
    }
}
