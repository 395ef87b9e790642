//! Everything that can be named on a machine.

use perftax_doc::Mechanism;
use serde::Serialize;

use crate::sys::libpfm::{NamedEvent, PmuInfo};

use super::catalog::{Catalog, Pmu};
use super::{Event, cache, generic, parse, symbolic, tracepoint};

/// The kinds under which events are listed, in that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// Generic hardware events.
    Hardware,
    /// Generic hardware cache events.
    Cache,
    /// Software events.
    Software,
    /// Aliases of PMUs in sysfs.
    Pmu,
    /// Vendor's names for the CPU that runs (or one that the filter names), through libpfm.
    Symbolic,
    /// Static tracepoints.
    Tracepoint,
}

impl EventKind {
    /// Every kind, in listing order.
    pub const ALL: [Self; 6] = [Self::Hardware, Self::Cache, Self::Software, Self::Pmu, Self::Symbolic, Self::Tracepoint];

    /// The name used in JSON and separated values.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hardware => "hardware",
            Self::Cache => "cache",
            Self::Software => "software",
            Self::Pmu => "pmu",
            Self::Symbolic => "symbolic",
            Self::Tracepoint => "tracepoint",
        }
    }
}

/// Which events to list.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only events whose name or meaning holds this, in any case of letters. `skx::` asks for the events of that CPU,
    /// present or not.
    pub substring: Option<String>,
}

/// One event that can be named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListedEvent {
    /// What to write behind `-e`.
    pub name: String,
    /// Other names of the same event.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub synonyms: Vec<String>,
    /// Its kind.
    pub kind: EventKind,
    /// How it would be sampled.
    pub mechanism: Mechanism,
    /// What it counts.
    pub meaning: String,
    /// Whether this machine can sample it.
    pub available: bool,
    /// Why not, where it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

/// Lists the events of a machine, by kind and in the kernel's order or by name. Symbolic names are there where libpfm
/// is installed, tracepoints where tracefs is mounted and readable.
pub fn list(catalog: &Catalog, filter: &Filter) -> Vec<ListedEvent> {
    let mut events = named(EventKind::Hardware, generic::HARDWARE);
    events.extend(cache::all().map(|(name, _, meaning)| listed(name, EventKind::Cache, Mechanism::Pmi, meaning)));
    events.extend(named(EventKind::Software, generic::SOFTWARE));
    events.extend(catalog.pmus().iter().flat_map(aliases));
    events.extend(symbolic_events(catalog, filter));
    events.extend(tracepoint::all(catalog).into_iter().map(|(system, name)| {
        let meaning = format!("kernel tracepoint of {system}");
        listed(format!("{system}:{name}"), EventKind::Tracepoint, Mechanism::Tracepoint, meaning)
    }));
    if let Some(substring) = &filter.substring {
        let wanted = substring.to_lowercase();
        events.retain(|event| event.matches(&wanted));
        // Reading what each records takes a file each: only for those that somebody looks for.
        let traced = events.iter_mut().filter(|event| event.kind == EventKind::Tracepoint);
        traced.for_each(|event| event.describe_fields(catalog));
    }
    for event in &mut events {
        event.judge(catalog);
    }
    events
}

/// Every name that [`list`] shows, synonyms too; vendor's names only where they are wanted, as perf spells them.
pub(super) fn names(catalog: &Catalog, with_symbolic: bool) -> Vec<String> {
    let fixed =
        generic::HARDWARE.iter().chain(generic::SOFTWARE).flat_map(|entry| entry.names.iter().map(|name| name.to_string()));
    let mut names: Vec<String> = fixed.collect();
    names.extend(cache::all().map(|(name, _, _)| name));
    names.extend(catalog.pmus().iter().flat_map(|pmu| pmu.aliases.keys().map(|alias| format!("{}/{alias}/", pmu.name))));
    names.extend(tracepoint::all(catalog).into_iter().map(|(system, name)| format!("{system}:{name}")));
    if with_symbolic && let Ok(libpfm) = catalog.libpfm() {
        let events = libpfm.pmus().into_iter().filter(symbolic::is_native).flat_map(|pmu| libpfm.events(&pmu));
        let own = |event: NamedEvent| Some(event.name.split_once("::")?.1.to_lowercase().replace(':', "."));
        names.extend(events.filter_map(own));
    }
    names
}

