//! Watching, from the first instruction (or from when we came) to the end.

use std::collections::HashMap;
use std::time::Duration;

use perftax_doc::CommEvidence;
use perftax_doc::Estimate;
use perftax_pmu::event::Catalog;
use perftax_pmu::guard::raise_descriptor_limit;
use perftax_pmu::process::threads;
use perftax_pmu::sys::{AtExec, Ended, monotonic_raw_ns, thread_cpu_ns};
use perftax_pmu::{Error, Result};
use perftax_target::{Program, Subject, Watch, run_loop, thread_name};

use super::accounts::{Accounts, Entry};
use super::attach::attach;
use super::budget::{Controller, SLICE_NS, Used};
use super::heap::{Awaited, Heaps, code_of};
use super::image::Images;
use super::intake::Intake;
use super::located::{Libraries, Located, find, stop_at_exec};
use super::own_time::OwnTime;
use super::place::{At, Place, PlaceName};
use super::plan::{Piece, Plan};
use super::watcher::Watcher;

/// Length of a slice where places take turns and there is no budget, ns.
const TURN_NS: u64 = 20_000_000;
/// A slice is at least so many times as long as switching to it takes.
const MIN_TIMES_SWITCHING: u64 = 10;
/// From one look at the rings to the next, at most.
const LOOK: Duration = Duration::from_millis(5);
/// Likewise, while the budget has nothing left: looking is paid for by it, too.
const SAVING: Duration = Duration::from_millis(100);
/// Likewise, while an object is waited for that is to be watched.
const WAITING: Duration = Duration::from_millis(1);
/// For how long entries are held back, so that those of other CPUs find their place, ns.
const HOLD_BACK_NS: u64 = 50_000_000;

/// What is to be watched.
#[derive(Clone, Debug)]
pub struct Watching {
    /// Who.
    pub subject: Subject,
    /// Where.
    pub places: Vec<PlaceName>,
    /// Debug registers to use of each thread, 1 to 4.
    pub registers: usize,
    /// The share of the program's CPU time that watching may take.
    pub budget: Option<f64>,
    /// What a trap costs, ns; needed where there is a budget.
    pub trap_ns: Option<Estimate>,
    /// For how long; none: until the program ends, or we are interrupted.
    pub at_most: Option<Duration>,
    /// Pages of each CPU's ring; a power of two.
    pub ring_pages: usize,
    /// The core of each CPU that the program may run on.
    pub core_of: HashMap<u32, u32>,
    /// Whether objects of the heap are told, by probes on the allocator.
    pub is_heap_told: bool,
}

/// What was seen.
pub struct Watched {
    /// How the program ended.
    pub ended: Ended,
    /// What was watched.
    pub places: Vec<Place>,
    /// Places of a file where the program had nothing mapped when watching began.
    pub absent: usize,
    /// What was to be watched, and did not come: objects of the heap.
    pub unmet: Vec<String>,
    /// Its turns.
    pub plan: Plan,
    /// Registers that were used of each thread.
    pub registers: usize,
    /// From the start of watching to its end, ns.
    pub elapsed_ns: u64,
    /// Threads, lines, transfers, slices.
    pub accounts: Accounts,
    /// What it rests on.
    pub evidence: CommEvidence,
    /// Everything was watched all the time.
    pub is_exact: bool,
    /// CPU time that we took ourselves meanwhile, ns.
    pub own_ns: u64,
    /// CPU time that the program used meanwhile, ns; none where it was not told.
    pub cpu_ns: Option<u64>,
    /// Entries that came late, and counted as of when they came.
    pub late: u64,
    /// What processes had mapped.
    pub images: Images,
    /// Its first process.
    pub pid: u32,
    /// What lay where; none where that was not asked for.
    pub heaps: Option<Heaps>,
    /// Whether it ran before we came.
    pub is_joined: bool,
}

