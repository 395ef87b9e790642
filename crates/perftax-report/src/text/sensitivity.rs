//! `perftax sensitivity` on a terminal.

use owo_colors::OwoColorize;
use perftax_doc::Sensitivity;

use crate::columns::SensitivityColumns;
use crate::printable::printable;
use crate::sheet::Sheet;
use crate::table::Table;
use crate::{shell, units};

/// How much a program loses with its caches.
pub fn sensitivity(doc: &Sensitivity) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    let command: Vec<String> = doc.program.iter().map(|word| printable(word)).collect();
    sheet.row("program", &format!("{} on CPU {}", shell::join(&command), doc.cpu));
    let method = match doc.method.as_str() {
        "eviction" => format!(
            "every {} somebody on the same CPU writes so many bytes; only the program's own CPU time counts",
            units::time_s(doc.interval_s)
        ),
        _ => "resctrl leaves the program so many bytes less of the last-level cache".into(),
    };
    sheet.row("method", &method);
    let SensitivityColumns { taken, loss, visit, traffic, rounds } = SensitivityColumns::new();
    let table = Table::of(&[&taken, &loss, &visit, &traffic, &rounds], doc.rows.iter());
    sheet.table(&table);
    let tolerance = units::share(doc.tolerance);
    let advice = match doc.buffer_bytes {
        Some(bytes) => format!("up to {} is not felt (loss below {tolerance})", units::bytes(bytes as f64).bold()),
        None if doc.rows.first().is_some_and(|row| row.loss.low > 0.0) => {
            format!("{}: even the smallest loss of cache costs {tolerance} or more", "as small as it gets".bold())
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
