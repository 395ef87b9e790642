//! Watching, from the first instruction (or from when we came) to the end.

use std::time::Duration;

use perftax_doc::steps::{Operation, Setting};
use perftax_pmu::event::Catalog;
use perftax_pmu::sys::{monotonic_raw_ns, thread_cpu_ns};
use perftax_pmu::{Error, Result};
use perftax_target::Program;

use super::accounts::{Accounts, Entry};
use super::budget::{Controller, Used};
use super::heap::{Awaited, Heaps, code_of};
use super::located::Located;
use super::place::{At, Place, PlaceName};
use super::plan::{Piece, Plan};
use super::report::Watched;
use super::skeleton::{Session, Skeleton, Start};
use super::slices::Slices;
use super::terms::Terms;

/// From one look at the rings to the next, at most.
const LOOK: Duration = Duration::from_millis(5);
/// Likewise, while the budget has nothing left: looking is paid for by it, too.
const SAVING: Duration = Duration::from_millis(100);
/// Likewise, while an object is waited for that is to be watched.
const WAITING: Duration = Duration::from_millis(1);

/// What is to be watched.
#[derive(Clone, Debug)]
pub struct Watching {
    /// Of whom, and at what cost.
    pub terms: Terms,
    /// Where.
    pub places: Vec<PlaceName>,
}

/// Runs the program, its output untouched, or joins it, and watches it.
///
/// # Errors
/// Where a place is not found, events cannot be opened, or the program cannot be executed. A program that fails has been watched all the
/// same.
pub fn watch(watching: &Watching, catalog: &Catalog) -> Result<Watched> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Error::Unsupported {
            what: "tell which instruction a debug register trapped at".into(),
            why: "only x86's are known".into(),
            remedy: format!("{} sees every access of a program", Operation::SimulateSharing),
        });
    }
    let (start, skeleton, located) = Start::open(&watching.terms, &watching.places, [], catalog)?;
    start.run(NamedPlaces::of(&watching.terms, located, skeleton)?.opened()?)
}

/// Whether processes share a piece.
fn is_shared(places: &[Place], piece: Piece) -> bool {
    places.iter().find(|place| place.holds(piece.address)).is_some_and(|place| place.is_shared)
}

/// Watching of named places that goes on.
struct NamedPlaces {
    skeleton: Skeleton,
    accounts: Accounts,
    plan: Plan,
    places: Vec<Place>,
    slices: Slices,
    /// How each place was named.
    names: Vec<PlaceName>,
    /// Places of a file that are not there.
    absent: usize,
    /// Debug registers to use of each thread.
    registers: usize,
}

impl NamedPlaces {
    fn of(terms: &Terms, located: Located, mut skeleton: Skeleton) -> Result<Self> {
        let Located { places, names, absent } = located;
        let registers = terms.registers as usize;
        let plan = Plan::of(&places, registers);
        skeleton.intake.aim_at(&plan, |piece| is_shared(&places, piece));
        skeleton.intake.images.read(skeleton.pid);
        let trap_ns = terms.trap_ns.map_or(0.0, |trap_ns| trap_ns.high);
        let accounts = Accounts::new(plan.clone(), terms.core_of.clone());
        let slices = Slices::new(terms.budget.map(|budget| Controller::new(budget, trap_ns)));
        Self { skeleton, accounts, plan, places, slices, names, absent, registers }.awaiting()
    }

    /// Waits for those of the places that are of objects which are not there yet.
    fn awaiting(mut self) -> Result<Self> {
        let Skeleton { heaps, intake, pid, .. } = &mut self.skeleton;
        let Some(heaps) = heaps else { return Ok(self) };
        let mut awaited = Vec::new();
        for (place, name) in self.names.iter().enumerate() {
            if let At::Heap { function, number, .. } = &name.at {
                let code = code_of(*pid, intake.images.maps(*pid), function, &name.text)?;
                awaited.push(Awaited { place, code, number: *number, seen: 0 });
                if self.plan.turns.len() > 1 {
                    return Err(Error::Argument {
                        argument: Setting::Watch.name(),
                        value: name.text.clone(),
                        needed: "as few places that all are watched at once, since objects of the heap take no turns: \
                                 four of 8 bytes are the most"
                            .into(),
                    });
                }
            }
        }
        heaps.wait_for(*pid, awaited);
        Ok(self)
    }

