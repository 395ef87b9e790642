//! `perftax lint` as separated values.

use perftax_doc::{Lint, LintUnit};

use super::Rows;

/// One row a check, worst first.
pub fn lint(doc: &Lint, separator: &str) -> String {
    let names =
        ["check", "verdict", "measures", "unit", "measured", "warning_from", "error_from", "evidence", "effect", "remedy"];
    let mut rows = Rows::new(separator, &names);
    let number = |number: Option<f64>| number.map_or(String::new(), |number| number.to_string());
    for check in &doc.checks {
        let unit = match check.unit {
            LintUnit::Share => "share",
            LintUnit::Count => "count",
        };
        rows.row(vec![
            check.check.clone(),
            check.verdict.name().into(),
            check.measures.clone(),
            unit.into(),
            number(check.measured),
            number(check.warning_from),
            number(check.error_from),
            check.evidence.clone(),
            check.effect.clone(),
            check.remedy.clone(),
        ]);
    }
    rows.out
}
