//! Events: perf's own syntax in, attributes for `perf_event_open` out.
//!
//! [`parse`] reads a comma list of events against a [`Catalog`] of what a machine names; [`list`] shows everything that
//! can be named. Nothing here opens an event: an [`Event`] is pure data, and [`Event::check_supported`] says whether
//! the machine of a catalog can open it.

mod breakpoint;
mod cache;
mod catalog;
mod fetch;
mod filters;
mod format;
mod generic;
mod listing;
mod modifiers;
mod nearest;
mod parse;
mod pmu_event;
mod retired;
mod scan;
mod selector;
mod support;
mod symbolic;
mod tracepoint;
mod uprobe;

use perftax_doc::{LeftOut, Mechanism};

pub use crate::machine::Vendor;
pub use catalog::{Catalog, Pmu};
pub use fetch::fetch_text;
pub use format::FormatField;
pub use listing::{EventKind, Filter, ListedEvent, list};
pub use modifiers::Modifiers;
pub use nearest::{among, near};
pub use parse::{parse, parse_groups, parse_one};
pub use retired::Retired;
pub use selector::Selector;
pub use tracepoint::RecordFormat;
pub(crate) use uprobe::harmless as harmless_uprobe;

/// `perf_event_attr.type` of an event whose PMU this machine does not have, so that it has no number here. Such an
/// event serves a prediction for another machine; [`Event::check_supported`] refuses it.
pub const ABSENT_PMU: u32 = u32::MAX;

/// An event, resolved against this machine: what `perf_event_open` needs to know about it, and how it was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// As the user wrote it (perf's syntax, modifiers included), or the `name=` term where there is one.
    pub name: String,
    /// `perf_event_attr.type`; [`ABSENT_PMU`] where the PMU does not exist on this machine.
    pub pmu_type: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
    /// `perf_event_attr.config1`; breakpoint address, uprobe path pointer (set at open) for those types.
    pub config1: u64,
    /// `perf_event_attr.config2`; breakpoint length for that type.
    pub config2: u64,
    /// `perf_event_attr.config3`.
    pub config3: u64,
    /// `perf_event_attr.config4` (`PERF_ATTR_SIZE_VER9`, in Linux 7.1).
    pub config4: u64,
    /// `perf_event_attr.bp_type` for breakpoints, else 0.
    pub breakpoint_type: u32,
    /// Uprobe target: program and file offset, where the event is a uprobe.
    pub uprobe: Option<UprobeTarget>,
    /// What the modifiers say.
    pub modifiers: Modifiers,
    /// The core PMU that its text names (`cpu_core/cycles/`): on machines with several kinds of cores it belongs to the CPUs of that one. `None` where it
    /// names none, or another kind of PMU.
    pub core: Option<String>,
    /// How it would be sampled.
    pub mechanism: Mechanism,
    /// What a `period=` or `freq=` term asks for; it wins over the command line, as in perf.
    pub rate: Option<Rate>,
}

/// How often to sample, where the event itself says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// One sample every this many events.
    Period(u64),
    /// So many samples a second; the kernel adapts the period.
    Frequency(u64),
}

/// Where a uprobe sits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UprobeTarget {
    /// The program or library.
    pub path: std::path::PathBuf,
    /// Offset in the file.
    pub offset: u64,
    /// Whether it fires on return.
    pub on_return: bool,
}

/// Events written as one group, `{a,b}:u`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The members, leader first. An event outside braces is a group of one.
    pub events: Vec<Event>,
    /// Whether there were braces.
    pub braces: bool,
}

/// The numbers of `enum perf_type_id` (linux/perf_event.h) that are the same on every machine.
pub mod pmu_types {
    /// Generic events of a core.
    pub const HARDWARE: u32 = 0;
    /// Events of the kernel itself.
    pub const SOFTWARE: u32 = 1;
    /// Tracepoints; `config` is their number.
    pub const TRACEPOINT: u32 = 2;
    /// Generic events of caches.
    pub const HW_CACHE: u32 = 3;
    /// A core's own events.
    pub const RAW: u32 = 4;
    /// Debug registers.
    pub const BREAKPOINT: u32 = 5;
}

impl Event {
    /// The kernel's event that counts nothing (`PERF_COUNT_SW_DUMMY`, linux/perf_event.h), in the same modes as this one: all that there is to it is being there.
    pub fn dummy_beside(&self) -> Self {
        let (pmu_type, config, mechanism) = (pmu_types::SOFTWARE, 9, Mechanism::Software);
        Self { name: "dummy".into(), pmu_type, config, mechanism, rate: None, core: None, ..self.clone() }
    }

    /// The samples that its filter drops once they are taken.
    pub fn left_out(&self) -> LeftOut {
        LeftOut::of(self.mechanism, self.modifiers.exclude_kernel, self.modifiers.exclude_user)
    }

    /// An event of the given type and configuration, with nothing else set.
    fn bare(name: &str, pmu_type: u32, config: u64, mechanism: perftax_doc::Mechanism) -> Self {
        Self {
            name: name.into(),
            pmu_type,
            config,
            config1: 0,
            config2: 0,
            config3: 0,
            config4: 0,
            breakpoint_type: 0,
            uprobe: None,
            modifiers: Modifiers::default(),
            core: None,
            mechanism,
            rate: None,
        }
    }
}
