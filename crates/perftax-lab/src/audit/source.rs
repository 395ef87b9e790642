//! Events that a piece of work makes so many of, to the last one.

use perftax_pmu::Result;
use perftax_pmu::event::{Catalog, Event};

use crate::calibrate::single_event;
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
}

impl Source {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::PageFaults, Self::Syscalls, Self::Writes, Self::Calls];

    /// How it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::PageFaults => "page-faults",
            Self::Syscalls => "raw_syscalls:sys_enter",
            Self::Writes => "mem:VARIABLE/8:w",
            Self::Calls => "uprobe:FUNCTION",
        }
    }

    /// Work that makes so many, and the event.
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
        };
        Ok((work, single_event(&text, catalog)?))
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
        }
    }

    /// Events beside the work's own that switching the event on and off makes: the last system call is the one that switches it off.
    pub fn own(self) -> u64 {
        u64::from(self == Self::Syscalls)
    }
}
