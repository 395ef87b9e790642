//! Published against ours: each figure of the PES study that the experiments of an audit ask about, and how the two compare.
//!
//! A verdict comes from the rows that are there. The study's mechanisms are PEBS and IBS: where no row is by one of them, its figures
//! cannot be measured here, and what other mechanisms show is said in words alone, never in their place. What the software PMU gives for
//! the same loop stands in rows of its own.
//!
//! Rows by hardware begin with its name (`pebs `, `ibs-op `, `ibs-fetch `, `interrupt `) and what is counted; one of first-level misses
//! holds `miss`. Further words that are understood: `every N` (interval), `N at once`, `N on M counters: unscaled` (a share, %), `N pinned`,
//! `with a signal`, `four … in turn`. A row of PEBS expects one sample in period + 1 events, every other one in a period.

mod accuracy;
mod overhead;
mod sharing;

use perftax_doc::Mechanism;
use perftax_doc::{Audit, AuditRow, Comparison, ComparisonVerdict, Verdict};

use crate::published::pes::{Maker, Pes, Spread};

/// The study's figures against the audit's rows, in the study's order: those that the experiments that were done ask about, and of an
/// audit with every experiment also those that none asks.
pub fn compare(published: &Pes, audit: &Audit) -> Vec<Comparison> {
    let ours = Ours(audit);
    let is_whole = super::ALL.iter().all(|experiment| ours.has(experiment.name()));
    let is_due = |experiment| is_whole || ours.has(experiment);
    let mut all = Vec::new();
    if ours.has("interval") {
        all.extend(accuracy::at_one_interval(published, &ours, "3"));
    }
    if ours.has("interval") || ours.has("misses") {
        all.extend(accuracy::at_one_interval(published, &ours, "4"));
    }
    if ours.has("threads") {
        all.push(sharing::threads(published, &ours));
    }
    if ours.has("interval") {
        all.extend(accuracy::by_interval(published, &ours));
    }
    if ours.has("stability") {
        all.extend(accuracy::from_run_to_run(published, &ours));
    }
    if ours.has("bias") {
        all.push(sharing::bias(published, &ours));
    }
    if is_due("overhead") {
        all.extend(overhead::of_the_loop(published, &ours));
    }
    if is_due("memory") {
        all.push(overhead::memory(published, &ours));
    }
    if is_due("overhead") {
        all.extend(overhead::elsewhere(published));
    }
    if ours.has("events") {
        all.extend(sharing::events(published, &ours));
    }
    if is_due("overhead") {
        all.push(overhead::several_events(published, &ours));
        all.push(overhead::tool(published));
    }
    if ours.has("mode") {
        all.push(sharing::mode(published, &ours));
    }
    all
}

/// Names of the study's mechanisms and of the plain interrupt, with which a row by hardware begins.
const HARDWARE: [&str; 4] = ["pebs", "ibs-op", "ibs-fetch", "interrupt"];

/// The rows of an audit, by experiment and mechanism.
struct Ours<'a>(&'a Audit);

impl<'a> Ours<'a> {
    fn has(&self, experiment: &str) -> bool {
        self.0.experiments.iter().any(|done| done.name == experiment)
    }

    fn rows(&self, experiment: &str) -> impl Iterator<Item = &'a AuditRow> {
        self.0.experiments.iter().filter(move |done| done.name == experiment).flat_map(|done| &done.rows)
    }

    /// Those by one of [`HARDWARE`] that were measured.
    fn by(&self, experiment: &str, hardware: &str) -> Vec<&'a AuditRow> {
        self.rows(experiment).filter(|row| is_by(row, hardware) && row.verdict != Verdict::Impossible).collect()
    }

    /// Why there is none by a mechanism: its own row says so, or another one by hardware where there is none at all.
    fn missing(&self, experiment: &str, mechanism: Mechanism) -> String {
        let is_missing = |row: &&AuditRow| row.verdict == Verdict::Impossible;
        let own = self.rows(experiment).filter(is_missing).find(|row| is_by(row, mechanism.name()));
        let by_hardware = |row: &&AuditRow| HARDWARE.iter().any(|hardware| is_by(row, hardware));
        let is_there = self.rows(experiment).filter(by_hardware).any(|row| row.verdict != Verdict::Impossible);
        let any = self.rows(experiment).filter(is_missing).find(by_hardware).filter(|_| !is_there);
        let remark = own.or(any).and_then(|row| row.remark.as_deref());
        // "cannot sample this: no PMU": what cannot be done is said already.
        let why = remark
            .map(|remark| remark.strip_prefix("cannot ").and_then(|rest| rest.split_once(": ")).map_or(remark, |(_, why)| why));
        why.map_or_else(|| format!("no row of this audit is by {}", spoken(mechanism)), str::to_owned)
    }

    /// What events without hardware show, in words.
    fn instead(&self, experiment: &str) -> String {
        let others: Vec<&AuditRow> =
            self.rows(experiment).filter(|row| !HARDWARE.iter().any(|hardware| is_by(row, hardware))).collect();
        let of = |is_asked: fn(&AuditRow) -> bool| -> Vec<&AuditRow> {
            others.iter().copied().filter(|row| row.verdict != Verdict::Impossible && is_asked(row)).collect()
        };
        let (all, passed) = (of(|_| true), of(|row| row.verdict == Verdict::Passed));
        if all.is_empty() {
            return "nothing was measured instead".into();
        }
        let mut names: Vec<&str> = Vec::new();
        for name in all.iter().filter_map(|row| row.case.split([' ', ':']).next()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        format!("by software events instead ({}): {} of {} rows as they must be", names.join(", "), passed.len(), all.len())
    }
}

fn is_by(row: &AuditRow, hardware: &str) -> bool {
    row.case.strip_prefix(hardware).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
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

/// The number behind a word of a case: `every 100` gives 100.
fn number_after(text: &str, word: &str) -> Option<u64> {
    let rest = &text[text.find(word)? + word.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The number before a phrase: `5 at once` gives 5.
fn number_before(text: &str, phrase: &str) -> Option<u64> {
    text[..text.find(phrase)?].rsplit(' ').next()?.parse().ok()
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
struct Row<'a> {
    figure: &'a str,
    asks: String,
    published: String,
}

/// Where a number is from.
const HERE: &str = "this machine";
const SOFTWARE_PMU: &str = "software PMU";

impl Row<'_> {
    fn ends(self, ours: String, place: &str, (verdict, because): (ComparisonVerdict, String)) -> Comparison {
        let Self { figure, asks, published } = self;
        Comparison { figure: figure.into(), asks, published, ours, place: place.into(), verdict, because }
    }

    fn reproduced(self, ours: String, because: impl Into<String>) -> Comparison {
        self.ends(ours, HERE, (ComparisonVerdict::Reproduced, because.into()))
    }

    fn differs(self, ours: String, because: impl Into<String>) -> Comparison {
        self.ends(ours, HERE, (ComparisonVerdict::Differs, because.into()))
    }

    fn not_here(self, ours: String, because: impl Into<String>) -> Comparison {
        self.ends(ours, HERE, (ComparisonVerdict::NotHere, because.into()))
    }
}

#[cfg(test)]
mod tests;
