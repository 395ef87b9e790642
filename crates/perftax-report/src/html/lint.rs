//! The page of a lint.

use perftax_doc::{Lint, LintCheck, LintUnit, LintVerdict};

use super::page::{Grid, Panel, Part, sentence};
use crate::text::{extent, lint_verdict};
use crate::{shell, units};

pub(super) fn part(doc: &Lint) -> Part {
    let mut part = Part::of(&doc.origin, format!("Whether {} can be trusted", doc.recording));
    part.lead = sentence(&lint_verdict(doc));
    part.tone = if doc.verdict == LintVerdict::Error { "bad" } else { "good" };
    part.origin.push(("recorded".into(), shell::join(&doc.recorded_command)));
    part.origin.push(("recorded on".into(), doc.recorded_on.clone()));
    part.origin.push(("extent".into(), extent(doc)));
    part.fact("errors", doc.count(LintVerdict::Error).to_string(), "each spoils what recordings are usually read for");
    part.fact("warnings", doc.count(LintVerdict::Warning).to_string(), "to be kept in mind");
    part.fact("passed", doc.count(LintVerdict::Passed).to_string(), format!("of {} checks", doc.checks.len()));
    part.fact("unknown", doc.count(LintVerdict::Unknown).to_string(), "the recording does not tell");
    let found: Vec<&LintCheck> = doc.checks.iter().filter(|check| check.verdict >= LintVerdict::Warning).collect();
    if !found.is_empty() {
        part.panel(findings(&found));
    }
    part.panel(all(doc));
    part
}

fn findings(found: &[&LintCheck]) -> Panel {
    let mut table = Grid::new(&["", "check", "evidence", "what it does to conclusions", "remedy"]);
    for check in found {
        table.row(vec![
            check.verdict.name().into(),
            check.check.clone(),
            check.evidence.clone(),
            check.effect.clone(),
            check.remedy.clone(),
        ]);
    }
    Panel::new("Found", "The worst stands first.").table(table)
}

/// Every check with what it measured and its thresholds.
fn all(doc: &Lint) -> Panel {
    let mut table = Grid::new(&["check", "verdict", "#measured", "#warning from", "#error from", "what is measured", "evidence"]);
    for check in &doc.checks {
        let number = |number: Option<f64>, none: &str| {
            number.map_or(none.into(), |number| match check.unit {
                LintUnit::Share => units::share(number),
                LintUnit::Count => units::count(number.round() as u64),
            })
        };
        table.row(vec![
            check.check.clone(),
            check.verdict.name().into(),
            number(check.measured, "unknown"),
            number(check.warning_from, "never"),
            number(check.error_from, "never"),
            check.measures.clone(),
            check.evidence.clone(),
        ]);
    }
    Panel::new("Every check", "Thresholds are those of this run: perftax lint --config changes them.").table(table)
}
