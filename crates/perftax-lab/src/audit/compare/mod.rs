//! Published against ours: each figure of the PES study that the experiments of an audit ask about, and how the two compare.
//!
//! A verdict comes from the rows that are there. The study's mechanisms are PEBS and IBS: where no row is by one of them, its figures
//! cannot be measured here, and what other mechanisms show is said in words alone, never in their place. What the software PMU gives for
//! the same loop stands in rows of its own.
//!
//! What a row compares is read once from its text ([`Case`]). A row of PEBS expects one sample in period + 1 events, every other one in a
//! period.

mod accuracy;
mod overhead;
mod sharing;

use perftax_doc::Mechanism;
use perftax_doc::{Audit, AuditRow, AuditedExperiment, Comparison, ComparisonVerdict, MeasuredOn, Verdict};

use super::Name;
use super::cannot::Cannot;
use super::case::Case;
use crate::published::pes::{Figure, Maker, Pes, Spread};

/// The study's figures against the audit's rows, in the study's order: those that the experiments that were done ask about, and of an
/// audit with every experiment also those that none asks.
pub fn compare(published: &Pes, audit: &Audit) -> Vec<Comparison> {
    let ours = Ours::of(audit);
    let is_whole = Name::ALL.into_iter().all(|name| ours.has(name));
    let is_due = |experiment| is_whole || ours.has(experiment);
    let mut all = Vec::new();
    if ours.has(Name::Interval) {
        all.extend(accuracy::at_one_interval(published, &ours, Figure::Three));
    }
    if ours.has(Name::Interval) || ours.has(Name::Misses) {
        all.extend(accuracy::at_one_interval(published, &ours, Figure::Four));
    }
    if ours.has(Name::Threads) {
        all.push(sharing::threads(published, &ours));
    }
    if ours.has(Name::Interval) {
        all.extend(accuracy::by_interval(published, &ours));
    }
    if ours.has(Name::Stability) {
        all.extend(accuracy::from_run_to_run(published, &ours));
    }
    if ours.has(Name::Bias) {
        all.push(sharing::bias(published, &ours));
    }
    if is_due(Name::Overhead) {
        all.extend(overhead::of_the_loop(published, &ours));
    }
    if is_due(Name::Memory) {
        all.push(overhead::memory(published, &ours));
    }
    if is_due(Name::Overhead) {
        all.extend(overhead::elsewhere(published));
    }
    if ours.has(Name::Events) {
        all.extend(sharing::events(published, &ours));
    }
    if is_due(Name::Overhead) {
        all.push(overhead::several_events(published, &ours));
        all.push(overhead::tool(published));
    }
    if ours.has(Name::Mode) {
        all.push(sharing::mode(published, &ours));
    }
    all
}

/// The study's mechanisms.
const PRECISE: [Mechanism; 3] = [Mechanism::Pebs, Mechanism::IbsOp, Mechanism::IbsFetch];

/// A row, and what it compares.
struct Entry<'a> {
    experiment: Name,
    case: Case,
    row: &'a AuditRow,
}

impl Entry<'_> {
    fn is_by(&self, mechanism: Mechanism) -> bool {
        self.case.mechanism() == Some(mechanism)
    }

    fn is_by_hardware(&self) -> bool {
        self.case.mechanism().is_some()
    }

    fn is_possible(&self) -> bool {
        self.row.verdict != Verdict::Impossible
    }

    fn has_passed(&self) -> bool {
        self.row.verdict == Verdict::Passed
    }
}

/// The rows of an audit, by experiment and mechanism.
struct Ours<'a> {
    done: Vec<Name>,
    entries: Vec<Entry<'a>>,
}

