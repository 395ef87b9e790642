//! Faults that are planted to show that the audit finds them.

use std::str::FromStr;

use perftax_doc::steps::Setting;
use perftax_pmu::Error;
use perftax_pmu::event::Event;
use perftax_pmu::record::Sample;

/// What is wrong with a sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// One sample in a hundred does not arrive.
    Drop,
    /// The period is 7 longer than asked for.
    Period,
    /// A sample names the instruction behind.
    Skid,
    /// User mode and kernel mode are swapped.
    Mode,
    /// Addresses are 8 too high.
    Address,
    /// The period is brought down to what four divides.
    Alias,
    /// The kernel's limit of samples a second is far below what is asked for.
    Throttle,
    /// More events than counters, which take turns.
    Multiplex,
    /// Pinned events have all counters, and ours is pinned, too.
    Pinned,
}

/// Samples of which one is dropped.
const ONE_IN: u64 = 100;
/// By how much a period is off, events.
const OFF: u64 = 7;
/// Events beside ours: more than any core has counters for.
const RIVALS: usize = 16;
/// Samples a second: a few each tick.
const LIMIT_HZ: u64 = 1000;
/// By how much an address is off, bytes.
const SHIFT: u64 = 8;
/// By how much an instruction is off, bytes: less than two instructions, more than none.
const SKID: u64 = 3;

impl Fault {
    /// All of them, by name.
    pub const ALL: [(&str, Self); 9] = [
        ("drop", Self::Drop),
        ("period", Self::Period),
        ("skid", Self::Skid),
        ("mode", Self::Mode),
        ("address", Self::Address),
        ("alias", Self::Alias),
        ("throttle", Self::Throttle),
        ("multiplex", Self::Multiplex),
        ("pinned", Self::Pinned),
    ];

    /// The period that is set.
    pub(super) fn period(self, period: u64) -> u64 {
        match self {
            Self::Period => period + OFF,
            Self::Alias => (period - period % 4).max(4),
            _ => period,
        }
    }

    /// The event that is opened.
    pub(super) fn event(self, mut event: Event) -> Event {
        if self == Self::Mode {
            let modifiers = &mut event.modifiers;
            std::mem::swap(&mut modifiers.exclude_user, &mut modifiers.exclude_kernel);
        }
        event.modifiers.pinned |= self == Self::Pinned;
        event
    }

    /// Events that take counters away from it.
    pub(super) fn rivals(self, event: &Event) -> Vec<Event> {
        let count = if matches!(self, Self::Multiplex | Self::Pinned) { RIVALS } else { 0 };
        vec![event.clone(); count]
    }

    /// The limit that the kernel is given, samples a second.
    pub fn limit_hz(self) -> Option<u64> {
        (self == Self::Throttle).then_some(LIMIT_HZ)
    }

    /// Whether a sample arrives, the first being number 1.
    pub(super) fn lets_through(self, number: u64) -> bool {
        self != Self::Drop || !number.is_multiple_of(ONE_IN)
    }

    /// What a sample says.
    pub(super) fn on(self, sample: &mut Sample) {
        match self {
            Self::Skid => sample.ip = sample.ip.map(|ip| ip + SKID),
            Self::Address => sample.address = sample.address.map(|address| address + SHIFT),
            _ => {}
        }
    }
}

impl FromStr for Fault {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let names = || Self::ALL.map(|(name, _)| name).join(", ");
        let known = Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, fault)| fault);
        known.ok_or_else(|| Error::Argument {
            argument: Setting::Plant.name(),
            value: name.into(),
            needed: format!("one of {}", names()),
        })
    }
}
