//! `perftax report` on a terminal: several machines or kernels side by side.

use itertools::Itertools as _;
use perftax_doc::Estimate;
use perftax_doc::{Bill, Calibration, Lint, Matrix, MatrixKey, MatrixMode, Plan, Prediction, Verification};

use crate::document::Document;
use crate::printable::printable;
use crate::sheet::Sheet;
use crate::table::Table;
use crate::text::known;
use crate::{shell, units};

/// Documents of one kind side by side: one numbered machine each, then one table.
pub fn comparison(documents: &[Document]) -> String {
    let mut sheet = Sheet::default();
    for (i, document) in documents.iter().enumerate() {
        let origin = document.origin();
        let machine = crate::sheet::machine(origin);
        // A simulation has no date.
        let is_dated = origin.taken_at_s > 0.0;
        let text = if is_dated { format!("{machine}, {}", units::date(origin.taken_at_s)) } else { machine };
        sheet.row(&format!("{:>7}", label(i)), &text);
    }
    for table in tables(documents) {
        sheet.table(&table);
    }
    for (i, document) in documents.iter().enumerate().filter(|(_, d)| !d.origin().warnings.is_empty()) {
        sheet.row("", &format!("about {}:", label(i)));
        sheet.warnings(&document.origin().warnings);
    }
    sheet.finish()
}

/// Whether a table holds several documents of this kind.
pub(crate) fn has_tables(documents: &[Document]) -> bool {
    !tables(documents).is_empty()
}

/// The short name of the i-th document: A, B, … Z, then numbers.
pub(crate) fn label(i: usize) -> String {
    u8::try_from(i).ok().filter(|&i| i < 26).map_or_else(|| format!("#{}", i + 1), |i| char::from(b'A' + i).to_string())
}

/// Documents of a kind with their labels: those themselves, or those that field tests hold.
pub(crate) fn labelled<'a, T: 'a>(documents: &'a [Document], of: impl Fn(&'a Document) -> Vec<&'a T>) -> Vec<(String, &'a T)> {
    documents.iter().enumerate().flat_map(|(i, document)| of(document).into_iter().map(move |doc| (label(i), doc))).collect()
}

fn tables(documents: &[Document]) -> Vec<Table> {
    /// The documents of one kind, with their labels.
    macro_rules! of_kind {
        ($variant:ident) => {
            documents
                .iter()
                .enumerate()
                .filter_map(|(i, d)| match d {
                    Document::$variant(doc) => Some((label(i), doc.as_ref())),
                    _ => None,
                })
                .collect::<Vec<_>>()
        };
    }
    let all = [
        super::field_test::side_by_side(&of_kind!(FieldTest)),
        calibrations(&labelled(documents, Document::calibrations)),
        predictions(&of_kind!(Prediction)),
        plans(&of_kind!(Plan)),
        verifications(&of_kind!(Verification)),
        bills(&of_kind!(Bill)),
        lints(&of_kind!(Lint)),
        super::selfcost_comparison::selfcosts(&labelled(documents, Document::selfcosts)),
        super::phase::side_by_side(&of_kind!(Phase)),
        matrices(&of_kind!(Matrix)),
        super::comm_comparison::side_by_side(&of_kind!(Comm)),
        super::recorded::side_by_side(&of_kind!(Recorded)),
    ];
    all.into_iter().flatten().collect()
}

/// How a cost compares with the first one: `× 5.46 ± 0.30`, both intervals taken as independent.
pub(crate) fn ratio(e: &Estimate, base: &Estimate) -> Option<Estimate> {
    if base.estimate <= 0.0 || e.estimate == 0.0 {
        return None;
    }
    let ratio = e.estimate / base.estimate;
    let below = ((e.estimate - e.low) / e.estimate).hypot((base.high - base.estimate) / base.estimate) * ratio;
    let above = ((e.high - e.estimate) / e.estimate).hypot((base.estimate - base.low) / base.estimate) * ratio;
    Some(Estimate { estimate: ratio, low: ratio - below, high: ratio + above, confidence: e.confidence.min(base.confidence) })
}

