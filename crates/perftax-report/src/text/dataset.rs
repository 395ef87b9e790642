//! `perftax trace publish` and `perftax dataset` on a terminal.

use perftax_doc::{CorruptFile, DatasetAdd, DatasetCheck, DatasetCompact, TracePublish};

use crate::printable::printable;
use crate::sheet::Sheet;
use crate::table::Table;
use crate::units;

/// Each trace, and what became of it.
pub fn trace_publish(doc: &TracePublish) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    sheet.row("data set", &printable(&doc.dataset));
    let mut table = Table::default()
        .left("trace")
        .left("service")
        .right("messages")
        .right("whole")
        .right("files")
        .right("rows")
        .right("size")
        .remarks("");
    for trace in &doc.traces {
        table.row(vec![
            printable(&trace.folder),
            printable(&trace.service),
            units::count(trace.messages),
            units::count(trace.whole),
            units::count(trace.files),
            units::count(trace.rows),
            units::bytes(trace.bytes as f64),
            became(trace.was_there, &trace.id),
        ]);
    }
    sheet.table(&table);
    sheet.warnings(&doc.origin.warnings);
    sheet.finish()
}

/// Each result, and what became of it.
pub fn dataset_add(doc: &DatasetAdd) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    sheet.row("data set", &printable(&doc.dataset));
    let mut table = Table::default().left("from").left("of").left("host").right("rows").right("size").remarks("");
    for result in &doc.results {
        table.row(vec![
            printable(&result.from),
            printable(&result.kind),
            printable(&result.host),
            units::count(result.rows),
            units::bytes(result.bytes as f64),
            became(result.was_there, &result.id),
        ]);
    }
    sheet.table(&table);
    sheet.warnings(&doc.origin.warnings);
    sheet.finish()
}

/// What became of something that was to be published.
fn became(was_there: bool, id: &str) -> String {
    if was_there { "it was there: nothing was written".into() } else { format!("publication {id}") }
}

/// Whether all is there.
pub fn dataset_check(doc: &DatasetCheck) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    sheet.row("data set", &printable(&doc.dataset));
    let publications = units::plural(&units::count(doc.publications), "publication", "publications");
    let files = units::plural(&units::count(doc.files), "file", "files");
    let rows = units::plural(&units::count(doc.rows), "row", "rows");
    sheet.row("whole", &format!("{publications}, {files}, {rows}, {}", units::bytes(doc.bytes as f64)));
    corrupt(&mut sheet, &doc.corrupt);
    if doc.unlisted > 0 {
        let files = units::plural(&units::count(doc.unlisted), "file", "files");
        let removed =
            if doc.removed > 0 { format!("; {} of them are removed", units::count(doc.removed)) } else { String::new() };
        sheet.row(
            "unlisted",
            &format!(
                "{files} that no publication lists, and that do not count: of one that is under way or was interrupted{removed}"
            ),
        );
    }
    if doc.replaced > 0 {
        let replaced = units::plural(&units::count(doc.replaced), "publication", "publications");
        sheet.row("replaced", &format!("{replaced} that a compaction took up and did not come to remove: the next one does"));
    }
    sheet.warnings(&doc.origin.warnings);
    sheet.finish()
}

/// What it did.
pub fn dataset_compact(doc: &DatasetCompact) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    sheet.row("data set", &printable(&doc.dataset));
    let text = match doc.publications {
        0 => "nothing to do: fewer than two publications are old enough".into(),
        n => format!(
            "{} in {} are one in {}",
            units::plural(&units::count(n), "publication", "publications"),
            units::plural(&units::count(doc.files_before), "file", "files"),
            units::plural(&units::count(doc.files_after), "file", "files")
        ),
    };
    sheet.row("compacted", &text);
    corrupt(&mut sheet, &doc.corrupt);
    sheet.warnings(&doc.origin.warnings);
    sheet.finish()
}

fn corrupt(sheet: &mut Sheet, all: &[CorruptFile]) {
    for file in all {
        sheet.row("corrupt", &format!("{}: {}", printable(&file.path), printable(&file.why)));
    }
}
