//! A recording that runs: its rings, looked at again and again.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::PathBuf;

use perftax_doc::PriceChecked;
use perftax_pmu::Result;
use perftax_pmu::event::Catalog;
use perftax_pmu::process::running_threads;
use perftax_pmu::sampler::Sampler;
use perftax_pmu::sys::{Exit, HostClock, monotonic_raw_ns};
use perftax_symbols::naming::By;
use perftax_target::{Program, TimeOrder};
use rustc_hash::FxHashSet;
use rustix::process::{Resource, getrlimit};

use super::contexts::WatchedContexts;
use super::cpu_counters::CpuCounters;
use super::events::Formats;
use super::family::Family;
use super::identity::{Held, Identity, Seen};
use super::listener::Listener;
use super::mappings::Mappings;
use super::moment::{Ended, Moment};
use super::opening::{self, Lasting};
use super::probes::Probes;
use super::source::Source;
use super::under_way::UnderWay;
use super::work::Work;
use super::{Counting, EventRow, ExecutedSight, Recorded, Recording, Row, StaysOpen};
use crate::budget::{Controller, Progress};
use crate::executed::Reading;
use crate::kernel::{KernelEvent, What};
use crate::names::Names;
use crate::price_check::{PriceCheck, Step};
use crate::rest::Rest;
use crate::tag::Tag;

/// Looks for which rows are held back, so that those that are written late find their place: a thread may be taken off its CPU between
/// reading the counter and writing the mark.
const HOLD_BACK: usize = 10;
/// From one reading of a process's mappings to the next, at least, ns.
const REMAP_NS: u64 = 2_000_000_000;

/// From one reading of the host's clocks to the next, ns; after the first ones ten times that.
const CLOCKS_NS: u64 = 1_000_000_000;
const CLOCKS_AT_FIRST: usize = 10;

/// Threads that have ended and are kept in mind for a while.
const MAX_ENDED: usize = 1 << 16;
/// From one question for lost records to the next, ns.
const ASK_NS: u64 = 1_000_000_000;

/// A recording that runs.
pub struct Session<'a> {
    recording: &'a Recording,
    catalog: &'a Catalog,
    sources: Vec<Source>,
    lasting: Lasting,
    formats: Option<Formats>,
    /// Behind the events: they are closed when their definitions go.
    probes: Option<Probes>,
    pub listener: Listener,
    order: TimeOrder<Held>,
    identity: Identity,
    mappings: Mappings,
    names: Names,
    missing: Vec<String>,
    /// When the last looks began.
    looks_ns: VecDeque<u64>,
    rows: [u64; 3],
    counted: Vec<Counting>,
    /// The host's clocks so far, and when they are to be read next, ns.
    clocks: Vec<HostClock>,
    clocks_due_ns: u64,
    /// Threads that have ended and are on their CPUs yet.
    dying: FxHashSet<u32>,
    /// When it was last asked whether counters of CPUs count, ns, and whether they did not.
    counters_asked_ns: u64,
    counters_taken: bool,
    /// What CPUs have executed by thread, the threads that say it themselves, and how many readings there were: of CPUs, in marks, and in marks without any count.
    cpu_counters: CpuCounters,
    say_themselves: FxHashSet<u32>,
    readings: [u64; 3],
    pids: Vec<u32>,
    /// Where threads publish contexts: what is watched of them, and what is read there; never off but for a check of the price.
    contexts: Option<(WatchedContexts, Source)>,
    /// Says which threads and mappings are the program's, where its samples are of CPUs: never off.
    tasks: Option<Source>,
    family: Family,
    /// Whether the events are on.
    is_on: bool,
    budget: Option<Controller>,
    windows_ns: Vec<(u64, u64)>,
    mapped_ns: u64,
    work: Work,
    price_check: Option<PriceCheck>,
    rest: Option<Rest>,
    /// What was found by so many comparisons.
    found: (usize, Option<PriceChecked>),
    /// Nothing is recorded for a while.
    is_blind: bool,
    /// Messages under way, and what recording is to go off for once they are over.
    under_way: UnderWay,
    goes_off_for: Option<OffFor>,
    /// Until when rows have been handed out, ns.
    told_ns: u64,
    /// Records that had found no room when that was last asked, and when that was, ns.
    known_lost: Option<u64>,
    asked_ns: u64,
    /// Threads that have ended, where it is followed while it runs.
    ended: Ended,
    /// Why probes and system calls are not watched any more.
    not_opened: Option<String>,
    /// Why system calls stay open while the price is checked.
    stays_open: Option<StaysOpen>,
    /// The program's CPU time when the price was looked at first, and what it has taken since, ns.
    cpu_at_first_ns: Option<u64>,
    cpu_since_ns: u64,
    /// What those had lost that are closed.
    lost: u64,
    losses_ns: Vec<u64>,
}

