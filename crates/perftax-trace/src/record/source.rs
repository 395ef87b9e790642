//! An open source of records.

use std::collections::HashMap;

use perftax_pmu::Result;
use perftax_pmu::context_watch::Written;
use perftax_pmu::event::{Catalog, Event};
use perftax_pmu::record::{Header, Layout, Record, Sample, decode};
use perftax_pmu::sampler::{LiveSampler, Sampler, Sampling};
use perftax_pmu::sys::Target;
use perftax_target::TimeOrder;

use super::cpu_counters::CpuReading;
use super::events::{Formats, Meaning};
use super::identity::{Held, occasion};
use super::mappings::Mappings;
use super::perf_clock::PerfClock;
use super::probes::Probes;
use super::{EventRow, Recorded, Row};
use crate::contexts::{Context, ContextRecord};
use crate::executed::Executed;
use crate::names::Names;
use crate::register::{Look, Occasion};
use crate::sockets::{Action, Moment};
use crate::store::SampleRow;

/// Events on targets, and what each of them means.
pub(super) struct Source {
    pub sampler: LiveSampler,
    layout: Layout,
    meanings: HashMap<u64, Meaning>,
    /// The register whose word every record of the program's carries.
    register: Option<u32>,
    /// Its system calls tell messages, by connections.
    pub is_of_sockets: bool,
    /// Who accepted connections since the last look, and by which descriptor.
    pub accepting: Vec<(u32, i32)>,
    /// Threads whose context was written since the last look, and the record that each points to.
    pub records: Vec<(u32, u64)>,
    /// What the kernel does becomes rows.
    pub has_rows: bool,
    /// What its times are converted by.
    clock: Option<PerfClock>,
    /// As its records say.
    lost: u64,
    pub losses_ns: Vec<u64>,
}

impl Source {
    pub fn open(
        events: &[(Event, Sampling, Meaning)],
        targets: &[Target],
        ring_pages: usize,
        register: Option<u32>,
    ) -> Result<Self> {
        Self::open_beside(&[], events, targets, ring_pages, register)
    }

    /// The same with counters on each target, of which every record tells what they have counted.
    pub fn open_beside(
        counters: &[Event],
        events: &[(Event, Sampling, Meaning)],
        targets: &[Target],
        ring_pages: usize,
        register: Option<u32>,
    ) -> Result<Self> {
        let asked: Vec<(Event, Sampling)> = events.iter().map(|(event, sampling, _)| (event.clone(), *sampling)).collect();
        let sampler = LiveSampler::open_beside(counters, &asked, targets, ring_pages)?;
        let on_a_target = counters.iter().map(|_| Meaning::Counter).chain(events.iter().map(|(.., meaning)| *meaning));
        let on_a_target: Vec<Meaning> = on_a_target.collect();
        let meanings = sampler.events().iter().zip(on_a_target.iter().cycle()).map(|(open, meaning)| Ok((open.id()?, *meaning)));
        let meanings = meanings.collect::<Result<_>>()?;
        let layout = *sampler.layout();
        let (lost, losses_ns) = (0, Vec::new());
        Ok(Self {
            layout,
            meanings,
            register,
            is_of_sockets: false,
            accepting: Vec::new(),
            records: Vec::new(),
            has_rows: true,
            clock: None,
            sampler,
            lost,
            losses_ns,
        })
    }

    /// Samples that hardware has put together on perf's own clock.
    pub fn open_precise(
        events: &[(Event, Sampling, Meaning)],
        targets: &[Target],
        ring_pages: usize,
        register: Option<u32>,
        catalog: &Catalog,
    ) -> Result<Self> {
        let mut clock = PerfClock::open(catalog)?;
        clock.anchor()?;
        Ok(Self { clock: Some(clock), ..Self::open(events, targets, ring_pages, register)? })
    }

