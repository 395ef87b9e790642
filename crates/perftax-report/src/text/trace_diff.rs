//! `perftax trace diff` on a terminal.

use itertools::Itertools as _;
use owo_colors::OwoColorize;
use perftax_doc::{Change, TraceDiff, TraceMeta};

use crate::printable::printable;
use crate::sheet::Sheet;
use crate::table::Table;
use crate::units;

/// Changes that are shown: those that are resolved, at most so many.
const SHOWN: usize = 25;
/// A change of less than this, ns a message, is not worth a line.
const MIN_NS: f64 = 0.5;

/// Quantiles before and after, and what messages spend more or less time on.
pub fn trace_diff(doc: &TraceDiff) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    let program = |meta: &TraceMeta| meta.program.iter().map(|word| printable(word)).join(" ");
    sheet.row("before", &program(&doc.before));
    sheet.row("after", &program(&doc.after));
    let mut table = Table::default().right("latency").right("before").right("after").right("more");
    for change in &doc.latency {
        let more = change.after_ns.plus(&change.before_ns.scaled(-1.0));
        let name = format!("{} %", units::about(change.quantile * 100.0));
        let (before, after) = (units::estimate_ns(&change.before_ns), units::estimate_ns(&change.after_ns));
        table.row(vec![name, before, after, shown(&more, more.contains(0.0))]);
    }
    sheet.table(&table);
    let mut table = Table::default().left("a message on average").right("before").right("after").right("more").left("");
    let is_shown = |change: &&Change| change.cause.is_none() || change.is_resolved() && change.more_ns.estimate.abs() >= MIN_NS;
    for change in doc.changes.iter().filter(is_shown).take(SHOWN) {
        let name = [change.cause.as_deref().map_or_else(|| "all".to_string(), printable)].into_iter();
        let name = name.chain(change.detail.as_deref().map(printable)).join(": ");
        table.row(vec![
            name,
            units::time_ns(change.before_ns.estimate),
            units::time_ns(change.after_ns.estimate),
            shown(&change.more_ns, !change.is_resolved()),
            if change.is_sampled { "by samples".into() } else { String::new() },
        ]);
    }
    sheet.table(&table);
    if !doc.changes.iter().any(|change| change.cause.is_some() && change.is_resolved()) {
        sheet.row("change", "none that is larger than its interval");
    }
    sheet.warnings(&doc.origin.warnings);
    sheet.finish()
}

fn shown(more: &perftax_doc::Estimate, is_open: bool) -> String {
    let text = units::estimate_ns(more);
    if is_open { text.dimmed().to_string() } else { text.bold().to_string() }
}
