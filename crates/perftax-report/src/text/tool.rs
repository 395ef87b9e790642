//! `perftax predict --tool` on a terminal.

use owo_colors::OwoColorize;
use perftax_doc::{ToolPrediction, cpu_time_tells};

use crate::columns::{SamplerColumns, ToolColumns};
use crate::printable::printable;
use crate::sheet::Sheet;
use crate::table::Table;
use crate::text::plan::{workload, workload_table};
use crate::{shell, units};

/// What another tool would cost a program.
pub fn tool_prediction(doc: &ToolPrediction) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    let line: Vec<String> = doc.line.iter().map(|word| printable(word)).collect();
    sheet.row("tool", &shell::join(&line));
    sheet.row("program", &workload(&doc.workload));
    let least = if doc.unpriced.is_empty() { "" } else { "at least " };
    let cost = |share: &perftax_doc::Estimate, of: &str| format!("{least}{} of {of}", units::estimate_share(share).bold());
    match doc.priced_cpu_overhead.filter(|_| doc.workload.is_of_all_cpus()) {
        Some(cpu) => sheet.row("cost", &cost(&cpu, "the time that the CPUs are busy")),
        None => sheet.row("cost", &cost(&doc.priced_overhead, "elapsed time")),
    }
    let tells = cpu_time_tells(&doc.priced_overhead, doc.priced_cpu_overhead).filter(|_| !doc.workload.is_of_all_cpus());
    if let Some(cpu) = tells {
        sheet.row("", &cost(&cpu, "its CPU time"));
    }
    for unpriced in &doc.unpriced {
        let label = if std::ptr::eq(unpriced, &raw const doc.unpriced[0]) { "without" } else { "" };
        sheet.row(label, &format!("{}: {}", printable(&unpriced.what), printable(&unpriced.why)));
    }
    let ToolColumns { what, count, each, overhead, source } = ToolColumns::new();
    sheet.table(&Table::of(&[&what, &count, &each, &overhead, &source], doc.terms.iter()));
    let SamplerColumns { event, period, samples, bytes, rate } = SamplerColumns::new();
    sheet.table(&Table::of(&[&event, &period, &samples, &bytes, &rate], doc.samplers.iter()));
    sheet.blank();
    if let Some(opens) = doc.opens {
        sheet.row(
            "opens",
            &super::plural(
                &units::count(opens),
                "event, beside what perf opens to learn what it may",
                "events, one for each CPU and thread, beside what perf opens to learn what it may",
            ),
        );
    }
    if let Some(around_s) = &doc.around_s {
        sheet.row("itself", &format!("takes {} before the program begins and after it has ended", units::estimate_s(around_s)));
    }
    if !doc.beside.is_empty() {
        sheet.row(
            "beside",
            &format!("{} cost the tool's own time, on another CPU where one is free", printable(&doc.beside.join(", "))),
        );
    }
    sheet.table(&workload_table(&doc.workload));
    sheet.warnings(&doc.origin.warnings);
    // A plan of a recording keeps its options.
    let like = doc.line.starts_with(&["perf".into(), "record".into()]).then_some(&doc.line[..]);
    sheet.row("next", &shell::plan_like(&doc.workload, like).bold().to_string());
    sheet.finish()
}
