//! The page of a sensitivity.

use perftax_doc::Estimate;
use perftax_doc::Sensitivity;
use serde_json::json;

use super::figure::{Axis, Figure, Trace};
use super::page::{Grid, Panel, Part};
use crate::columns::SensitivityColumns;
use crate::{shell, units};

pub(super) fn part(doc: &Sensitivity) -> Part {
    let program = shell::join(&doc.program);
    let mut part = Part::of(&doc.origin, format!("What {program} loses with its caches"));
    if let Some(row) = doc.rows.last() {
        let bytes = units::bytes(row.taken_bytes as f64);
        let note = match doc.method.as_str() {
            "eviction" => format!("of its CPU time, {bytes} evicted every {}", units::time_s(doc.interval_s)),
            _ => format!("of its CPU time, {bytes} of the last level not left to it"),
        };
        part.fact("loss", units::estimate_share(&row.loss), note);
    }
    let buffer = doc.buffer_bytes.map_or("the smallest".into(), |bytes| units::bytes(bytes as f64));
    part.fact("buffer", buffer, format!("the largest not felt: loss below {}", units::share(doc.tolerance)));
    let names: Vec<String> = doc.rows.iter().map(|row| units::bytes(row.taken_bytes as f64)).collect();
    let mut figure = Figure::new(400, Axis::labels(&names), Axis::share("program loses").zero_based());
    let x: Vec<f64> = (0..doc.rows.len()).map(|i| i as f64).collect();
    let y: Vec<Estimate> = doc.rows.iter().map(|row| row.loss).collect();
    figure.add(Trace::points("loss", &x, &y).colour(0).with(json!({"mode": "lines+markers"})));
    let SensitivityColumns { taken, loss, visit, traffic, rounds } = SensitivityColumns::new();
    let table = Grid::of(&[&taken, &loss, &visit, &traffic, &rounds], doc.rows.iter());
    part.panel(
        Panel::new(
            "Loss over what is taken away",
            "Against runs from which nothing is taken (beside an evictor that only wakes up, or with all ways). Where the line is flat, nothing more was there to lose.",
        )
        .figure(figure)
        .table(table),
    );
    let mut raw = Grid::new(&["#round", "#taken away", "#visits", "#CPU time", "#elapsed", "discarded"]);
    for run in &doc.runs {
        raw.row(vec![
            run.round.to_string(),
            units::bytes(run.taken_bytes as f64),
            units::count(run.visits),
            units::time_s(run.cpu_s),
            units::time_s(run.elapsed_s),
            run.discarded.clone().unwrap_or_default(),
        ]);
    }
    part.panel(Panel::new("Raw runs", "Every run that was made.").folded(raw));
    part
}
