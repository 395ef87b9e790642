//! A program's pieces of work, counted all the time: what a pause of sampling is judged by.

use perftax_pmu::Result;
use perftax_pmu::event::Event;
use perftax_pmu::sampler::Sampling;
use perftax_pmu::sys::{OpenEvent, Target};

/// Counters of an event on all targets.
pub struct Work {
    events: Vec<OpenEvent>,
    told: (u64, u64),
}

impl Work {
    /// Opens the counters: of a program that is about to be executed they begin with it, else at once.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn open(event: &Event, targets: &[Target], inherit: bool, on_exec: bool) -> Result<Self> {
        let sampling = Sampling { inherit, enable_on_exec: on_exec, ..Sampling::COUNTING };
        let events: Vec<OpenEvent> =
            targets.iter().map(|target| OpenEvent::open(event, &sampling, *target, None)).collect::<Result<_>>()?;
        if !on_exec {
            events.iter().try_for_each(OpenEvent::enable)?;
        }
        Ok(Self { events, told: (0, 0) })
    }

    /// Pieces of work, and CPU time of the program, ns, since this was last asked.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn since(&mut self) -> Result<(u64, u64)> {
        let mut now = (0, 0);
        for event in &self.events {
            let reading = event.read()?;
            now = (now.0 + reading.value, now.1 + reading.time_running_ns);
        }
        let before = std::mem::replace(&mut self.told, now);
        Ok((now.0.saturating_sub(before.0), now.1.saturating_sub(before.1)))
    }
}
