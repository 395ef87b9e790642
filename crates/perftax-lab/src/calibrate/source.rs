//! What an arm has open: an event of perf's, or a session of our own kernel module.

use std::path::Path;

use perftax_doc::observation::Settling;
use perftax_pmu::Result;
use perftax_pmu::event::{Catalog, Event, parse_one};
use perftax_pmu::sampler::{Delivered, DirectSampler, LiveSampler, Payload, Sampler, Sampling};
use perftax_pmu::sys::{OpenEvent, Target, Tsc, monotonic_ns};

use super::arm::Monitoring;
use crate::system::performance_interrupts;

/// An open arm.
pub(super) enum Source {
    Perf(Perf),
    Direct(Direct),
}

pub(super) struct Perf {
    sampler: LiveSampler,
    /// Group members live as long as the leader.
    _members: Vec<OpenEvent>,
    /// Whose interrupts are counted. Reading them takes time on many processors: only where they tell something.
    counts_interrupts_of: Option<u32>,
    interrupts_before: u64,
}

pub(super) struct Direct {
    sampler: DirectSampler,
    buffer_bytes: u64,
}

/// What came of one block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stopped {
    pub samples: u64,
    pub lost: u64,
    pub throttled: u64,
    /// What the hardware's buffer held, where it has one.
    pub settling: Option<Settling>,
}

/// The signal that samples are delivered as in the `signal` arm; ignored by its handler.
pub(super) const SAMPLE_SIGNAL: i32 = libc::SIGIO;

impl Source {
    /// Opens what an arm asks for, on the calling thread, which runs on `cpu`.
    pub fn open(event: &Event, monitoring: &Monitoring, cpu: u32, keeps_a_buffer: bool, catalog: &Catalog) -> Result<Self> {
        if let Some(buffer) = monitoring.own_buffer {
            let (device, selector) = (Path::new(DirectSampler::DEVICE), event.direct(catalog)?);
            let period = monitoring.sampling.period.unwrap_or(0);
            let sampler = DirectSampler::open(device, &selector, period, buffer.bytes, buffer.pages, cpu)?;
            return Ok(Self::Direct(Direct { sampler, buffer_bytes: buffer.bytes }));
        }
        let mut event = event.clone();
        if monitoring.drops_all {
            // Excluding a mode takes no right.
            (event.modifiers.exclude_user, event.modifiers.exclude_kernel) = (true, true);
        }
        let sampler = LiveSampler::open(&[(event, monitoring.sampling)], &[Target::ThisThread], monitoring.ring_pages)?;
        let leader = &sampler.events()[0];
        let mut members = Vec::new();
        for name in ["page-faults", "context-switches", "cpu-migrations"].iter().cycle().take(monitoring.group_members as usize) {
            let sampling = Sampling { payload: Payload::BASIC, ..Sampling::COUNTING };
            members.push(OpenEvent::open(&parse_one(name, catalog)?, &sampling, Target::ThisThread, Some(leader))?);
        }
        if monitoring.signal {
            leader.deliver_signal(SAMPLE_SIGNAL)?;
        }
        let counts_interrupts_of = keeps_a_buffer.then_some(cpu);
        Ok(Self::Perf(Perf { sampler, _members: members, counts_interrupts_of, interrupts_before: 0 }))
    }

    /// Events counted so far; 0 of our own module's.
    pub fn counted(&self) -> Result<u64> {
        match self {
            Self::Perf(perf) => Ok(perf.event().read()?.value),
            Self::Direct(_) => Ok(0),
        }
    }

    /// Starts.
    pub fn start(&mut self) -> Result<()> {
        match self {
            Self::Perf(perf) => {
                perf.interrupts_before = perf.interrupts()?;
                perf.sampler.enable()
            }
            Self::Direct(direct) => direct.sampler.enable(),
        }
    }

    /// Stops, and reads what came.
    pub fn stop(&mut self, tsc: Tsc) -> Result<Stopped> {
        match self {
            Self::Perf(perf) => perf.stop(),
            Self::Direct(direct) => direct.stop(tsc),
        }
    }
}

impl Perf {
    /// The event that is sampled.
    pub fn event(&self) -> &OpenEvent {
        &self.sampler.events()[0]
    }

    fn interrupts(&self) -> Result<u64> {
        self.counts_interrupts_of.map_or(Ok(0), performance_interrupts)
    }

    fn stop(&mut self) -> Result<Stopped> {
        let in_ring_bytes = self.sampler.waiting_bytes();
        let stopping = monotonic_ns();
        self.sampler.disable()?;
        let stop_ns = monotonic_ns() - stopping;
        let interrupts = self.interrupts()?.saturating_sub(self.interrupts_before);
        let mut delivered = Delivered::default();
        let bytes = self.sampler.drain(&mut |header, body| delivered.count(0, header, body))?;
        let samples = delivered.samples();
        // Samples are all of one size.
        let waiting = samples - samples * in_ring_bytes / bytes.max(1);
        let settling = Some(Settling { waiting, stop_ns, interrupts, ..Settling::default() });
        Ok(Stopped { samples, lost: delivered.lost, throttled: delivered.throttled, settling })
    }
}

impl Direct {
    fn stop(&mut self, tsc: Tsc) -> Result<Stopped> {
        let stopping = monotonic_ns();
        let reading = self.sampler.disable()?;
        let settling = Settling {
            waiting: reading.records.saturating_sub(reading.interrupts * reading.capacity),
            stop_ns: monotonic_ns() - stopping,
            interrupts: reading.interrupts,
            handler_ns: tsc.ns(reading.handler_tsc) as u64,
            buffer_bytes: self.buffer_bytes,
            capacity: reading.capacity,
        };
        // A full buffer drops what the hardware would have written.
        Ok(Stopped { samples: reading.records, lost: reading.overruns, throttled: 0, settling: Some(settling) })
    }
}
