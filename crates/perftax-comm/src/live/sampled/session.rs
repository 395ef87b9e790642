//! Sampling and following, from the first instruction (or from when we came) to the end.

use std::time::Duration;

use crate::{Bytes, End, IdleTimeout, Kind, LINE_BYTES, Line, LineWatcher, Settings, Words};
use perftax_pmu::Result;
use perftax_pmu::event::Catalog;
use perftax_pmu::record::{Record, Sample};
use perftax_pmu::sys::monotonic_raw_ns;
use perftax_target::{Counted, Program};

use super::active_watch::{ActiveWatch, Due, MAX_TRAPS};
use super::found::Found;
use super::numbering::{Numbering, Sampled};
use super::sampling::{SAMPLED_SLOW_LOADS, SAMPLED_STORES, Sampling};
use crate::live::accounts::Entry;
use crate::live::plan::{Piece, Plan};
use crate::live::skeleton::{Session, Skeleton, Start};

/// From one look at the rings to the next, at most.
const LOOK: Duration = Duration::from_millis(1);
/// Stores that a line is followed for.
const STORES: u32 = 8;
/// How long a line is followed where nothing traps, samples.
const PATIENCE: IdleTimeout = IdleTimeout { least: 16, most: 1024 };

/// Runs the program, its output untouched, or joins it, samples its accesses and follows lines.
///
/// # Errors
/// Where events cannot be opened, or the program cannot be executed. A program that fails has been sampled all the same.
pub fn sample(sampling: &Sampling, catalog: &Catalog) -> Result<Found> {
    let (start, skeleton, _) = Start::open(&sampling.terms, &[], sampling.sampled(), catalog)?;
    start.run(SampledLines::of(sampling, skeleton)?)
}

/// Some words of a line, all at once.
fn plan_of(line: Line, words: Words) -> Plan {
    let piece = |word: u32| Piece { address: line.address() + u64::from(word) * 8, bytes: 8 };
    let pieces: Vec<Piece> = words.iter().map(piece).collect();
    let turns = vec![(0..pieces.len()).collect()];
    Plan { pieces, turns }
}

/// Following of sampled lines that goes on.
struct SampledLines<'a> {
    sampling: &'a Sampling,
    skeleton: Skeleton,
    line_watcher: LineWatcher,
    numbering: Numbering,
    active: Option<ActiveWatch>,
    armed_ns: u64,
    crowded: u64,
    unaffordable: u64,
    counted: Vec<Counted>,
}

impl<'a> SampledLines<'a> {
    /// Opens registers: those of the CPUs where that is permitted. They are at addresses that nobody uses, and aimed later.
    fn of(sampling: &'a Sampling, mut skeleton: Skeleton) -> Result<Self> {
        let terms = &sampling.terms;
        let nowhere = plan_of(Line(0), Words((1 << terms.registers) - 1));
        // Of a process that runs nobody is followed yet: registers write into the rings of the first who is.
        let is_there = !skeleton.is_joined() || skeleton.watcher.follow(skeleton.pid as i32)?;
        let is_everywhere = is_there && skeleton.watcher.open_everywhere(&nowhere)?;
        if skeleton.is_joined() || !is_everywhere {
            skeleton.intake.evidence.unwatched_threads = skeleton.open_registers(&nowhere)?.len() as u64;
        }
        skeleton.intake.images.read(skeleton.pid);
        if skeleton.watcher.is_everywhere() {
            skeleton.intake.only(skeleton.pid);
        }
        let mut numbering = Numbering::new(skeleton.pid, terms.core_of.clone());
        for (tid, name) in skeleton.named_threads() {
            numbering.threads.name(tid, name);
        }
        let settings = Settings {
            registers: terms.registers,
            stores: STORES,
            patience: PATIENCE,
            is_common: true,
            at_once: false,
            seed: sampling.seed,
        };
        Ok(Self {
            sampling,
            skeleton,
            line_watcher: LineWatcher::new(settings),
            numbering,
            active: None,
            armed_ns: 0,
            crowded: 0,
            unaffordable: 0,
            counted: Vec::new(),
        })
    }

