//! From the text of `-e` to events.

use perftax_doc::Mechanism;

use crate::error::{Error, Result};
use crate::machine::Vendor;

use super::catalog::Catalog;
use super::modifiers::Asked;
use super::scan::{Cluster, Item, clusters, syntax};
use super::{Event, Group, breakpoint, cache, generic, nearest, pmu_event, pmu_types, symbolic, tracepoint, uprobe};

/// An event before its modifiers are known: the PMU it belongs to decides what they mean.
pub(super) struct Resolved {
    pub(super) event: Event,
    /// Name of the PMU, where that matters: core PMUs and those of precise hardware.
    pub(super) pmu: String,
    /// Modifiers behind the event: where they stand, and what they are.
    pub(super) modifiers: (usize, usize),
    /// Maker of the CPU that the event is of, where the name tells; else that of the catalog.
    pub(super) vendor: Option<Vendor>,
    /// What the event's own text already set (libpfm's modifiers): kept where no letter follows.
    pub(super) preset: Option<super::Modifiers>,
}

impl Resolved {
    /// An event of this machine, with modifiers behind it.
    pub(super) fn of(event: Event, pmu: impl Into<String>, modifiers: (usize, usize)) -> Self {
        Self { event, pmu: pmu.into(), modifiers, vendor: None, preset: None }
    }
}

/// Reads a comma list of events in perf's syntax (perf-list(1)), plus `uprobe:PATH:SYMBOL`, `uprobe:PATH+0xOFFSET` and
/// `uretprobe:…`. Members of groups in braces come out one by one; [`parse_groups`] keeps them together.
///
/// A hardware event parses on a machine without that hardware too, because a prediction for another machine names it;
/// [`Event::check_supported`] tells whether this one can sample it.
///
/// # Errors
/// `EventSyntax` pointing at the place, `UnknownEvent` with the nearest names, `Unsupported` or `Permission` where a
/// name can only be looked up in something that is not there (tracefs, libpfm), `File` for a probe's program.
pub fn parse(text: &str, catalog: &Catalog) -> Result<Vec<Event>> {
    Ok(parse_groups(text, catalog)?.into_iter().flat_map(|group| group.events).collect())
}

/// Like [`parse`], of one event; of several, the last.
///
/// # Errors
/// As [`parse`], and where the text names none.
pub fn parse_one(text: &str, catalog: &Catalog) -> Result<Event> {
    parse(text, catalog)?.pop().ok_or_else(|| Error::EventSyntax { text: text.into(), why: "names no event".into() })
}

/// Like [`parse`], with the groups kept.
///
/// # Errors
/// As [`parse`].
pub fn parse_groups(text: &str, catalog: &Catalog) -> Result<Vec<Group>> {
    clusters(text)?.iter().map(|cluster| group(text, cluster, catalog)).collect()
}

fn group(text: &str, cluster: &Cluster, catalog: &Catalog) -> Result<Group> {
    let (from, to) = cluster.modifiers;
    let events = cluster.items.iter().map(|item| {
        let resolved = resolve(text, item, catalog)?;
        let (start, end) = resolved.modifiers;
        let asked = Asked::default().read(text, start, &text[start..end])?.read(text, from, &text[from..to])?;
        // What libpfm's own modifiers set stands where no letter follows.
        let preset = resolved.preset.filter(|_| start == end && from == to);
        Ok(finish(Resolved { preset, ..resolved }, asked, &text[from..to], catalog))
    });
    Ok(Group { events: events.collect::<Result<_>>()?, braces: cluster.braces })
}

