//! `perftax predict` on a terminal.

use itertools::Itertools as _;
use owo_colors::OwoColorize;
use perftax_doc::{Prediction, PredictionRow, busiest_tells, cpu_time_tells};

use crate::columns::{Predicted, PredictionColumns};
use crate::printable::printable;
use crate::sheet::{Sheet, event};
use crate::table::Table;
use crate::text::plan::{workload, workload_table};
use crate::{shell, units};

/// What sampling would cost at each period.
pub fn prediction(doc: &Prediction) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    let elsewhere = if doc.cost_machine.is_empty() || doc.cost_machine == doc.origin.machine.name {
        String::new()
    } else {
        format!(" on {}", printable(&doc.cost_machine))
    };
    sheet.row(
        "sample",
        &format!("{} of {}{elsewhere}", units::estimate_ns(&doc.alpha_ns).bold(), event(&doc.event, doc.mechanism)),
    );
    sheet.row("program", &workload(&doc.workload));
    sheet.table(&rows(doc));
    if doc.rows.iter().any(|row| row.terms.len() > 1) {
        sheet.table(&terms(doc));
    }
    if doc.rows.iter().any(|row| row.extra_s_per_cpu.len() > 1) {
        sheet.table(&per_cpu(doc));
    }
    sheet.table(&workload_table(&doc.workload));
    sheet.warnings(&doc.origin.warnings);
    sheet.row("next", &shell::plan(doc).bold().to_string());
    sheet.finish()
}

fn rows(doc: &Prediction) -> Table {
    let PredictionColumns { period, samples, rate, bytes, overhead, of_cpu, of_busiest, elapsed, .. } = PredictionColumns::new();
    let mut columns = vec![&period, &samples, &rate, &bytes, &overhead];
    // Of CPU time, too, where the program waits for much of its time.
    if doc.rows.iter().any(|row| cpu_time_tells(&row.overhead, row.cpu_overhead).is_some()) {
        columns.push(&of_cpu);
    }
    let busiest = |row: &PredictionRow| busiest_tells(&row.overhead, row.cpu_overhead, row.busiest_overhead);
    if doc.rows.iter().any(|row| busiest(row).is_some()) {
        columns.push(&of_busiest);
    }
    columns.push(&elapsed);
    Table::of(&columns, Predicted::all(doc))
}

/// The overhead of each period by term, one column a term.
fn terms(doc: &Prediction) -> Table {
    let names = doc.rows.iter().flat_map(|row| row.terms.keys()).sorted().dedup().collect_vec();
    let mut table = Table::default().right("overhead by term");
    for name in &names {
        table = table.right(&printable(name));
    }
    for row in &doc.rows {
        let cell = |name: &&String| row.terms.get(*name).map_or(String::new(), units::estimate_share);
        table.row([units::period(doc.mechanism, row.period)].into_iter().chain(names.iter().map(cell)).collect());
    }
    table
}

fn per_cpu(doc: &Prediction) -> Table {
    let cpus = doc.rows.iter().map(|row| row.extra_s_per_cpu.len()).max().unwrap_or(0);
    let mut table = Table::default().right("extra time");
    // A terminal has no place for more columns; --json has every CPU.
    const MAX: usize = 6;
    for cpu in 0..cpus.min(MAX) {
        table = table.right(&format!("CPU {cpu}"));
    }
    for row in &doc.rows {
        let cells = row.extra_s_per_cpu.iter().take(MAX).map(units::estimate_s);
        table.row([units::period(doc.mechanism, row.period)].into_iter().chain(cells).collect());
    }
    table
}
