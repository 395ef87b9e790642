//! Sets of events, as TOML data: which events, first ones first, and how often each is sampled.

use std::collections::BTreeMap;
use std::path::Path;

use perftax_doc::steps::Setting;
use perftax_doc::{MatrixMode, MatrixSet, MatrixSetEvent};
use perftax_pmu::event::Vendor;
use perftax_pmu::machine::intel::Generation;
use perftax_pmu::{Error, Result};
use serde::Deserialize;

/// A set, as its file has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventSet {
    /// Short name, the file's stem.
    pub name: String,
    /// What it is, one line.
    pub description: String,
    /// Where its events and periods come from.
    pub source: String,
    /// The processors whose codes these are: `intel`, `amd`, `arm`; none where the names are everybody's.
    #[serde(default)]
    pub vendor: Option<String>,
    /// The events, in the order in which they are taken.
    #[serde(rename = "event")]
    pub events: Vec<SetEvent>,
}

/// An event of a set, as the set's file has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetEvent {
    /// In perf's syntax; where it has `codes`, its name.
    pub event: String,
    /// Its period before it is divided: events, or nanoseconds for clocks.
    pub period: u64,
    /// Its form for PEBS, where it has one; where it has `codes`, the modifiers that make it one.
    #[serde(default)]
    pub precise: Option<String>,
    /// Its form for instruction-based sampling, where it has one.
    #[serde(default)]
    pub ibs: Option<String>,
    /// The terms of Intel's core PMU that count it (`event=0xc2,umask=0x01`), by generation.
    #[serde(default)]
    pub codes: BTreeMap<String, String>,
    /// Why generations do not have it.
    #[serde(default)]
    pub missing: BTreeMap<String, String>,
}

impl SetEvent {
    /// What it is opened by on a processor of this generation.
    ///
    /// # Errors
    /// Why this generation does not have it.
    fn code(&self, generation: Option<&Generation>) -> Result<String, String> {
        if self.codes.is_empty() {
            return Ok(self.event.clone());
        }
        let event = &self.event;
        let Some(generation) = generation else {
            return Err(format!("the code of {event} is known by generation, and this processor's is not known"));
        };
        let name = generation.name;
        match (self.codes.get(name), self.missing.get(name)) {
            (Some(terms), _) => Ok(format!("cpu/{terms},name={event}/")),
            (None, Some(why)) => Err(format!("{event} is not on {name}: {why}")),
            (None, None) => Err(format!("the set has no code of {event} for {name}")),
        }
    }

    /// What a mode opens on a processor of this generation; none where the event has no form for that mode.
    ///
    /// # Errors
    /// Why this generation does not have it.
    pub fn form(&self, mode: MatrixMode, generation: Option<&Generation>) -> Result<Option<String>, String> {
        match mode {
            MatrixMode::Ibs => Ok(self.ibs.clone()),
            MatrixMode::Pebs if self.codes.is_empty() => Ok(self.precise.clone()),
            MatrixMode::Pebs => self.precise.as_ref().map(|modifiers| Ok(self.code(generation)? + modifiers)).transpose(),
            _ => self.code(generation).map(Some),
        }
    }

    /// What is wrong with it.
    fn fault(&self) -> Option<String> {
        let event = &self.event;
        if self.period == 0 {
            return Some(format!("period of {event} is 0, needs at least 1"));
        }
        let mut generations = self.codes.keys().chain(self.missing.keys());
        if let Some(unknown) = generations.find(|name| Generation::named(name).is_none_or(|known| known.name != *name)) {
            return Some(format!(
                "{event} has a code for {unknown:?}, which is no generation of Intel's (ivybridge, haswell, …)"
            ));
        }
        self.missing
            .keys()
            .find(|name| self.codes.contains_key(*name))
            .map(|both| format!("{event} has a code for {both}, and a reason why {both} has none"))
    }
}

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../data/events/", $name, ".toml")))),*]
    };
}

/// Name and text, sorted by name.
const SHIPPED: &[(&str, &str)] =
    embedded!["cern-counting", "cern-lbr-inserts", "cern-lbr-taken", "cern-pebs", "clock", "core", "ibs", "kernel", "retired",];

