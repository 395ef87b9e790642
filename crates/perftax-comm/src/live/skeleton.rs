//! What every watching goes through, whichever lines are looked for: a program is started or joined, its rings are read in a loop, and it ends.

use std::time::Duration;

use perftax_pmu::Result;
use perftax_pmu::event::{Catalog, Event};
use perftax_pmu::guard::raise_descriptor_limit;
use perftax_pmu::process::threads;
use perftax_pmu::sys::{AtExec, monotonic_raw_ns};
use perftax_target::{Program, Watch, run_loop, thread_name};

use super::attach::attach;
use super::ending::Ending;
use super::heap::Heaps;
use super::intake::Intake;
use super::located::{Libraries, Located, find, stop_at_exec};
use super::own_time::OwnTime;
use super::place::PlaceName;
use super::plan::Plan;
use super::price::Price;
use super::terms::Terms;
use super::watcher::Watcher;

/// For how long entries are held back, so that those of other CPUs find their place, ns.
const HOLD_BACK_NS: u64 = 50_000_000;

/// One way of watching: what it does of its own.
pub trait Session {
    /// What comes of it.
    type Outcome;

    /// What it has in common with others.
    fn skeleton(&self) -> &Skeleton;

    /// The same, to be changed.
    fn skeleton_mut(&mut self) -> &mut Skeleton;

    /// The program is about to run under our eyes: what has come before is taken first, then [`Skeleton::begin`] is called.
    ///
    /// # Errors
    /// Where the kernel refuses.
    fn begin(&mut self, program: &mut Program) -> Result<()>;

    /// Registers go off for good: the time is over.
    ///
    /// # Errors
    /// Where the kernel refuses.
    fn stop(&mut self) -> Result<()>;

    /// Takes what has come.
    ///
    /// # Errors
    /// Where the rings cannot be read.
    fn look(&mut self) -> Result<()>;

    /// Does what is due, and waits for what may come.
    ///
    /// # Errors
    /// Where the kernel refuses.
    fn wait(&mut self) -> Result<()>;

    /// What was seen, and how the program ended.
    ///
    /// # Errors
    /// Where the rings cannot be read, or the program could not be executed.
    fn finish(self, program: Program) -> Result<Self::Outcome>;
}

/// A program that waits for its first instruction, or runs already.
pub struct Start {
    /// Before the program: where it is let go of, the program is ended, which must not have been waited for by then.
    held: Option<AtExec>,
    program: Program,
    at_most: Option<Duration>,
}

impl Start {
    /// Starts a program up to its first instruction, its output untouched, or joins it; opens rings, what of `sampled` (each with its period) there
    /// is to sample, and probes on its allocator where they are wanted; and finds places in it. Registers are not opened yet.
    ///
    /// # Errors
    /// Where a place is not found, events cannot be opened, or the program cannot be executed.
    pub fn open<'e>(
        terms: &Terms,
        names: &[PlaceName],
        sampled: impl IntoIterator<Item = (&'e Event, u64)>,
        catalog: &Catalog,
    ) -> Result<(Self, Skeleton, Located)> {
        let cpus = terms.cpus();
        let mut program = Program::open(&terms.subject, Vec::new())?;
        let pid = program.pid();
        let mut watcher = Watcher::new(&cpus, terms.ring_pages, catalog)?;
        watcher.sample(sampled);
        let (held, located) = match program.child() {
            Some(child) => {
                watcher.follow(child.pid())?;
                let libraries = if terms.is_heap_told { Libraries::Loaded } else { Libraries::AsNeeded };
                let (held, located) = stop_at_exec(child, names, libraries)?;
                (Some(held), located)
            }
            None => {
                raise_descriptor_limit();
                (None, if names.is_empty() { Located::default() } else { find(pid, names)? })
            }
        };
        if terms.is_heap_told {
            watcher.probe_allocator(pid, catalog)?;
        }
        let skeleton = Skeleton {
            heaps: watcher.heaps(),
            watcher,
            intake: Intake::new(&Plan::default(), |_| false, cpus.len()),
            own: OwnTime::begin(),
            pid,
            is_joined: terms.is_joined(),
            price: terms.price(),
            cpu_ns: None,
            began_ns: 0,
            ended_ns: None,
            is_cut_short: false,
        };
        Ok((Self { held, program, at_most: terms.at_most }, skeleton, located))
    }

    /// Lets it run, and watches it to its end, or for as long as was agreed. A program that fails has been watched all the same.
    ///
    /// # Errors
    /// What watching meets.
    pub fn run<S: Session>(self, session: S) -> Result<S::Outcome> {
        let (mut program, mut running, held) = (self.program, Running(session), self.held);
        running.0.begin(&mut program)?;
        held.map_or(Ok(()), AtExec::resume)?;
        run_loop(&mut program, self.at_most, &mut running)?;
        running.0.finish(program)
    }
}

/// A session in the loop around its program.
struct Running<S>(S);

impl<S: Session> Watch for Running<S> {
    fn stop(&mut self) -> Result<()> {
        self.0.stop()?;
        let skeleton = self.0.skeleton_mut();
        skeleton.end();
        skeleton.is_cut_short = true;
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.0.skeleton().is_ended()
    }