impl<'a> Ours<'a> {
    fn of(audit: &'a Audit) -> Self {
        let known = |done: &'a AuditedExperiment| Some((done.name.parse().ok()?, done));
        let done: Vec<(Name, &AuditedExperiment)> = audit.experiments.iter().filter_map(known).collect();
        let entry = |experiment| {
            move |row: &'a AuditRow| {
                let Ok(case) = row.case.parse();
                Entry { experiment, case, row }
            }
        };
        let entries = done.iter().flat_map(|(name, done)| done.rows.iter().map(entry(*name))).collect();
        Self { done: done.iter().map(|(name, _)| *name).collect(), entries }
    }

    fn has(&self, experiment: Name) -> bool {
        self.done.contains(&experiment)
    }

    fn rows(&self, experiment: Name) -> impl Iterator<Item = &Entry<'a>> {
        self.entries.iter().filter(move |entry| entry.experiment == experiment)
    }

    /// Those by a mechanism that were measured.
    fn by(&self, experiment: Name, mechanism: Mechanism) -> Vec<&Entry<'a>> {
        self.rows(experiment).filter(|entry| entry.is_by(mechanism) && entry.is_possible()).collect()
    }

    /// Those by any of [`PRECISE`], likewise.
    fn precise(&self, experiment: Name) -> Vec<&Entry<'a>> {
        PRECISE.into_iter().flat_map(|mechanism| self.by(experiment, mechanism)).collect()
    }

    /// Why there is none by a mechanism: its own row says so, or another one by hardware where there is none at all.
    fn missing(&self, experiment: Name, mechanism: Mechanism) -> String {
        let is_missing = |entry: &&Entry| !entry.is_possible();
        let own = self.rows(experiment).filter(is_missing).find(|entry| entry.is_by(mechanism));
        let by_hardware = |entry: &&Entry| entry.is_by_hardware();
        let is_there = self.rows(experiment).filter(by_hardware).any(Entry::is_possible);
        let any = self.rows(experiment).filter(is_missing).find(by_hardware).filter(|_| !is_there);
        let remark = own.or(any).and_then(|entry| entry.row.remark.as_deref());
        // What cannot be done is said already.
        let why = |remark: &str| {
            let Ok(Cannot { why, .. }) = remark.parse();
            why
        };
        remark.map_or_else(|| format!("no row of this audit is by {}", spoken(mechanism)), why)
    }

    /// What events without hardware show, in words.
    fn instead(&self, experiment: Name) -> String {
        let all: Vec<&Entry> = self.rows(experiment).filter(|entry| !entry.is_by_hardware() && entry.is_possible()).collect();
        let passed = all.iter().filter(|entry| entry.has_passed()).count();
        if all.is_empty() {
            return "nothing was measured instead".into();
        }
        // People are told the beginning alone.
        let mut names: Vec<&str> = Vec::new();
        for name in all.iter().map(|entry| first_word(&entry.row.case)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        format!("by software events instead ({}): {passed} of {} rows as they must be", names.join(", "), all.len())
    }
}

/// What a row is of, as people are told it.
fn first_word(case: &str) -> &str {
    case.split([' ', ':', ',']).next().unwrap_or_default()
}

/// A mechanism as people write it.
fn spoken(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::Pebs => "PEBS",
        Mechanism::IbsOp => "IBS op",
        Mechanism::IbsFetch => "IBS fetch",
        other => other.name(),
    }
}

/// Signed, in as many digits as a reader needs.
fn percent(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        small if small < 0.1 => format!("{value:+.3}"),
        middle if middle < 10.0 => format!("{value:+.2}"),
        _ => format!("{value:+.1}"),
    }
}

/// From one end to the other, %, signed.
fn span(spread: &Spread) -> String {
    let (least, most) = (percent(spread.least), percent(spread.most));
    if least == most { format!("{least} %") } else { format!("{least} to {most} %") }
}

/// From one end to the other, without signs.
fn range(spread: &Spread, unit: &str, digits: usize) -> String {
    let [least, most] = [spread.least, spread.most].map(|value| format!("{value:.digits$}"));
    if least == most { format!("{least} {unit}") } else { format!("{least} to {most} {unit}") }
}

fn on(maker: Maker) -> String {
    format!("on {}", maker.microarchitecture())
}

/// A row of the table on what was measured on this machine, or could not be.
struct Row {
    figure: Figure,
    asks: String,
    published: String,
}

impl Row {
    fn ends(self, ours: String, place: MeasuredOn, (verdict, because): (ComparisonVerdict, String)) -> Comparison {
        let Self { figure, asks, published } = self;
        Comparison { figure: figure.to_string(), asks, published, ours, place: place.text().into(), verdict, because }
    }

    fn reproduced(self, ours: String, because: impl Into<String>) -> Comparison {
        self.ends(ours, MeasuredOn::Here, (ComparisonVerdict::Reproduced, because.into()))
    }

    fn differs(self, ours: String, because: impl Into<String>) -> Comparison {
        self.ends(ours, MeasuredOn::Here, (ComparisonVerdict::Differs, because.into()))
    }

    fn not_here(self, ours: String, because: impl Into<String>) -> Comparison {
        self.ends(ours, MeasuredOn::Here, (ComparisonVerdict::NotHere, because.into()))
    }
}

#[cfg(test)]
mod tests;
