//! `perftax lint` on a terminal.

use owo_colors::OwoColorize;
use perftax_doc::{Lint, LintCheck, LintVerdict};

use super::plural;
use crate::printable::printable;
use crate::sheet::Sheet;
use crate::{shell, units};

/// The verdict, and each check that did not pass, worst first, with its remedy.
pub fn lint(doc: &Lint) -> String {
    let mut sheet = Sheet::default();
    sheet.recording(&doc.recording, &doc.recorded_on, &doc.recorded_by, &doc.recorded_command);
    sheet.row("samples", &extent(doc));
    sheet.row("verdict", &lint_verdict(doc).bold().to_string());
    for check in doc.checks.iter().filter(|check| check.verdict >= LintVerdict::Warning) {
        sheet.row(check.verdict.name(), &finding(check));
        sheet.row("", &format!("→ {}", printable(&check.remedy)));
    }
    for check in doc.checks.iter().filter(|check| check.verdict == LintVerdict::Unknown) {
        sheet.row("unknown", &format!("{}: {}", check.check, printable(&check.evidence)));
    }
    for verdict in [LintVerdict::Passed, LintVerdict::Off] {
        let names: Vec<&str> =
            doc.checks.iter().filter(|check| check.verdict == verdict).map(|check| check.check.as_str()).collect();
        if !names.is_empty() {
            sheet.row(verdict.name(), &names.join(", "));
        }
    }
    sheet.warnings(&doc.origin.warnings);
    if doc.verdict == LintVerdict::Passed && doc.recording != "-" {
        let command = shell::join(&["perftax", "bill", &printable(&doc.recording)]);
        sheet.row("next", &format!("{}  (what it cost)", command.bold()));
    }
    sheet.finish()
}

fn finding(check: &LintCheck) -> String {
    let name = match check.verdict {
        LintVerdict::Error => check.check.red().bold().to_string(),
        _ => check.check.yellow().bold().to_string(),
    };
    format!("{name}: {}; {}", printable(&check.evidence), printable(&check.effect))
}

/// The checks that did not pass, worst first.
pub(crate) fn found(doc: &Lint) -> String {
    let found: Vec<&str> =
        doc.checks.iter().filter(|check| check.verdict >= LintVerdict::Warning).map(|check| check.check.as_str()).collect();
    if found.is_empty() { "nothing".into() } else { found.join(", ") }
}

/// How much was recorded.
pub(crate) fn extent(doc: &Lint) -> String {
    let samples = plural(&units::count(doc.samples), "sample", "samples");
    match doc.span_s {
        Some(span_s) => format!("{samples} in {}", units::time_s(span_s)),
        None => samples,
    }
}

/// The verdict in one line.
pub(crate) fn lint_verdict(doc: &Lint) -> String {
    let count = |verdict| doc.count(verdict);
    let numbered = |many: usize, one: &str, more: &str| plural(&many.to_string(), one, more);
    let (errors, warnings) = (count(LintVerdict::Error), count(LintVerdict::Warning));
    let found = match (errors, warnings) {
        (0, 0) => "nothing found".into(),
        (0, warnings) => format!("{} to keep in mind", numbered(warnings, "warning", "warnings")),
        (errors, 0) => format!("not to be trusted: {}", numbered(errors, "error", "errors")),
        (errors, warnings) => {
            format!("not to be trusted: {}, {}", numbered(errors, "error", "errors"), numbered(warnings, "warning", "warnings"))
        }
    };
    let unknown = match count(LintVerdict::Unknown) {
        0 => String::new(),
        many => format!(", {many} unknown"),
    };
    format!("{found}; {} passed{unknown}", numbered(count(LintVerdict::Passed), "check", "checks"))
}
