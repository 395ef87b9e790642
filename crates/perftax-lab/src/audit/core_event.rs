//! Events of the core's PMU, over a loop that makes so many of them.

use std::fmt::{self, Display, Formatter};

use perftax_doc::steps::{Emulation, Experiment as InMachine, Operation};
use perftax_pmu::event::{Catalog, Event, Retired, Vendor, parse_one};
use perftax_pmu::{Error, Result};

use crate::stimulus::{KnownLoop, Loop, Turn};

/// How many of them a turn of a loop makes.
fn of_turn(counted: Retired, turn: &Turn) -> u64 {
    match counted {
        Retired::Instructions => turn.instructions,
        Retired::Loads => turn.loads,
        Retired::Stores => turn.stores,
        Retired::Branches => turn.branches,
        Retired::Taken => turn.taken,
        Retired::Locked => turn.locked,
        Retired::Returns => turn.returns,
    }
}

/// How a counter's overflow becomes a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// By an interrupt.
    Interrupt,
    /// By PEBS.
    Pebs,
}

impl Overflow {
    /// The most precise way that a vendor's core has: AMD's precise mechanism is IBS, which counts on its own, ARM's is SPE.
    pub fn most_precise(vendor: Vendor) -> Self {
        if vendor == Vendor::Intel { Self::Pebs } else { Self::Interrupt }
    }
}

impl Display for Overflow {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Interrupt => "interrupt",
            Self::Pebs => "pebs",
        })
    }
}

/// An event of the core's PMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreEvent {
    /// What it counts.
    pub counted: Retired,
    /// How it samples.
    pub by: Overflow,
}

/// Loads by PEBS, each of whose records holds an address: what tells instructions of a loop apart.
pub const LOADS: CoreEvent = CoreEvent { counted: Retired::Loads, by: Overflow::Pebs };

/// Turns of the loop in a run.
pub const TURNS: u64 = 40_000;
/// The shortest period that experiments use, events: an interrupt each, where it is not PEBS, that must end before the next one comes.
const SHORTEST_INTERRUPT: u64 = 10_000;
const SHORTEST_PEBS: u64 = 1000;

impl CoreEvent {
    /// Those of a vendor's machine: each event as precisely as it can be sampled, and instructions and loads by interrupts, too.
    pub fn all(vendor: Vendor) -> Vec<Self> {
        let best = Overflow::most_precise(vendor);
        let known = Retired::ALL.into_iter().filter(|counted| counted.selector(vendor, "").is_some());
        let by_interrupts: &[Retired] = if best == Overflow::Interrupt { &[] } else { &[Retired::Instructions, Retired::Loads] };
        known
            .map(|counted| Self { counted, by: best })
            .chain(by_interrupts.iter().map(|counted| Self { counted: *counted, by: Overflow::Interrupt }))
            .collect()
    }

    /// How it is called.
    pub fn name(self) -> String {
        format!("{} {}", self.by, self.counted.name())
    }

    /// The event, in user mode or in the kernel's.
    ///
    /// # Errors
    /// Where the machine has no such event.
    pub fn event(self, of_kernel: bool, catalog: &Catalog) -> Result<Event> {
        let missing = |why: String| Error::Unsupported {
            what: format!("sample {}", self.name()),
            why,
            remedy: format!(
                "{} shows which mechanisms this machine has; {} has PEBS emulated",
                Operation::Diagnose,
                Operation::Emulate(Emulation { experiment: Some(InMachine::Audit), ..Emulation::default() })
            ),
        };
        let pmu = catalog.core_pmu().ok_or_else(|| {
            missing(format!("the kernel exposes no core PMU (nothing like {}/cpu)", catalog.devices().display()))
        })?;
        let vendor = catalog.vendor();
        // Before the event: without the mechanism it matters little which events there are.
        if self.by == Overflow::Pebs && vendor != Vendor::Intel {
            return Err(missing("precise event-based sampling is Intel's".into()));
        }
        let (code, mask) = self
            .counted
            .selector(vendor, catalog.cores())
            .ok_or_else(|| missing(format!("no event of {vendor:?}'s is known to count them")))?;
        let precise = if self.by == Overflow::Pebs { "pp" } else { "" };
        let mode = if of_kernel { "k" } else { "u" };
        parse_one(&format!("{}/event={code:#x},umask={mask:#x}/{mode}{precise}", pmu.name), catalog)
    }

    /// A loop of so many turns.
    ///
    /// # Errors
    /// Where it has not been written for this architecture.
    pub fn work(turns: u64) -> Result<KnownLoop> {
        KnownLoop::new(Loop::Mix, turns)
    }

    /// Events of a loop of so many turns.
    pub fn events(self, turns: u64) -> u64 {
        let turn = Loop::Mix.turn();
        // The last branch back falls through.
        of_turn(self.counted, &turn) * turns - u64::from(self.counted == Retired::Taken)
    }

    /// Turns that make at most so many events, one at least.
    pub fn turns(self, events: u64) -> u64 {
        let last = u64::from(self.counted == Retired::Taken);
        ((events + last) / of_turn(self.counted, &Loop::Mix.turn())).max(1)
    }

    /// Events from one sample to the next. After an overflow PEBS records the event after it, and counts anew from there: period + 1
    /// (SDM volume 3, section 20.6.2.4.2; the study's own data, to within one sample).
    pub fn stride(self, period: u64) -> u64 {
        match self.by {
            Overflow::Interrupt => period,
            Overflow::Pebs => period + 1,
        }
    }

    /// Samples of so many events.
    pub fn samples(self, events: u64, period: u64) -> u64 {
        events / self.stride(period)
    }

    /// The shortest period that experiments use, events.
    pub fn shortest(self) -> u64 {
        match self.by {
            Overflow::Interrupt => SHORTEST_INTERRUPT,
            Overflow::Pebs => SHORTEST_PEBS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pebs_is_refused_for_what_it_is_on_amd() {
        let machine = tempfile::tempdir().unwrap();
        let cpu = machine.path().join("bus/event_source/devices/cpu");
        std::fs::create_dir_all(cpu.join("format")).unwrap();
        std::fs::write(cpu.join("type"), "4\n").unwrap();
        std::fs::write(cpu.join("format/event"), "config:0-7,32-35\n").unwrap();
        std::fs::write(cpu.join("format/umask"), "config:8-15\n").unwrap();
        let catalog = Catalog::at(machine.path(), None).with_vendor(Vendor::Amd);
        // Whether or not the vendor has a number for the event.
        for counted in [Retired::Loads, Retired::Locked] {
            let refused = CoreEvent { counted, by: Overflow::Pebs }.event(false, &catalog).unwrap_err();
            assert!(refused.in_one_line().contains("precise event-based sampling is Intel's"), "{refused:?}");
        }
        assert!(CoreEvent { counted: Retired::Loads, by: Overflow::Interrupt }.event(false, &catalog).is_ok());
    }
}
