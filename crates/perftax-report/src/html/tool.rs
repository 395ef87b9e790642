//! The page of what another tool would cost.

use perftax_doc::{Estimate, PriceSource, ToolPrediction, ToolTrial, TrialStage};
use serde_json::json;

use super::figure::{Axis, Figure, Trace};
use super::page::{Grid, Panel, Part};
use super::prediction::{program_facts, program_panel, raw_runs};
use crate::columns::{SamplerColumns, ToolColumns};
use crate::{shell, units};

pub(super) fn part(doc: &ToolPrediction) -> Part {
    let program = shell::program(&doc.workload);
    let mut part = Part::of(&doc.origin, format!("What {} would cost {program}", doc.tool));
    part.kind = "predict --tool".into();
    let least = if doc.unpriced.is_empty() { "expected overhead" } else { "expected overhead, at least" };
    part.fact(least, units::estimate_share(&doc.priced_overhead), "of elapsed time without the tool");
    part.fact("tool", doc.tool.clone(), shell::join(&doc.line));
    program_facts(&mut part, &doc.workload);
    part.next = Some(("Choose settings for a budget".into(), shell::plan_for(&doc.workload)));
    if !doc.terms.is_empty() {
        part.panel(terms(doc));
    }
    if !doc.samplers.is_empty() {
        let SamplerColumns { event, period, samples, bytes, rate } = SamplerColumns::new();
        let table = Grid::of(&[&event, &period, &samples, &bytes, &rate], doc.samplers.iter());
        part.panel(
            Panel::new(
                "What it samples",
                "Bytes are those of samples; of call chains and stacks only the program tells how many.",
            )
            .table(table),
        );
    }
    if !doc.unpriced.is_empty() {
        let mut table = Grid::new(&["option or event", "what has no price"]);
        doc.unpriced.iter().for_each(|unpriced| table.row(vec![unpriced.what.clone(), unpriced.why.clone()]));
        part.panel(Panel::new("Without a price", "The overhead above is the least: none of this is in it.").table(table));
    }
    part.panel(program_panel(&doc.workload));
    if let Some(trial) = &doc.trial {
        part.panel(trial_panel(trial));
    }
    part.panel(raw_runs("Raw runs", doc.workload.runs.iter().map(|run| (String::new(), run))));
    part
}

fn terms(doc: &ToolPrediction) -> Panel {
    let shown: Vec<_> = doc.terms.iter().filter(|term| term.overhead.estimate > 0.0).collect();
    let names: Vec<String> = shown.iter().map(|term| term.what.clone()).collect();
    let shares: Vec<Estimate> = shown.iter().map(|term| term.overhead).collect();
    let mut figure = Figure::new(320, Axis::names(), Axis::share("of elapsed time"));
    figure.set("bargap", json!(0.5));
    figure.add(Trace::bars_between("overhead", &names, &shares).colour(0));
    let ToolColumns { what, count, each, overhead, source } = ToolColumns::new();
    let table = Grid::of(&[&what, &count, &each, &overhead, &source], doc.terms.iter());
    let tried = doc.terms.iter().any(|term| term.source == PriceSource::Trial);
    let how = if tried {
        "Prices that were tried out are those of the tool itself, around work whose number of events is known."
    } else {
        "Prices are those of this machine's calibrations."
    };
    Panel::new("What it costs, term by term", how).figure(figure).table(table)
}

fn trial_panel(trial: &ToolTrial) -> Panel {
    let worked: Vec<TrialStage> = trial.done.iter().filter(|(_, units)| **units > 0).map(|(stage, _)| *stage).collect();
    let names: Vec<String> = ["#round", "tool", "#elapsed (s)"]
        .map(String::from)
        .into_iter()
        .chain(worked.iter().map(|stage| format!("#{} (ms)", stage_name(*stage))))
        .collect();
    let mut table = Grid::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for run in &trial.runs {
        let stages =
            worked.iter().map(|stage| run.stages_ns.get(stage).map_or(String::new(), |ns| format!("{:.3}", *ns as f64 * 1e-6)));
        let head =
            [run.round.to_string(), if run.with_tool { "with" } else { "without" }.into(), format!("{:.4}", run.elapsed_s)];
        table.row(head.into_iter().chain(stages).collect());
    }
    let done: Vec<String> = worked.iter().map(|stage| format!("{} {}", stage_name(*stage), trial.done[stage])).collect();
    Panel::new("The trial", &format!("Every run, before any statistics. Units of each stage: {}.", done.join(", "))).folded(table)
}

/// What a kind of work is called in tables.
fn stage_name(stage: TrialStage) -> &'static str {
    match stage {
        TrialStage::Computing => "computing",
        TrialStage::Calls => "calls",
        TrialStage::Paths => "paths",
        TrialStage::Reads => "reads",
        TrialStage::Faults => "faults",
        TrialStage::Switches => "switches",
        TrialStage::Tasks => "tasks",
        TrialStage::Probed => "probed calls",
        TrialStage::CachedWork => "cached work",
        TrialStage::WideCode => "wide code",
        TrialStage::SpreadCalls => "spread calls",
    }
}
