//! `perftax trace report` on a terminal.

use owo_colors::OwoColorize;
use perftax_cost::document::TraceReport;

use crate::sheet::{Sheet, printable};
use crate::table::Table;
use crate::units;

/// Latencies, what the tail's extra time went to, and the slowest messages.
pub fn trace(doc: &TraceReport) -> String {
    let meta = &doc.meta;
    let mut sheet = Sheet::about(&meta.origin);
    let program = meta.program.iter().map(|word| printable(word)).collect::<Vec<_>>().join(" ");
    sheet.row("program", &format!("{program}: {}, exit code {}", units::time_s(meta.elapsed_s), meta.code));
    let threads = super::plural(&units::count(meta.rings as u64), "thread", "threads");
    sheet.row("messages", &format!("{} by {threads}", units::count(doc.messages)));
    if !doc.trouble.is_empty() {
        let odd = doc.trouble.iter().map(|(what, n)| format!("{} {what}", units::count(*n)));
        sheet.row("odd", &odd.collect::<Vec<_>>().join("; "));
    }
    match &doc.latency {
        Some(latency) => {
            let of = |ns: u64| units::time_ns(ns as f64);
            let slowest = of(latency.max_ns);
            sheet.row(
                "latency",
                &format!(
                    "median {}, 99 % {}, 99.9 % {}, slowest {} ({} that ended)",
                    of(latency.p50_ns).bold(),
                    of(latency.p99_ns).bold(),
                    of(latency.p999_ns).bold(),
                    slowest.bold(),
                    units::count(latency.messages)
                ),
            );
        }
        None => sheet.row("latency", "no message ended"),
    }
    sheet.row(
        "samples",
        &format!("{} of {} while a thread worked on a message", units::count(doc.samples), printable(&meta.event)),
    );
    for blame in &doc.blames {
        let mut table = Table::default().left("").right("a message").right("of the extra time");
        for (cause, ns) in blame.causes.iter().filter(|(_, ns)| ns.estimate.abs() >= 1.0) {
            let share = ns.estimate / blame.extra_ns.estimate;
            table.row(vec![printable(cause), units::estimate_ns(ns), units::share(share)]);
        }
        let text = format!(
            "the {} beyond {} % took {} longer than the median one:",
            super::plural(&units::count(blame.messages), "message", "messages"),
            units::about(blame.from * 100.0),
            units::estimate_ns(&blame.extra_ns)
        );
        sheet.row("blame", &text);
        sheet.table(&table);
    }
    if !doc.slowest.is_empty() {
        let mut table =
            Table::default().right("slowest").right("began").right("latency").left("mostly").right("beyond the median");
        for slow in &doc.slowest {
            table.row(vec![
                slow.id.to_string(),
                units::time_s(slow.begin_s),
                units::time_ns(slow.latency_ns as f64),
                printable(&slow.cause),
                units::time_ns(slow.beyond_ns as f64),
            ]);
        }
        sheet.table(&table);
    }
    sheet.warnings(&meta.origin.warnings);
    sheet.finish()
}
