//! Sampling and following, from the first instruction (or from when we came) to the end.

use std::collections::HashMap;
use std::time::Duration;

use crate::{Access, Bytes, End, IdleTimeout, Kind, LINE_BYTES, Line, LineWatcher, Settings, Words, lines_of};
use perftax_pmu::Result;
use perftax_pmu::event::Catalog;
use perftax_pmu::guard::raise_descriptor_limit;
use perftax_pmu::process::threads;
use perftax_pmu::record::{Record, Sample};
use perftax_pmu::sys::{AtExec, monotonic_raw_ns};
use perftax_target::{Program, Watch, run_loop, thread_name};

use super::found::Found;
use super::sampling::{SAMPLED_SLOW_LOADS, SAMPLED_STORES, Sampling};
use super::spaces::Spaces;
use super::threads::Threads;
use crate::live::accounts::Entry;
use crate::live::attach::attach;
use crate::live::heap::Heaps;
use crate::live::image::Images;
use crate::live::intake::Intake;
use crate::live::located::{Libraries, stop_at_exec};
use crate::live::own_time::OwnTime;
use crate::live::plan::{Piece, Plan};
use crate::live::watcher::Watcher;
use perftax_target::Counted;

/// From one look at the rings to the next, at most.
const LOOK: Duration = Duration::from_millis(1);
/// Stores that a line is followed for.
const STORES: u32 = 8;
/// How long a line is followed where nothing traps, samples.
const PATIENCE: IdleTimeout = IdleTimeout { least: 16, most: 1024 };
/// Traps after which it is left at any rate: threads that wait for a flag read it all the time.
const MAX_TRAPS: u64 = 4096;
/// Samples after which it is left at any rate: a store once in a while would keep a line for the whole of a run.
const MAX_SAMPLES: usize = 4096;
/// Traps of unknown instructions after which it is left: as a rule calls and returns, on a stack that is one thread's own.
const MAX_UNDECODED: u64 = 8;
/// Longest that a line is watched where no samples come, ns.
const LONGEST_NS: u64 = 200_000_000;
/// For how long what the allocator did is held back, so that what other CPUs tell finds its place, ns.
const HOLD_BACK_NS: u64 = 50_000_000;

/// Runs the program, its output untouched, or joins it, samples its accesses and follows lines.
///
/// # Errors
/// Where events cannot be opened, or the program cannot be executed. A program that fails has been sampled all the same.
pub fn sample(sampling: &Sampling, catalog: &Catalog) -> Result<Found> {
    let mut cpus: Vec<u32> = sampling.core_of.keys().copied().collect();
    cpus.sort_unstable();
    let mut program = Program::open(&sampling.subject, Vec::new())?;
    let pid = program.pid();
    let mut watcher = Watcher::new(&cpus, sampling.ring_pages, catalog)?;
    watcher.sample(sampling.sampled());
    // Registers are opened at addresses that nobody uses, and aimed later.
    let nowhere = plan_of(Line(0), Words((1 << sampling.registers) - 1));
    let (mut session, held) = match program.child() {
        Some(child) => {
            watcher.follow(child.pid())?;
            let libraries = if sampling.is_heap_told { Libraries::Loaded } else { Libraries::AsNeeded };
            let (held, _) = stop_at_exec(child, &[], libraries)?;
            if sampling.is_heap_told {
                watcher.probe_allocator(pid, catalog)?;
            }
            if !watcher.open_everywhere(&nowhere)? {
                watcher.open_breakpoints(child.pid(), &nowhere)?;
            }
            (Session::of(sampling, watcher, pid), Some(held))
        }
        None => {
            raise_descriptor_limit();
            if sampling.is_heap_told {
                watcher.probe_allocator(pid, catalog)?;
            }
            if watcher.follow(pid as i32)? {
                watcher.open_everywhere(&nowhere)?;
            }
            let unwatched = attach(pid, &mut watcher, &nowhere)?;
            let mut session = Session::of(sampling, watcher, pid);
            session.intake.evidence.unwatched_threads = unwatched.len() as u64;
            for tid in threads(pid) {
                thread_name(pid, tid).into_iter().for_each(|name| session.threads.name(tid as u32, name));
            }
            (session, None)
        }
    };
    session.begin()?;
    held.map_or(Ok(()), AtExec::resume)?;
    run_loop(&mut program, sampling.at_most, &mut session)?;
    session.finish(program)
}