impl EventSet {
    /// The names of the shipped sets, sorted.
    pub fn shipped_names() -> Vec<&'static str> {
        SHIPPED.iter().map(|(name, _)| *name).collect()
    }

    /// Loads a set by path (anything with a `/` or ending in `.toml`) or by the name of a shipped one.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Malformed`] with the byte, or [`Error::Argument`] for a name that is not shipped.
    pub fn load(path_or_name: &str) -> Result<Self> {
        if path_or_name.contains('/') || path_or_name.ends_with(".toml") {
            let path = Path::new(path_or_name);
            let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
            return Self::parse(&text, path_or_name);
        }
        match SHIPPED.iter().find(|(name, _)| *name == path_or_name) {
            Some((name, text)) => Self::parse(text, &format!("data/events/{name}.toml")),
            None => Err(Error::Argument {
                argument: Setting::EventSet.name(),
                value: path_or_name.into(),
                needed: format!("the path of a set of events (.toml), or one of {}", Self::shipped_names().join(", ")),
            }),
        }
    }

    /// Reads a set from its text; `origin` names it in errors.
    ///
    /// # Errors
    /// [`Error::Malformed`] with the byte where the text is no set.
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let malformed = |offset: usize, why: String| Error::Malformed { what: origin.into(), offset: offset as u64, why };
        let set: Self =
            toml::from_str(text).map_err(|e| malformed(e.span().map_or(0, |span| span.start), e.message().to_owned()))?;
        if set.name.is_empty() || set.events.is_empty() {
            return Err(malformed(0, "needs a name and at least one [[event]]".into()));
        }
        if let Some(fault) = set.events.iter().find_map(SetEvent::fault) {
            return Err(malformed(0, fault));
        }
        if let Some(vendor) = set.vendor.as_deref().filter(|name| vendor(name).is_none()) {
            return Err(malformed(0, format!("vendor is {vendor:?}, needs intel, amd or arm")));
        }
        Ok(set)
    }

    /// Why its codes mean something else on processors of this maker; none where they do not.
    pub fn foreign_to(&self, here: Vendor) -> Option<String> {
        let wanted = self.vendor.as_deref()?;
        (vendor(wanted) != Some(here)).then(|| format!("the codes of set {} are {wanted}'s; this processor is not", self.name))
    }

    /// For a document of a machine of this generation.
    pub fn described(&self, generation: Option<&Generation>) -> MatrixSet {
        let event = |event: &SetEvent| MatrixSetEvent {
            event: event.event.clone(),
            code: event.code(generation).ok().filter(|_| !event.codes.is_empty()),
            period: event.period,
            precise: event.form(MatrixMode::Pebs, generation).ok().flatten(),
            ibs: event.ibs.clone(),
        };
        MatrixSet {
            name: self.name.clone(),
            description: self.description.clone(),
            source: self.source.clone(),
            events: self.events.iter().map(event).collect(),
        }
    }
}