    /// Registers are aimed at objects that have come.
    fn meet(&mut self) -> Result<()> {
        let arrived = self.skeleton.heaps.as_mut().map(Heaps::arrived).unwrap_or_default();
        if arrived.is_empty() {
            return Ok(());
        }
        for (number, object) in arrived {
            let At::Heap { offset, .. } = self.names[number].at else { continue };
            self.places[number] = self.names[number].found_at(object.address.wrapping_add(offset), None, false)?;
        }
        let was_on = self.slices.is_on();
        self.off()?;
        self.plan = Plan::of(&self.places, self.registers);
        self.slices.restart();
        let places = &self.places;
        self.skeleton.intake.aim_at(&self.plan, |piece| is_shared(places, piece));
        self.accounts.aim_at(self.plan.clone());
        if was_on { self.on() } else { Ok(()) }
    }

    /// Opens registers. What is seen of threads that are watched in part does not count.
    fn opened(mut self) -> Result<Self> {
        for tid in self.skeleton.open_registers(&self.plan)? {
            self.accounts.is_unwatched(tid as u32);
        }
        for (tid, name) in self.skeleton.named_threads() {
            self.accounts.name(tid, name);
        }
        Ok(self)
    }

    /// Everything is watched all the time.
    fn is_always_on(&self) -> bool {
        self.slices.are_one(self.plan.turns.len())
    }

    /// How long there is nothing to do but to look.
    fn until_next(&self) -> Duration {
        let is_awaiting = self.skeleton.heaps.as_ref().is_some_and(|heaps| !heaps.waiting().is_empty());
        let longest = match &self.skeleton.heaps {
            _ if is_awaiting => WAITING,
            // The rings of an allocator's probes are short, and nobody is woken for them.
            Some(_) => LOOK,
            None => self.slices.until_affordable(|| self.used_so_far(), self.accounts.cpus()).clamp(LOOK, SAVING),
        };
        let left = if self.is_always_on() { None } else { self.slices.left(monotonic_raw_ns()) };
        left.unwrap_or(longest).clamp(Duration::from_micros(100), longest)
    }

    /// CPU time since watching began.
    fn used_so_far(&self) -> Used {
        Used { program_ns: self.skeleton.used_ns(), own_ns: self.skeleton.own.ns() }
    }

    fn take_turns(&mut self) -> Result<()> {
        if self.is_always_on() {
            return Ok(());
        }
        if !self.slices.is_on() {
            return if self.slices.is_affordable(self.used_so_far()) { self.on() } else { Ok(()) };
        }
        if !self.slices.is_over(monotonic_raw_ns()) {
            return Ok(());
        }
        let is_next_at_once = self.slices.are_back_to_back();
        self.end_slice(!is_next_at_once)?;
        self.slices.advance(self.plan.turns.len());
        if is_next_at_once { self.on() } else { Ok(()) }
    }

    /// Registers on, for the turn that is next.
    fn on(&mut self) -> Result<()> {
        let Skeleton { watcher, intake, own, .. } = &mut self.skeleton;
        let (turn, own_ns) = (self.slices.turn(), own.ns());
        let before_ns = thread_cpu_ns();
        watcher.on(&self.plan, turn)?;
        // Time for which somebody else had the CPU is not what switching takes.
        let switching_ns = thread_cpu_ns() - before_ns;
        let now_ns = monotonic_raw_ns();
        self.slices.begin(now_ns, switching_ns, intake.evidence.traps, own_ns);
        // What trapped before all were on does not count.
        intake.order.push(now_ns, Entry::Begin { turn });
        Ok(())
    }