/// Some words of a line, all at once.
fn plan_of(line: Line, words: Words) -> Plan {
    let piece = |word: u32| Piece { address: line.address() + u64::from(word) * 8, bytes: 8 };
    let pieces: Vec<Piece> = words.iter().map(piece).collect();
    let turns = vec![(0..pieces.len()).collect()];
    Plan { pieces, turns }
}

/// A sampled access, and when it was.
#[derive(Clone, Copy)]
struct Sampled {
    time_ns: u64,
    access: Access,
}

/// What goes on.
struct Session<'a> {
    sampling: &'a Sampling,
    watcher: Watcher,
    intake: Intake,
    detective: LineWatcher,
    threads: Threads,
    spaces: Spaces,
    pid: u32,
    began_ns: u64,
    ended_ns: Option<u64>,
    pursuit: Option<ActiveWatch>,
    armed_ns: u64,
    own: OwnTime,
    cpu_ns: Option<u64>,
    crowded: u64,
    unaffordable: u64,
    counted: Vec<Counted>,
    heaps: Option<Heaps>,
}

/// A line that is watched now.
struct ActiveWatch {
    since_ns: u64,
    /// Traps before it.
    traps_before: u64,
    undecoded_before: u64,
    /// Traps that told something at the last sample, and samples since they grew.
    telling: u64,
    idle: u32,
    /// When samples were taken meanwhile, ns.
    samples_ns: Vec<u64>,
}

impl<'a> Session<'a> {
    fn of(sampling: &'a Sampling, watcher: Watcher, pid: u32) -> Self {
        let settings = Settings {
            registers: sampling.registers,
            stores: STORES,
            patience: PATIENCE,
            is_common: true,
            at_once: false,
            seed: sampling.seed,
        };
        let mut intake = Intake::new(&Plan::default(), |_| false, sampling.core_of.len());
        intake.images.read(pid);
        if watcher.is_everywhere() {
            intake.only(pid);
        }
        Self {
            heaps: watcher.heaps(),
            sampling,
            watcher,
            intake,
            detective: LineWatcher::new(settings),
            threads: Threads::default(),
            spaces: Spaces::new(pid),
            pid,
            began_ns: 0,
            ended_ns: None,
            pursuit: None,
            armed_ns: 0,
            own: OwnTime::begin(),
            cpu_ns: None,
            crowded: 0,
            unaffordable: 0,
            counted: Vec::new(),
        }
    }

    fn begin(&mut self) -> Result<()> {
        self.look()?;
        self.own = OwnTime::begin();
        self.began_ns = monotonic_raw_ns();
        self.watcher.start_sampling()
    }

    /// Takes what the allocator's probes say, up to a time.
    fn look_at_heaps(&mut self, until_ns: u64) -> Result<()> {
        match (&mut self.heaps, self.watcher.probes()) {
            (Some(heaps), Some(probes)) => heaps.look(probes, &mut self.intake.images, until_ns),
            _ => Ok(()),
        }
    }