/// Runs the program, its output untouched, or joins it, and watches it.
///
/// # Errors
/// Where a place is not found, events cannot be opened, or the program cannot be executed. A program that fails has been watched all the
/// same.
pub fn watch(watching: &Watching, catalog: &Catalog) -> Result<Watched> {
    let mut cpus: Vec<u32> = watching.core_of.keys().copied().collect();
    cpus.sort_unstable();
    if !cfg!(target_arch = "x86_64") {
        return Err(Error::Unsupported {
            what: "tell which instruction a debug register trapped at".into(),
            why: "only x86's are known".into(),
            remedy: "perftax sim --comm sees every access of a program".into(),
        });
    }
    let mut program = Program::open(&watching.subject, Vec::new())?;
    let pid = program.pid();
    let mut watcher = Watcher::new(&cpus, watching.ring_pages, catalog)?;
    let (mut session, held) = match program.child() {
        Some(child) => {
            watcher.follow(child.pid())?;
            let libraries = if watching.is_heap_told { Libraries::Loaded } else { Libraries::AsNeeded };
            let (held, located) = stop_at_exec(child, &watching.places, libraries)?;
            if watching.is_heap_told {
                watcher.probe_allocator(pid, catalog)?;
            }
            (Session::of(watching, located, watcher, pid)?.opened(pid as i32)?, Some(held))
        }
        None => {
            raise_descriptor_limit();
            let located = find(pid, &watching.places)?;
            if watching.is_heap_told {
                watcher.probe_allocator(pid, catalog)?;
            }
            (Session::of(watching, located, watcher, pid)?.joined(pid)?, None)
        }
    };
    session.begin(&mut program)?;
    held.map_or(Ok(()), AtExec::resume)?;
    run_loop(&mut program, watching.at_most, &mut session)?;
    session.finish(program)
}

/// Whether processes share a piece.
fn is_shared(places: &[Place], piece: Piece) -> bool {
    let holds = |place: &&Place| (place.address..place.address + place.bytes).contains(&piece.address);
    places.iter().find(holds).is_some_and(|place| place.is_shared)
}

/// Watching that goes on.
struct Session {
    watcher: Watcher,
    intake: Intake,
    accounts: Accounts,
    plan: Plan,
    places: Vec<Place>,
    budget: Option<Controller>,
    pid: u32,
    began_ns: u64,
    ended_ns: Option<u64>,
    /// The turn that is next, or on.
    turn: usize,
    /// Since when registers are on; none: they are off.
    on_ns: Option<u64>,
    slice_ns: u64,
    own: OwnTime,
    /// What it was before the slice that is on, ns.
    own_before_slice_ns: u64,
    /// Traps before the slice that is on.
    traps_before: u64,
    /// What the program had used at the last look.
    cpu_ns: Option<u64>,
    /// Watching ended before the program.
    is_cut_short: bool,
    heaps: Option<Heaps>,
    is_joined: bool,
    /// How each place was named.
    names: Vec<PlaceName>,
    /// Places of a file that are not there.
    absent: usize,
    /// Debug registers to use of each thread.
    registers: usize,
}

impl Session {
    fn of(watching: &Watching, located: Located, watcher: Watcher, pid: u32) -> Result<Self> {
        let Located { places, names, absent } = located;
        let plan = Plan::of(&places, watching.registers);
        let trap_ns = watching.trap_ns.map_or(0.0, |trap_ns| trap_ns.high);
        let mut session = Self {
            heaps: watcher.heaps(),
            is_joined: matches!(watching.subject, Subject::Process(_)),
            names,
            absent,
            registers: watching.registers,
            intake: Intake::new(&plan, |piece| is_shared(&places, piece), watching.core_of.len()),
            accounts: Accounts::new(plan.clone(), watching.core_of.clone()),
            watcher,
            plan,
            places,
            budget: watching.budget.map(|budget| Controller::new(budget, trap_ns)),
            pid,
            began_ns: 0,
            ended_ns: None,
            turn: 0,
            on_ns: None,
            slice_ns: if watching.budget.is_some() { SLICE_NS } else { TURN_NS },
            own: OwnTime::begin(),
            own_before_slice_ns: 0,
            traps_before: 0,
            cpu_ns: None,
            is_cut_short: false,
        };
        session.intake.images.read(pid);
        session.awaiting()
    }

    /// Waits for those of the places that are of objects which are not there yet.
    fn awaiting(mut self) -> Result<Self> {
        let Some(heaps) = self.heaps.as_mut() else { return Ok(self) };
        let mut awaited = Vec::new();
        for (place, name) in self.names.iter().enumerate() {
            if let At::Heap { function, number, .. } = &name.at {
                let code = code_of(self.pid, self.intake.images.maps(self.pid), function, &name.text)?;
                awaited.push(Awaited { place, code, number: *number, seen: 0 });
                if self.plan.turns.len() > 1 {
                    return Err(Error::Argument {
                        argument: "--watch",
                        value: name.text.clone(),
                        needed: "as few places that all are watched at once, since objects of the heap take no turns: \
                                 four of 8 bytes are the most"
                            .into(),
                    });
                }
            }
        }
        heaps.wait_for(self.pid, awaited);
        Ok(self)
    }