/// Events of the CPUs that the filter names with `::`, else of the one that runs.
fn symbolic_events(catalog: &Catalog, filter: &Filter) -> Vec<ListedEvent> {
    let Ok(libpfm) = catalog.libpfm() else { return Vec::new() };
    let prefix = filter.substring.as_deref().and_then(|wanted| wanted.split_once("::")).map(|(prefix, _)| prefix.to_lowercase());
    let is_wanted = |pmu: &PmuInfo| match &prefix {
        Some(prefix) => pmu.name.to_lowercase().ends_with(prefix.as_str()),
        None => symbolic::is_native(pmu),
    };
    let why_not = |pmu: &PmuInfo| match catalog.core_pmu() {
        _ if !pmu.is_present => Some(format!("this CPU is not {}", pmu.description)),
        None if pmu.is_core => {
            Some(format!("the kernel exposes no cpu PMU ({} is missing)", catalog.devices().join("cpu").display()))
        }
        _ if !pmu.is_core => Some("counted (perf stat), not sampled".to_string()),
        _ => None,
    };
    let of_pmu = |pmu: PmuInfo| {
        let why_not = why_not(&pmu);
        let events = libpfm.events(&pmu).into_iter();
        events.map(move |event| ListedEvent {
            available: why_not.is_none(),
            why_not: why_not.clone(),
            ..listed(event.name, EventKind::Symbolic, Mechanism::Pmi, event.description)
        })
    };
    libpfm.pmus().into_iter().filter(is_wanted).flat_map(of_pmu).collect()
}

impl ListedEvent {
    fn matches(&self, wanted: &str) -> bool {
        let mut texts = self.synonyms.iter().chain([&self.name, &self.meaning]);
        texts.any(|text| text.to_lowercase().contains(wanted)) || self.mechanism.name().contains(wanted)
    }

    /// A tracepoint is best described by what it records.
    fn describe_fields(&mut self, catalog: &Catalog) {
        let fields = self.name.split_once(':').map(|(system, name)| tracepoint::fields(system, name, catalog));
        if let Some(fields) = fields.filter(|fields| !fields.is_empty()) {
            self.meaning = format!("records {}", fields.join(", "));
        }
    }

    /// Fills in whether the event can be sampled here.
    fn judge(&mut self, catalog: &Catalog) {
        if matches!(self.kind, EventKind::Tracepoint | EventKind::Symbolic) {
            return;
        }
        let resolved = parse(&self.name, catalog);
        let verdict = resolved.and_then(|events| {
            let first: Option<&Event> = events.first();
            if let Some(event) = first {
                self.mechanism = event.mechanism;
            }
            first.map_or(Ok(()), |event| event.check_supported(catalog))
        });
        if let Err(error) = verdict {
            self.available = false;
            self.why_not = Some(match error {
                crate::Error::Unsupported { why, .. } => why,
                other => other.to_string(),
            });
        }
    }
}

fn named(kind: EventKind, table: &'static [generic::Named]) -> Vec<ListedEvent> {
    let one = |entry: &generic::Named| {
        let mut event = listed(entry.names[0].into(), kind, Mechanism::Pmi, entry.meaning.into());
        event.synonyms = entry.names.iter().skip(1).map(|name| name.to_string()).collect();
        event
    };
    table.iter().map(one).collect()
}

fn aliases(pmu: &Pmu) -> impl Iterator<Item = ListedEvent> {
    pmu.aliases.iter().map(|(alias, terms)| {
        listed(format!("{}/{alias}/", pmu.name), EventKind::Pmu, Mechanism::Pmi, format!("{}: {terms}", pmu.name))
    })
}

fn listed(name: String, kind: EventKind, mechanism: Mechanism, meaning: String) -> ListedEvent {
    ListedEvent { name, synonyms: Vec::new(), kind, mechanism, meaning, available: true, why_not: None }
}