    fn drain(&mut self) -> Result<Vec<Sampled>> {
        let mut samples = Vec::new();
        let is_fetch_told = self.sampling.events.slow_loads.is_some();
        let (intake, threads, core_of) = (&mut self.intake, &mut self.threads, &self.sampling.core_of);
        let (heaps, detective, spaces) = (&mut self.heaps, &mut self.detective, &mut self.spaces);
        self.watcher.drain_with(|ring, record, event| match (&record, event) {
            (Record::Sample(sample), Some(event)) => {
                if let (Some(heaps), Some(task), Some(time_ns), Some(address)) =
                    (heaps.as_mut(), sample.task, sample.time_ns, sample.address)
                {
                    heaps.touched(task.pid, Line::of(address).address(), Bytes::new(address % LINE_BYTES, 1), time_ns);
                }
                let kind = if event == SAMPLED_STORES { Kind::Store } else { Kind::Load };
                let sampled = access(sample, kind, &mut intake.images, threads, spaces, core_of);
                if event == SAMPLED_SLOW_LOADS {
                    let has_fetched = sample.data_source.is_some_and(|source| source.snoop().hit_modified);
                    sampled.iter().for_each(|sampled| detective.took_long(&sampled.access, has_fetched));
                } else {
                    let has_missed = is_fetch_told
                        && event == SAMPLED_STORES
                        && sample.data_source.is_some_and(|source| source.level_flags().miss && source.level_flags().l1);
                    sampled.iter().filter(|_| has_missed).for_each(|sampled| detective.missed(&sampled.access));
                    samples.extend(sampled);
                }
            }
            _ => {
                if let Record::Comm(comm) = &record
                    && comm.by_exec
                {
                    spaces.replaced(comm.task.pid);
                }
                intake.take(ring, &record);
            }
        })?;
        intake.settle();
        samples.sort_by_key(|sampled| sampled.time_ns);
        Ok(samples)
    }

    fn take(&mut self, sampled: &Sampled) -> Result<()> {
        if let Some(pursuit) = &mut self.pursuit {
            let telling = self.intake.telling();
            pursuit.idle = if telling > pursuit.telling { 0 } else { pursuit.idle + 1 };
            pursuit.telling = telling;
            pursuit.samples_ns.push(sampled.time_ns);
        }
        self.leave_if_due()?;
        if self.pursuit.is_none() && sampled.access.kind.is_store() && !self.can_afford() {
            self.unaffordable += 1;
            self.detective.pass(&sampled.access);
            return Ok(());
        }
        self.detective.sample(&sampled.access);
        if self.pursuit.is_none()
            && let Some((line, words)) = self.detective.common_aim()
        {
            self.arm(line, words)?;
        }
        Ok(())
    }

    /// Whether one more line may be followed: what it is foreseen to cost fits into the budget.
    fn can_afford(&self) -> bool {
        let (Some(budget), Some(trap_ns)) = (self.sampling.budget, self.sampling.trap_ns) else { return true };
        let traps_ns = self.intake.evidence.traps as f64 * trap_ns.high;
        let follows = self.detective.follows().max(1) as f64;
        let (spent_ns, next_ns) = (traps_ns + self.own.ns() as f64, traps_ns / follows);
        let used_ns = self.cpu_ns.unwrap_or(0) as f64 - traps_ns;
        spent_ns + next_ns <= budget * used_ns
    }

    fn arm(&mut self, line: Line, words: Words) -> Result<()> {
        let plan = plan_of(line, words);
        self.intake.aim_at(&plan, |_| false);
        self.intake.wait_for_aim();
        self.watcher.on(&plan, 0)?;
        let now_ns = monotonic_raw_ns();
        self.intake.aimed(now_ns, self.detective.wanted(), MAX_TRAPS);
        // Samples that came meanwhile find the registers taken.
        for sampled in self.drain()? {
            self.detective.pass(&sampled.access);
        }
        self.pursuit = Some(ActiveWatch {
            since_ns: now_ns,
            traps_before: self.intake.evidence.traps,
            undecoded_before: self.intake.evidence.undecoded,
            telling: self.intake.telling(),
            idle: 0,
            samples_ns: Vec::new(),
        });
        Ok(())
    }

