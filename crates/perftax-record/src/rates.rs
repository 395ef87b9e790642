//! One event at several periods, of which one is on at a time.
//!
//! A period that is changed on an open event (`PERF_EVENT_IOC_PERIOD`) is not told by a clock's samples, which go on saying the first one, and does not reach
//! threads that inherited the event (Linux 6.18, kernel/events/core.c: `perf_event_period`, `perf_swevent_hrtimer`). So there is an event for each period, and
//! what is switched is which of them is on: that reaches inherited ones (`perf_event_for_each_child`), and each sample says the period that it stands for.

use perftax_pmu::Result;
use perftax_pmu::event::Event;
use perftax_pmu::record::{Header, Layout};
use perftax_pmu::sampler::{LiveSampler, Sampler as _, Sampling};
use perftax_pmu::sys::{OpenEvent, Target, thread_cpu_ns};

/// The events of all periods on all targets.
pub struct Rates {
    sampler: LiveSampler,
    rates: usize,
    on: Option<usize>,
    /// What the counters of each rate had last said.
    told: Vec<Told>,
    /// CPU time that switching and reading took us since it was last asked, ns: we wait for the program's CPUs without giving up our own.
    took_ns: u64,
    ring_bytes: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Told {
    running_ns: u64,
    counted: u64,
    lost: u64,
}

/// What counters say of the time since they were last read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// For how long the program ran while the event was on, all CPUs together, ns.
    pub running_ns: u64,
    /// What was counted, in the event's unit.
    pub counted: u64,
    /// Samples that found no room, as the counters know of all (Linux 6.0 on).
    pub lost: u64,
}

impl Rates {
    /// Opens the event at each period on every target; nothing is on, but the first rate begins with the exec of a program that is about to be executed, where
    /// `samplings` say so.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn open(event: &Event, samplings: &[Sampling], targets: &[Target], ring_pages: usize) -> Result<Self> {
        let events: Vec<(Event, Sampling)> = samplings.iter().map(|sampling| (event.clone(), *sampling)).collect();
        let began_ns = thread_cpu_ns();
        let sampler = LiveSampler::open(&events, targets, ring_pages)?;
        let is_on_exec = samplings.first().is_some_and(|sampling| sampling.enable_on_exec);
        Ok(Self {
            sampler,
            rates: samplings.len(),
            on: is_on_exec.then_some(0),
            told: vec![Told::default(); samplings.len()],
            took_ns: thread_cpu_ns() - began_ns,
            ring_bytes: (ring_pages * rustix::param::page_size()) as f64,
        })
    }

    /// How its records are laid out.
    pub fn layout(&self) -> &Layout {
        self.sampler.layout()
    }

    /// The events' identities, each with its rate.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn identities(&self) -> Result<Vec<(u64, usize)>> {
        let events = self.sampler.events().iter().enumerate();
        events.map(|(i, event)| Ok((event.id()?, i % self.rates))).collect()
    }

    /// Has this rate be on, and no other. The new one is on before the old one is off: what the program does in between is told twice, not never.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn turn(&mut self, rate: usize) -> Result<()> {
        if self.on == Some(rate) {
            return Ok(());
        }
        let began_ns = thread_cpu_ns();
        self.of_rate(rate).try_for_each(OpenEvent::enable)?;
        if let Some(before) = self.on.replace(rate) {
            self.of_rate(before).try_for_each(OpenEvent::disable)?;
        }
        self.took_ns += thread_cpu_ns() - began_ns;
        Ok(())
    }

    /// Switches all off.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn off(&mut self) -> Result<()> {
        if let Some(rate) = self.on.take() {
            self.of_rate(rate).try_for_each(OpenEvent::disable)?;
        }
        Ok(())
    }

    /// How many rates there are.
    pub fn count(&self) -> usize {
        self.rates
    }

    /// Reads the counters of a rate.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn read(&mut self, rate: usize) -> Result<Progress> {
        let began_ns = thread_cpu_ns();
        let mut now = Told::default();
        for event in self.of_rate(rate) {
            let reading = event.read()?;
            now.running_ns += reading.time_running_ns;
            now.counted += reading.value;
            now.lost += reading.lost;
        }
        self.took_ns += thread_cpu_ns() - began_ns;
        let before = std::mem::replace(&mut self.told[rate], now);
        Ok(Progress {
            running_ns: now.running_ns.saturating_sub(before.running_ns),
            counted: now.counted.saturating_sub(before.counted),
            lost: now.lost.saturating_sub(before.lost),
        })
    }

    /// What switching and reading took since this was last asked, ns.
    pub fn took_ns(&mut self) -> u64 {
        std::mem::take(&mut self.took_ns)
    }

    /// Hands out what has come. Returns the part of a ring that was used, of the one that was used most.
    ///
    /// # Errors
    /// Where a ring is damaged.
    pub fn drain(&mut self, each: &mut dyn FnMut(Header, &[u8])) -> Result<f64> {
        let (mut ring, mut bytes, mut most) = (0, 0u64, 0);
        self.sampler.drain_by_target(|index, header, body| {
            if index != ring {
                (ring, bytes) = (index, 0);
            }
            bytes += u64::from(header.size);
            most = bytes.max(most);
            each(header, body);
        })?;
        Ok(most as f64 / self.ring_bytes)
    }

    /// Of each target in turn, its events stand in the order of the rates.
    fn of_rate(&self, rate: usize) -> impl Iterator<Item = &OpenEvent> {
        self.sampler.events().iter().skip(rate).step_by(self.rates)
    }
}