    fn off(&mut self) -> Result<()> {
        self.end_slice(true)
    }

    /// The slice is over, for what is counted; registers go off unless the next turn aims them elsewhere at once.
    fn end_slice(&mut self, is_to_be_off: bool) -> Result<()> {
        if !self.slices.end() {
            return Ok(());
        }
        self.skeleton.intake.order.push(monotonic_raw_ns(), Entry::End);
        if is_to_be_off {
            self.skeleton.watcher.off()?;
        }
        // What it cost is told by what has come since.
        self.drain()?;
        self.slices.account(self.skeleton.intake.evidence.traps, self.skeleton.own.ns());
        Ok(())
    }

    fn drain(&mut self) -> Result<()> {
        let Skeleton { watcher, intake, .. } = &mut self.skeleton;
        watcher.drain(|ring, record| intake.take(ring, &record))?;
        intake.settle();
        Ok(())
    }

    /// Takes what has come since the last look, and accounts for what is from before a time.
    fn take_until(&mut self, until_ns: u64) -> Result<()> {
        self.drain()?;
        let Skeleton { intake, heaps, .. } = &mut self.skeleton;
        for (time_ns, entry) in intake.order.before(until_ns) {
            if let (Some(heaps), Entry::Access(seen)) = (heaps.as_mut(), &entry) {
                heaps.touched(seen.pid, seen.line.address(), seen.bytes, time_ns);
            }
            self.accounts.take(time_ns, entry);
        }
        self.skeleton.look_at_heaps(until_ns)
    }
}

impl Session for NamedPlaces {
    type Outcome = Watched;

    fn skeleton(&self) -> &Skeleton {
        &self.skeleton
    }

    fn skeleton_mut(&mut self) -> &mut Skeleton {
        &mut self.skeleton
    }

    fn begin(&mut self, program: &mut Program) -> Result<()> {
        self.take_until(0)?;
        self.accounts.begin(self.skeleton.begin());
        self.skeleton.ask(program);
        if self.slices.are_back_to_back() { self.on() } else { Ok(()) }
    }

    fn stop(&mut self) -> Result<()> {
        self.off()
    }

    fn look(&mut self) -> Result<()> {
        self.take_until(Skeleton::settled_ns())
    }

    fn wait(&mut self) -> Result<()> {
        if !self.skeleton.is_ended() {
            self.meet()?;
            self.take_turns()?;
        }
        self.skeleton.watcher.wait(self.until_next())
    }

    fn finish(mut self, program: Program) -> Result<Watched> {
        let ended_ns = self.skeleton.ended_ns();
        // A process that is not ours is left without registers of ours.
        self.off()?;
        self.take_until(u64::MAX)?;
        self.accounts.end(ended_ns);
        let (registers, is_exact) = (self.skeleton.watcher.registers(), self.is_always_on());
        let lost = self.skeleton.watcher.lost().unwrap_or(0);
        let records = &mut self.skeleton.intake.evidence;
        records.lost_traps = records.lost_traps.max(lost);
        records.accesses = self.accounts.accesses;
        records.unwatched_threads = self.accounts.unwatched();
        let ending = self.skeleton.finish(program)?;
        if self.accounts.slices.is_empty() && self.places.is_empty() {
            let why = "the command ended before it began".to_string();
            return Err(Error::Discarded { why, remedy: "run it by itself first".into() });
        }
        let waiting = ending.heaps.as_ref().map(Heaps::waiting).unwrap_or_default();
        let unmet = waiting.iter().map(|place| self.names[*place].text.clone()).collect();
        let places = self.places.into_iter().enumerate().filter(|(place, _)| !waiting.contains(place));
        Ok(Watched {
            places: places.map(|(_, place)| place).collect(),
            absent: self.absent,
            unmet,
            plan: self.plan,
            registers,
            accounts: self.accounts,
            is_exact,
            ending,
        })
    }
}