    fn leave_if_due(&mut self) -> Result<()> {
        let Some(pursuit) = &self.pursuit else { return Ok(()) };
        let traps = self.intake.evidence.traps - pursuit.traps_before;
        // The detective itself says which store was the last that counts.
        if self.intake.has_enough() {
            return self.leave(End::Cut);
        }
        let undecoded = self.intake.evidence.undecoded - pursuit.undecoded_before;
        if undecoded >= MAX_UNDECODED && 2 * undecoded >= traps {
            return self.leave(End::Cut);
        }
        if traps >= MAX_TRAPS {
            self.crowded += 1;
            return self.leave(End::Cut);
        }
        if pursuit.samples_ns.len() > MAX_SAMPLES {
            return self.leave(End::Cut);
        }
        // Where the program sleeps no samples come; others may be worth more by then.
        let is_old = monotonic_raw_ns() - pursuit.since_ns > LONGEST_NS && self.intake.telling() == 0;
        if pursuit.idle > self.detective.patience() || is_old { self.leave(End::Silent) } else { Ok(()) }
    }

    /// The registers go off, and what trapped is handed on in order of time.
    fn leave(&mut self, end: End) -> Result<()> {
        let Some(pursuit) = self.pursuit.take() else { return Ok(()) };
        let before_ns = monotonic_raw_ns();
        self.watcher.off()?;
        let now_ns = monotonic_raw_ns();
        self.armed_ns += now_ns - pursuit.since_ns;
        // Samples among what is still to come name other lines: they are told, and followed by nobody.
        for sampled in self.drain()? {
            self.detective.pass(&sampled.access);
        }
        let (detective, threads, core_of) = (&mut self.detective, &mut self.threads, &self.sampling.core_of);
        let until_ns = before_ns.min(self.intake.until_ns());
        let (heaps, spaces, images) = (&mut self.heaps, &mut self.spaces, &mut self.intake.images);
        let mut samples_ns = pursuit.samples_ns.into_iter().peekable();
        for (time_ns, entry) in self.intake.order.before(u64::MAX) {
            match entry {
                // They go off one after the other, too; and what came after all that was wanted is not known of all CPUs.
                Entry::Access(_) if time_ns > until_ns => {}
                Entry::Access(seen) => {
                    let mut idle = 0;
                    while samples_ns.next_if(|sample_ns| *sample_ns < time_ns).is_some() {
                        idle += 1;
                    }
                    detective.idled(idle);
                    heaps.iter_mut().for_each(|heaps| heaps.touched(seen.pid, seen.line.address(), seen.bytes, time_ns));
                    let core = core_of.get(&seen.cpu).copied().unwrap_or(seen.cpu);
                    let thread = threads.number(seen.pid, seen.tid, core, time_ns);
                    let line = spaces.line(seen.pid, seen.line, |pid, address| images.is_shared(pid, address));
                    detective.seen(&Access { thread, line, bytes: seen.bytes, kind: seen.kind, ip: seen.ip });
                }
                Entry::Name { tid, name, .. } => threads.name(tid, name),
                Entry::Fork { tid, parent } => threads.created(tid, parent, time_ns),
                // What came after it is not known.
                Entry::Lost if (pursuit.since_ns..=until_ns).contains(&time_ns) => detective.end(End::Cut),
                Entry::Begin { .. } | Entry::End | Entry::Lost => {}
            }
        }
        self.detective.end(end);
        Ok(())
    }

    /// Threads that were created or named while no line is watched: nothing waits for its place in time then.
    fn meet(&mut self) {
        let threads = &mut self.threads;
        if self.pursuit.is_none() {
            for (time_ns, entry) in self.intake.order.before(u64::MAX) {
                match entry {
                    Entry::Name { tid, name, .. } => threads.name(tid, name),
                    Entry::Fork { tid, parent } => threads.created(tid, parent, time_ns),
                    Entry::Access(_) | Entry::Lost | Entry::Begin { .. } | Entry::End => {}
                }
            }
        }
    }