impl<'a> Session<'a> {
    pub fn open(
        recording: &'a Recording,
        catalog: &'a Catalog,
        program: &Program,
        marks: impl IntoIterator<Item = (PathBuf, u32)>,
        probes: Option<Probes>,
    ) -> Result<Self> {
        let mut opened = opening::open(recording, catalog, program, probes.as_ref())?;
        if opened.is_on_exec {
            let of_cpus = opened.of_cpus.iter_mut().chain(&mut opened.lasting.probes);
            of_cpus.into_iter().try_for_each(|source| source.sampler.enable())?;
        }
        let checks_price = recording.checks_price && recording.budget.is_none() && !matches!(recording.tag, Tag::Register(_));
        let mut session = Self {
            recording,
            catalog,
            lasting: opened.lasting,
            work: Work::of(program.pids(), &recording.tag),
            price_check: checks_price.then(|| PriceCheck::new(monotonic_raw_ns(), recording.tag == Tag::Marks)),
            rest: recording.rests_above.map(Rest::new),
            found: (0, None),
            is_blind: false,
            under_way: UnderWay::default(),
            goes_off_for: None,
            told_ns: 0,
            known_lost: None,
            asked_ns: 0,
            ended: Ended::new(),
            not_opened: None,
            stays_open: None,
            cpu_at_first_ns: None,
            cpu_since_ns: 0,
            lost: 0,
            losses_ns: Vec::new(),
            sources: opened.of_cpus.into_iter().chain(opened.of_threads).collect(),
            formats: opened.formats,
            probes,
            listener: Listener::new(marks),
            order: TimeOrder::default(),
            identity: Identity::new(recording, &program.pids()),
            mappings: Mappings::naming(if recording.names_inlined { By::Inlined } else { By::Symbols }),
            names: Names::default(),
            missing: opened.missing,
            looks_ns: VecDeque::new(),
            rows: [0; 3],
            counted: vec![Counting::default(); recording.counted.len()],
            cpu_counters: CpuCounters::default(),
            say_themselves: FxHashSet::default(),
            readings: [0; 3],
            dying: FxHashSet::default(),
            clocks: Vec::new(),
            clocks_due_ns: 0,
            counters_asked_ns: 0,
            counters_taken: false,
            pids: program.pids(),
            tasks: opened.tasks,
            contexts: (recording.tag == Tag::Otel).then(|| WatchedContexts::open(recording, catalog)).transpose()?,
            family: Family::of(program.pids(), program.threads().into_iter().map(|tid| tid as u32)),
            is_on: false,
            budget: recording.budget.map(Controller::new),
            windows_ns: Vec::new(),
            mapped_ns: 0,
        };
        if let Some(tasks) = session.tasks.as_mut().filter(|_| !opened.is_on_exec) {
            tasks.sampler.enable()?;
        }
        if session.budget.is_some() {
            session.say(What::Paused);
        } else if !opened.is_on_exec {
            session.on()?;
            session.pids.iter().for_each(|pid| session.identity.join(*pid));
        }
        Ok(session)
    }

    /// Switches the events on.
    fn on(&mut self) -> Result<()> {
        // Mappings are told only while they are made.
        let now_ns = monotonic_raw_ns();
        if self.mapped_ns == 0 || now_ns > self.mapped_ns + REMAP_NS {
            self.mapped_ns = now_ns;
            self.pids.iter().for_each(|pid| self.mappings.read(*pid, &mut self.names));
        }
        self.all_sources().try_for_each(|source| source.sampler.enable())?;
        self.is_on = true;
        let time_ns = self.say(What::Resumed);
        self.windows_ns.push((time_ns, u64::MAX));
        Ok(())
    }

    /// Notes in the trace that recording goes off or is on. Returns when.
    fn say(&mut self, what: What) -> u64 {
        self.say_at(monotonic_raw_ns(), what)
    }