fn vendor(name: &str) -> Option<Vendor> {
    match name {
        "intel" => Some(Vendor::Intel),
        "amd" => Some(Vendor::Amd),
        "arm" => Some(Vendor::Arm),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use perftax_pmu::event::{Catalog, parse};

    #[test]
    fn the_shipped_sets_hold_as_many_events_as_they_say_and_are_all_there() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/events");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_string())
            .collect();
        files.sort();
        assert_eq!(files, EventSet::shipped_names());
        for name in EventSet::shipped_names() {
            let set = EventSet::load(name).unwrap();
            let events = match name {
                "cern-lbr-inserts" | "cern-lbr-taken" => 1,
                "ibs" => 3,
                _ => 16,
            };
            assert_eq!((set.name.as_str(), set.events.len()), (name, events));
            // Each period can be divided by the largest usual divisor.
            assert!(set.events.iter().all(|event| event.period >= 100), "{name}");
        }
    }

    #[test]
    fn every_name_of_the_shipped_sets_is_an_event() {
        let catalog = Catalog::of_this_machine();
        let generations = ["ivybridge", "haswell", "broadwell", "skylake", "icelake", "icelake-server"].map(Generation::named);
        let modes = [MatrixMode::Counting, MatrixMode::Pebs, MatrixMode::Ibs];
        for set in EventSet::shipped_names().into_iter().map(|name| EventSet::load(name).unwrap()) {
            for (event, generation) in set.events.iter().flat_map(|event| generations.map(|generation| (event, generation))) {
                for text in modes.into_iter().filter_map(|mode| event.form(mode, generation).ok()?) {
                    let parsed = parse(&text, &catalog);
                    // Terms of a PMU are looked up in its own list: without one the name cannot be read.
                    let pmu = text.split('/').next().filter(|_| text.contains('/')).unwrap_or_default();
                    let is_absent = !pmu.is_empty() && catalog.pmu(pmu).is_none();
                    assert!(parsed.is_ok() || is_absent, "{text}: {parsed:?}");
                }
            }
        }
    }

    #[test]
    fn the_studys_sets_are_the_studys_and_say_what_a_generation_lacks() {
        let of = |set: &str, mode: MatrixMode, generation: &str| -> Vec<Result<String, String>> {
            let generation = Generation::named(generation);
            let forms = EventSet::load(set).unwrap().events.into_iter().map(|event| event.form(mode, generation));
            forms.map(|form| form.map(Option::unwrap)).collect()
        };
        let count = |set, mode, generation: &str| of(set, mode, generation).iter().filter(|form| form.is_ok()).count();
        for (set, mode, there) in [
            ("cern-counting", MatrixMode::Counting, [16, 14, 15, 13, 11]),
            ("cern-pebs", MatrixMode::Pebs, [16, 16, 16, 16, 14]),
            ("cern-lbr-taken", MatrixMode::Lbr, [1, 1, 1, 1, 1]),
        ] {
            let found = ["ivybridge", "haswell", "broadwell", "skylake", "icelake-server"].map(|name| count(set, mode, name));
            assert_eq!(found, there, "{set}");
        }
        let skylake = of("cern-counting", MatrixMode::Sampling, "skylake");
        assert_eq!(skylake[1], Ok("cpu/event=0x85,umask=0x20,name=itlb_misses.stlb_hit/".into()));
        assert!(skylake[12].as_ref().unwrap_err().starts_with("cpl_cycles.ring0_trans is not on skylake: "), "{skylake:?}");
        let precise = "cpu/event=0xc2,umask=0x01,cmask=1,inv=1,name=uops_retired.stall_cycles/p";
        assert_eq!(of("cern-pebs", MatrixMode::Pebs, "ivybridge")[0], Ok(precise.into()));
        // What no list of ours has is not guessed.
        let why = |generation: Option<&Generation>| {
            EventSet::load("cern-pebs").unwrap().events[0].form(MatrixMode::Counting, generation).unwrap_err()
        };
        assert!(why(Generation::named("nehalem")).ends_with("has no code of uops_retired.stall_cycles for nehalem"));
        assert!(why(None).contains("this processor's is not known"));
        // A document has what this machine opens.
        let described = EventSet::load("cern-counting").unwrap().described(Generation::named("haswell"));
        let codes = described.events.iter().filter(|event| event.code.is_some()).count();
        assert_eq!((codes, described.events[0].event.as_str()), (14, "uops_retired.stall_cycles"));
    }

    #[test]
    fn what_is_no_set_is_said_with_its_file() {
        let error = EventSet::load("cores").unwrap_err().to_string();
        assert!(error.contains("'set of events'") && error.contains("clock, core"), "{error}");
        let head = "name = 'a'\ndescription = 'd'\nsource = 's'\n";
        for bad in [
            "",
            "event = []",
            "[[event]]\nevent = 'x'\nperiod = 0",
            "vendor = 'via'\n[[event]]\nevent = 'x'\nperiod = 1",
            "[[event]]\nevent = 'x'\nperiod = 1\n[event.codes]\nlakefield = 'event=1'",
            "[[event]]\nevent = 'x'\nperiod = 1\n[event.codes]\nskylake = 'event=1'\n[event.missing]\nskylake = 'why'",
        ] {
            let error = EventSet::parse(&format!("{head}{bad}"), "a.toml").unwrap_err().to_string();
            assert!(error.starts_with("a.toml is malformed at byte"), "{error}");
        }
        let set = EventSet::parse(&format!("{head}vendor = 'intel'\n[[event]]\nevent = 'x'\nperiod = 1"), "a.toml").unwrap();
        assert!(set.foreign_to(Vendor::Amd).is_some() && set.foreign_to(Vendor::Intel).is_none());
    }
}