    /// Records that found no room. LOST records are written only when there is room again; the counter knows of all (Linux 6.0 on).
    pub fn lost(&self) -> Result<u64> {
        Ok(self.lost.max(self.sampler.lost()?))
    }

    /// For how long each counted event was to be counted on one CPU or other, and for how long it was, ns.
    pub fn times_counted(&self) -> Result<Vec<(u16, [u64; 2])>> {
        let mut all = Vec::new();
        for open in self.sampler.events() {
            if let Some(Meaning::Counted(event)) = self.meanings.get(&open.id()?) {
                let reading = open.read()?;
                all.push((*event, [reading.time_enabled_ns, reading.time_running_ns]));
            }
        }
        Ok(all)
    }

    pub fn drain(
        &mut self,
        formats: Option<&Formats>,
        probes: Option<&Probes>,
        order: &mut TimeOrder<Held>,
        mappings: &mut Mappings,
        names: &mut Names,
    ) -> Result<()> {
        if let Some(clock) = &mut self.clock {
            // To be read, a counter has the records handed over that still lie in the hardware's buffer (arch/x86/events/intel/ds.c,
            // intel_pmu_auto_reload_read); what lies between two anchors is told best.
            self.sampler.lost()?;
            clock.anchor()?;
        }
        let Self { sampler, layout, meanings, register, is_of_sockets, accepting, records, has_rows, clock, lost, losses_ns } =
            self;
        let reads_counters = meanings.values().any(|meaning| *meaning == Meaning::Counter);
        let mut loss = |count: u64, time_ns: Option<u64>, order: &mut TimeOrder<Held>| {
            *lost += count;
            if reads_counters {
                order.push(time_ns.unwrap_or(0), Held::ReadingsLost);
            }
            if losses_ns.len() < Recorded::MAX_LOSSES {
                losses_ns.extend(time_ns);
            }
        };
        sampler.drain(&mut |header: Header, body| match decode(header, body, layout) {
            Ok(Record::Sample(mut sample)) => {
                if let Some(clock) = &clock {
                    sample.time_ns = sample.time_ns.and_then(|time_ns| clock.time_ns(time_ns));
                }
                let Some(meaning) = sample.identifier.and_then(|id| meanings.get(&id)).copied() else { return };
                if reads_counters && let Some(reading) = cpu_reading(&sample, meaning, formats) {
                    order.push(reading.time_ns, Held::Reading(reading));
                }
                if let Meaning::Probe(probe) = meaning {
                    let pass = probes.and_then(|probes| probes.read(probe, &sample));
                    pass.into_iter().for_each(|pass| order.push(pass.time_ns, Held::Pass(pass)));
                    return;
                }
                if meaning == Meaning::Context {
                    if let Some((context, record)) = context(&sample) {
                        if !context.is_in_place {
                            records.retain(|(tid, _)| *tid != context.tid);
                            records.push((context.tid, record));
                        }
                        order.push(context.time_ns, Held::Context(context));
                    }
                    return;
                }
                if let Meaning::Counted(event) = meaning {
                    if let Some(row) = event_row(&sample, event) {
                        mappings.objects.seen(row.pid, row.address);
                        order.push(row.time_ns, Held::Row(Row::Event(row)));
                    }
                    return;
                }
                let word = register.and_then(|number| tag(&sample, number));
                let row = match meaning {
                    Meaning::Sample => sample_row(&sample, word.unwrap_or(0)).map(Row::Sample),
                    _ if !*has_rows => None,
                    // A CPU that idles is woken by our own clock, too; that is of no thread.
                    Meaning::Vector(0) | Meaning::VectorExit(0) if sample.task.is_some_and(|task| task.tid == 0) => None,
                    _ => formats.and_then(|formats| formats.read_record(meaning, &sample, names)).map(Row::Kernel),
                };
                row.into_iter().for_each(|row| order.push(row.time_ns(), Held::Row(row)));
                if *is_of_sockets && let Some(call) = formats.and_then(|formats| formats.read_call(meaning, &sample)) {
                    if let Moment::Enter(Action::Accepts(fd)) = call.at
                        && !accepting.contains(&(call.pid, fd))
                    {
                        accepting.push((call.pid, fd));
                    }
                    order.push(call.time_ns, Held::Call(call));
                }
                if let (Some(word), Some(time_ns), Some(task)) = (word, sample.time_ns, sample.task) {
                    order.push(time_ns, Held::Look(Look { time_ns, tid: task.tid, word, at: occasion(meaning) }));
                }
            }
            Ok(Record::Lost(record)) => loss(record.lost, record.sample_id.time_ns, order),
            Ok(Record::LostSamples(record)) => loss(record.lost, record.sample_id.time_ns, order),
            Ok(Record::Mmap2(record)) => mappings.mapped(record.mapping.task.pid, (&record).into()),
            Ok(Record::Mmap(record)) => mappings.mapped(record.task.pid, (&record).into()),
            Ok(Record::Exit(record)) if register.is_some() => {
                order.push(
                    record.time_ns,
                    Held::Look(Look { time_ns: record.time_ns, tid: record.task.tid, word: 0, at: Occasion::Exit }),
                );
            }
            Ok(Record::Exit(record)) => order.push(record.time_ns, Held::Death(record.time_ns, record.task.pid, record.task.tid)),
            Ok(Record::Fork(record)) => {
                mappings.forked(record.task.pid, record.parent.pid);
                order.push(record.time_ns, Held::Birth(record.task.pid, record.task.tid, record.parent.pid));
            }
            Ok(Record::Comm(record)) => {
                names.threads.insert(record.task.tid, String::from_utf8_lossy(record.name).into_owned());
            }
            _ => {}
        })?;
        Ok(())
    }
}

