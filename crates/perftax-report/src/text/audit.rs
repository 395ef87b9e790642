//! `perftax audit` on a terminal.

use owo_colors::OwoColorize;
use perftax_doc::{Audit, AuditRow, AuditedExperiment, Comparison, ComparisonVerdict, MeasuredOn, Verdict};

use super::plural;
use crate::printable::printable;
use crate::sheet::Sheet;
use crate::table::Table;
use crate::units;

/// Every experiment with its rows, and what failed.
pub fn audit(doc: &Audit) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    for experiment in &doc.experiments {
        sheet.blank();
        sheet.row(&experiment.name, &format!("{} ({})", experiment.question.bold(), experiment.figures));
        sheet.row("", &experiment.method);
        sheet.table(&rows(experiment));
        for row in &experiment.rows {
            if let Some(remark) = &row.remark {
                sheet.row("", &format!("{}: {}", printable(&row.case), printable(remark)));
            }
        }
    }
    if !doc.comparisons.is_empty() {
        sheet.blank();
        sheet.row("study", &format!("{} (PES study, TPDS'23)", "published against ours".bold()));
        sheet.columns(["", "published", "ours", "verdict"], [21, 26, 26, 29], &comparisons(doc));
    }
    sheet.blank();
    if !doc.comparisons.is_empty() {
        sheet.row("study", &compared(doc));
    }
    sheet.row("verdict", &verdict(doc));
    sheet.warnings(&doc.origin.warnings);
    sheet.finish()
}

fn rows(experiment: &AuditedExperiment) -> Table {
    let mut table = Table::default().left("").right("expected").right("found").right("error").right("lost").left("");
    for row in &experiment.rows {
        if row.verdict == Verdict::Impossible {
            table.row(vec![printable(&row.case), String::new(), row.instead().into()]);
            continue;
        }
        let lost = row.lost + row.throttled;
        table.row(vec![
            printable(&row.case),
            expected(row),
            found(row),
            error_in_the_middle(row),
            if lost > 0 { units::count(lost) } else { String::new() },
            if row.verdict == Verdict::Passed { String::new() } else { "FAILED".bold().to_string() },
        ]);
    }
    table
}

/// Published against ours, as cells of a table; what a row has in common with the one above is not said twice.
fn comparisons(doc: &Audit) -> Vec<[String; 4]> {
    let cells = |(at, row): (usize, &Comparison)| {
        let above = at.checked_sub(1).map(|above| &doc.comparisons[above]);
        let is_again =
            above.is_some_and(|above| (&above.figure, &above.asks, &above.published) == (&row.figure, &row.asks, &row.published));
        let [asked, published] = if is_again {
            [String::new(), String::new()]
        } else {
            [format!("{}: {}", row.figure, row.asks), row.published.clone()]
        };
        [asked, published, ours(row), row.conclusion()].map(|cell| printable(&cell))
    };
    doc.comparisons.iter().enumerate().map(cells).collect()
}

/// Ours, and where it was measured if not on this machine.
fn ours(row: &Comparison) -> String {
    if MeasuredOn::read(&row.place) == Some(MeasuredOn::Here) { row.ours.clone() } else { format!("{}: {}", row.place, row.ours) }
}

/// How many comparisons ended how.
pub(crate) fn compared(doc: &Audit) -> String {
    let of = |verdict: ComparisonVerdict| doc.comparisons.iter().filter(|row| row.verdict == verdict).count();
    let [reproduced, differ, not_here] =
        [ComparisonVerdict::Reproduced, ComparisonVerdict::Differs, ComparisonVerdict::NotHere].map(of);
    let all = plural(&doc.comparisons.len().to_string(), "comparison", "comparisons");
    format!("{all} with the study: {reproduced} reproduced, {differ} differ, {not_here} cannot be measured here")
}

/// As it is where it is whole: a count that is shortened hides what is missing.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value >= 0.0 { units::count(value as u64) } else { format!("{value:.2}") }
}

/// What must come.
pub(crate) fn expected(row: &AuditRow) -> String {
    format!("{} {}", number(row.expected), row.unit)
}

/// What was found: from the least to the most of the runs, where they differ.
pub(crate) fn found(row: &AuditRow) -> String {
    let found = &row.found;
    if found.low == found.high {
        return number(found.estimate);
    }
    format!("{} [{}, {}]", number(found.estimate), number(found.low), number(found.high))
}

/// The error, likewise; beyond nothing expected, what came.
#[cfg(feature = "html")]
pub(crate) fn error(row: &AuditRow) -> String {
    let middle = error_in_the_middle(row);
    if row.expected == 0.0 || row.error.low == row.error.high {
        return middle;
    }
    format!("{middle} [{:+.3}, {:+.3}]", 100.0 * row.error.low, 100.0 * row.error.high)
}

/// The error without its interval: how far it reaches can be seen from what was found.
fn error_in_the_middle(row: &AuditRow) -> String {
    if row.error.low == 0.0 && row.error.high == 0.0 {
        return "0".into();
    }
    if row.expected == 0.0 {
        return format!("+{}", number(row.error.high));
    }
    format!("{:+.3} %", 100.0 * row.error.estimate)
}

fn verdict(doc: &Audit) -> String {
    let all: Vec<&AuditRow> = doc.rows().collect();
    let of = |verdict: Verdict| all.iter().filter(|row| row.verdict == verdict).count();
    let failed: Vec<String> =
        doc.failed().map(|(experiment, row)| format!("{} ({})", printable(&row.case), experiment.name)).collect();
    let mut text = format!("{} of {} as they must be", of(Verdict::Passed), plural(&all.len().to_string(), "row", "rows"));
    let without_truth = all.iter().filter(|row| row.has_no_truth()).count();
    let forbidden = all.iter().filter(|row| row.is_forbidden()).count();
    if forbidden > 0 {
        text += &format!("; {forbidden} are not yours to measure");
    }
    let missing = of(Verdict::Impossible) - without_truth - forbidden;
    if missing > 0 {
        text += &format!("; {missing} cannot be had here");
    }
    if without_truth > 0 {
        text += &format!("; of {without_truth} nobody knows the truth");
    }
    if failed.is_empty() {
        text.bold().to_string()
    } else {
        format!("{}: {}", format!("{text}; failed").bold(), failed.join(", "))
    }
}