    fn ask(&mut self, program: &mut Program) {
        self.0.skeleton_mut().ask(program);
    }

    fn look(&mut self) -> Result<()> {
        self.0.look()
    }

    fn wait(&mut self) -> Result<()> {
        self.0.wait()
    }
}

/// What sessions have in common.
pub struct Skeleton {
    /// Events and their rings.
    pub watcher: Watcher,
    /// What has come out of them.
    pub intake: Intake,
    /// What lies where; none where that was not asked for.
    pub heaps: Option<Heaps>,
    /// CPU time of ours.
    pub own: OwnTime,
    /// The program's first process.
    pub pid: u32,
    /// Whether it ran before we came.
    is_joined: bool,
    price: Price,
    /// CPU time that the program had used at the last look; none where it was not told.
    cpu_ns: Option<u64>,
    began_ns: u64,
    ended_ns: Option<u64>,
    /// Watching ended before the program.
    is_cut_short: bool,
}

impl Skeleton {
    /// Whether the program ran before we came.
    pub fn is_joined(&self) -> bool {
        self.is_joined
    }

    /// Opens registers, off: of a program of one thread, whose others inherit them, or of all threads of one that runs. Returns those that are
    /// watched in part alone.
    ///
    /// # Errors
    /// Where the registers are taken, the kernel refuses, or the process is gone.
    pub fn open_registers(&mut self, plan: &Plan) -> Result<Vec<i32>> {
        if self.is_joined {
            return attach(self.pid, &mut self.watcher, plan);
        }
        self.watcher.open_breakpoints(self.pid as i32, plan)?;
        Ok(Vec::new())
    }

    /// Threads that ran before we came, with their names: the kernel tells of those of others.
    pub fn named_threads(&self) -> impl Iterator<Item = (u32, String)> {
        let (pid, tids) = (self.pid, if self.is_joined { threads(self.pid) } else { Vec::new() });
        tids.into_iter().filter_map(move |tid| Some((tid as u32, thread_name(pid, tid)?)))
    }

    /// Watching begins; when, CLOCK_MONOTONIC_RAW, ns.
    pub fn begin(&mut self) -> u64 {
        self.own = OwnTime::begin();
        self.began_ns = monotonic_raw_ns();
        self.began_ns
    }

    /// Watching is over, whatever the program does: what we do from now on does not count.
    pub fn end(&mut self) {
        self.ended_ns = Some(monotonic_raw_ns());
        self.own.end();
    }

    /// Whether it is.
    pub fn is_ended(&self) -> bool {
        self.ended_ns.is_some()
    }

    /// When it was, or now, where the program ended first.
    pub fn ended_ns(&mut self) -> u64 {
        *self.ended_ns.get_or_insert_with(monotonic_raw_ns)
    }

    /// Asks for the CPU time that the program has used so far.
    pub fn ask(&mut self, program: &mut Program) {
        self.cpu_ns = program.cpu_ns().or(self.cpu_ns);
    }

    /// CPU time that the program had used when it was last asked, ns; 0 where it was not told.
    pub fn used_ns(&self) -> u64 {
        self.cpu_ns.unwrap_or(0)
    }

    /// Up to when records have come of all CPUs by now, CLOCK_MONOTONIC_RAW, ns.
    pub fn settled_ns() -> u64 {
        monotonic_raw_ns().saturating_sub(HOLD_BACK_NS)
    }

    /// Takes what the allocator's probes say, up to a time.
    ///
    /// # Errors
    /// Where a ring holds what is no record.
    pub fn look_at_heaps(&mut self, until_ns: u64) -> Result<()> {
        match (&mut self.heaps, self.watcher.probes()) {
            (Some(heaps), Some(probes)) => heaps.look(probes, &mut self.intake.images, until_ns),
            _ => Ok(()),
        }
    }

    /// Closes all events, and waits for a program that is ours. All that has come was taken.
    ///
    /// # Errors
    /// Where it could not be executed.
    pub fn finish(mut self, program: Program) -> Result<Ending> {
        let own_ns = self.own.ns();
        let ended_ns = self.ended_ns();
        if let (Some(heaps), Some(probes)) = (&mut self.heaps, self.watcher.probes()) {
            heaps.end(probes);
        }
        drop(self.watcher);
        let is_ours = program.is_ours();
        let exit = program.finish()?;
        // Of one that was watched to its end the kernel knows all, what ended before its last look included; of one that goes on its sum is of
        // more than was watched.
        let used_ns = (is_ours && !self.is_cut_short).then(|| exit.usage.cpu_ns());
        Ok(Ending {
            ended: exit.ended,
            pid: self.pid,
            is_joined: self.is_joined,
            elapsed_ns: ended_ns.saturating_sub(self.began_ns),
            own_ns,
            cpu_ns: used_ns.or(self.cpu_ns),
            records: self.intake.evidence,
            late: self.intake.order.late,
            images: self.intake.images,
            heaps: self.heaps,
            price: self.price,
        })
    }
}