    fn finish(mut self, program: Program) -> Result<Found> {
        // Of one that goes on the kernel's sum is of more than was watched.
        let is_cut_short = self.is_stopped();
        if !is_cut_short {
            self.stop()?;
        }
        let ended_ns = self.ended_ns.unwrap_or_else(monotonic_raw_ns);
        self.look()?;
        let own_ns = self.own.ns();
        // The rings tell what was lost, whatever it was; from Linux 6.0 on each event tells its own.
        let lost_samples = self.watcher.lost_samples()?;
        let records = &mut self.intake.evidence;
        records.lost_samples += lost_samples;
        records.lost_traps = records.lost_traps.saturating_sub(lost_samples).max(self.watcher.lost().unwrap_or(0));
        let is_by_thread = !self.watcher.is_everywhere();
        self.look_at_heaps(u64::MAX)?;
        if let (Some(heaps), Some(probes)) = (&mut self.heaps, self.watcher.probes()) {
            heaps.end(probes);
        }
        drop(self.watcher);
        let is_ours = program.is_ours();
        let exit = program.finish()?;
        let used_ns = is_ours.then(|| exit.usage.cpu_ns());
        let (mut evidence, board) = self.detective.finish();
        if let Some(slow_loads) = self.counted.get(SAMPLED_SLOW_LOADS) {
            evidence.fetches.get_or_insert_default().counted = slow_loads.events;
        }
        Ok(Found {
            ended: exit.ended,
            pid: self.pid,
            elapsed_ns: ended_ns.saturating_sub(self.began_ns),
            armed_ns: self.armed_ns,
            cpu_ns: used_ns.filter(|_| !is_cut_short).or(self.cpu_ns),
            own_ns,
            counted: self.counted,
            evidence,
            board,
            records: self.intake.evidence,
            crowded: self.crowded,
            unaffordable: self.unaffordable,
            threads: self.threads,
            spaces: self.spaces,
            images: self.intake.images,
            sampling: self.sampling.clone(),
            is_by_thread,
            heaps: self.heaps,
        })
    }
}

impl Watch for Session<'_> {
    fn stop(&mut self) -> Result<()> {
        self.counted = self.watcher.stop_sampling()?;
        self.leave(End::Cut)?;
        self.ended_ns = Some(monotonic_raw_ns());
        self.own.end();
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.ended_ns.is_some()
    }

    fn ask(&mut self, program: &mut Program) {
        self.cpu_ns = program.cpu_ns().or(self.cpu_ns);
    }

    /// Samples in order of time; traps wait until their line is left.
    fn look(&mut self) -> Result<()> {
        for sampled in self.drain()? {
            if !self.is_stopped() {
                self.take(&sampled)?;
            }
        }
        self.look_at_heaps(monotonic_raw_ns().saturating_sub(HOLD_BACK_NS))?;
        self.leave_if_due()?;
        self.meet();
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        self.watcher.wait(LOOK)
    }
}

/// What a sample tells of an access. Its instruction is the very one (`:pp`); how many bytes it touches stands there.
fn access(
    sample: &Sample<'_>,
    kind: Kind,
    images: &mut Images,
    threads: &mut Threads,
    spaces: &mut Spaces,
    core_of: &HashMap<u32, u32>,
) -> Option<Sampled> {
    let (task, time_ns, ip, address) = (sample.task?, sample.time_ns?, sample.ip?, sample.address?);
    let cpu = sample.cpu.unwrap_or(0);
    let thread = threads.number(task.pid, task.tid, core_of.get(&cpu).copied().unwrap_or(cpu), time_ns);
    let touched = images.operand_bytes(task.pid, ip).unwrap_or(1).clamp(1, LINE_BYTES);
    // One that straddles is its first line's: the second one is as likely to be sampled by another.
    let (line, bytes) = lines_of(address, touched).next()?;
    let line = spaces.line(task.pid, line, |pid, address| images.is_shared(pid, address));
    Some(Sampled { time_ns, access: Access { thread, line, bytes, kind, ip } })
}
