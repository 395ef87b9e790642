//! `perftax field-test` on a terminal.

use itertools::Itertools as _;
use owo_colors::OwoColorize;
use perftax_doc::{ClaimVerdict, FieldTest, StepOutcome};

use crate::columns::ClaimColumns;
use crate::printable::printable;
use crate::sheet::Sheet;
use crate::table::Table;
use crate::units;

/// What holds on a machine, and what could not be tested there.
pub fn field_test(doc: &FieldTest) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    if doc.is_emulated {
        sheet.row("emulated", "this machine is perftax's own: what holds on it says nothing of hardware");
    }
    let count = |verdict: ClaimVerdict| doc.of(verdict).count();
    let (confirmed, contradicted, untested) =
        (count(ClaimVerdict::Confirmed), count(ClaimVerdict::Contradicted), count(ClaimVerdict::Untested));
    let text = format!("{confirmed} of {} claims confirmed, {contradicted} contradicted, {untested} untested", doc.claims.len());
    let text = if contradicted > 0 { text.red().bold().to_string() } else { text.bold().to_string() };
    sheet.row("verdict", &text);
    let ClaimColumns { name, verdict, evidence, .. } = ClaimColumns::new();
    sheet.table(&Table::of(&[&name, &verdict, &evidence], doc.claims.iter()));
    let mut calibrations = Table::default().left("mechanism").right("a sample").right("floor").left("event");
    for calibration in &doc.calibrations {
        calibrations.row(vec![
            calibration.mechanism.to_string(),
            units::estimate_ns(&calibration.alpha_ns),
            calibration.floor_ns.as_ref().map_or(String::new(), units::estimate_ns),
            printable(&calibration.event),
        ]);
    }
    sheet.table(&calibrations);
    sheet.blank();
    // A table has no place for all of it.
    for claim in doc.of(ClaimVerdict::Contradicted) {
        sheet.row("not", &format!("{}: {}: {}", printable(&claim.name), printable(&claim.claim), printable(&claim.evidence)));
    }
    for step in doc.steps.iter().filter(|step| step.outcome != StepOutcome::Done) {
        let how = if step.outcome == StepOutcome::Failed { "failed" } else { "impossible here" };
        sheet.row("step", &format!("{}: {how}: {}", printable(&step.name), printable(&step.why)));
    }
    sheet.warnings(&doc.origin.warnings);
    sheet.row("next", &"perftax field-test --json field-test.json".bold().to_string());
    sheet.finish()
}

/// Claims of several machines: a row a claim, a column a machine.
pub(super) fn side_by_side(docs: &[(String, &FieldTest)]) -> Vec<Table> {
    if docs.is_empty() {
        return Vec::new();
    }
    let table = docs.iter().fold(Table::default().left("claim"), |table, (label, _)| table.left(label));
    vec![verdicts(docs).into_iter().fold(table, |mut table, row| {
        table.row(row);
        table
    })]
}

/// A row a claim: its name, and each machine's verdict, `—` where it was not asked.
pub(crate) fn verdicts(docs: &[(String, &FieldTest)]) -> Vec<Vec<String>> {
    let names = docs.iter().flat_map(|(_, doc)| &doc.claims).map(|claim| claim.name.as_str()).unique();
    let verdict = |name: &str, doc: &FieldTest| {
        let claim = doc.claims.iter().find(|claim| claim.name == name);
        claim.map_or("—".to_string(), |claim| claim.verdict.name().into())
    };
    names.map(|name| [printable(name)].into_iter().chain(docs.iter().map(|(_, doc)| verdict(name, doc))).collect()).collect()
}
