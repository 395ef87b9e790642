//! Sets of events, as TOML data: which events, first ones first, and how often each is sampled.

use std::path::Path;

use perftax_doc::steps::Setting;
use perftax_doc::{MatrixSet, MatrixSetEvent};
use perftax_pmu::event::Vendor;
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
    pub events: Vec<MatrixSetEvent>,
}

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../data/events/", $name, ".toml")))),*]
    };
}

/// Name and text, sorted by name.
const SHIPPED: &[(&str, &str)] = embedded!["clock", "core", "kernel", "retired"];

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
        if let Some(event) = set.events.iter().find(|event| event.period == 0) {
            return Err(malformed(0, format!("period of {} is 0, needs at least 1", event.event)));
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

    /// For a document.
    pub fn described(&self) -> MatrixSet {
        MatrixSet {
            name: self.name.clone(),
            description: self.description.clone(),
            source: self.source.clone(),
            events: self.events.clone(),
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
    fn the_shipped_sets_hold_sixteen_events_each_and_are_all_there() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/events");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_string())
            .collect();
        files.sort();
        assert_eq!(files, EventSet::shipped_names());
        for name in EventSet::shipped_names() {
            let set = EventSet::load(name).unwrap();
            assert_eq!((set.name.as_str(), set.events.len()), (name, 16));
            // Each period can be divided by the largest usual divisor.
            assert!(set.events.iter().all(|event| event.period >= 100), "{name}");
        }
    }

    #[test]
    fn every_name_of_the_shipped_sets_is_an_event() {
        let catalog = Catalog::of_this_machine();
        for set in EventSet::shipped_names().into_iter().map(|name| EventSet::load(name).unwrap()) {
            for event in set.events {
                for text in std::iter::once(event.event).chain(event.precise) {
                    let parsed = parse(&text, &catalog);
                    // Terms of a PMU are looked up in its own list: without one the name cannot be read.
                    assert!(parsed.is_ok() || (text.starts_with("cpu/") && catalog.core_pmu().is_none()), "{text}: {parsed:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_set_is_said_with_its_file() {
        let error = EventSet::load("cores").unwrap_err().to_string();
        assert!(error.contains("'set of events'") && error.contains("clock, core"), "{error}");
        let head = "name = 'a'\ndescription = 'd'\nsource = 's'\n";
        for bad in ["", "event = []", "[[event]]\nevent = 'x'\nperiod = 0", "vendor = 'via'\n[[event]]\nevent = 'x'\nperiod = 1"]
        {
            let error = EventSet::parse(&format!("{head}{bad}"), "a.toml").unwrap_err().to_string();
            assert!(error.starts_with("a.toml is malformed at byte"), "{error}");
        }
        let set = EventSet::parse(&format!("{head}vendor = 'intel'\n[[event]]\nevent = 'x'\nperiod = 1"), "a.toml").unwrap();
        assert!(set.foreign_to(Vendor::Amd).is_some() && set.foreign_to(Vendor::Intel).is_none());
    }
}
