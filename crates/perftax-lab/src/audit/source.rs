//! Events that a piece of work makes so many of, to the last one.

use perftax_pmu::Result;
use perftax_pmu::event::{Catalog, Event, Retired, parse_one};

use super::core_event::{CoreEvent, Overflow, TURNS};
use super::{Measurement, Setting};
use crate::stimulus::{PageFaults, ProbedCalls, Stimulus, Syscalls, WatchedWrites};

/// What makes events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// First touches of pages.
    PageFaults,
    /// System calls, by their tracepoint.
    Syscalls,
    /// Writes to a variable that a debug register watches.
    Writes,
    /// Calls of a function with a probe.
    Calls,
    /// A loop, by the core's PMU.
    Core(CoreEvent),
}

/// The largest error of a core's counts and samples that passes on a real machine: interrupts are counted as instructions there, and
/// PEBS misses what lies in its shadow (Weaver's ISPASS'13 study of overcount; the PES study, figure 3).
pub(super) const ALLOWED_ON_HARDWARE: f64 = 0.01;

impl Source {
    /// Those that need no PMU.
    pub const SOFTWARE: [Self; 4] = [Self::PageFaults, Self::Syscalls, Self::Writes, Self::Calls];

    /// All that the machine may have; where it has no PMU, one event of a core to say so.
    pub fn all(catalog: &Catalog) -> Vec<Self> {
        let core = match catalog.core_pmu() {
            Some(_) => CoreEvent::all(catalog.vendor()),
            None => vec![CoreEvent { counted: Retired::Instructions, by: Overflow::Interrupt }],
        };
        Self::SOFTWARE.into_iter().chain(core.into_iter().map(Self::Core)).collect()
    }

    /// How it is called.
    pub fn name(self) -> String {
        match self {
            Self::PageFaults => "page-faults".into(),
            Self::Syscalls => "raw_syscalls:sys_enter".into(),
            Self::Writes => "mem:VARIABLE/8:w".into(),
            Self::Calls => "uprobe:FUNCTION".into(),
            Self::Core(core) => core.name(),
        }
    }

    /// Work that makes about so many (see [`Source::events`]), and the event.
    ///
    /// # Errors
    /// Where the event is unknown here.
    pub fn work(self, events: u64, catalog: &Catalog) -> Result<(Box<dyn Stimulus>, Event)> {
        let (work, text): (Box<dyn Stimulus>, String) = match self {
            Self::PageFaults => (Box::new(PageFaults::new(events as usize)?), "page-faults:u".into()),
            Self::Syscalls => (Box::new(Syscalls::new(events)), "raw_syscalls:sys_enter".into()),
            Self::Writes => {
                let writes = WatchedWrites::new(events);
                let text = writes.event_text();
                (Box::new(writes), text)
            }
            Self::Calls => (Box::new(ProbedCalls::new(events)), ProbedCalls::event_text()?),
            Self::Core(core) => {
                let event = core.event(false, catalog)?;
                return Ok((Box::new(CoreEvent::work(self.turns(events))?), event));
            }
        };
        Ok((work, parse_one(&text, catalog)?))
    }

    /// Turns of a loop that make at most so many events.
    fn turns(self, events: u64) -> u64 {
        match self {
            Self::Core(core) => core.turns(events),
            _ => events,
        }
    }

    /// Events that [`Source::work`] makes where about so many are asked for.
    pub fn events(self, events: u64) -> u64 {
        match self {
            Self::Core(core) => core.events(self.turns(events)),
            _ => events,
        }
    }

    /// Whether this machine has it.
    ///
    /// # Errors
    /// Where not: which knob or event is missing.
    pub fn check(self, catalog: &Catalog) -> Result<()> {
        self.work(1, catalog)?.1.check_supported(catalog)
    }

    /// Events that take some hundredths of a second while each is counted: a trap of a debug register takes ten microseconds and more in a guest,
    /// a page fault or a system call a fraction of one.
    pub fn many(self) -> u64 {
        match self {
            Self::PageFaults => 20_000,
            Self::Syscalls => 100_000,
            Self::Writes => 1_000,
            Self::Calls => 5_000,
            Self::Core(core) => core.events(TURNS),
        }
    }

    /// Events beside the work's own that switching the event on and off makes. The last system call is the one that switches it off; a
    /// core counts what is executed between the switches, which a run of a single turn shows.
    ///
    /// # Errors
    /// As [`Measurement::of`].
    pub fn own(self, setting: &Setting) -> Result<u64> {
        let Self::Core(core) = self else { return Ok(u64::from(self == Self::Syscalls)) };
        let setting = setting.without_fault();
        let (mut work, event) = self.work(1, setting.catalog)?;
        // The first run touches what the others find.
        let runs: Vec<Measurement> =
            (0..4).map(|_| Measurement::of(&setting, work.as_mut(), &event, None)).collect::<Result<_>>()?;
        let least = runs.iter().map(|run| run.counted).min().unwrap_or(0);
        Ok(least.saturating_sub(core.events(1)))
    }

    /// Samples that so many events bring.
    pub fn samples(self, events: u64, period: u64) -> u64 {
        match self {
            Self::Core(core) => core.samples(events, period),
            // The period begins when the event is switched on (perf_swevent_event, kernel/events/core.c).
            _ => events / period,
        }
    }

    /// A period that brings about so many samples, or the shortest one where that is longer. Half a period is left over at the end: what is
    /// executed between switching one event on and the next, where several are, makes no sample more.
    pub fn period_for(self, samples: u64) -> u64 {
        (2 * self.many() / (2 * samples + 1)).max(self.shortest())
    }

    /// The shortest period that is tried, events.
    pub fn shortest(self) -> u64 {
        match self {
            Self::Core(core) => core.shortest(),
            _ => 1,
        }
    }

    /// The largest error that passes: none, but for a real core's.
    pub fn allowed(self, setting: &Setting) -> f64 {
        if matches!(self, Self::Core(_)) && !setting.is_exact { ALLOWED_ON_HARDWARE } else { 0.0 }
    }
}
