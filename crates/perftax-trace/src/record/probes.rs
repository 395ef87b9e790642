//! A program's static probes, made events of the kernel's.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use perftax_doc::steps::Setting;
use perftax_pmu::event::{Catalog, RecordFormat, fetch_text, parse};
use perftax_pmu::guard::{ProbeDefinition, ProbeDefinitions};
use perftax_pmu::record::Sample;
use perftax_pmu::sampler::Sampling;
use perftax_pmu::{Error, Result};
use perftax_symbols::{StaticProbe, static_probes};

use super::Recording;
use super::events::Meaning;
use crate::passes::{Pass, Place};
use crate::tag::{Tag, TagProbes};

/// The two probes of messages, defined.
pub(super) struct Probes {
    /// Removes them when it goes; the events must be closed by then.
    definitions: ProbeDefinitions,
    /// The program or library that has them.
    pub binary: PathBuf,
    names: Vec<(String, Meaning)>,
    format: RecordFormat,
}

/// The field that holds a message's text.
const TEXT: &str = "text";

impl Probes {
    /// Defines the probes that are asked for; none where messages are told apart by something else.
    ///
    /// # Errors
    /// Where the program has no such probes, the argument is no address, or the kernel cannot be told.
    pub fn define(recording: &Recording, catalog: &Catalog) -> Result<Option<Self>> {
        let Tag::Probes(wanted) = &recording.tag else { return Ok(None) };
        let tracefs = catalog.tracefs().ok_or_else(|| Error::Unsupported {
            what: "watch static probes".into(),
            why: "tracefs is not mounted at /sys/kernel/tracing".into(),
            remedy: "sudo mount -t tracefs tracefs /sys/kernel/tracing".into(),
        })?;
        let binary = binary(wanted, recording.subject.program().as_os_str())?;
        let probes = static_probes(&binary)?;
        let (mut definitions, mut names) = (Vec::new(), Vec::new());
        for (name, text, meaning) in [(&wanted.start, wanted.text, Meaning::Start), (&wanted.done, None, Meaning::Done)] {
            for (at, probe) in sites(&probes, wanted, name, &binary)?.into_iter().enumerate() {
                let known = format!("{}_{at}", if meaning == Meaning::Start { "start" } else { "done" });
                let fetch = text.map(|n| fetch(probe, n)).transpose()?;
                definitions.push(ProbeDefinition {
                    name: known.clone(),
                    path: binary.clone(),
                    offset: probe.offset,
                    is_return: false,
                    semaphore: probe.semaphore,
                    fetches: fetch.into_iter().collect(),
                });
                names.push((known, meaning));
            }
        }
        let definitions = ProbeDefinitions::define(tracefs, &definitions)?;
        // One format for all places: they fetch the same fields.
        let format = catalog.record_format(definitions.group(), &names[0].0)?;
        Ok(Some(Self { definitions, binary, names, format }))
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
        for (name, meaning) in &self.names {
            let parsed = parse(&format!("{}:{name}", self.definitions.group()), catalog)?;
            events.extend(parsed.into_iter().map(|event| (event, sampling, *meaning)));
        }
        Ok(events)
    }

    /// What a record says; `None` where it does not hold what it should.
    pub fn read(&self, meaning: Meaning, sample: &Sample<'_>) -> Option<Pass> {
        let at = match meaning {
            Meaning::Start => {
                let text = self.format.text(TEXT, sample.raw.unwrap_or_default());
                Place::Start(text.map(|text| String::from_utf8_lossy(text).into_owned()))
            }
            Meaning::Done => Place::Done,
            _ => return None,
        };
        let task = sample.task?;
        Some(Pass { time_ns: sample.time_ns?, pid: task.pid, tid: task.tid, at })
    }
}

/// The file that has the probes: the one named, or the command's program as a shell finds it.
fn binary(wanted: &TagProbes, program: &OsStr) -> Result<PathBuf> {
    let found = match &wanted.binary {
        Some(path) => path.clone(),
        None if Path::new(program).components().count() > 1 => program.into(),
        None => {
            let folders = std::env::var_os("PATH").unwrap_or_default();
            let files = std::env::split_paths(&folders).map(|folder| folder.join(program));
            files.into_iter().find(|file| file.is_file()).unwrap_or_else(|| program.into())
        }
    };
    found.canonicalize().map_err(Error::file(&found))
}

/// The places of one probe.
fn sites<'a>(all: &'a [StaticProbe], wanted: &TagProbes, name: &str, binary: &Path) -> Result<Vec<&'a StaticProbe>> {
    let sites: Vec<&StaticProbe> = all.iter().filter(|probe| probe.provider == wanted.provider && probe.name == name).collect();
    if !sites.is_empty() {
        return Ok(sites);
    }
    let mut known: Vec<String> = all.iter().map(|probe| format!("{}:{}", probe.provider, probe.name)).collect();
    known.sort();
    known.dedup();
    let has = match known.as_slice() {
        [] => "that file has no static probes at all (usdt:/PATH/TO/BINARY:PROVIDER:START,DONE names another one)".into(),
        known => format!("it has {}", known.join(", ")),
    };
    let value = format!("usdt with {}:{name}", wanted.provider);
    Err(Error::Argument { argument: Setting::Tag.name(), value, needed: format!("a probe of {}: {has}", binary.display()) })
}

/// How the kernel fetches the text.
fn fetch(probe: &StaticProbe, n: usize) -> Result<String> {
    let wrong = |why: String| Error::Argument {
        argument: Setting::Tag.name(),
        value: format!("usdt with {}@{n}", probe.name),
        needed: format!("an argument that is the address of a text: {why}"),
    };
    let count = probe.arguments.len();
    let argument = probe.arguments.get(n - 1).ok_or_else(|| wrong(format!("{} has {count}", probe.name)))?;
    match fetch_text(argument) {
        Ok(fetch) => Ok(format!("{TEXT}={fetch}")),
        Err(why) => Err(wrong(format!("argument {n} is {argument}, which {why}"))),
    }
}
