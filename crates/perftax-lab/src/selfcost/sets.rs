//! Which events are started, stopped and read.

use perftax_pmu::event::{Catalog, Event, parse};

/// Events of one kind, or why there are none.
#[derive(Clone, Debug)]
pub struct Set {
    /// `software` or `hardware`.
    pub name: &'static str,
    /// The events; of more the list starts anew.
    pub events: Vec<Event>,
    /// How many are measured at once.
    pub counts: &'static [u32],
    /// What is sampled while contexts are switched: in perf's syntax, and the period.
    pub sampled: (&'static str, u64),
    /// Why this machine has none.
    pub missing: Option<String>,
}

/// Software events that only add up, so that each costs the same. In user mode only, as a program without rights may measure itself
/// (kernel.perf_event_paranoid 2), and as PAPI does.
const SOFTWARE: &str = "page-faults:u,context-switches:u,cpu-migrations:u,minor-faults:u,major-faults:u,dummy:u,alignment-faults:u,emulation-faults:u";
/// Events that every core has.
const HARDWARE: &str = "instructions:u,cycles:u,branches:u,branch-misses:u";

/// As in the study: 1, 2, 4, 8 and 16 at once.
const COUNTS: [u32; 5] = [1, 2, 4, 8, 16];
/// With more points below the number of counters that a core has.
const COUNTS_OF_COUNTERS: [u32; 7] = [1, 2, 3, 4, 6, 8, 16];

/// About 1 kHz, a prime.
const SAMPLED_EVERY_NS: u64 = 1_000_003;
/// As many instructions, for the emulated machine's sake, where each takes a nanosecond.
const SAMPLED_EVERY: u64 = 1_000_003;

impl Set {
    /// Software and hardware events; those of hardware with the reason where there are none.
    pub fn all(catalog: &Catalog) -> Vec<Self> {
        let set = |name, text: &str, counts, sampled| {
            let events = parse(text, catalog).and_then(|events| {
                events.iter().try_for_each(|event| event.check_supported(catalog))?;
                Ok(events)
            });
            let missing = events.as_ref().err().map(|error| error.headline());
            Self { name, events: events.unwrap_or_default(), counts, sampled, missing }
        };
        vec![
            set("software", SOFTWARE, &COUNTS, ("cpu-clock", SAMPLED_EVERY_NS)),
            set("hardware", HARDWARE, &COUNTS_OF_COUNTERS, ("instructions", SAMPLED_EVERY)),
        ]
    }

    /// So many events of the set.
    pub fn take(&self, count: u32) -> Vec<Event> {
        self.events.iter().cycle().take(if self.events.is_empty() { 0 } else { count as usize }).cloned().collect()
    }

    /// Their names.
    pub fn names(&self) -> Vec<String> {
        self.events.iter().map(|event| event.name.clone()).collect()
    }
}