fn calibrations(docs: &[(String, &Calibration)]) -> Vec<Table> {
    if docs.is_empty() {
        return Vec::new();
    }
    let mut costs = Table::default()
        .left("")
        .left("event")
        .left("mechanism")
        .right("a sample")
        .right("floor")
        .right("against the first")
        .right("drift")
        .right("samples");
    for (label, doc) in docs {
        let first = docs.iter().find(|(_, d)| (d.mechanism, &d.event) == (doc.mechanism, &doc.event));
        let against = first.filter(|(l, _)| l != label).and_then(|(l, base)| Some((l, ratio(&doc.alpha_ns, &base.alpha_ns)?)));
        costs.row(vec![
            label.clone(),
            printable(&doc.event),
            doc.mechanism.to_string(),
            units::estimate_ns(&doc.alpha_ns),
            doc.floor_ns.as_ref().map_or(String::new(), units::estimate_ns),
            against.map_or(String::new(), |(l, r)| format!("{} × {l}", units::estimate_number(&r))),
            format!("±{}", units::share(doc.drift)),
            units::count(doc.samples),
        ]);
    }
    let names = docs.iter().flat_map(|(_, doc)| doc.terms.keys()).sorted().dedup().collect_vec();
    // A terminal has no place for more columns; the page and -x have all.
    const MAX: usize = 5;
    let mut tables = vec![costs];
    if !names.is_empty() {
        for chunk in docs.chunks(MAX) {
            let mut terms = Table::default().left("term");
            for (label, doc) in chunk {
                terms = terms.right(&format!("{label} {}", printable(&doc.event)));
            }
            for name in &names {
                let cell = |(_, doc): &(String, &Calibration)| doc.terms.get(*name).map_or(String::new(), units::estimate_ns);
                terms.row([printable(name)].into_iter().chain(chunk.iter().map(cell)).collect());
            }
            tables.push(terms);
        }
    }
    tables
}

fn predictions(docs: &[(String, &Prediction)]) -> Vec<Table> {
    if docs.is_empty() {
        return Vec::new();
    }
    let mut table = Table::default()
        .left("")
        .left("program")
        .left("event")
        .right("a sample")
        .right("period")
        .right("samples/s")
        .right("overhead");
    for (label, doc) in docs {
        for row in &doc.rows {
            table.row(vec![
                label.clone(),
                printable(&shell::program(&doc.workload)),
                printable(&doc.event),
                units::estimate_ns(&doc.alpha_ns),
                units::period(doc.mechanism, row.period),
                units::rate(row.samples_per_s),
                units::estimate_share(&row.overhead),
            ]);
        }
    }
    vec![table]
}

fn plans(docs: &[(String, &Plan)]) -> Vec<Table> {
    if docs.is_empty() {
        return Vec::new();
    }
    let mut table = Table::default()
        .left("")
        .left("program")
        .right("budget")
        .left("event")
        .right("a sample")
        .right("period")
        .right("overhead")
        .right("resolves");
    for (label, doc) in docs {
        let when = |text: String| if doc.feasible { text } else { "—".into() };
        table.row(vec![
            label.clone(),
            printable(&shell::program(&doc.workload)),
            units::share(doc.budget),
            printable(&doc.event),
            units::estimate_ns(&doc.alpha_ns),
            if doc.feasible { units::period(doc.mechanism, doc.period) } else { "none fits".into() },
            when(units::estimate_share(&doc.expected_overhead)),
            when(format!("≥ {}", units::share(doc.resolves_share))),
        ]);
    }
    vec![table]
}

fn verifications(docs: &[(String, &Verification)]) -> Vec<Table> {
    if docs.is_empty() {
        return Vec::new();
    }
    let mut table = Table::default()
        .left("")
        .left("event")
        .right("cells")
        .right("median |E|")
        .right("covered")
        .right("slope")
        .left("verdict");
    for (label, doc) in docs {
        table.row(vec![
            label.clone(),
            printable(&doc.event),
            doc.cells.len().to_string(),
            units::share(doc.median_abs_error),
            units::share(doc.coverage),
            doc.regression.as_ref().map_or(String::new(), |r| units::estimate_number(&r.slope)),
            if doc.held { "held".into() } else { "did NOT hold".into() },
        ]);
    }
    vec![table]
}

