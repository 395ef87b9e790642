//! Generic events of the core's PMU (`PERF_TYPE_HARDWARE`, `PERF_TYPE_HW_CACHE`).

use perftax_doc::{AuditRow, Verdict};
use perftax_pmu::event::{Event, EventKind, Filter, Retired, Vendor, list, parse_one};
use perftax_pmu::{Error, Result};

use super::super::core_event::{CoreEvent, Overflow};
use super::super::{Measurement, Setting, Unit, or_impossible};
use super::likeness::{LOOPS, like};
use super::truth::{ON_HARDWARE, TURNS, Truth};
use crate::stimulus::{KnownLoop, Loop};

impl Truth {
    /// The row: counted, judged, and where it is wrong, named.
    fn row(&self, setting: &Setting) -> Result<AuditRow> {
        let event = generic(self.name, setting)?;
        let (counts, runs) = beside_the_first(setting, &event, self.of, self.turns)?;
        let row = AuditRow::of(self.case(), Unit::Events.text(), self.expected, &counts, self.allowed);
        let row = Measurement::marked(row, &runs);
        if row.verdict == Verdict::Passed {
            return Ok(row);
        }
        let is_nothing = counts.iter().all(|count| *count == 0.0);
        let unmodelled = if setting.catalog.vendor() == Vendor::Amd { UNMODELLED_AMD } else { UNMODELLED_INTEL };
        if is_nothing && setting.is_exact && unmodelled.contains(&self.name) {
            return Ok(AuditRow::impossible(self.case(), NOT_MODELLED));
        }
        Ok(row.remarking_first(self.diagnosis(&event, is_nothing, setting)?))
    }

    /// What a wrong event counts instead, and who is to blame.
    fn diagnosis(&self, event: &Event, is_nothing: bool, setting: &Setting) -> Result<String> {
        let mut said = Vec::new();
        if is_nothing {
            said.push("it counts nothing at all".to_string());
        } else {
            let a_turn = LOOPS.map(|of| Ok(median(&beside_the_first(setting, event, of, TURNS)?.0) / TURNS as f64));
            let [mix, loads]: [Result<f64>; 2] = a_turn;
            let (mix, loads) = (mix?, loads?);
            let tolerance = if setting.is_exact { 0.001 } else { ON_HARDWARE };
            let a_turn = format!("{mix:.2} a turn of the mix, {loads:.2} of the four loads");
            said.push(match like([mix, loads], tolerance) {
                Some(like) => format!("it counts like {like}: {a_turn}"),
                None => format!("it counts like nothing that the loops make: {a_turn}"),
            });
        }
        if let Some(own) = self.own {
            said.extend(self.beside_own(own, setting)?);
        }
        Ok(said.join("; "))
    }

    /// The vendor's own event over the same loop, where there is one.
    fn beside_own(&self, own: Retired, setting: &Setting) -> Result<Option<String>> {
        let core = CoreEvent { counted: own, by: Overflow::Interrupt };
        let Ok(event) = core.event(false, setting.catalog) else { return Ok(None) };
        let (counts, _) = beside_the_first(setting, &event, self.of, self.turns)?;
        let off = (median(&counts) - self.expected).abs() / self.expected.max(1.0);
        let verdict = if off <= self.allowed {
            "counts right: the kernel's table of generic events is wrong, not the counter"
        } else {
            "is as wrong: it is the counter, or the loop"
        };
        Ok(Some(format!("{} {verdict}", event.name)))
    }
}

/// Why an event is not there: the kernel refuses to open it.
const NOT_IN_THE_TABLE: &str = "cannot be had here: the kernel's table for this core has no such event";
/// The same where the kernel opens it.
const NOT_MODELLED: &str = "cannot be had here: the kernel opens it, but the emulated PMU does not have that event, or not without \
     caches, and counts nothing";

/// What the emulated PMUs do not have: the numbers behind these names (AMD: 60h, 45h; Intel: 51h) are not modelled (docs/guide/vm.md). Any other
/// event that counts nothing is wrong.
const UNMODELLED_AMD: &[&str] = &["L1-dcache-load-misses", "dTLB-loads"];
const UNMODELLED_INTEL: &[&str] = &["L1-dcache-load-misses"];

/// Events for which no truth can be made, and why; in the kernel's order.
const WITHOUT_TRUTH: [(&[&str], &str); 3] = [
    (&["bus-cycles", "ref-cycles"], "they run at another clock, whose rate to the core's is not known beforehand"),
    (&["stalled-cycles-frontend", "stalled-cycles-backend"], "how long a loop waits for what is nowhere specified"),
    (&["cache-references", "cache-misses"], "which level they mean depends on the core, and how large it is"),
];
/// The same for cache events that [`Truth::all`] does not name.
const NO_CACHE_TRUTH: &str =
    "what it counts depends on prefetchers, replacement and the sizes of this machine's caches, which no instruction states";