    fn drain(&mut self) -> Result<Vec<Sampled>> {
        let mut samples = Vec::new();
        let is_fetch_told = self.sampling.events.slow_loads.is_some();
        let (numbering, line_watcher) = (&mut self.numbering, &mut self.line_watcher);
        let Skeleton { watcher, intake, heaps, .. } = &mut self.skeleton;
        watcher.drain_with(|ring, record, event| match (&record, event) {
            (Record::Sample(sample), Some(event)) => {
                if let (Some(heaps), Some(task), Some(time_ns), Some(address)) =
                    (heaps.as_mut(), sample.task, sample.time_ns, sample.address)
                {
                    heaps.touched(task.pid, Line::of(address).address(), Bytes::new(address % LINE_BYTES, 1), time_ns);
                }
                let kind = if event == SAMPLED_STORES { Kind::Store } else { Kind::Load };
                let sampled = numbering.sampled(sample, kind, &mut intake.images);
                if event == SAMPLED_SLOW_LOADS {
                    let has_fetched = sample.data_source.is_some_and(|source| source.snoop().hit_modified);
                    sampled.iter().for_each(|sampled| line_watcher.took_long(&sampled.access, has_fetched));
                } else {
                    let has_missed = is_fetch_told && event == SAMPLED_STORES && has_missed(sample);
                    sampled.iter().filter(|_| has_missed).for_each(|sampled| line_watcher.missed(&sampled.access));
                    samples.extend(sampled);
                }
            }
            _ => {
                if let Record::Comm(comm) = &record
                    && comm.by_exec
                {
                    numbering.spaces.replaced(comm.task.pid);
                }
                intake.take(ring, &record);
            }
        })?;
        intake.settle();
        samples.sort_by_key(|sampled| sampled.time_ns);
        Ok(samples)
    }

    fn take(&mut self, sampled: &Sampled) -> Result<()> {
        if let Some(active) = &mut self.active {
            active.sampled(sampled.time_ns, &self.skeleton.intake);
        }
        self.leave_if_due()?;
        if self.active.is_none() && sampled.access.kind.is_store() && !self.can_afford() {
            self.unaffordable += 1;
            self.line_watcher.pass(&sampled.access);
            return Ok(());
        }
        self.line_watcher.sample(&sampled.access);
        if self.active.is_none()
            && let Some((line, words)) = self.line_watcher.common_aim()
        {
            self.arm(line, words)?;
        }
        Ok(())
    }

    /// Samples that come while registers are aimed, or go off, find them taken: they are told, and followed by nobody.
    fn pass(&mut self) -> Result<()> {
        for sampled in self.drain()? {
            self.line_watcher.pass(&sampled.access);
        }
        Ok(())
    }

    /// Whether one more line may be followed: what it is foreseen to cost fits into the budget.
    fn can_afford(&self) -> bool {
        let (Some(budget), Some(trap_ns)) = (self.sampling.terms.budget, self.sampling.terms.trap_ns) else { return true };
        let traps_ns = self.skeleton.intake.evidence.traps as f64 * trap_ns.high;
        let follows = self.line_watcher.follows().max(1) as f64;
        let (spent_ns, next_ns) = (traps_ns + self.skeleton.own.ns() as f64, traps_ns / follows);
        let used_ns = self.skeleton.used_ns() as f64 - traps_ns;
        spent_ns + next_ns <= budget * used_ns
    }

    fn arm(&mut self, line: Line, words: Words) -> Result<()> {
        let plan = plan_of(line, words);
        let Skeleton { watcher, intake, .. } = &mut self.skeleton;
        intake.aim_at(&plan, |_| false);
        intake.wait_for_aim();
        watcher.on(&plan, 0)?;
        let now_ns = monotonic_raw_ns();
        intake.aimed(now_ns, self.line_watcher.wanted(), MAX_TRAPS);
        self.pass()?;
        self.active = Some(ActiveWatch::new(now_ns, &self.skeleton.intake));
        Ok(())
    }

    fn leave_if_due(&mut self) -> Result<()> {
        let Some(active) = &self.active else { return Ok(()) };
        let Some(due) = active.due(&self.skeleton.intake, self.line_watcher.patience()) else { return Ok(()) };
        self.crowded += u64::from(due == Due::Crowded);
        self.leave(due.end())
    }

