//! Work that is done while an event watches the thread.

use perftax_doc::AuditRow;
use perftax_pmu::event::{Event, parse_one};
use perftax_pmu::guard::check_interrupted;
use perftax_pmu::record::{Record, Sample, decode};
use perftax_pmu::sampler::{Delivered, LiveSampler, Payload, Sampler, Sampling};
use perftax_pmu::sys::{OpenEvent, Reading, Target, stray_traps};
use perftax_pmu::{Error, Result};

use super::{Fault, Setting, Unit};
use crate::stimulus::Stimulus;

/// Pages of the ring: room for a hundred thousand of the smallest samples.
const RING_PAGES: usize = 1024;
/// Times that work is done whose hits were hidden.
const MAX_ATTEMPTS: usize = 5;

/// What came of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measurement {
    /// Events counted.
    pub counted: u64,
    /// Samples that arrived.
    pub samples: u64,
    /// Samples that the kernel could not write.
    pub lost: u64,
    /// Times that it throttled.
    pub throttled: u64,
    /// Nanoseconds for which the event was on.
    pub enabled_ns: u64,
    /// Nanoseconds for which it counted: fewer where others took its counter.
    pub running_ns: u64,
}

impl Measurement {
    /// Does the work once while an event counts it, or samples it where there is a period.
    ///
    /// # Errors
    /// Where the event cannot be opened, or a record cannot be read.
    pub fn of(setting: &Setting, work: &mut dyn Stimulus, event: &Event, period: Option<u64>) -> Result<Self> {
        undisturbed(|| Self::looking(setting, work, event, period, Payload::BASIC, |_| ()))
    }

    /// As [`Measurement::of`]; looks at each sample.
    ///
    /// # Errors
    /// As [`Measurement::of`].
    pub fn looking(
        setting: &Setting,
        work: &mut dyn Stimulus,
        event: &Event,
        period: Option<u64>,
        payload: Payload,
        each: impl FnMut(&Sample),
    ) -> Result<Self> {
        Self::under(setting, work, std::slice::from_ref(event), period, payload, each)
    }

    /// As [`Measurement::of`], under several events at once; what they got is added up.
    ///
    /// # Errors
    /// As [`Measurement::of`].
    pub fn together(setting: &Setting, work: &mut dyn Stimulus, events: &[Event], period: Option<u64>) -> Result<Self> {
        undisturbed(|| Self::under(setting, work, events, period, Payload::BASIC, |_| ()))
    }

    fn under(
        setting: &Setting,
        work: &mut dyn Stimulus,
        events: &[Event],
        period: Option<u64>,
        payload: Payload,
        mut each: impl FnMut(&Sample),
    ) -> Result<Self> {
        check_interrupted()?;
        let fault = setting.fault;
        let sampling = match period.map(|period| fault.map_or(period, |fault| fault.period(period))) {
            Some(period) => Sampling::every(period, RING_PAGES * rustix::param::page_size()).carrying(payload),
            None => Sampling::COUNTING,
        };
        let events: Vec<(Event, Sampling)> =
            events.iter().map(|event| (fault.map_or(event.clone(), |fault| fault.event(event.clone())), sampling)).collect();
        work.prepare()?;
        let rivals = fault.map_or(Vec::new(), |fault| fault.rivals(&events[0].0));
        let open = |rival: &Event| OpenEvent::open(rival, &Sampling::COUNTING, Target::ThisThread, None);
        let rivals: Vec<OpenEvent> = rivals.iter().map(open).collect::<Result<_>>()?;
        rehearse(setting)?;
        rivals.iter().try_for_each(OpenEvent::enable)?;
        let mut sampler = LiveSampler::open(&events, &[Target::ThisThread], RING_PAGES)?;
        sampler.enable()?;
        work.run();
        sampler.disable()?;
        let mut samples = 0;
        let delivered = drained(
            &mut sampler,
            fault,
            |_| true,
            |sample| {
                samples += 1;
                each(sample);
            },
        )?;
        let readings: Vec<Reading> = sampler.events().iter().map(OpenEvent::read).collect::<Result<_>>()?;
        let sum = |of: fn(&Reading) -> u64| readings.iter().map(of).sum::<u64>();
        Ok(Self {
            counted: sum(|reading| reading.value),
            samples,
            lost: delivered.lost.max(sum(|reading| reading.lost)),
            throttled: delivered.throttled,
            enabled_ns: sum(|reading| reading.time_enabled_ns),
            running_ns: sum(|reading| reading.time_running_ns),
        })
    }