pub(super) fn rows(setting: &Setting) -> Result<Vec<AuditRow>> {
    let catalog = setting.catalog;
    let is_listed = |kind: EventKind| list(catalog, &Filter::default()).into_iter().filter(move |event| event.kind == kind);
    if catalog.core_pmu().is_none() {
        let names: Vec<String> = is_listed(EventKind::Hardware).map(|event| event.name).collect();
        let why = format!("the kernel exposes no core PMU (nothing like {}/cpu)", catalog.devices().display());
        let of = |case: String| AuditRow::impossible(case, format!("cannot be had here: {why}"));
        return Ok(vec![of(names.join(", ")), of("generic cache events (L1-dcache-loads, …)".into())]);
    }
    let truths = Truth::all(setting);
    let mut rows = Vec::new();
    let mut missing: Vec<(Lacking, Vec<&str>)> = Vec::new();
    for truth in &truths {
        for row in or_missing(&truth.case(), truth.row(setting))? {
            match &row.remark {
                Some(why) if row.verdict == Verdict::Impossible => add_to(&mut missing, Lacking::Event(why.clone()), truth.name),
                _ => rows.push(row),
            }
        }
    }
    rows.extend(missing.into_iter().map(|(lacking, names)| lacking.row(&names, "")));
    let has_truth = |name: &str| truths.iter().any(|truth| truth.name == name);
    for (names, why) in WITHOUT_TRUTH {
        rows.extend(told_apart(setting, names, why)?);
    }
    if !has_truth("cycles") {
        rows.push(AuditRow::without_truth("cycles", "how long an instruction takes on this core is not known"));
    }
    let others: Vec<String> = is_listed(EventKind::Cache).map(|event| event.name).filter(|name| !has_truth(name)).collect();
    rows.extend(told_apart(setting, &others.iter().map(String::as_str).collect::<Vec<_>>(), NO_CACHE_TRUTH)?);
    Ok(rows)
}

/// Events without a truth: those that this machine's kernel opens, and those that it refuses.
fn told_apart(setting: &Setting, names: &[&str], why: &str) -> Result<Vec<AuditRow>> {
    let opens = |name: &&str| {
        let event = generic(name, setting)?;
        let mut work = KnownLoop::new(Loop::Mix, 1)?;
        Measurement::of(&setting.without_fault(), &mut work, &event, None)
    };
    let mut all: Vec<(Lacking, Vec<&str>)> = Vec::new();
    for name in names {
        match opens(name) {
            Ok(_) => add_to(&mut all, Lacking::Truth, name),
            Err(error @ Error::Unsupported { .. }) => add_to(&mut all, Lacking::of(&error), name),
            Err(error @ Error::Permission { .. }) => {
                let row = AuditRow::forbidden(*name, &error.in_one_line());
                add_to(&mut all, Lacking::Event(row.remark.unwrap_or_default()), name);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(all.into_iter().map(|(lacking, names)| lacking.row(&names, why)).collect())
}

/// A row, or why there is none; whatever is wrong with the run itself as in the other experiments.
fn or_missing(case: &str, row: Result<AuditRow>) -> Result<Vec<AuditRow>> {
    match row {
        Err(error @ Error::Unsupported { .. }) => Ok(vec![AuditRow::impossible(case, missing(&error))]),
        other => or_impossible(case, other.map(|row| vec![row])),
    }
}

/// What stands between an event and its row.
#[derive(PartialEq, Eq)]
enum Lacking {
    /// A truth to hold it against.
    Truth,
    /// The event; the remark says why.
    Event(String),
}

impl Lacking {
    fn of(error: &Error) -> Self {
        Self::Event(missing(error))
    }

    /// One row of several events; `unknown`: why their truth is.
    fn row(self, names: &[&str], unknown: &str) -> AuditRow {
        match self {
            Self::Truth => AuditRow::without_truth(names.join(", "), unknown),
            Self::Event(remark) => AuditRow::impossible(names.join(", "), remark),
        }
    }
}

/// Why an event is not there: the kernel refuses to open it, or something else is in the way.
fn missing(error: &Error) -> String {
    match error {
        error if error.is_kernels_refusal() => NOT_IN_THE_TABLE.into(),
        Error::Unsupported { why, .. } => format!("cannot be had here: {why}"),
        error => error.in_one_line(),
    }
}

/// Names one more event to which a reason applies.
fn add_to<'a>(missing: &mut Vec<(Lacking, Vec<&'a str>)>, why: Lacking, name: &'a str) {
    match missing.iter_mut().find(|(known, _)| *known == why) {
        Some((_, names)) if names.contains(&name) => {}
        Some((_, names)) => names.push(name),
        None => missing.push((why, vec![name])),
    }
}

/// The event by its generic name, in user mode.
fn generic(name: &str, setting: &Setting) -> Result<Event> {
    parse_one(&format!("{name}:u"), setting.catalog)
}

/// What so many turns make beside the first one, each run: what switching the event on and off executes, and what the last turn leaves
/// out, is in both.
fn beside_the_first(setting: &Setting, event: &Event, of: Loop, turns: u64) -> Result<(Vec<f64>, Vec<Measurement>)> {
    let mut one = KnownLoop::new(of, 1)?;
    let mut many = KnownLoop::new(of, 1 + turns)?;
    // The first run touches what the others find.
    let firsts: Vec<Measurement> = (0..4).map(|_| Measurement::of(setting, &mut one, event, None)).collect::<Result<_>>()?;
    let first = firsts.iter().map(|run| run.counted).min().unwrap_or(0);
    let runs = Measurement::runs(setting, &mut many, event, None)?;
    Ok((runs.iter().map(|run| run.counted as f64 - first as f64).collect(), runs))
}

fn median(counts: &[f64]) -> f64 {
    perftax_doc::median(&mut counts.to_vec())
}