    /// Registers are aimed at objects that have come.
    fn meet(&mut self) -> Result<()> {
        let arrived = self.heaps.as_mut().map(Heaps::arrived).unwrap_or_default();
        if arrived.is_empty() {
            return Ok(());
        }
        for (number, object) in arrived {
            let At::Heap { offset, .. } = self.names[number].at else { continue };
            self.places[number] = self.names[number].found_at(object.address.wrapping_add(offset), None, false)?;
        }
        let was_on = self.on_ns.is_some();
        self.off()?;
        self.plan = Plan::of(&self.places, self.registers);
        self.turn = 0;
        let places = &self.places;
        self.intake.aim_at(&self.plan, |piece| is_shared(places, piece));
        self.accounts.aim_at(self.plan.clone());
        if was_on { self.on() } else { Ok(()) }
    }

    /// Opens the breakpoints of a program of one thread, whose others inherit them.
    fn opened(mut self, tid: i32) -> Result<Self> {
        self.watcher.open_breakpoints(tid, &self.plan)?;
        Ok(self)
    }

    /// Opens those of all threads of a process that runs.
    fn joined(mut self, pid: u32) -> Result<Self> {
        for tid in attach(pid, &mut self.watcher, &self.plan)? {
            self.accounts.is_unwatched(tid as u32);
        }
        for tid in threads(pid) {
            thread_name(pid, tid).into_iter().for_each(|name| self.accounts.name(tid as u32, name));
        }
        Ok(self)
    }

    /// Everything is watched all the time.
    fn is_always_on(&self) -> bool {
        self.budget.is_none() && self.plan.turns.len() <= 1
    }

    fn begin(&mut self, program: &mut Program) -> Result<()> {
        self.take_until(0)?;
        self.own = OwnTime::begin();
        self.began_ns = monotonic_raw_ns();
        self.accounts.begin(self.began_ns);
        self.cpu_ns = program.cpu_ns();
        if self.budget.is_none() { self.on() } else { Ok(()) }
    }

    /// How long there is nothing to do but to look.
    fn until_next(&self) -> Duration {
        let end_ns = self.on_ns.filter(|_| !self.is_always_on()).map(|on_ns| on_ns + self.slice_ns);
        let is_awaiting = self.heaps.as_ref().is_some_and(|heaps| !heaps.waiting().is_empty());
        let longest = match &self.heaps {
            _ if is_awaiting => WAITING,
            // The rings of an allocator's probes are short, and nobody is woken for them.
            Some(_) => LOOK,
            None => self.until_affordable().clamp(LOOK, SAVING),
        };
        let left = end_ns.map_or(longest, |end_ns| Duration::from_nanos(end_ns.saturating_sub(monotonic_raw_ns())));
        left.clamp(Duration::from_micros(100), longest)
    }

    /// How long to wait at least until the next slice can be paid for.
    fn until_affordable(&self) -> Duration {
        let budget = self.budget.as_ref().filter(|_| self.on_ns.is_none());
        let wait_ns = budget.map_or(0.0, |budget| budget.wait_ns(self.turn, self.used_so_far(), self.accounts.cpus()));
        Duration::from_nanos(wait_ns as u64)
    }

    /// CPU time since watching began.
    fn used_so_far(&self) -> Used {
        Used { program_ns: self.cpu_ns.unwrap_or(0), own_ns: self.own.ns() }
    }

    fn take_turns(&mut self) -> Result<()> {
        if self.is_always_on() {
            return Ok(());
        }
        match self.on_ns {
            Some(on_ns) if monotonic_raw_ns() >= on_ns + self.slice_ns => {
                let is_next_at_once = self.budget.is_none();
                self.end_slice(!is_next_at_once)?;
                self.turn = (self.turn + 1) % self.plan.turns.len().max(1);
                if is_next_at_once { self.on() } else { Ok(()) }
            }
            Some(_) => Ok(()),
            None => {
                let used = self.used_so_far();
                let may_begin = self.budget.as_ref().is_none_or(|budget| budget.missing_ns(self.turn, used) <= 0.0);
                if may_begin { self.on() } else { Ok(()) }
            }
        }
    }

    /// Registers on, for the turn that is next.
    fn on(&mut self) -> Result<()> {
        self.own_before_slice_ns = self.own.ns();
        let before_ns = thread_cpu_ns();
        self.watcher.on(&self.plan, self.turn)?;
        // Time for which somebody else had the CPU is not what switching takes.
        let switched_ns = thread_cpu_ns() - before_ns;
        let now_ns = monotonic_raw_ns();
        self.slice_ns = self.slice_ns.max(MIN_TIMES_SWITCHING * switched_ns);
        self.traps_before = self.intake.evidence.traps;
        self.on_ns = Some(now_ns);
        // What trapped before all were on does not count.
        self.intake.order.push(now_ns, Entry::Begin { turn: self.turn });
        Ok(())
    }

