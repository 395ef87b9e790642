//! `perftax sim` as separated values.

use perftax_doc::Simulation;

use super::Rows;

/// One row a run: one, or those of a sweep.
pub fn simulation(doc: &Simulation, separator: &str) -> String {
    let names = [
        "machine",
        "mechanism",
        "event",
        "period",
        "buffer_bytes",
        "instructions",
        "events",
        "samples",
        "lost",
        "interrupts",
        "elapsed_s",
        "overhead",
        "assist_s",
        "pmi_s",
        "drain_s",
        "pollution_s",
        "memory_read_bytes",
        "memory_write_bytes",
    ];
    let mut rows = Rows::new(separator, &names);
    let runs = if doc.sweep.is_empty() { std::slice::from_ref(&doc.run) } else { &doc.sweep };
    for run in runs {
        rows.row(vec![
            doc.model.clone(),
            run.mechanism.clone(),
            run.event.clone(),
            run.period.to_string(),
            run.buffer_bytes.map_or(String::new(), |bytes| bytes.to_string()),
            run.instructions.to_string(),
            run.events.to_string(),
            run.samples.to_string(),
            run.lost.to_string(),
            run.interrupts.to_string(),
            run.elapsed_s.to_string(),
            run.predicted_overhead.to_string(),
            run.terms_s.assist.to_string(),
            run.terms_s.pmi.to_string(),
            run.terms_s.drain.to_string(),
            run.terms_s.pollution.to_string(),
            run.memory_read_bytes.to_string(),
            run.memory_write_bytes.to_string(),
        ]);
    }
    rows.out
}
