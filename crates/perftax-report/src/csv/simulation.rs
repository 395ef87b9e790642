//! `perftax sim` as separated values.

use perftax_doc::Simulation;

use super::Rows;
use crate::columns::{Column, RunColumns, Simulated};

/// One row a run: one, or those of a sweep.
pub fn simulation(doc: &Simulation, separator: &str) -> String {
    let of = RunColumns::new();
    let columns = [
        &Column::field(&["machine"], |of: &Simulated| vec![of.doc.model.clone()]),
        &Column::field(&["mechanism"], |of| vec![of.run.mechanism.clone()]),
        &Column::field(&["event"], |of| vec![of.run.event.clone()]),
        &of.period,
        &of.buffer,
        &Column::field(&["instructions"], |of| vec![of.run.instructions.to_string()]),
        &Column::field(&["events"], |of| vec![of.run.events.to_string()]),
        &of.samples,
        &Column::field(&["lost"], |of| vec![of.run.lost.to_string()]),
        &Column::field(&["interrupts"], |of| vec![of.run.interrupts.to_string()]),
        &Column::field(&["elapsed_s"], |of| vec![of.run.elapsed_s.to_string()]),
        &of.overhead,
        &of.assists,
        &of.interrupts,
        &of.draining,
        &of.pollution,
        &of.read,
        &of.written,
    ];
    let runs = if doc.sweep.is_empty() { std::slice::from_ref(&doc.run) } else { &doc.sweep };
    Rows::of(separator, &columns, runs.iter().map(|run| Simulated { doc, run }))
}