/// Applies modifiers, and what a precise level makes of the mechanism.
fn finish(resolved: Resolved, asked: Asked, group_modifiers: &str, catalog: &Catalog) -> Event {
    let Resolved { mut event, pmu, vendor, preset, .. } = resolved;
    let is_core = matches!(event.mechanism, Mechanism::Pmi)
        && (matches!(event.pmu_type, pmu_types::HARDWARE | pmu_types::HW_CACHE | pmu_types::RAW)
            || catalog.pmu(&pmu).is_some_and(|pmu| pmu.is_core)
            || event.core.is_some());
    if is_core && (asked.wants_precise() || preset.is_some_and(|preset| preset.precise > 0)) {
        event.mechanism = match vendor.unwrap_or(catalog.vendor()) {
            Vendor::Intel => Mechanism::Pebs,
            Vendor::Amd => Mechanism::IbsOp,
            Vendor::Arm | Vendor::Other => Mechanism::Pmi,
        };
    }
    let guests_by_default = matches!(event.mechanism, Mechanism::IbsOp | Mechanism::IbsFetch);
    event.modifiers = preset.unwrap_or_else(|| asked.resolve(guests_by_default));
    if asked.precise_max && is_core {
        event.modifiers.precise = match event.mechanism {
            Mechanism::IbsOp => IBS_MAX_PRECISE,
            _ => {
                let core = event.core.as_deref().map_or_else(|| catalog.core_pmu(), |name| catalog.pmu(name));
                core.and_then(|core| core.max_precise()).unwrap_or(event.modifiers.precise)
            }
        };
    }
    if !group_modifiers.is_empty() {
        let join = if event.name.contains(':') || event.name.ends_with('/') { "" } else { ":" };
        event.name = format!("{}{join}{group_modifiers}", event.name);
    }
    event
}

/// AMD's kernel code forwards levels 1 and 2 to IBS and refuses 3 (arch/x86/events/amd/ibs.c).
pub(super) const IBS_MAX_PRECISE: u8 = 2;

fn resolve(text: &str, item: &Item, catalog: &Catalog) -> Result<Resolved> {
    let written = &text[item.start..item.end];
    if let Some((open, close)) = item.slashes {
        return with_terms(text, item, open, close, catalog);
    }
    if written.starts_with("mem:") {
        return breakpoint::resolve(text, item);
    }
    if written.starts_with("uprobe:") || written.starts_with("uretprobe:") {
        return uprobe::resolve(text, item, catalog);
    }
    if written.contains("::") {
        return symbolic::resolve(text, item, catalog);
    }
    let (name, tail) = written.split_once(':').unwrap_or((written, ""));
    let modifiers = (item.start + (name.len() + 1).min(written.len()), item.end);
    let simple = match plain(name) {
        Some(found) => Some(found),
        None => pmu_event::alias(text, item.start, name, catalog)?,
    };
    if let Some((mut event, pmu)) = simple {
        event.name = written.into();
        return Ok(Resolved::of(event, pmu, modifiers));
    }
    let (tracepoint, _) = tail.split_once(':').unwrap_or((tail, ""));
    let found = match tracepoint {
        "" => Err(nearest::unknown(written, catalog)),
        tracepoint => tracepoint::resolve(text, item.start, name, tracepoint, catalog),
    };
    let mut event = match found {
        Ok(event) => event,
        Err(error) => return symbolic::native(text, item, catalog).ok_or(error),
    };
    event.name = written.into();
    let behind = modifiers.0 + tracepoint.len();
    Ok(Resolved::of(event, "", ((behind + 1).min(item.end), item.end)))
}

/// Names that mean the same everywhere: software, generic, cache, raw.
fn plain(name: &str) -> Option<(Event, String)> {
    let found = |pmu_type, config, mechanism| Some((Event::bare(name, pmu_type, config, mechanism), String::new()));
    if let Some(software) = generic::find(generic::SOFTWARE, name) {
        let mechanism = pmu_event::mechanism("software", pmu_types::SOFTWARE, software.config);
        return found(pmu_types::SOFTWARE, software.config, mechanism);
    }
    if let Some(hardware) = generic::find(generic::HARDWARE, name) {
        return found(pmu_types::HARDWARE, hardware.config, Mechanism::Pmi);
    }
    if let Some(config) = cache::config(name) {
        return found(pmu_types::HW_CACHE, config, Mechanism::Pmi);
    }
    found(pmu_types::RAW, pmu_event::raw_code(name)?, Mechanism::Pmi)
}

fn with_terms(text: &str, item: &Item, open: usize, close: usize, catalog: &Catalog) -> Result<Resolved> {
    let behind = &text[close + 1..item.end];
    // perf takes the modifiers right behind the slash, with or without a colon.
    let start = close + 1 + usize::from(behind.starts_with(':'));
    if behind.contains('/') {
        return Err(syntax(
            text,
            close + 1 + behind.find('/').unwrap_or(0),
            "expected modifiers, ',' or the end behind the terms",
        ));
    }
    let (mut event, pmu) = pmu_event::resolve(text, item.start, open, close, catalog)?;
    if event.name == text[item.start..=close] {
        event.name = text[item.start..item.end].into();
    }
    Ok(Resolved::of(event, pmu, (start, item.end)))
}
