//! `perftax trace report` on a terminal.

use owo_colors::OwoColorize;
use perftax_cost::Estimate;
use perftax_cost::document::{Latencies, SlowMessage, TailBlame, TraceReport};

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
    match meta.tag.as_str() {
        "marks" => sheet.row("messages", &format!("{} by {threads}", units::count(doc.messages))),
        tag => sheet.row("messages", &format!("{} by {}", units::count(doc.messages), printable(tag))),
    }
    super::tag::rows(&mut sheet, meta);
    if !doc.trouble.is_empty() {
        let odd = doc.trouble.iter().map(|(what, n)| format!("{} {what}", units::count(*n)));
        sheet.row("odd", &odd.collect::<Vec<_>>().join("; "));
    }
    match &doc.latency {
        Some(latency) => {
            let of = |of: fn(&Latencies) -> u64| super::tag::latency(doc, latency, of);
            let slowest = of(|latency| latency.max_ns);
            sheet.row(
                "latency",
                &format!(
                    "median {}, 99 % {}, 99.9 % {}, slowest {} ({} that ended)",
                    of(|latency| latency.p50_ns).bold(),
                    of(|latency| latency.p99_ns).bold(),
                    of(|latency| latency.p999_ns).bold(),
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
        let text = format!(
            "the {} beyond {} % took {} longer than the median one:",
            super::plural(&units::count(blame.messages), "message", "messages"),
            units::about(blame.from * 100.0),
            units::estimate_ns(&blame.extra_ns)
        );
        sheet.row("blame", &text);
        sheet.table(&blamed(blame));
    }
    if !doc.slowest.is_empty() {
        sheet.table(&slowest(&doc.slowest));
    }
    super::tag::labels(&mut sheet, doc);
    if doc.slowest.iter().any(|slow| slow.is_doubtful) {
        sheet.row("?", "records were lost meanwhile: what is said of such a message may lack something");
    }
    sheet.warnings(&meta.origin.warnings);
    sheet.finish()
}

/// Less than this share of the extra time is not worth a line.
const WORTH: f64 = 0.005;

/// What the extra time went to: causes, and under each what it was in particular.
fn blamed(blame: &TailBlame) -> Table {
    let mut table = Table::default().left("").right("a message").right("of the extra time").left("");
    let all = blame.extra_ns.estimate;
    let is_worth = |ns: &Estimate| ns.estimate.abs() >= 1.0 && ns.estimate.abs() >= WORTH * all.abs();
    for cause in blame.causes.iter().filter(|cause| is_worth(&cause.extra_ns)) {
        let share = |ns: &Estimate| units::share(ns.estimate / all);
        table.row(vec![printable(&cause.cause), units::estimate_ns(&cause.extra_ns), share(&cause.extra_ns), String::new()]);
        let details =
            cause.which.iter().map(|detail| (detail, "")).chain(cause.functions.iter().map(|detail| (detail, "by samples")));
        for (detail, how) in details.filter(|(detail, _)| is_worth(&detail.extra_ns)) {
            let ns = &detail.extra_ns;
            table.row(vec![format!("  {}", shortened(&detail.name)), units::estimate_ns(ns), share(ns), how.into()]);
        }
    }
    table
}

fn slowest(slowest: &[SlowMessage]) -> Table {
    let mut table = Table::default()
        .right("slowest")
        .left("")
        .right("began")
        .right("latency")
        .left("mostly")
        .right("beyond the median")
        .left("");
    for slow in slowest {
        let function = slow.function.as_ref().map(|function| {
            let times = function
                .between_ns
                .map(|(low, high)| format!(", {} to {}", units::time_ns(low as f64), units::time_ns(high as f64)));
            let samples = super::plural(&units::count(function.samples), "sample", "samples");
            format!("{} ({samples}{})", shortened(&function.name), times.unwrap_or_default())
        });
        let which = slow.which.as_deref().map(shortened);
        table.row(vec![
            slow.id.to_string(),
            if slow.is_doubtful { "?".into() } else { String::new() },
            units::time_s(slow.begin_s),
            slow.latency_between_ns.map_or_else(|| units::time_ns(slow.latency_ns as f64), super::tag::between),
            [Some(printable(&slow.cause)), which].into_iter().flatten().collect::<Vec<_>>().join(": "),
            units::time_ns(slow.beyond_ns as f64),
            [slow.label.as_deref().map(shortened), function].into_iter().flatten().collect::<Vec<_>>().join("; "),
        ]);
    }
    table
}

/// Names may be as long as a template's.
fn shortened(name: &str) -> String {
    const LONGEST: usize = 48;
    let name = printable(name);
    match name.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name,
    }
}
