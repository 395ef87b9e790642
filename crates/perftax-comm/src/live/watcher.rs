//! Debug registers of a program's threads, through the kernel's breakpoint events.
//!
//! Every thread gets, on each CPU, an event that tells of threads and programs that begin and end, and one breakpoint a register. All of a CPU's
//! write into one ring. They are inherited: what a watched thread creates is watched from its first instruction on, which events that are opened
//! by us when we hear of it would not do. An event that is inherited cannot be mapped unless it belongs to one CPU, hence one for each; on
//! a CPU a thread's events take one register each, however many CPUs there are (kernel/events/hw_breakpoint.c, `task_bp_pinned`).

use std::collections::HashMap;
use std::time::Duration;

use perftax_cost::period::primes_around;
use perftax_doc::steps::Setting;
use perftax_pmu::event::{Catalog, Event, parse_one};
use perftax_pmu::record::{Layout, Record, decode};
use perftax_pmu::sampler::{Clock, Sampling, Wakeup};
use perftax_pmu::sys::{OpenEvent, Reading, Ring, Target, monotonic_raw_ns};
use perftax_pmu::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::heap::{self, Heaps, Probes};
use super::plan::{Piece, Plan};
use super::trap::trap_payload;
use perftax_target::Counted;

/// From one look to the next where rings of threads that have ended are always "ready".
const AFTER_AN_END: Duration = Duration::from_millis(1);

/// In the place of a thread's number: whoever runs on a CPU.
const ALL_THREADS: i32 = -1;

/// Breakpoints of one thread, by CPU and register.
struct Armed {
    tid: i32,
    breakpoints: Vec<Vec<OpenEvent>>,
    /// From when to when they were opened, CLOCK_MONOTONIC_RAW, ns.
    opened_ns: (u64, u64),
}

/// An event that is sampled.
struct Sampled {
    event: Event,
    sampling: Sampling,
    /// By which period, by CPU.
    periods: Vec<u64>,
}

/// All events, and the rings that they write into.
pub struct Watcher {
    cpus: Vec<u32>,
    ring_pages: usize,
    breakpoint: (Event, Sampling),
    tasks: (Event, Sampling),
    layout: Layout,
    /// What tells of tasks: by thread, then CPU. The first thread's own the rings.
    followed: Vec<(i32, Vec<OpenEvent>)>,
    armed: Vec<Armed>,
    /// Registers are those of the CPUs, whoever runs there.
    is_everywhere: bool,
    rings: Vec<Ring>,
    /// What each register is aimed at, and whether it is on.
    aimed: Vec<(Piece, bool)>,
    /// What is sampled beside, where anything is.
    sampled: Vec<Sampled>,
    /// Its events: by thread, CPU, then what is sampled.
    samplers: Vec<Vec<Vec<OpenEvent>>>,
    /// Which of what is sampled an event's identity belongs to.
    sampler_of: HashMap<u64, usize>,
    /// Probes on an allocator, where there are any.
    probes: Option<Probes>,
}

impl Watcher {
    /// One without any thread yet.
    ///
    /// # Errors
    /// Where the kernel has no breakpoints.
    pub fn new(cpus: &[u32], ring_pages: usize, catalog: &Catalog) -> Result<Self> {
        let event = |text: &str| -> Result<Event> { parse_one(text, catalog) };
        let ring_bytes = ring_pages * rustix::param::page_size();
        let every =
            Sampling { inherit: true, clock: Clock::MonotonicRaw, ..Sampling::every(1, ring_bytes).carrying(trap_payload()) };
        Ok(Self {
            cpus: cpus.to_vec(),
            ring_pages,
            breakpoint: (event("mem:0x8/8:rw:u")?, every),
            tasks: (
                event("dummy:u")?,
                Sampling { task_records: true, mapping_records: true, data_mapping_records: true, ..every },
            ),
            layout: every.payload.layout(),
            followed: Vec::new(),
            armed: Vec::new(),
            is_everywhere: false,
            rings: Vec::new(),
            aimed: Vec::new(),
            sampled: Vec::new(),
            samplers: Vec::new(),
            sampler_of: HashMap::new(),
            probes: None,
        })
    }