/// What the CPU's counters were at, by a record of their group.
fn cpu_reading(sample: &Sample<'_>, meaning: Meaning, formats: Option<&Formats>) -> Option<CpuReading> {
    let counts = sample.counts?;
    let executed = Executed { instructions: counts.get(0)?.value, cycles: counts.get(1)?.value };
    let (tid, next) = match meaning {
        Meaning::Reading => formats.and_then(|formats| formats.read_switch(sample)).map(|(tid, next)| (tid, Some(next)))?,
        _ => (sample.task?.tid, None),
    };
    Some(CpuReading { time_ns: sample.time_ns?, cpu: sample.cpu?, tid, next, executed })
}

/// What the tag's register held.
fn tag(sample: &Sample<'_>, number: u32) -> Option<u64> {
    let registers = sample.user_registers.or(sample.interrupt_registers)?;
    registers.get(number)
}

/// What lies at its address is told when the row is handed out.
fn event_row(sample: &Sample<'_>, event: u16) -> Option<EventRow> {
    let task = sample.task?;
    Some(EventRow {
        time_ns: sample.time_ns?,
        cpu: sample.cpu?,
        pid: task.pid,
        tid: task.tid,
        event,
        object: 0,
        ip: sample.ip.unwrap_or(0),
        address: sample.address.unwrap_or(0),
    })
}

fn sample_row(sample: &Sample<'_>, tag: u64) -> Option<SampleRow> {
    let task = sample.task?;
    Some(SampleRow { time_ns: sample.time_ns?, cpu: sample.cpu?, pid: task.pid, tid: task.tid, ip: sample.ip.unwrap_or(0), tag })
}

/// What a thread's context is from now on, and the record that holds it.
fn context(sample: &Sample<'_>) -> Option<(Context, u64)> {
    let (written, task) = (Written::read(sample.raw?)?, sample.task?);
    let identity = if written.record == 0 { None } else { ContextRecord(written.bytes).identity() };
    let Written { record, is_in_place, .. } = written;
    Some((Context { time_ns: sample.time_ns?, pid: task.pid, tid: task.tid, record, is_in_place, identity }, record))
}
