//! The page of a field test: its claims, then a page's part for each thing that was measured.

use perftax_doc::{ClaimVerdict, FieldTest, StepOutcome};

use super::page::{Grid, Panel, Part};
use super::{audit, calibration, selfcost};
use crate::columns::ClaimColumns;
use crate::text::verdicts;

pub(super) fn parts(doc: &FieldTest) -> Vec<Part> {
    let mut part = Part::of(&doc.origin, "Which of perftax's claims hold on this machine");
    for verdict in [ClaimVerdict::Confirmed, ClaimVerdict::Contradicted, ClaimVerdict::Untested] {
        let names: Vec<&str> = doc.of(verdict).map(|claim| claim.name.as_str()).collect();
        part.fact(verdict.name(), names.len().to_string(), names.join(", "));
    }
    if doc.is_emulated {
        part.fact("machine", "emulated", "perftax's own: what holds on it says nothing of hardware");
    }
    let ClaimColumns { name, claim, verdict, evidence, .. } = ClaimColumns::new();
    let table = Grid::of(&[&name, &claim, &verdict, &evidence], doc.claims.iter());
    part.panel(
        Panel::new("Claims", "What could not be held against this machine is untested, and never confirmed.").table(table),
    );
    let mut steps = Grid::new(&["step", "outcome", "why", "#took (s)"]);
    for step in &doc.steps {
        let outcome = match step.outcome {
            StepOutcome::Done => "done",
            StepOutcome::Impossible => "impossible here",
            StepOutcome::Failed => "failed",
        };
        steps.row(vec![step.name.clone(), outcome.into(), step.why.clone(), format!("{:.0}", step.elapsed_s)]);
    }
    part.panel(Panel::new("Steps", "").table(steps));
    let mut parts = vec![part];
    parts.extend(doc.calibrations.iter().map(calibration::part));
    parts.extend(doc.audit.iter().map(audit::part));
    parts.extend(doc.selfcost.iter().map(selfcost::part));
    parts
}

/// Claims of several machines: a row a claim, a column a machine.
pub(super) fn together(docs: &[(String, &FieldTest)]) -> Option<Panel> {
    if docs.is_empty() {
        return None;
    }
    let names: Vec<&str> = std::iter::once("claim").chain(docs.iter().map(|(label, _)| label.as_str())).collect();
    let mut table = Grid::new(&names);
    verdicts(docs).into_iter().for_each(|row| table.row(row));
    Some(Panel::new("Claims", "What could not be held against a machine is untested there, and never confirmed.").table(table))
}