    fn say_at(&mut self, time_ns: u64, what: What) -> u64 {
        self.order.push(time_ns, Held::Row(Row::Kernel(KernelEvent { time_ns, cpu: 0, tid: 0, what })));
        time_ns
    }

    /// Switches them off, where it is us who switched them on.
    pub fn off(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_on) {
            let time_ns = self.say(What::Paused);
            if let Some(window) = self.windows_ns.last_mut() {
                window.1 = time_ns;
            }
            self.all_sources().try_for_each(|source| source.sampler.disable())?;
        }
        Ok(())
    }

    fn all_sources(&mut self) -> impl Iterator<Item = &mut Source> {
        self.sources.iter_mut().chain(self.lasting.sources())
    }

    /// Within a budget: on or off, when it is time; otherwise off for a moment, where the price is to be checked.
    pub fn turn(&mut self) -> Result<()> {
        match self.budget.is_some() {
            true => self.keep_to_budget(),
            false if self.goes_off_for.is_some() => self.go_off(),
            false => {
                if !self.rest.as_ref().is_some_and(Rest::is_resting) {
                    self.check_price()?;
                }
                match self.goes_off_for {
                    None => self.rest(),
                    Some(_) => Ok(()),
                }
            }
        }
    }

    /// Rests where what recording takes is more than it may, and goes on where it is paid off.
    fn rest(&mut self) -> Result<()> {
        let now_ns = monotonic_raw_ns();
        let is_between = self.price_check.as_ref().is_none_or(PriceCheck::is_between);
        let Some(rest) = self.rest.as_mut().filter(|rest| is_between && rest.is_due(now_ns)) else { return Ok(()) };
        let (work, listener) = (&mut self.work, &mut self.listener);
        if let Some(check) = self.price_check.as_ref().filter(|check| check.comparisons() > self.found.0) {
            self.found = (check.comparisons(), check.found());
        }
        let extra = self.found.1.as_ref().map(|found| found.extra);
        // What was done is asked for where it is compared: at a switch.
        let now = Progress { time_ns: now_ns, cpu_ns: work.cpu_ns(listener), messages: 0 };
        self.cpu_since_ns = now.cpu_ns.saturating_sub(self.cpu_at_first_ns.unwrap_or(now.cpu_ns));
        match rest.next(now, extra.as_ref()) {
            Step::Stay => Ok(()),
            Step::Off => self.close(OffFor::Rest),
            Step::On => self.turn_rest(Self::see_again),
        }
    }

    /// Begins a rest, or ends it.
    fn turn_rest(&mut self, turn: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let from = self.progress()?;
        turn(self)?;
        let now = self.progress()?;
        let compared = self.rest.as_mut().and_then(|rest| rest.switched(from, now));
        if let (Some([before, on, after]), Some(check)) = (compared, &mut self.price_check) {
            check.compare(before, on, after);
        }
        Ok(())
    }

    /// Recording is to go off: at once where messages are marked, which are told all the time; else when those under way are over.
    fn close(&mut self, why: OffFor) -> Result<()> {
        self.goes_off_for = Some(why);
        if self.waits_for_messages() {
            self.under_way.close(monotonic_raw_ns());
        }
        self.go_off()
    }

    /// Whether messages are lost that are under way when recording goes off.
    fn waits_for_messages(&self) -> bool {
        self.recording.tag != Tag::Marks && (self.rest.is_some() || self.price_check.is_some())
    }

    /// Goes off, once nothing is waited for.
    fn go_off(&mut self) -> Result<()> {
        if !self.under_way.is_over(monotonic_raw_ns(), self.told_ns) {
            return Ok(());
        }
        match self.goes_off_for.take() {
            None => Ok(()),
            Some(OffFor::Rest) => self.turn_rest(Self::go_blind),
            Some(OffFor::Price) => {
                self.go_blind()?;
                self.price_check_turned()
            }
        }
    }

    /// What the program has done so far.
    fn progress(&mut self) -> Result<Progress> {
        self.listener.listen(&mut self.order)?;
        Ok(self.work.progress(&mut self.listener))
    }

    /// Whether somebody follows it while it runs.
    pub fn is_live(&self) -> bool {
        self.recording.is_live
    }

    /// How it is now.
    pub fn moment(&mut self) -> Moment<'_> {
        let now_ns = monotonic_raw_ns();
        // Each event is asked for that.
        if now_ns >= self.asked_ns + ASK_NS {
            (self.asked_ns, self.known_lost) = (now_ns, self.lost_so_far().ok());
        }
        let extra = self.found.1.as_ref().map(|found| found.extra);
        Moment {
            now_ns,
            lost: self.known_lost,
            dropped: self.listener.dropped(),
            is_over: false,
            is_on: !self.is_blind,
            checked: self.found.1.clone().map(|found| PriceChecked { at_least: self.stays_open.is_some(), ..found }),
            rested: self.rest.as_ref().map(|rest| rest.rested(extra.as_ref())),
            mappings: &mut self.mappings,
            names: &mut self.names,
            identity: &mut self.identity,
            ended: &mut self.ended,
        }
    }

    /// Records that found no room so far.
    fn lost_so_far(&mut self) -> Result<u64> {
        let of_tasks = self.tasks.as_ref().map_or(Ok(0), Source::lost)?;
        let of_contexts = self.contexts.as_ref().map_or(Ok(0), |(_, source)| source.lost())?;
        Ok(self.lost + of_tasks + of_contexts + self.all_sources().map(|source| source.lost()).sum::<Result<u64>>()?)
    }

    fn check_price(&mut self) -> Result<()> {
        let Some(check) = self.price_check.as_mut() else { return Ok(()) };
        let (work, listener) = (&mut self.work, &mut self.listener);
        let first_ns = *self.cpu_at_first_ns.get_or_insert_with(|| work.cpu_ns(listener));
        if !check.is_due(monotonic_raw_ns(), || work.cpu_ns(listener)) {
            return Ok(());
        }
        listener.listen(&mut self.order)?;
        let now = work.progress(listener);
        self.cpu_since_ns = now.cpu_ns.saturating_sub(first_ns);
        match check.next(now) {
            Step::Stay => Ok(()),
            Step::Off => self.close(OffFor::Price),
            Step::On => {
                self.see_again()?;
                self.price_check_turned()
            }
        }
    }

    /// A slice of the price's check begins.
    fn price_check_turned(&mut self) -> Result<()> {
        self.listener.listen(&mut self.order)?;
        let now = self.work.progress(&mut self.listener);
        self.price_check.iter_mut().for_each(|check| check.switched(now));
        Ok(())
    }

    /// Records nothing for a while, and gives back what costs as long as it is open, as far as that can be had again.
    fn go_blind(&mut self) -> Result<()> {
        self.is_blind = true;
        // Marks are told all the time. What comes until all is off is of before for the messages that are told otherwise: those under way are let go.
        self.say(if self.recording.tag == Tag::Marks { What::Paused } else { What::Blind });
        self.all_sources().try_for_each(|source| source.sampler.disable())?;
        if let Some((watched, _)) = &mut self.contexts {
            watched.off()?;
        }
        self.drain()?;
        let calls = self.closes_calls().then(|| self.lasting.calls.take()).flatten();
        for mut source in self.lasting.probes.take().into_iter().chain(calls) {
            self.lost += source.lost()?;
            self.losses_ns.append(&mut source.losses_ns);
        }
        Ok(())
    }

    /// Whether the tracepoints of system calls are closed while nothing is recorded; once they were not they never are.
    fn closes_calls(&mut self) -> bool {
        let threads = self.work.pids().into_iter().map(|pid| running_threads(pid).len()).sum();
        // Without records of switches it is not known how often threads take turns.
        let is_harmless = self.recording.kernel_noise && self.family.may_be_closed(self.cpu_since_ns);
        let why = match (self.stays_open, is_harmless, has_room(threads, self.recording.cpus.len())) {
            (Some(why), ..) => Some(why),
            (None, false, _) => Some(StaysOpen::TakesTurns),
            (None, true, false) => Some(StaysOpen::NoRoom),
            (None, true, true) => None,
        };
        self.stays_open = why.filter(|_| self.lasting.calls.is_some());
        why.is_none()
    }

    /// Records everything again.
    fn see_again(&mut self) -> Result<()> {
        self.is_blind = false;
        let work = RefCell::new(&mut self.work);
        let threads = || work.borrow_mut().pids().into_iter().flat_map(running_threads).collect();
        let probes = self.probes.as_ref().map(|probes| opening::open_probes(self.recording, self.catalog, probes)).transpose();
        let opened = probes.map(|probes| self.lasting.probes = probes).and_then(|()| {
            if self.lasting.calls.is_none() {
                self.lasting.calls = opening::open_calls(self.recording, self.catalog, &threads, false)?;
            }
            Ok(())
        });
        match opened {
            Ok(()) => {}
            // It has ended meanwhile.
            Err(_) if self.work.pids().is_empty() => return Ok(()),
            // The rest of the recording is kept, and what it lacks is said.
            Err(error) => {
                self.not_opened = Some(error.to_string());
                check_over(&mut self.price_check);
            }
        }
        let time_ns = monotonic_raw_ns();
        if let Some((watched, _)) = &mut self.contexts {
            watched.on()?;
        }
        self.all_sources().try_for_each(|source| source.sampler.enable())?;
        // What comes from here on is told by records, too: known twice is known.
        let pids = self.work.pids();
        self.order.push(time_ns, Held::Gap(self.identity.anew(pids.clone())));
        // Who has not changed it since is heard of by that.
        let order = &mut self.order;
        if let Some((watched, _)) = &self.contexts {
            watched.all(&mut |context| order.push(context.time_ns, Held::Context(context)));
        }
        match self.recording.tag {
            // Of what begins before all is on not everything is known.
            Tag::Marks => self.say(What::Resumed),
            // Messages begin with what was switched on last.
            _ => self.say_at(time_ns, What::Resumed),
        };
        self.drain()?;
        pids.iter().for_each(|pid| self.mappings.read(*pid, &mut self.names));
        Ok(())
    }

    fn keep_to_budget(&mut self) -> Result<()> {
        let Some(controller) = self.budget.as_ref() else { return Ok(()) };
        let (work, listener) = (&mut self.work, &mut self.listener);
        if !controller.is_due(monotonic_raw_ns(), || work.cpu_ns(listener)) {
            return Ok(());
        }
        // What switching takes belongs to the slice with recording on.
        self.off()?;
        // Messages and CPU time of one moment, and of the same processes.
        self.listener.listen(&mut self.order)?;
        let now = self.work.progress(&mut self.listener);
        match self.budget.as_mut().is_some_and(|controller| controller.next(now)) {
            true => self.on(),
            false => Ok(()),
        }
    }

    /// Takes what has come since the last look, and hands out what is old enough.
    pub fn look(&mut self, keep: &mut dyn FnMut(&Row) -> Result<()>) -> Result<()> {
        self.looks_ns.push_back(monotonic_raw_ns());
        self.listener.listen(&mut self.order)?;
        self.watch_contexts();
        self.drain()?;
        self.mappings.look(&self.names, monotonic_raw_ns());
        if self.recording.is_live {
            self.listener.give_up(monotonic_raw_ns());
        }
        self.check_counters();
        self.read_clocks();
        match self.looks_ns.len() > HOLD_BACK {
            true => self.looks_ns.pop_front().map_or(Ok(()), |until_ns| self.flush(until_ns, keep)),
            false => Ok(()),
        }
    }

    /// Reads the host's clocks, often at first, where a trace is made.
    fn read_clocks(&mut self) {
        let now_ns = monotonic_raw_ns();
        if now_ns < self.clocks_due_ns || self.recording.is_live {
            return;
        }
        self.clocks_due_ns = now_ns + if self.clocks.len() < CLOCKS_AT_FIRST { CLOCKS_NS } else { 10 * CLOCKS_NS };
        self.clocks.push(HostClock::read());
    }

    /// Whether counters of CPUs count is asked now and then: once somebody else has taken them they never do again, nor do the probes beside them.
    fn check_counters(&mut self) {
        let now_ns = monotonic_raw_ns();
        if self.counters_taken || !self.recording.counts_cpus() || self.is_blind || now_ns < self.counters_asked_ns + ASK_NS {
            return;
        }
        self.counters_asked_ns = now_ns;
        let are_taken = self.all_sources().any(|source| source.sampler.check_counters().is_err());
        self.counters_taken = are_taken;
    }

    /// Looks for threads that publish contexts, and for records that these point to by now.
    fn watch_contexts(&mut self) {
        let Self { contexts, work, order, catalog, .. } = self;
        let Some((watched, source)) = contexts.as_mut() else { return };
        watched.look(|| work.pids(), catalog, &mut |context| order.push(context.time_ns, Held::Context(context)));
        for (tid, record) in std::mem::take(&mut source.records) {
            watched.follow(tid, record, catalog);
        }
    }

    fn drain(&mut self) -> Result<()> {
        let Self { sources, lasting, tasks, contexts, formats, probes, order, mappings, names, identity, .. } = self;
        let written = contexts.as_mut().map(|(_, source)| source);
        for source in sources.iter_mut().chain(lasting.sources()).chain(tasks).chain(written) {
            source.drain(formats.as_ref(), probes.as_ref(), order, mappings, names)?;
            for (pid, fd) in std::mem::take(&mut source.accepting) {
                identity.accepts(pid, fd);
            }
        }
        Ok(())
    }

    /// Hands out the rows before a time.
    pub fn flush(&mut self, until_ns: u64, keep: &mut dyn FnMut(&Row) -> Result<()>) -> Result<()> {
        let may_lose = self.waits_for_messages();
        let (mappings, rows, counted, identity) = (&mut self.mappings, &mut self.rows, &mut self.counted, &mut self.identity);
        let (readings, cpu_counters, say_themselves) = (&mut self.readings, &mut self.cpu_counters, &mut self.say_themselves);
        let is_live = self.recording.is_live;
        let (under_way, dying, counts_cpus) = (&mut self.under_way, &mut self.dying, self.recording.counts_cpus());
        let mut keep = |row: &Row| {
            let kind = match row {
                Row::Mark(mark) if may_lose => {
                    let Some(mark) = under_way.told(mark) else { return Ok(()) };
                    rows[0] += 1;
                    return keep(&Row::Mark(mark));
                }
                Row::Mark(_) => 0,
                Row::Kernel(KernelEvent { what: What::Resumed, .. }) => {
                    under_way.open();
                    2
                }
                Row::Sample(sample) => {
                    if !is_live {
                        mappings.seen(sample.pid, sample.ip);
                    }
                    1
                }
                Row::Kernel(_) => 2,
                Row::Executed(_) => return keep(row),
                Row::Event(event) => {
                    if !is_live {
                        mappings.seen(event.pid, event.ip);
                    }
                    let object = mappings.objects.number(event.pid, event.address);
                    let counting = &mut counted[usize::from(event.event)];
                    counting.samples += 1;
                    counting.unplaced += u64::from(event.address != 0 && object == 0);
                    return keep(&Row::Event(EventRow { object, ..*event }));
                }
            };
            rows[kind] += 1;
            keep(row)
        };
        let ended = &mut self.ended;
        let (family, has_others) = (&mut self.family, self.recording.clock_is_of_cpus());
        self.order.before(until_ns).try_for_each(|(_, held)| {
            match &held {
                Held::Row(Row::Sample(sample)) if has_others && !family.has(sample.pid) => return Ok(()),
                Held::Row(Row::Kernel(KernelEvent { tid, what: What::Switch { next, .. }, .. })) => family.switched(*tid, *next),
                Held::Row(Row::Kernel(KernelEvent { what: What::Resumed, .. })) | Held::ReadingsLost => cpu_counters.forget(),
                Held::Row(Row::Executed(reading)) => {
                    let is_known = reading.executed.is_some();
                    readings[if is_known { 1 } else { 2 }] += 1;
                    if is_known && say_themselves.insert(reading.tid) {
                        // What CPUs said of it until now began elsewhere.
                        let anew = Reading { executed: None, ..*reading };
                        identity.take(Held::Row(Row::Executed(anew)), &mut keep)?;
                    } else if !is_known && counts_cpus && !say_themselves.contains(&reading.tid) {
                        return Ok(());
                    }
                }
                Held::Reading(reading) => {
                    readings[0] += 1;
                    let mut told = Vec::new();
                    let is_asked_for =
                        |tid: u32| (family.has_thread(tid) || dying.contains(&tid)) && !say_themselves.contains(&tid);
                    cpu_counters.take(reading, is_asked_for, &mut |reading| told.push(reading));
                    // That was its last one.
                    if reading.next.is_some() && dying.remove(&reading.tid) {
                        cpu_counters.ended(reading.tid);
                    }
                    return told.into_iter().try_for_each(|reading| identity.take(Held::Row(Row::Executed(reading)), &mut keep));
                }
                Held::Birth(pid, tid, parent) => {
                    family.born(*pid, *tid, *parent);
                    // Its number is another one's by now.
                    ended.retain(|(_, _, other)| other != tid);
                }
                Held::Death(time_ns, pid, tid) => {
                    family.ended(*tid);
                    if counts_cpus && !say_themselves.remove(tid) {
                        dying.insert(*tid);
                    }
                    if is_live && ended.len() < MAX_ENDED {
                        ended.push_back((*time_ns, *pid, *tid));
                    }
                }
                _ => {}
            }
            identity.take(held, &mut keep)
        })?;
        self.told_ns = identity.release(until_ns, &mut keep)?;
        Ok(())
    }

    /// The share of the time in which each event was counted. A thread has one for each CPU, of which one at a time counts.
    fn share_counted(&mut self) -> Result<()> {
        let mut times = vec![[0u64; 2]; self.counted.len()];
        for source in &self.sources {
            for (event, [enabled_ns, running_ns]) in source.times_counted()? {
                let of = &mut times[usize::from(event)];
                *of = [of[0] + enabled_ns, of[1] + running_ns];
            }
        }
        let cpus = self.recording.cpus.len() as f64;
        for (counting, [enabled_ns, running_ns]) in self.counted.iter_mut().zip(times) {
            counting.share = (enabled_ns > 0).then(|| (running_ns as f64 * cpus / enabled_ns as f64).min(1.0));
        }
        Ok(())
    }

    pub fn finish(mut self, exit: Exit, steal_s: Option<f64>, own_cpu_s: f64) -> Result<Recorded> {
        self.clocks_due_ns = 0;
        self.read_clocks();
        let lost = self.lost_so_far()?;
        let mut losses_ns = std::mem::take(&mut self.losses_ns);
        self.all_sources().for_each(|source| losses_ns.append(&mut source.losses_ns));
        let beside = self.tasks.iter_mut().chain(self.contexts.as_mut().map(|(_, source)| source));
        beside.for_each(|source| losses_ns.append(&mut source.losses_ns));
        losses_ns.sort_unstable();
        losses_ns.truncate(Recorded::MAX_LOSSES);
        self.share_counted()?;
        // The kernel keeps definitions that events are open on.
        drop((self.sources, self.lasting, self.tasks));
        let checked = self.price_check.as_ref().and_then(PriceCheck::found);
        let named = self.mappings.resolve(&self.names);
        self.mappings.name_locks(&mut self.names);
        let mut seen = self.identity.finish();
        if let (Seen::Contexts(sight), Some((watched, _))) = (&mut seen, self.contexts) {
            watched.describe(sight);
        }
        Ok(Recorded {
            exit,
            rows: self.rows,
            counted: self.counted,
            objects: std::mem::take(&mut self.mappings.objects).into_names(),
            executed: self.recording.counters.is_some().then(|| ExecutedSight {
                of_cpus: self.readings[0],
                in_marks: self.readings[1],
                without_count: self.readings[2],
                are_taken: self.counters_taken,
                filtered: Vec::new(),
                rings: self.listener.counters(),
            }),
            lost,
            losses_ns,
            dropped: self.listener.dropped(),
            late: self.order.late,
            broken: self.listener.broken().map(String::from).collect(),
            rings: self.listener.rings(),
            missing: self.missing,
            symbols: named.functions,
            unread: named.unread,
            unnamed_code: named.unnamed_code,
            names: self.names,
            steal_s,
            clocks: std::mem::take(&mut self.clocks),
            seen,
            probed: self.probes.map(|probes| probes.binary),
            checked: checked.map(|checked| PriceChecked { at_least: self.stays_open.is_some(), ..checked }),
            not_opened: self.not_opened,
            stays_open: self.stays_open,
            own_cpu_s,
            spent: self.budget.as_ref().and_then(Controller::spent),
            windows_ns: self.budget.is_some().then_some(self.windows_ns),
        })
    }
}

/// What recording goes off for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OffFor {
    /// To check its price.
    Price,
    /// To stay within a budget.
    Rest,
}

/// Events that are opened again on each thread and CPU: two system calls.
const EACH: usize = 2;

/// Whether so many can be opened as there are threads by now, each a descriptor. At the beginning there was one thread, perhaps, whose events the others have inherited.
fn has_room(threads: usize, cpus: usize) -> bool {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    (2 * EACH * threads * cpus) as u64 <= limit
}

fn check_over(check: &mut Option<PriceCheck>) {
    check.iter_mut().for_each(PriceCheck::give_up);
}
