//! `perftax sensitivity` on a terminal.

use owo_colors::OwoColorize;
use perftax_cost::document::Sensitivity;

use crate::sheet::{Sheet, printable};
use crate::table::Table;
use crate::{shell, units};

/// How much a program loses with its caches.
pub fn sensitivity(doc: &Sensitivity) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    let command: Vec<String> = doc.program.iter().map(|word| printable(word)).collect();
    sheet.row("program", &format!("{} on CPU {}", shell::join(&command), doc.cpu));
    let every = units::time_s(doc.interval_s);
    sheet.row(
        "method",
        &format!("every {every} somebody on the same CPU writes so many bytes; only the program's own CPU time counts"),
    );
    let mut table = Table::default().right("evicted").right("program loses").right("a visit").right("rounds");
    for row in &doc.rows {
        table.row(vec![
            units::bytes(row.evictor_bytes as f64),
            units::estimate_share(&row.loss).bold().to_string(),
            units::estimate_ns(&row.loss_ns_per_visit),
            row.rounds.to_string(),
        ]);
    }
    sheet.table(&table);
    let tolerance = units::share(doc.tolerance);
    let advice = match doc.buffer_bytes {
        Some(bytes) => format!("up to {} is not felt (loss below {tolerance})", units::bytes(bytes as f64).bold()),
        None if doc.rows.first().is_some_and(|row| row.loss.low > 0.0) => {
            format!("{}: even the smallest eviction costs {tolerance} or more", "as small as it gets".bold())
        }
        None => format!("not known: no loss is known to be below {tolerance}, the intervals are too wide"),
    };
    sheet.row("buffer", &advice);
    sheet.warnings(&doc.origin.warnings);
    let mut next = vec!["perftax", "sim", "--sweep", "buffer=16K,64K,256K,1M,4M", "-c", "2003", "--"];
    next.extend(command.iter().map(String::as_str));
    sheet.command("next", &next);
    sheet.finish()
}