    /// Has several events count the work at once: of each its count, and the share of the time for which it counted.
    ///
    /// # Errors
    /// As [`Measurement::of`].
    pub fn each(setting: &Setting, work: &mut dyn Stimulus, events: &[Event]) -> Result<Vec<(u64, f64)>> {
        let event = |event: &Event| setting.fault.map_or(event.clone(), |fault| fault.event(event.clone()));
        let events: Vec<Event> = events.iter().map(event).collect();
        let readings = undisturbed(|| counted(work, &events))?;
        let of = |reading: Result<Reading>| {
            reading.map(|reading| (reading.value, reading.time_running_ns as f64 / reading.time_enabled_ns.max(1) as f64))
        };
        readings.into_iter().map(of).collect()
    }

    /// How many of several events are in error after the work.
    ///
    /// # Errors
    /// As [`Measurement::of`].
    pub fn in_error(work: &mut dyn Stimulus, events: &[Event]) -> Result<usize> {
        let mut in_error = 0;
        for reading in undisturbed(|| counted(work, events))? {
            match reading {
                Ok(_) => {}
                Err(Error::Discarded { .. }) => in_error += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(in_error)
    }

    /// As [`Measurement::of`], as often as the setting asks for.
    ///
    /// # Errors
    /// As [`Measurement::of`].
    pub fn runs(setting: &Setting, work: &mut dyn Stimulus, event: &Event, period: Option<u64>) -> Result<Vec<Self>> {
        (0..setting.runs).map(|_| Self::of(setting, work, event, period)).collect()
    }

    /// Several runs' samples against the number that must come, with what was lost.
    pub fn row(case: impl Into<String>, expected: f64, runs: &[Self], allowed: f64) -> AuditRow {
        let samples: Vec<f64> = runs.iter().map(|run| run.samples as f64).collect();
        Self::marked(AuditRow::of(case, Unit::Samples.text(), expected, &samples, allowed), runs)
    }

    /// A row with what was lost, throttled and shared in the runs that it is of.
    pub fn marked(row: AuditRow, runs: &[Self]) -> AuditRow {
        let sum = |of: fn(&Self) -> u64| runs.iter().map(of).sum::<u64>();
        let row = row.losing(sum(|run| run.lost), sum(|run| run.throttled));
        let (enabled, running) = (sum(|run| run.enabled_ns), sum(|run| run.running_ns));
        if running < enabled { row.sharing(running as f64 / enabled as f64) } else { row }
    }
}

/// Switches an event that counts nothing on and off: code that was not executed before would make page faults of its own between the real ones.
fn rehearse(setting: &Setting) -> Result<()> {
    let nothing = parse_one("dummy:u", setting.catalog)?;
    let mut sampler = LiveSampler::open(&[(nothing, Sampling::COUNTING)], &[Target::ThisThread], 1)?;
    sampler.enable()?;
    sampler.disable()
}

/// Drains a sampler: looks at each sample that is asked for and that the fault, where one is planted, lets through, as it leaves it.
pub(super) fn drained(
    sampler: &mut LiveSampler,
    fault: Option<Fault>,
    is_asked: impl Fn(&Sample) -> bool,
    mut each: impl FnMut(&Sample),
) -> Result<Delivered> {
    let layout = *sampler.layout();
    let (mut delivered, mut arrived, mut outcome) = (Delivered::default(), 0, Ok(()));
    sampler.drain(&mut |header, body| {
        delivered.count(0, header, body);
        match decode(header, body, &layout) {
            Ok(Record::Sample(mut sample)) if is_asked(&sample) => {
                arrived += 1;
                if fault.is_none_or(|fault| fault.lets_through(arrived)) {
                    fault.iter().for_each(|fault| fault.on(&mut sample));
                    each(&sample);
                }
            }
            Ok(_) => {}
            Err(error) => outcome = Err(error),
        }
    })?;
    outcome.map(|()| delivered)
}

/// Takes something again where a hypervisor hid a breakpoint's hit meanwhile, which is no sampler's fault. Where it does so each time, hits are missing.
fn undisturbed<T>(mut take: impl FnMut() -> Result<T>) -> Result<T> {
    let mut attempts = 1;
    loop {
        let strays = stray_traps();
        let taken = take()?;
        if stray_traps() == strays || attempts == MAX_ATTEMPTS {
            return Ok(taken);
        }
        attempts += 1;
    }
}

/// Has several events count the work, and reads each.
fn counted(work: &mut dyn Stimulus, events: &[Event]) -> Result<Vec<Result<Reading>>> {
    work.prepare()?;
    let open = |event: &Event| OpenEvent::open(event, &Sampling::COUNTING, Target::ThisThread, None);
    let events: Vec<OpenEvent> = events.iter().map(open).collect::<Result<_>>()?;
    events.iter().try_for_each(OpenEvent::enable)?;
    work.run();
    // Those in error are off already.
    for event in &events {
        event.disable()?;
    }
    Ok(events.iter().map(OpenEvent::read).collect())
}