    fn off(&mut self) -> Result<()> {
        self.end_slice(true)
    }

    /// The slice is over, for what is counted; registers go off unless the next turn aims them elsewhere at once.
    fn end_slice(&mut self, is_to_be_off: bool) -> Result<()> {
        if self.on_ns.take().is_none() {
            return Ok(());
        }
        self.intake.order.push(monotonic_raw_ns(), Entry::End);
        if is_to_be_off {
            self.watcher.off()?;
        }
        // What it cost is told by what has come since.
        self.drain()?;
        let traps = self.intake.evidence.traps - self.traps_before;
        if let Some(budget) = &mut self.budget {
            budget.ended(self.turn, traps, self.own.ns() - self.own_before_slice_ns);
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<()> {
        let intake = &mut self.intake;
        self.watcher.drain(|ring, record| intake.take(ring, &record))?;
        self.intake.settle();
        Ok(())
    }

    /// Takes what has come since the last look, and accounts for what is from before a time.
    fn take_until(&mut self, until_ns: u64) -> Result<()> {
        self.drain()?;
        let (accounts, heaps) = (&mut self.accounts, &mut self.heaps);
        for (time_ns, entry) in self.intake.order.before(until_ns) {
            if let (Some(heaps), Entry::Access(seen)) = (heaps.as_mut(), &entry) {
                heaps.touched(seen.pid, seen.line.address(), seen.bytes, time_ns);
            }
            accounts.take(time_ns, entry);
        }
        if let (Some(heaps), Some(probes)) = (&mut self.heaps, self.watcher.probes()) {
            heaps.look(probes, &mut self.intake.images, until_ns)?;
        }
        Ok(())
    }

    fn finish(mut self, program: Program) -> Result<Watched> {
        let ended_ns = self.ended_ns.unwrap_or_else(monotonic_raw_ns);
        // A process that is not ours is left without registers of ours.
        self.off()?;
        self.take_until(u64::MAX)?;
        self.accounts.end(ended_ns);
        let own_ns = self.own.ns();
        let lost = self.watcher.lost().unwrap_or(0);
        if let (Some(heaps), Some(probes)) = (&mut self.heaps, self.watcher.probes()) {
            heaps.end(probes);
        }
        let registers = self.watcher.registers();
        let is_exact = self.is_always_on();
        drop(self.watcher);
        let mut evidence = self.intake.evidence;
        evidence.lost_traps = evidence.lost_traps.max(lost);
        evidence.accesses = self.accounts.accesses;
        evidence.unwatched_threads = self.accounts.unwatched();
        let is_ours = program.is_ours();
        let exit = program.finish()?;
        let used_ns = is_ours.then(|| exit.usage.cpu_ns());
        let waiting = self.heaps.as_ref().map(Heaps::waiting).unwrap_or_default();
        let unmet = waiting.iter().map(|place| self.names[*place].text.clone()).collect();
        let has_places = !self.places.is_empty();
        let places = self.places.into_iter().enumerate().filter(|(place, _)| !waiting.contains(place));
        // Of one that was watched to its end the kernel knows all, what ended before its last look included.
        let cpu_ns = if self.is_cut_short { self.cpu_ns } else { used_ns.or(self.cpu_ns) };
        if self.accounts.slices.is_empty() && !has_places {
            let why = "the command ended before it began".to_string();
            return Err(Error::Spoiled { why, remedy: "run it by itself first".into() });
        }
        Ok(Watched {
            ended: exit.ended,
            places: places.map(|(_, place)| place).collect(),
            unmet,
            absent: self.absent,
            plan: self.plan,
            registers,
            elapsed_ns: ended_ns.saturating_sub(self.began_ns),
            evidence,
            is_exact,
            own_ns,
            cpu_ns,
            late: self.intake.order.late,
            images: self.intake.images,
            accounts: self.accounts,
            pid: self.pid,
            heaps: self.heaps,
            is_joined: self.is_joined,
        })
    }
}

impl Watch for Session {
    fn stop(&mut self) -> Result<()> {
        self.off()?;
        self.ended_ns = Some(monotonic_raw_ns());
        self.own.end();
        self.is_cut_short = true;
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.ended_ns.is_some()
    }

    fn ask(&mut self, program: &mut Program) {
        self.cpu_ns = program.cpu_ns().or(self.cpu_ns);
    }

    fn look(&mut self) -> Result<()> {
        self.take_until(monotonic_raw_ns().saturating_sub(HOLD_BACK_NS))
    }

    fn wait(&mut self) -> Result<()> {
        if !self.is_stopped() {
            self.meet()?;
            self.take_turns()?;
        }
        self.watcher.wait(self.until_next())
    }
}
