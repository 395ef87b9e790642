//! Places in programs, made events of the kernel's: static probes, and functions.

mod file;
mod functions;
mod static_probes;

use std::path::PathBuf;

use perftax_pmu::event::{Catalog, RecordFormat, parse};
use perftax_pmu::guard::{ProbeDefinition, ProbeDefinitions};
use perftax_pmu::record::Sample;
use perftax_pmu::sampler::Sampling;
use perftax_pmu::{Error, Result};

use super::Recording;
use super::events::Meaning;
use crate::passes::{Pass, Place};
use crate::tag::Tag;

/// The probes of messages, defined.
pub(super) struct Probes {
    /// Removes them when it goes; the events must be closed by then.
    definitions: ProbeDefinitions,
    /// The program or library that has them, as it is called.
    pub binary: PathBuf,
    sites: Vec<Site>,
}

/// What a probe is to be.
struct Wanted {
    says: Says,
    offset: u64,
    is_return: bool,
    semaphore: Option<u64>,
    /// As `name=how`, by the names below.
    fetches: Vec<String>,
}

/// A file, as it is called and where it can be read, and the probes that are wanted in it.
struct Plan {
    binary: PathBuf,
    place: PathBuf,
    probes: Vec<Wanted>,
}

/// What passing a place says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Start,
    Done,
    Comes,
    Leaves,
    Gone,
    Readies,
}

/// A probe that is defined.
struct Site {
    name: String,
    is_return: bool,
    says: Says,
    format: RecordFormat,
}

/// The field that holds a message's text.
const TEXT: &str = "text";
/// The one that holds its number.
const ID: &str = "id";
/// The ones that say how deep in its stack a thread is: where it is, and where the stack begins, if not at the end of all addresses.
const SP: &str = "sp";
const STACK: &str = "stack";
/// The one that says which goroutine it is.
const GOROUTINE: &str = "goroutine";

impl Probes {
    /// Defines the probes that are asked for; none where messages are told apart by something else.
    ///
    /// # Errors
    /// Where the program has no such places, what is to be fetched cannot be, or the kernel cannot be told.
    pub fn define(recording: &Recording, catalog: &Catalog) -> Result<Option<Self>> {
        let plan = match &recording.tag {
            Tag::Probes(wanted) => static_probes::plan(wanted, &recording.subject)?,
            Tag::Functions(wanted) => functions::plan(wanted, &recording.subject)?,
            Tag::Marks | Tag::Register(_) | Tag::Otel | Tag::Sockets(_) => return Ok(None),
        };
        let tracefs = catalog.tracefs().ok_or_else(|| Error::Unsupported {
            what: "watch places in programs".into(),
            why: "tracefs is not mounted at /sys/kernel/tracing".into(),
            remedy: "sudo mount -t tracefs tracefs /sys/kernel/tracing".into(),
        })?;
        let defined = |(at, wanted): (usize, &Wanted)| ProbeDefinition {
            name: format!("{}_{at}", wanted.says.name()),
            path: plan.place.clone(),
            offset: wanted.offset,
            is_return: wanted.is_return,
            semaphore: wanted.semaphore,
            fetches: wanted.fetches.clone(),
        };
        let wanted: Vec<ProbeDefinition> = plan.probes.iter().enumerate().map(defined).collect();
        let definitions = ProbeDefinitions::define(tracefs, &wanted)?;
        let site = |(definition, wanted): (ProbeDefinition, &Wanted)| {
            let format = catalog.record_format(definitions.group(), &definition.name)?;
            Ok(Site { name: definition.name, is_return: wanted.is_return, says: wanted.says, format })
        };
        let sites = wanted.into_iter().zip(&plan.probes).map(site).collect::<Result<_>>()?;
        Ok(Some(Self { definitions, binary: plan.binary, sites }))
    }

    /// Their events, for all that a CPU runs. Watching the program's tasks alone would lose some: where tasks that have inherited an event
    /// follow each other on a CPU, the kernel swaps their events instead of switching them (kernel/events/core.c,
    /// perf_event_context_sched_out); when one of them ends, another's events may be gone in the list by which a probe is thought wanted
    /// (kernel/trace/trace_uprobe.c, uprobe_perf_filter), and is taken out of it. Seen on Linux 6.18, one run in forty.
    ///
    /// # Errors
    /// Where tracefs does not know them.
    pub fn events(&self, sampling: Sampling, catalog: &Catalog) -> Result<Vec<(perftax_pmu::event::Event, Sampling, Meaning)>> {
        let mut events = Vec::new();
        for (at, site) in self.sites.iter().enumerate() {
            let parsed = parse(&format!("{}:{}", self.definitions.group(), site.name), catalog)?;
            events.extend(parsed.into_iter().map(|event| (event, sampling, Meaning::Probe(at as u32))));
        }
        Ok(events)
    }

    /// What a record of one of them says; `None` where it does not hold what it should.
    pub fn read(&self, probe: u32, sample: &Sample<'_>) -> Option<Pass> {
        let Site { says, format, is_return, .. } = self.sites.get(probe as usize)?;
        let raw = sample.raw.unwrap_or_default();
        let id = format.number(ID, raw);
        let at = match says {
            Says::Start => {
                let text = format.text(TEXT, raw).map(|text| String::from_utf8_lossy(text).into_owned());
                Place::Start { text, id }
            }
            Says::Done => Place::Done { id },
            Says::Comes => Place::Comes,
            Says::Leaves => Place::Leaves,
            Says::Gone => Place::Gone,
            Says::Readies => Place::Readies,
        };
        // Behind a return its own address is gone from the stack.
        let sp = format.number(SP, raw).map(|sp| if *is_return { sp.wrapping_sub(8) } else { sp });
        let depth = sp.map(|sp| format.number(STACK, raw).unwrap_or(u64::MAX).wrapping_sub(sp));
        let task = sample.task?;
        Some(Pass { time_ns: sample.time_ns?, pid: task.pid, tid: task.tid, goroutine: format.number(GOROUTINE, raw), depth, at })
    }
}

impl Says {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Done => "done",
            Self::Comes => "comes",
            Self::Leaves => "leaves",
            Self::Gone => "gone",
            Self::Readies => "readies",
        }
    }
}
