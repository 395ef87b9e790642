//! A recording that runs: its rings, looked at again and again.

use std::collections::VecDeque;
use std::path::Path;

use perftax_pmu::Result;
use perftax_pmu::event::Catalog;
use perftax_pmu::sampler::Sampler;
use perftax_pmu::sys::{Exit, monotonic_raw_ns};
use perftax_target::{Program, TimeOrder};

use super::events::Formats;
use super::identity::{Held, Identity};
use super::listener::Listener;
use super::mappings::Mappings;
use super::probes::Probes;
use super::source::Source;
use super::{Recorded, Recording, Row, opening};
use crate::budget::{Controller, Progress};
use crate::kernel::{KernelEvent, What};
use crate::names::Names;

/// Looks for which rows are held back, so that those that are written late find their place: a thread may be taken off its CPU between
/// reading the counter and writing the mark.
const HOLD_BACK: usize = 10;
/// From one reading of a process's mappings to the next, at least, ns.
const REMAP_NS: u64 = 2_000_000_000;

/// A recording that runs.
pub struct Session {
    sources: Vec<Source>,
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
    pid: u32,
    /// Whether the events are on.
    is_on: bool,
    budget: Option<Controller>,
    windows_ns: Vec<(u64, u64)>,
    mapped_ns: u64,
}

impl Session {
    pub fn open(
        recording: &Recording,
        catalog: &Catalog,
        program: &Program,
        marks: &Path,
        probes: Option<Probes>,
    ) -> Result<Self> {
        let mut opened = opening::open(recording, catalog, program, probes.as_ref())?;
        if opened.is_on_exec {
            opened.of_cpus.iter_mut().try_for_each(|source| source.sampler.enable())?;
        }
        let mut session = Self {
            sources: opened.of_cpus.into_iter().chain(opened.of_threads).collect(),
            formats: opened.formats,
            probes,
            listener: Listener::new(marks),
            order: TimeOrder::default(),
            identity: Identity::new(recording, program.pid() as i32),
            mappings: Mappings::default(),
            names: Names::default(),
            missing: opened.missing,
            looks_ns: VecDeque::new(),
            rows: [0; 3],
            pid: program.pid(),
            is_on: false,
            budget: recording.budget.map(Controller::new),
            windows_ns: Vec::new(),
            mapped_ns: 0,
        };
        if session.budget.is_some() {
            session.say(What::Paused);
        } else if !opened.is_on_exec {
            session.on()?;
            session.identity.join(session.pid);
        }
        Ok(session)
    }

    /// Switches the events on.
    fn on(&mut self) -> Result<()> {
        // Mappings are told only while they are made.
        let now_ns = monotonic_raw_ns();
        if self.mapped_ns == 0 || now_ns > self.mapped_ns + REMAP_NS {
            self.mapped_ns = now_ns;
            self.mappings.read(self.pid, &mut self.names);
        }
        self.sources.iter_mut().try_for_each(|source| source.sampler.enable())?;
        self.is_on = true;
        let time_ns = self.say(What::Resumed);
        self.windows_ns.push((time_ns, u64::MAX));
        Ok(())
    }

    /// Notes in the trace that recording goes off or is on. Returns when.
    fn say(&mut self, what: What) -> u64 {
        let time_ns = monotonic_raw_ns();
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
            self.sources.iter_mut().try_for_each(|source| source.sampler.disable())?;
        }
        Ok(())
    }

    /// Within a budget: on or off, when it is time.
    pub fn turn(&mut self) -> Result<()> {
        let Some(controller) = self.budget.as_ref() else { return Ok(()) };
        let (listener, pid) = (&mut self.listener, self.pid);
        if !controller.is_due(monotonic_raw_ns(), || listener.progress(pid).1) {
            return Ok(());
        }
        // What switching takes belongs to the slice with recording on.
        self.off()?;
        // Messages and CPU time of one moment, and of the same processes.
        self.listener.listen(&mut self.order)?;
        let (messages, cpu_ns) = self.listener.progress(self.pid);
        let now = Progress { time_ns: monotonic_raw_ns(), cpu_ns, messages };
        match self.budget.as_mut().is_some_and(|controller| controller.next(now)) {
            true => self.on(),
            false => Ok(()),
        }
    }

    /// Takes what has come since the last look, and hands out what is old enough.
    pub fn look(&mut self, keep: &mut dyn FnMut(&Row) -> Result<()>) -> Result<()> {
        self.looks_ns.push_back(monotonic_raw_ns());
        self.listener.listen(&mut self.order)?;
        for source in &mut self.sources {
            source.drain(self.formats.as_ref(), self.probes.as_ref(), &mut self.order, &mut self.mappings, &mut self.names)?;
        }
        for (pid, fd) in self.sources.iter_mut().flat_map(|source| std::mem::take(&mut source.accepting)) {
            self.identity.accepts(pid, fd);
        }
        match self.looks_ns.len() > HOLD_BACK {
            true => self.looks_ns.pop_front().map_or(Ok(()), |until_ns| self.flush(until_ns, keep)),
            false => Ok(()),
        }
    }

    /// Hands out the rows before a time.
    pub fn flush(&mut self, until_ns: u64, keep: &mut dyn FnMut(&Row) -> Result<()>) -> Result<()> {
        let (mappings, rows, identity) = (&mut self.mappings, &mut self.rows, &mut self.identity);
        let mut keep = |row: &Row| {
            let kind = match row {
                Row::Mark(_) => 0,
                Row::Sample(sample) => {
                    mappings.seen(sample.pid, sample.ip);
                    1
                }
                Row::Kernel(_) => 2,
            };
            rows[kind] += 1;
            keep(row)
        };
        self.order.before(until_ns).try_for_each(|(_, held)| identity.take(held, &mut keep))?;
        identity.release(until_ns, &mut keep)
    }

    pub fn finish(mut self, exit: Exit, steal_s: Option<f64>) -> Result<Recorded> {
        // LOST records are written only when there is room again; the counter knows of all (Linux 6.0 on).
        let lost = self.sources.iter().map(|source| Ok(source.lost.max(source.sampler.lost()?))).sum::<Result<u64>>()?;
        let mut losses_ns: Vec<u64> = self.sources.iter_mut().flat_map(|source| std::mem::take(&mut source.losses_ns)).collect();
        losses_ns.sort_unstable();
        losses_ns.truncate(Recorded::MAX_LOSSES);
        // The kernel keeps definitions that events are open on.
        drop(self.sources);
        let named = self.mappings.resolve();
        Ok(Recorded {
            exit,
            rows: self.rows,
            lost,
            losses_ns,
            dropped: self.listener.folder.dropped(),
            late: self.order.late,
            broken: self.listener.folder.broken().map(String::from).collect(),
            rings: self.listener.folder.rings(),
            missing: self.missing,
            symbols: named.functions,
            unread: named.unread,
            names: self.names,
            steal_s,
            seen: self.identity.finish(),
            probed: self.probes.map(|probes| probes.binary),
            spent: self.budget.as_ref().and_then(Controller::spent),
            windows_ns: self.budget.is_some().then_some(self.windows_ns),
        })
    }
}
