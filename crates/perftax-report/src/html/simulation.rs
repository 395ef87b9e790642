//! The page of a simulation.

use perftax_doc::{SimulatedRun, Simulation};
use serde_json::json;

use super::figure::{Axis, Figure, Trace};
use super::page::{Grid, Panel, Part};
use crate::columns::{self, Column, Counted, RunColumns, SampledAt, Simulated};
use crate::{shell, units};

pub(super) fn part(doc: &Simulation) -> Part {
    let program = shell::join(&doc.program);
    let mut part = Part::of(&doc.origin, format!("What sampling does to {program} on a modelled {}", doc.model));
    let run = &doc.run;
    part.fact("program", units::time_s(run.elapsed_s), format!("{} instructions", units::count(run.instructions)));
    if run.period > 0 {
        let every = format!("{} every {}", run.event, units::count(run.period));
        part.fact("samples", units::count(run.samples), format!("{every}, {} lost", units::count(run.lost)));
        part.fact("cost", units::share(run.predicted_overhead), "of the elapsed time, by the model".to_string());
    }
    let runs = if doc.sweep.is_empty() { std::slice::from_ref(run) } else { &doc.sweep };
    if run.period > 0 {
        part.panel(terms(doc, runs));
    }
    if run.caches && doc.sweep.len() > 1 {
        part.panel(memory(doc, runs));
    }
    if !run.by_address.is_empty() {
        part.panel(addresses(run));
    }
    part.panel(counts(run));
    part.panel(sources(doc));
    part
}

/// What a run of a sweep is called.
fn name(doc: &Simulation, run: &SimulatedRun) -> String {
    match (doc.swept.as_deref(), run.buffer_bytes) {
        (Some("buffer"), Some(bytes)) => units::bytes(bytes as f64),
        _ => units::count(run.period),
    }
}

/// The column of what tells the runs of a sweep apart.
fn what_is_swept<'a>(doc: &Simulation) -> Column<Simulated<'a>> {
    let heading = if doc.swept.as_deref() == Some("buffer") { "buffer" } else { "period" };
    Column::number(heading, |of| name(of.doc, of.run))
}

fn terms(doc: &Simulation, runs: &[SimulatedRun]) -> Panel {
    let names: Vec<String> = runs.iter().map(|run| name(doc, run)).collect();
    let mut figure = Figure::new(400, Axis::names(), Axis::share("overhead"));
    figure.set("barmode", json!("relative"));
    figure.set("bargap", json!(0.35));
    type Term = (&'static str, fn(&SimulatedRun) -> f64);
    let all: [Term; 4] = [
        ("assists", |run| run.terms_s.assist),
        ("interrupts", |run| run.terms_s.pmi),
        ("draining", |run| run.terms_s.drain),
        ("pollution", |run| run.terms_s.pollution),
    ];
    let RunColumns { samples, overhead, assists, interrupts, draining, pollution, .. } = RunColumns::new();
    let columns = [&what_is_swept(doc), &samples, &overhead, &assists, &interrupts, &draining, &pollution];
    let table = Grid::of(&columns, runs.iter().map(|run| Simulated { doc, run }));
    for (i, (title, of)) in all.iter().enumerate() {
        let shares: Vec<f64> = runs.iter().map(|run| of(run) / run.elapsed_s).collect();
        figure.add(Trace::bars_up(title, &names, &shares).colour(i));
    }
    Panel::new(
        "What the overhead is made of",
        "Each term as a share of the run without sampling, on the core that takes longest. Pollution is what the program's further \
         misses cost, found by simulating the caches once with the records and once without.",
    )
    .figure(figure)
    .table(table)
}

fn memory(doc: &Simulation, runs: &[SimulatedRun]) -> Panel {
    let names: Vec<String> = runs.iter().map(|run| name(doc, run)).collect();
    let mut figure = Figure::new(360, Axis::names(), Axis::count("bytes"));
    figure.set("barmode", json!("group"));
    let columns = [
        &what_is_swept(doc),
        &Column::number("read", |of| units::bytes(of.run.memory_read_bytes as f64)),
        &Column::number("written", |of| units::bytes(of.run.memory_write_bytes as f64)),
        &Column::number("misses caused", |of| of.run.llc_misses_caused.map_or(String::new(), crate::text::signed)),
    ];
    let table = Grid::of(&columns, runs.iter().map(|run| Simulated { doc, run }));
    let read: Vec<f64> = runs.iter().map(|run| run.memory_read_bytes as f64).collect();
    let written: Vec<f64> = runs.iter().map(|run| run.memory_write_bytes as f64).collect();
    figure.add(Trace::bars_up("read", &names, &read).colour(0));
    figure.add(Trace::bars_up("written", &names, &written).colour(1));
    Panel::new("Memory traffic", "Bytes between the last-level cache and memory, the program's and the records' together.")
        .figure(figure)
        .table(table)
}

fn addresses(run: &SimulatedRun) -> Panel {
    let table = Grid::of(&columns::addresses().each_ref(), SampledAt::all(run));
    Panel::new("Samples by instruction", "Where the samples fell, most first.").table(table)
}

fn counts(run: &SimulatedRun) -> Panel {
    let table = Grid::of(&columns::counts().each_ref(), Counted::all(run));
    Panel::new("Events", "What the program did, as the modelled machine counts it.").table(table)
}

fn sources(doc: &Simulation) -> Panel {
    let mut table = Grid::new(&["the machine's numbers"]);
    for source in &doc.model_sources {
        table.row(vec![source.clone()]);
    }
    Panel::new("Where the machine comes from", "A model is as good as its description.").folded(table)
}