    /// Has threads that are followed from now on sampled, too, once [`Self::start_sampling`] says so: each event by a period, its samples in
    /// the same rings. A sample wakes the reader, for what it names is to be watched at once.
    ///
    /// Each CPU samples one in a prime of its own near the period: threads that wait for one another, sampled one in as many everywhere, fall into
    /// step with the sampler, and then all samples hit the same few instructions for a while.
    pub fn sample<'e>(&mut self, events: impl IntoIterator<Item = (&'e Event, u64)>) {
        let quiet = Sampling { task_records: false, mapping_records: false, data_mapping_records: false, ..self.tasks.1 };
        let sampling = Sampling { wakeup: Wakeup::EverySample, ..quiet };
        let of_event = |(event, period): (&Event, u64)| Sampled {
            event: event.clone(),
            sampling,
            // PEBS records the event after the one that overflows: one in a period + 1, and that is what must be prime.
            periods: primes_around(period + 1, self.cpus.len()).into_iter().map(|stride| stride - 1).collect(),
        };
        self.sampled = events.into_iter().map(of_event).collect();
    }

    /// Probes the allocator of a process as it is mapped now: for threads that are followed already and for those that will be.
    ///
    /// # Errors
    /// Where it has none that can be told, or the kernel refuses.
    pub fn probe_allocator(&mut self, pid: u32, catalog: &Catalog) -> Result<()> {
        // One that has ended says why when it is waited for.
        let Some(mut probes) = heap::probes_of(pid, &self.cpus, catalog)? else { return Ok(()) };
        self.followed.iter().try_for_each(|(tid, _)| probes.follow(*tid))?;
        self.probes = Some(probes);
        Ok(())
    }

    /// What probes will tell; none where nothing is probed.
    pub fn heaps(&self) -> Option<Heaps> {
        self.probes.as_ref().map(|probes| Heaps::of(probes.functions.clone()))
    }

    /// The probes.
    pub fn probes(&mut self) -> Option<&mut Probes> {
        self.probes.as_mut()
    }

    /// Sampling begins.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn start_sampling(&self) -> Result<()> {
        self.samplers().try_for_each(OpenEvent::enable)
    }

    /// Sampling ends; how often each event was seen.
    ///
    /// # Errors
    /// Where an event cannot be read.
    pub fn stop_sampling(&self) -> Result<Vec<Counted>> {
        self.samplers().try_for_each(OpenEvent::disable)?;
        let mut counted = vec![Counted::default(); self.sampled.len()];
        for of_thread in &self.samplers {
            for (which, sum) in counted.iter_mut().enumerate() {
                let readings = of_thread.iter().filter_map(|of_cpu| of_cpu.get(which)).map(OpenEvent::read);
                sum.add(&readings.collect::<Result<Vec<Reading>>>()?);
            }
        }
        Ok(counted)
    }

    fn samplers(&self) -> impl Iterator<Item = &OpenEvent> {
        self.samplers.iter().flatten().flatten()
    }

    /// Samples that the kernel could not write, as it counts them (Linux 6.0 on).
    ///
    /// # Errors
    /// Where an event cannot be read.
    pub fn lost_samples(&self) -> Result<u64> {
        self.samplers().map(|open| open.read().map(|reading| reading.lost)).sum()
    }

    /// Has the kernel tell what a thread, and what it creates, begins and ends. Says whether it was still there.
    ///
    /// # Errors
    /// Where it refuses.
    pub fn follow(&mut self, tid: i32) -> Result<bool> {
        let (mut tasks, mut rings) = (Vec::new(), Vec::new());
        for number in 0..self.cpus.len() {
            let target = Target::ThreadOnCpu(tid, self.cpus[number]);
            let open = match OpenEvent::open(&self.tasks.0, &self.tasks.1, target, None) {
                Ok(open) => open,
                Err(error) if is_gone(&error) => return Ok(false),
                Err(error) => return Err(self.explained(error)),
            };
            match self.followed.first() {
                Some((_, first)) => open.redirect_to(&first[number])?,
                None => rings.push(Ring::map(&open, self.ring_pages).map_err(|error| self.explained(error))?),
            }
            open.enable()?;
            tasks.push(open);
        }
        self.rings.extend(rings);
        self.followed.push((tid, tasks));
        if let Some(probes) = &mut self.probes {
            probes.follow(tid)?;
        }
        self.open_samplers(tid)
    }

    /// Opens what is sampled of a thread, off. Says whether it was still there.
    fn open_samplers(&mut self, tid: i32) -> Result<bool> {
        let mut of_thread = Vec::with_capacity(self.cpus.len());
        while of_thread.len() < self.cpus.len() {
            match self.open_samplers_on(tid, of_thread.len())? {
                Some(of_cpu) => of_thread.push(of_cpu),
                None => break,
            }
        }
        let is_there = of_thread.len() == self.cpus.len();
        self.samplers.push(of_thread);
        Ok(is_there)
    }

    /// The same on one CPU, by its number among ours; none where the thread is gone.
    fn open_samplers_on(&mut self, tid: i32, number: usize) -> Result<Option<Vec<OpenEvent>>> {
        let mut of_cpu = Vec::with_capacity(self.sampled.len());
        for (which, Sampled { event, sampling, periods }) in self.sampled.iter().enumerate() {
            let sampling = Sampling { period: periods.get(number).copied(), ..*sampling };
            let open = match OpenEvent::open(event, &sampling, Target::ThreadOnCpu(tid, self.cpus[number]), None) {
                Ok(open) => open,
                Err(error) if is_gone(&error) => return Ok(None),
                Err(error) => return Err(self.explained(error)),
            };
            if let Some((_, first)) = self.followed.first() {
                open.redirect_to(&first[number])?;
            }
            self.sampler_of.insert(open.id()?, which);
            of_cpu.push(open);
        }
        Ok(Some(of_cpu))
    }

    /// Opens a thread's breakpoints, off, at the first turn's pieces. Says whether it was still there.
    ///
    /// # Errors
    /// Where the registers are taken, or the kernel refuses.
    pub fn open_breakpoints(&mut self, tid: i32, plan: &Plan) -> Result<bool> {
        self.open_registers(tid, |cpu| Target::ThreadOnCpu(tid, cpu), plan)
    }

    /// Opens each CPU's breakpoints, off, whoever runs there: aiming them takes a call for each CPU and register, where those of threads
    /// take one for each thread besides (`perf_event_modify_attr` goes through all that inherited one, and interrupts each one's CPU
    /// twice). Traps of other programs at the same addresses come, too.
    ///
    /// Says whether that is permitted: it needs CAP_PERFMON, or kernel.perf_event_paranoid of 0 or less.
    ///
    /// # Errors
    /// Where the registers are taken, or the kernel refuses.
    pub fn open_everywhere(&mut self, plan: &Plan) -> Result<bool> {
        match self.open_registers(ALL_THREADS, Target::Cpu, plan) {
            Err(Error::Permission { .. }) => Ok(false),
            opened => {
                self.is_everywhere = true;
                opened
            }
        }
    }

    /// Whether registers watch whoever runs.
    pub fn is_everywhere(&self) -> bool {
        self.is_everywhere
    }

    fn open_registers(&mut self, tid: i32, target: impl Fn(u32) -> Target, plan: &Plan) -> Result<bool> {
        let turn = plan.turns.iter().max_by_key(|turn| turn.len());
        let pieces: Vec<Piece> = turn.into_iter().flatten().map(|&number| plan.pieces[number]).collect();
        let began_ns = monotonic_raw_ns();
        let mut breakpoints = Vec::new();
        for (number, &cpu) in self.cpus.iter().enumerate() {
            let mut of_cpu = Vec::new();
            for &piece in &pieces {
                let event = self.aimed_at(piece);
                let sampling = Sampling { inherit: tid != ALL_THREADS, ..self.breakpoint.1 };
                let open = match OpenEvent::open(&event, &sampling, target(cpu), None) {
                    Ok(open) => open,
                    Err(error) if is_gone(&error) => return Ok(false),
                    Err(error) => return Err(self.explained(error)),
                };
                if let Some((_, first)) = self.followed.first() {
                    open.redirect_to(&first[number])?;
                }
                of_cpu.push(open);
            }
            breakpoints.push(of_cpu);
        }
        self.aimed = pieces.into_iter().map(|piece| (piece, false)).collect();
        self.armed.push(Armed { tid, breakpoints, opened_ns: (began_ns, monotonic_raw_ns()) });
        Ok(true)
    }

    /// Whether a thread was made to tell what it begins.
    pub fn is_followed(&self, tid: i32) -> bool {
        self.followed.iter().any(|(known, _)| *known == tid)
    }

    /// From when to when a thread's breakpoints were opened; none where it has none of its own.
    pub fn opened_ns(&self, tid: i32) -> Option<(u64, u64)> {
        self.armed.iter().find(|armed| armed.tid == tid).map(|armed| armed.opened_ns)
    }

    /// Registers that are used of each thread.
    pub fn registers(&self) -> usize {
        self.aimed.len()
    }

    /// Aims the registers at a turn's pieces, and switches them on.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn on(&mut self, plan: &Plan, turn: usize) -> Result<()> {
        let wanted: Vec<Piece> = plan.turns.get(turn).into_iter().flatten().map(|&number| plan.pieces[number]).collect();
        let wanted =
            (0..self.aimed.len()).map(|register| wanted.get(register).map_or((self.aimed[register].0, false), |p| (*p, true)));
        self.set(wanted.collect())
    }

    /// Switches them off.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn off(&mut self) -> Result<()> {
        self.set(self.aimed.iter().map(|(piece, _)| (*piece, false)).collect())
    }

    fn set(&mut self, wanted: Vec<(Piece, bool)>) -> Result<()> {
        for (register, (before, now)) in self.aimed.iter().zip(&wanted).enumerate().filter(|(_, (before, now))| before != now) {
            let event = self.aimed_at(now.0);
            let sampling = Sampling { inherit: !self.is_everywhere, ..self.breakpoint.1 };
            for open in self.armed.iter().flat_map(|armed| &armed.breakpoints).filter_map(|of_cpu| of_cpu.get(register)) {
                match (before.0 == now.0, now.1) {
                    (true, true) => open.enable()?,
                    (true, false) => open.disable()?,
                    (false, is_on) => open.aim(&event, &sampling, is_on)?,
                }
            }
        }
        self.aimed = wanted;
        Ok(())
    }

    fn aimed_at(&self, piece: Piece) -> Event {
        let mut event = self.breakpoint.0.clone();
        (event.config1, event.config2) = (piece.address, piece.bytes);
        event.name = format!("mem:{:#x}/{}:rw:u", piece.address, piece.bytes);
        event
    }

    /// Waits until a ring is half full, or so long.
    ///
    /// # Errors
    /// Where the rings cannot be waited for.
    pub fn wait(&self, longest: Duration) -> Result<()> {
        let timeout = Timespec { tv_sec: longest.as_secs() as _, tv_nsec: longest.subsec_nanos() as _ };
        let mut fds: Vec<_> = self.rings.iter().map(|ring| PollFd::new(ring, PollFlags::IN)).collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(ready) if ready > 0 && fds.iter().all(|fd| !fd.revents().contains(PollFlags::IN)) => {
                std::thread::sleep(AFTER_AN_END.min(longest));
                Ok(())
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(Error::System { call: "poll on a ring".into(), source: error.into() }),
        }
    }

    /// Hands out every record that has come, those of one CPU in their order.
    ///
    /// # Errors
    /// Where a ring holds what is no record.
    pub fn drain(&mut self, mut each: impl FnMut(usize, Record<'_>)) -> Result<()> {
        self.drain_with(|ring, record, _| each(ring, record))
    }

    /// Likewise, telling of a sample which of what is sampled it is of; none: it is a trap.
    ///
    /// # Errors
    /// Where a ring holds what is no record.
    pub fn drain_with(&mut self, mut each: impl FnMut(usize, Record<'_>, Option<usize>)) -> Result<()> {
        for (number, ring) in self.rings.iter_mut().enumerate() {
            let mut broken = Ok(());
            let sampler_of = &self.sampler_of;
            ring.drain(|header, body| match decode(header, body, &self.layout) {
                Ok(record) => {
                    let identifier = if let Record::Sample(sample) = &record { sample.identifier } else { None };
                    let which = identifier.and_then(|identifier| sampler_of.get(&identifier)).copied();
                    each(number, record, which);
                }
                Err(error) => broken = Err(error),
            })?;
            broken?;
        }
        Ok(())
    }

    /// Samples that the kernel could not write, as it counts them (Linux 6.0 on).
    ///
    /// # Errors
    /// Where an event cannot be read.
    pub fn lost(&self) -> Result<u64> {
        let all = self.armed.iter().flat_map(|armed| armed.breakpoints.iter().flatten());
        all.map(|open| open.read().map(|reading| reading.lost)).sum()
    }

    /// What the user can do about an error of opening.
    fn explained(&self, error: Error) -> Error {
        match &error {
            Error::System { source, .. } if source.raw_os_error() == Some(libc::EMFILE) => {
                let each = self.cpus.len() * (1 + self.aimed.len().max(4));
                let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
                Error::Permission {
                    what: format!("watch more than {} threads", self.followed.len().max(self.armed.len())),
                    knob: "the limit of open files (ulimit -n)".into(),
                    value: limit.map_or_else(|| "unlimited".into(), |limit| limit.to_string()),
                    needed: format!("about {each} for each thread that runs already, on {} CPUs", self.cpus.len()),
                    command: format!(
                        "ulimit -n 1048576, or fewer {}, or start the program under perftax: threads that it creates need none",
                        Setting::Watchpoints
                    ),
                }
            }
            _ => error,
        }
    }
}

fn is_gone(error: &Error) -> bool {
    matches!(error, Error::System { source, .. } if source.raw_os_error() == Some(libc::ESRCH))
}