    /// The registers go off, and what trapped is handed on in order of time.
    fn leave(&mut self, end: End) -> Result<()> {
        let Some(active) = self.active.take() else { return Ok(()) };
        let before_ns = monotonic_raw_ns();
        self.skeleton.watcher.off()?;
        let now_ns = monotonic_raw_ns();
        self.armed_ns += now_ns - active.since_ns;
        self.pass()?;
        let (line_watcher, numbering) = (&mut self.line_watcher, &mut self.numbering);
        let Skeleton { intake, heaps, .. } = &mut self.skeleton;
        let until_ns = before_ns.min(intake.until_ns());
        let images = &mut intake.images;
        let mut samples_ns = active.samples_ns.into_iter().peekable();
        for (time_ns, entry) in intake.order.before(u64::MAX) {
            match entry {
                // They go off one after the other, too; and what came after all that was wanted is not known of all CPUs.
                Entry::Access(_) if time_ns > until_ns => {}
                Entry::Access(seen) => {
                    let mut idle = 0;
                    while samples_ns.next_if(|sample_ns| *sample_ns < time_ns).is_some() {
                        idle += 1;
                    }
                    line_watcher.idled(idle);
                    heaps.iter_mut().for_each(|heaps| heaps.touched(seen.pid, seen.line.address(), seen.bytes, time_ns));
                    line_watcher.seen(&numbering.trapped(&seen, time_ns, images));
                }
                // What came after it is not known.
                Entry::Lost if (active.since_ns..=until_ns).contains(&time_ns) => line_watcher.end(End::Cut),
                other => numbering.meet(time_ns, other),
            }
        }
        self.line_watcher.end(end);
        Ok(())
    }

    /// Threads that were created or named while no line is watched: nothing waits for its place in time then.
    fn meet(&mut self) {
        if self.active.is_none() {
            for (time_ns, entry) in self.skeleton.intake.order.before(u64::MAX) {
                self.numbering.meet(time_ns, entry);
            }
        }
    }
}

impl Session for SampledLines<'_> {
    type Outcome = Found;

    fn skeleton(&self) -> &Skeleton {
        &self.skeleton
    }

    fn skeleton_mut(&mut self) -> &mut Skeleton {
        &mut self.skeleton
    }

    fn begin(&mut self, _program: &mut Program) -> Result<()> {
        self.look()?;
        self.skeleton.begin();
        self.skeleton.watcher.start_sampling()
    }

    fn stop(&mut self) -> Result<()> {
        self.counted = self.skeleton.watcher.stop_sampling()?;
        self.leave(End::Cut)
    }

    /// Samples in order of time; traps wait until their line is left.
    fn look(&mut self) -> Result<()> {
        for sampled in self.drain()? {
            if !self.skeleton.is_ended() {
                self.take(&sampled)?;
            }
        }
        self.skeleton.look_at_heaps(Skeleton::settled_ns())?;
        self.leave_if_due()?;
        self.meet();
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        self.skeleton.watcher.wait(LOOK)
    }

    fn finish(mut self, program: Program) -> Result<Found> {
        if !self.skeleton.is_ended() {
            self.stop()?;
            self.skeleton.end();
        }
        self.look()?;
        // The rings tell what was lost, whatever it was; from Linux 6.0 on each event tells its own.
        let watcher = &self.skeleton.watcher;
        let (lost_samples, lost_traps) = (watcher.lost_samples()?, watcher.lost().unwrap_or(0));
        let is_by_thread = !watcher.is_everywhere();
        let records = &mut self.skeleton.intake.evidence;
        records.lost_samples += lost_samples;
        records.lost_traps = records.lost_traps.saturating_sub(lost_samples).max(lost_traps);
        self.skeleton.look_at_heaps(u64::MAX)?;
        let (mut evidence, board) = self.line_watcher.finish();
        if let Some(slow_loads) = self.counted.get(SAMPLED_SLOW_LOADS) {
            evidence.fetches.get_or_insert_default().counted = slow_loads.events;
        }
        Ok(Found {
            ending: self.skeleton.finish(program)?,
            armed_ns: self.armed_ns,
            counted: self.counted,
            evidence,
            board,
            crowded: self.crowded,
            unaffordable: self.unaffordable,
            threads: self.numbering.threads,
            spaces: self.numbering.spaces,
            sampling: self.sampling.clone(),
            is_by_thread,
        })
    }
}

/// Whether a store did not find its line in the nearest cache.
fn has_missed(sample: &Sample<'_>) -> bool {
    sample.data_source.is_some_and(|source| source.level_flags().miss && source.level_flags().l1)
}
