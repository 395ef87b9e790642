//! The page of an audit.

use perftax_doc::Estimate;
use perftax_doc::{Audit, AuditRow, AuditedExperiment, Verdict};

use super::figure::{Axis, Figure, Trace};
use super::page::{Grid, Panel, Part, sentence};
use crate::text::{audit_compared, audit_error, audit_expected, audit_found};
use crate::units;

pub(super) fn part(doc: &Audit) -> Part {
    let mut part = Part::of(&doc.origin, "Whether samples tell the truth");
    let rows = || doc.rows();
    let of = |verdict: Verdict| rows().filter(|row| row.verdict == verdict).count();
    let failed = of(Verdict::Failed);
    let forbidden = rows().filter(|row| row.is_forbidden()).count();
    part.lead = match failed {
        0 if of(Verdict::Passed) == 0 => "Nothing was measured: see why not beside each comparison.".into(),
        0 if forbidden > 0 => "Every comparison that this user may make on this machine came out as it must.".into(),
        0 => "Every comparison that this machine can make came out as it must.".into(),
        n => format!("{n} comparisons did not come out as they must."),
    };
    part.tone = if failed == 0 && of(Verdict::Passed) > 0 { "good" } else { "bad" };
    part.fact("as it must be", of(Verdict::Passed).to_string(), format!("of {} comparisons", rows().count()));
    part.fact("failed", failed.to_string(), "each has a remark or an error beside it");
    part.fact(
        "not to be had here",
        (of(Verdict::Impossible) - forbidden).to_string(),
        "events or mechanisms that this machine lacks, or whose truth nobody knows",
    );
    if forbidden > 0 {
        part.fact("not yours to measure", forbidden.to_string(), "the right to them is missing; the remark says what gives it");
    }
    for experiment in &doc.experiments {
        part.panel(panel(experiment));
    }
    if !doc.comparisons.is_empty() {
        part.panel(comparisons(doc));
    }
    part
}

/// Published against ours.
fn comparisons(doc: &Audit) -> Panel {
    let mut table = Grid::new(&["figure", "asks", "published", "ours", "measured on", "verdict"]);
    for row in &doc.comparisons {
        let cells = [&row.figure, &row.asks, &row.published, &row.ours, &row.place].map(Clone::clone);
        table.row(cells.into_iter().chain([row.conclusion()]).collect());
    }
    Panel::new("Published against ours (PES study, TPDS'23)", &format!("{}.", audit_compared(doc))).table(table)
}

fn panel(experiment: &AuditedExperiment) -> Panel {
    let mut table = Grid::new(&["case", "#expected", "#found", "#error", "#lost", "#throttled", "verdict", "remark"]);
    for row in &experiment.rows {
        let is_there = row.verdict != Verdict::Impossible;
        let if_there = |text: String| if is_there { text } else { String::new() };
        table.row(vec![
            row.case.clone(),
            if_there(audit_expected(row)),
            if_there(audit_found(row)),
            if_there(audit_error(row)),
            if_there(units::count(row.lost)),
            if_there(units::count(row.throttled)),
            match row.verdict {
                Verdict::Passed => "passed".into(),
                Verdict::Failed => "FAILED".into(),
                Verdict::Impossible => row.instead().into(),
            },
            row.remark.clone().unwrap_or_default(),
        ]);
    }
    let caption = format!("{} The study: {}.", sentence(&experiment.method), experiment.figures);
    let panel = Panel::new(&sentence(&experiment.question), &caption).table(table);
    let drawn: Vec<&AuditRow> =
        experiment.rows.iter().filter(|row| row.verdict != Verdict::Impossible && row.expected != 0.0).collect();
    if drawn.is_empty() {
        return panel;
    }
    let names: Vec<String> = drawn.iter().map(|row| row.case.clone()).collect();
    let errors: Vec<Estimate> = drawn.iter().map(|row| row.error).collect();
    // Errors of nothing would be drawn on an axis from -100 to 100 %.
    const LEAST: f64 = 0.01;
    let axis = Axis::share("error, signed").reference_zero();
    let is_small = errors.iter().all(|error| error.low >= -LEAST && error.high <= LEAST);
    let axis = if is_small { axis.within(LEAST) } else { axis };
    let mut figure = Figure::new(110 + 26 * drawn.len() as u32, axis, Axis::names().downwards());
    figure.add(Trace::forest("error", &errors, &names).colour(0).unlisted());
    panel.figure(figure)
}
