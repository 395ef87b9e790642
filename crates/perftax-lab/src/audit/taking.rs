//! Work that is done while an event watches the thread.

use perftax_cost::document::AuditRow;
use perftax_pmu::Result;
use perftax_pmu::event::Event;
use perftax_pmu::record::{Record, Sample, decode};
use perftax_pmu::sampler::{Delivered, LiveSampler, Payload, Sampler, Sampling};
use perftax_pmu::sys::Target;

use super::Setting;
use crate::stimulus::Stimulus;

/// Pages of the ring: room for a hundred thousand of the smallest samples.
const RING_PAGES: usize = 1024;

/// What came of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taking {
    /// Events counted.
    pub counted: u64,
    /// Samples that arrived.
    pub samples: u64,
    /// Samples that the kernel could not write.
    pub lost: u64,
    /// Times that it throttled.
    pub throttled: u64,
}

impl Taking {
    /// Does the work once while an event counts it, or samples it where there is a period.
    ///
    /// # Errors
    /// Where the event cannot be opened, or a record cannot be read.
    pub fn of(setting: &Setting, work: &mut dyn Stimulus, event: &Event, period: Option<u64>) -> Result<Self> {
        Self::looking(setting, work, event, period, Payload::BASIC, |_| ())
    }

    /// As [`Taking::of`]; looks at each sample.
    ///
    /// # Errors
    /// As [`Taking::of`].
    pub fn looking(
        setting: &Setting,
        work: &mut dyn Stimulus,
        event: &Event,
        period: Option<u64>,
        payload: Payload,
        mut each: impl FnMut(&Sample),
    ) -> Result<Self> {
        let ring_bytes = RING_PAGES * rustix::param::page_size();
        let fault = setting.fault;
        let event = fault.map_or(event.clone(), |fault| fault.event(event.clone()));
        let sampling = match period.map(|period| fault.map_or(period, |fault| fault.period(period))) {
            Some(period) => Sampling::every(period, ring_bytes).carrying(payload),
            None => Sampling::COUNTING,
        };
        work.prepare()?;
        let mut sampler = LiveSampler::open(&[(event, sampling)], &[Target::ThisThread], RING_PAGES)?;
        sampler.enable()?;
        work.run();
        sampler.disable()?;
        let layout = *sampler.layout();
        let (mut delivered, mut samples, mut arrived, mut outcome) = (Delivered::default(), 0, 0, Ok(()));
        sampler.drain(&mut |header, body| {
            delivered.count(0, header, body);
            match decode(header, body, &layout) {
                Ok(Record::Sample(mut sample)) => {
                    arrived += 1;
                    if fault.is_some_and(|fault| !fault.lets_through(arrived)) {
                        return;
                    }
                    samples += 1;
                    fault.iter().for_each(|fault| fault.on(&mut sample));
                    each(&sample);
                }
                Ok(_) => {}
                Err(error) => outcome = Err(error),
            }
        })?;
        outcome?;
        Ok(Self {
            counted: sampler.events().iter().map(|event| event.read().map(|reading| reading.value)).sum::<Result<u64>>()?,
            samples,
            lost: delivered.lost.max(sampler.lost()?),
            throttled: delivered.throttled,
        })
    }

    /// As [`Taking::of`], as often as the setting asks for.
    ///
    /// # Errors
    /// As [`Taking::of`].
    pub fn runs(setting: &Setting, work: &mut dyn Stimulus, event: &Event, period: Option<u64>) -> Result<Vec<Self>> {
        (0..setting.runs).map(|_| Self::of(setting, work, event, period)).collect()
    }

    /// Several runs' samples against the number that must come, with what was lost; no error is allowed.
    pub fn row(case: impl Into<String>, expected: f64, runs: &[Self]) -> AuditRow {
        let samples: Vec<f64> = runs.iter().map(|run| run.samples as f64).collect();
        let (lost, throttled) = Self::losses(runs);
        AuditRow::of(case, "samples", expected, &samples, 0.0).losing(lost, throttled)
    }

    /// Several runs' losses.
    pub fn losses(runs: &[Self]) -> (u64, u64) {
        (runs.iter().map(|run| run.lost).sum(), runs.iter().map(|run| run.throttled).sum())
    }
}