fn bills(docs: &[(String, &Bill)]) -> Vec<Table> {
    if docs.is_empty() {
        return Vec::new();
    }
    let mut table =
        Table::default().left("").left("recording").right("samples").right("lost").right("CPU time").right("of the run");
    for (label, doc) in docs {
        table.row(vec![
            label.clone(),
            printable(&doc.recording),
            units::count(doc.events.iter().map(|e| e.samples).sum()),
            units::count(doc.events.iter().map(|e| e.lost).sum()),
            known(doc.cost_s.as_ref(), units::estimate_s),
            known(doc.share_of_run.as_ref(), units::estimate_share),
        ]);
    }
    vec![table]
}

fn lints(docs: &[(String, &Lint)]) -> Vec<Table> {
    if docs.is_empty() {
        return Vec::new();
    }
    let mut table = Table::default().left("").left("recording").right("samples").left("verdict").left("found");
    for (label, doc) in docs {
        table.row(vec![
            label.clone(),
            printable(&doc.recording),
            units::count(doc.samples),
            doc.verdict.name().into(),
            super::lint::found(doc),
        ]);
    }
    vec![table]
}

/// The cells of all grids, in the order of a grid.
pub(crate) fn keys<'a>(docs: impl Iterator<Item = &'a Matrix>) -> Vec<&'a MatrixKey> {
    docs.flat_map(|doc| doc.cells.iter().map(|cell| &cell.key)).sorted().dedup().collect()
}

/// Grids with their labels, which say how each was watched where they were not watched alike: such cells are of the same name.
pub(crate) fn told_apart<'a>(docs: &[(String, &'a Matrix)]) -> Vec<(String, &'a Matrix)> {
    let groups = docs.iter().map(|(_, doc)| doc.one_group).unique().count() > 1;
    let monitors = docs.iter().map(|(_, doc)| doc.monitors.as_str()).unique().count() > 1;
    let skips = docs.iter().map(|(_, doc)| &doc.skipped).unique_by(|skipped| format!("{skipped:?}")).count() > 1;
    let told = |(label, doc): &(String, &'a Matrix)| {
        let of_group = if doc.one_group { "one group" } else { "no group" };
        let of_monitors = format!("monitors {}", printable(&doc.monitors));
        let left_out = if doc.skipped.is_empty() { "none left out" } else { "some events left out" };
        let said = [(groups, of_group), (monitors, of_monitors.as_str()), (skips, left_out)];
        let parts = std::iter::once(label.as_str()).chain(said.into_iter().filter(|(is_told, _)| *is_told).map(|(_, text)| text));
        (parts.collect_vec().join(", "), *doc)
    };
    docs.iter().map(told).collect()
}

/// One grid with the machines side by side: a row for each cell, a column for each machine.
fn matrices(docs: &[(String, &Matrix)]) -> Vec<Table> {
    let docs = told_apart(docs);
    // A terminal has no place for more columns; the page and -x have all.
    const MAX: usize = 4;
    let table = |chunk: &[(String, &Matrix)]| {
        let mut table = Table::default().left("program").left("watched by").right("period").right("at once").right("events");
        for (label, _) in chunk {
            table = table.right(label);
        }
        for key in keys(chunk.iter().map(|(_, doc)| *doc)) {
            let cell = |(_, doc): &(String, &Matrix)| {
                doc.cells.iter().find(|cell| cell.key == *key).map_or("—".into(), crate::text::matrix::marked)
            };
            let events = if key.mode == MatrixMode::Off { String::new() } else { key.events.to_string() };
            let mut row = vec![printable(&key.workload), super::matrix::watcher(key), super::matrix::divisor(key)];
            row.extend([key.instances.to_string(), events]);
            row.extend(chunk.iter().map(cell));
            table.row(row);
        }
        table
    };
    docs.chunks(MAX).map(table).collect()
}
