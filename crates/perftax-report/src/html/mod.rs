//! Pages: one offline file each, with its own copy of plotly.js and no reference to any network.

mod audit;
mod bill;
mod calibration;
mod comm;
mod comparison;
mod field_test;
mod figure;
mod lint;
mod matrix;
mod page;
mod phase;
mod plan;
mod prediction;
mod recorded;
mod selfcost;
mod selfcost_comparison;
mod sensitivity;
mod simulation;
mod stat;
mod tool;
mod trace;
mod trace_join;
mod verification;

use perftax_doc::{
    Audit, Bill, Calibration, Comm, FieldTest, Lint, Matrix, Phase, Plan, Prediction, Recorded, Selfcost, Sensitivity,
    Simulation, Stat, ToolPrediction, TraceJoin, TracePicture, Verification,
};

use crate::document::Document;
use page::Part;

/// The page of a calibration: slope, linearity, drift, terms.
pub fn calibration(doc: &Calibration) -> String {
    page::render(vec![calibration::part(doc)])
}

/// The page of a prediction: overhead over the period, its terms, its CPUs.
pub fn prediction(doc: &Prediction) -> String {
    page::render(vec![prediction::part(doc)])
}

/// The page of a field test: its claims, and everything that was measured.
pub fn field_test(doc: &FieldTest) -> String {
    page::render(field_test::parts(doc))
}

/// The page of what another tool would cost: its terms, what has no price, the trial.
pub fn tool_prediction(doc: &ToolPrediction) -> String {
    page::render(vec![tool::part(doc)])
}

/// The page of a plan: the budget curve with the chosen period and Stoker's optimum.
pub fn plan(doc: &Plan) -> String {
    page::render(vec![plan::part(doc)])
}

/// The page of a verification: expected against measured, errors, regression.
pub fn verification(doc: &Verification) -> String {
    page::render(vec![verification::part(doc)])
}

/// The page of a bill: cost by event, samples by CPU and thread.
pub fn bill(doc: &Bill) -> String {
    page::render(vec![bill::part(doc)])
}

/// The page of a lint: what was found, every check with its thresholds.
pub fn lint(doc: &Lint) -> String {
    page::render(vec![lint::part(doc)])
}

/// The page of a simulation: samples by place, cost by term, the sweep.
pub fn simulation(doc: &Simulation) -> String {
    page::render(vec![simulation::part(doc)])
}

/// The page of counts.
pub fn stat(doc: &Stat) -> String {
    page::render(vec![stat::part(doc)])
}

/// The page of a sensitivity: the loss over what is evicted.
pub fn sensitivity(doc: &Sensitivity) -> String {
    page::render(vec![sensitivity::part(doc)])
}

/// The page of an audit: the errors of each experiment.
pub fn audit(doc: &Audit) -> String {
    page::render(vec![audit::part(doc)])
}

/// The page of a price list: box plots, growth with the events, ratios.
pub fn selfcost(doc: &Selfcost) -> String {
    page::render(vec![selfcost::part(doc)])
}

/// The page of two events over a run: their curves, their ratio with its stretches, one against the other.
pub fn phase(doc: &Phase) -> String {
    page::render(vec![phase::part(doc)])
}

/// The page of a grid: overheads as a heat map and as bars, where events take turns, volume of data, every cell.
pub fn matrix(doc: &Matrix) -> String {
    page::render(vec![matrix::part(doc)])
}

/// The page of transfers between threads: heat maps, the lines with their instructions, what it rests on.
pub fn comm(doc: &Comm) -> String {
    page::render(vec![comm::part(doc)])
}

/// The page of a recording within a budget: what was spent on what, and how it went over time.
pub fn recorded(doc: &Recorded) -> String {
    page::render(vec![recorded::part(doc)])
}

/// The page of a trace: every message over time, the slow ones in pieces, what their extra time went to, what kept CPUs from the program.
pub fn trace(picture: &TracePicture) -> String {
    trace::page(picture)
}

/// The page of messages over services: what slow ones' extra time went to, the slowest part by part, and how far clocks are apart.
pub fn trace_join(doc: &TraceJoin) -> String {
    trace_join::page(doc)
}

/// Several machines or kernels side by side: documents of one kind.
pub fn comparison(documents: &[Document]) -> String {
    let together = comparison::part(documents);
    // Beside the machines: of some kinds no panel holds two, and they stand below each other.
    let is_told = together.panels.len() > 1;
    let single = documents.iter().filter(|_| !is_told).flat_map(parts);
    page::render(std::iter::once(together).chain(single).collect())
}

/// Documents of any kinds below each other on one page.
pub fn documents(documents: &[Document]) -> String {
    page::render(documents.iter().flat_map(parts).collect())
}

fn parts(document: &Document) -> Vec<Part> {
    vec![match document {
        Document::Calibration(doc) => calibration::part(doc),
        Document::Prediction(doc) => prediction::part(doc),
        Document::Tool(doc) => tool::part(doc),
        Document::Plan(doc) => plan::part(doc),
        Document::Verification(doc) => verification::part(doc),
        Document::Bill(doc) => bill::part(doc),
        Document::Lint(doc) => lint::part(doc),
        Document::Recorded(doc) => recorded::part(doc),
        Document::Simulation(doc) => simulation::part(doc),
        Document::Stat(doc) => stat::part(doc),
        Document::Sensitivity(doc) => sensitivity::part(doc),
        Document::Audit(doc) => audit::part(doc),
        Document::Selfcost(doc) => selfcost::part(doc),
        Document::Phase(doc) => phase::part(doc),
        Document::Matrix(doc) => matrix::part(doc),
        Document::Comm(doc) => comm::part(doc),
        Document::FieldTest(doc) => return field_test::parts(doc),
    }]
}
