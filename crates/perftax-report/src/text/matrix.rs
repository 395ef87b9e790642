//! `perftax matrix` on a terminal.

use itertools::Itertools as _;
use owo_colors::OwoColorize;
use perftax_doc::Estimate;
use perftax_doc::{Jump, Matrix, MatrixCell, MatrixImpossible, MatrixKey, MatrixMode, MatrixSkipped};

use super::plural;
use crate::printable::printable;
use crate::sheet::Sheet;
use crate::table::Table;
use crate::units;

/// Rows of a list that a terminal shows; the page and -x have all.
const MAX: usize = 12;

/// The plan, before anything is measured.
pub fn matrix_plan(doc: &Matrix) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    head(&mut sheet, doc);
    impossible(&mut sheet, doc);
    sheet.finish()
}

/// The grid, program by program, and what is not in it.
pub fn matrix(doc: &Matrix) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    head(&mut sheet, doc);
    for workload in workloads(doc) {
        sheet.blank();
        sheet.row("program", &format!("{}{}", printable(workload).bold(), unmonitored(doc, workload)));
        sheet.table(&grid(doc, workload));
    }
    legend(&mut sheet, doc);
    outcome(&mut sheet, doc);
    jumps(&mut sheet, doc);
    list(&mut sheet, "excluded", doc.excluded().map(|(cell, why)| format!("{}: {why}", cell.key)));
    list(&mut sheet, "left", doc.unmeasured.iter().map(|key| format!("{key}: the time ran out; --resume goes on")));
    impossible(&mut sheet, doc);
    controls(&mut sheet, doc);
    sheet.warnings(&doc.origin.warnings);
    sheet.finish()
}

fn head(sheet: &mut Sheet, doc: &Matrix) {
    let placement = &doc.placement;
    let cpus: Vec<String> = placement.cpus.iter().map(u32::to_string).collect();
    let mut cores = plural(&placement.cores.to_string(), "core", "cores");
    cores += &format!(", SMT {}; copies go to CPU {}", placement.smt, cpus.join(", "));
    if let Some(counters) = doc.counters {
        cores += &format!("; {}", plural(&counters.to_string(), "counter a core", "counters a core"));
    }
    sheet.row("cores", &cores);
    for set in &doc.sets {
        let names: Vec<&str> = set.events.iter().map(|event| event.event.as_str()).collect();
        sheet.row(
            "set",
            &format!("{}: {} ({})", set.name, printable(&set.description), plural(&names.len().to_string(), "event", "events")),
        );
    }
    let plan = &doc.plan;
    let watched = watched_how(doc);
    sheet.row("plan", &format!("{} cells, each in {} to {} pairs, {watched}", plan.cells, plan.least_pairs, plan.most_pairs));
    let points = |share: f64| format!("±{:.2} points", share * 100.0);
    let time = units::span(plan.foreseen_s);
    let text = if plan.foreseen_s <= plan.time_limit_s {
        format!("{} in about {time}", points(plan.precision))
    } else {
        let limit = units::span(plan.time_limit_s);
        format!("{} would take about {time}; in {limit} about {}", points(plan.precision), points(plan.foreseen_half_width))
    };
    sheet.row("precision", &text);
}

/// Who watches, and whether the events of a cell are one group.
pub(crate) fn watched_how(doc: &Matrix) -> String {
    let monitors = match doc.monitors.as_str() {
        "each" => "one session for each copy",
        "one" => "one session for all copies",
        _ => "one session for whole CPUs",
    };
    let group = if doc.one_group { ", the events of a cell in one group" } else { "" };
    format!("{monitors}{group}")
}

/// How long a program takes when nobody watches, by number of copies.
fn unmonitored(doc: &Matrix, workload: &str) -> String {
    let alone = doc.cells.iter().filter(|cell| cell.key.workload == workload && cell.key.mode == MatrixMode::Off);
    let times =
        alone.filter_map(|cell| Some(format!("{} at once {}", cell.key.instances, units::estimate_s(&cell.unmonitored_s?))));
    let times: Vec<String> = times.collect();
    if times.is_empty() { String::new() } else { format!(", unmonitored: {}", times.join(", ")) }
}

fn workloads(doc: &Matrix) -> Vec<&str> {
    doc.cells.iter().map(|cell| cell.key.workload.as_str()).dedup().collect()
}

/// Who watches by what: `sampling core`.
pub(crate) fn watcher(key: &MatrixKey) -> String {
    if key.mode == MatrixMode::Off { "off against off".into() } else { format!("{} {}", key.mode, printable(&key.set)) }
}

/// What the periods are divided by: `÷10`.
pub(crate) fn divisor(key: &MatrixKey) -> String {
    if key.divisor == 0 { String::new() } else { format!("÷{}", key.divisor) }
}

/// The numbers of events in the grid, ascending.
pub(crate) fn events_of(doc: &Matrix) -> Vec<u32> {
    doc.cells.iter().map(|cell| cell.key.events).filter(|n| *n > 0).sorted_unstable().dedup().collect()
}

/// Overheads of one program: a row for each way of watching, a column for each number of events.
fn grid(doc: &Matrix, workload: &str) -> Table {
    let events = events_of(doc);
    let mut table = Table::default().left("watched by").right("period").right("at once");
    for n in &events {
        table = table.right(&plural(&n.to_string(), "event", "events"));
    }
    let row_of = |key: &MatrixKey| MatrixKey { events: 0, ..key.clone() };
    let mut rows: Vec<MatrixKey> = Vec::new();
    for cell in doc.cells.iter().filter(|cell| cell.key.workload == workload) {
        let row = row_of(&cell.key);
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    for row in rows {
        let is_off = row.mode == MatrixMode::Off;
        let in_row = || doc.cells.iter().filter(|cell| row_of(&cell.key) == row);
        let mut cells = vec![watcher(&row), divisor(&row), row.instances.to_string()];
        for (at, n) in events.iter().enumerate() {
            let cell = in_row().find(|cell| if is_off { at == 0 } else { cell.key.events == *n });
            cells.push(cell.map_or(String::new(), marked));
        }
        table.row(cells);
    }
    table
}

/// The overhead with half of its interval, and its marks.
pub(crate) fn marked(cell: &MatrixCell) -> String {
    if cell.excluded.is_some() { "excluded".dimmed().to_string() } else { format!("{}{}", brief(cell), marks(cell)) }
}

/// The overhead with half of its interval, for where there is no place for both ends.
pub(crate) fn brief(cell: &MatrixCell) -> String {
    let even = |e: &Estimate| Estimate { low: e.estimate - e.half_width(), high: e.estimate + e.half_width(), ..*e };
    cell.overhead.as_ref().map_or("unknown".into(), |e| units::estimate_share(&even(e)))
}

/// `m` events took turns, `~` not as narrow as was asked for, `!` samples lost or throttled.
pub(crate) fn marks(cell: &MatrixCell) -> String {
    let marks = [(cell.is_multiplexed(), 'm'), (!cell.reached, '~'), (cell.lost + cell.throttled > 0, '!')];
    let marks: String = marks.into_iter().filter(|(is_so, _)| *is_so).map(|(_, mark)| mark).collect();
    if marks.is_empty() { marks } else { format!(" {marks}") }
}

fn legend(sheet: &mut Sheet, doc: &Matrix) {
    let any = |of: fn(&MatrixCell) -> bool| doc.accepted().any(|(cell, _)| of(cell));
    let said = [
        (any(MatrixCell::is_multiplexed), "m: events took turns on the counters"),
        (any(|cell| !cell.reached), "~: the interval is wider than was asked for"),
        (any(|cell| cell.lost + cell.throttled > 0), "!: samples were lost or throttled"),
    ];
    let said = said.into_iter().filter(|(is_so, _)| *is_so).map(|(_, text)| text);
    let first = "± half of the interval (95 %), whose ends --html and -x have";
    sheet.row("marks", &std::iter::once(first).chain(said).join("; "));
}

fn outcome(sheet: &mut Sheet, doc: &Matrix) {
    let reached = doc.accepted().filter(|(cell, _)| cell.reached).count();
    let pairs = || doc.cells.iter().map(|cell| cell.pairs);
    let text = format!(
        "{} of {} cells have it, with {} to {} pairs; {} pairs were discarded by the hypervisor",
        reached,
        doc.plan.cells,
        pairs().min().unwrap_or(0),
        pairs().max().unwrap_or(0),
        doc.cells.iter().map(|cell| u64::from(cell.discarded)).sum::<u64>()
    );
    sheet.row("precision", &text);
    let sum = |of: fn(&MatrixCell) -> u64| units::count(doc.cells.iter().map(of).sum());
    let expected: f64 = doc.cells.iter().map(|cell| cell.expected_samples).sum();
    if expected > 0.0 {
        let text = format!(
            "{} expected, {} delivered, {} lost; {} throttled",
            units::about(expected.round()),
            sum(|cell| cell.samples),
            sum(|cell| cell.lost),
            sum(|cell| cell.throttled)
        );
        sheet.row("samples", &text);
    }
    let volumes: Vec<String> = MatrixMode::WATCHING.into_iter().filter_map(|mode| volume(doc, mode)).collect();
    if !volumes.is_empty() {
        sheet.row("data", &volumes.join("; "));
    }
}

/// Bytes a sample of a mode, over all its cells.
fn volume(doc: &Matrix, mode: MatrixMode) -> Option<String> {
    let cells = || doc.cells.iter().filter(|cell| cell.key.mode == mode);
    let samples: u64 = cells().map(|cell| cell.samples).sum();
    let bytes: f64 = cells().map(|cell| cell.record_bytes * f64::from(cell.pairs)).sum();
    let most = cells().filter_map(MatrixCell::bytes_per_s).fold(0.0, f64::max);
    (samples > 0).then(|| {
        format!("{mode} {} a sample, up to {} a copy", units::bytes((bytes / samples as f64).round()), units::bytes_per_s(most))
    })
}

/// Where events begin to take turns, all programs, copies and periods of a way of watching together: the page has each.
fn jumps(sheet: &mut Sheet, doc: &Matrix) {
    let jumps = doc.jumps();
    let told = jumps.iter().map(|jump| watcher(&jump.after.key)).sorted().dedup().filter_map(|name| {
        let of: Vec<_> = jumps.iter().filter(|jump| watcher(&jump.after.key) == name).collect();
        let step = |jump: &&Jump<'_>| Some(jump.after.overhead?.estimate - jump.before.overhead?.estimate);
        let steps: Vec<f64> = of.iter().copied().filter_map(|jump| step(&jump)).collect();
        let (least, most) = steps.iter().fold((f64::MAX, f64::MIN), |(least, most), &step| (least.min(step), most.max(step)));
        let running = of.iter().map(|jump| jump.after.running()).fold(1.0, f64::min);
        let first = of.first()?;
        let points = if least == most {
            format!("{:+.2}", 100.0 * least)
        } else {
            format!("{:+.2} to {:+.2}", 100.0 * least, 100.0 * most)
        };
        Some(format!(
            "{name}: {} events take turns, the least one counts {} of the time; {points} points more than {}",
            first.after.key.events,
            units::share(running),
            plural(&first.before.key.events.to_string(), "event", "events")
        ))
    });
    list(sheet, "turns", told);
}

fn impossible(sheet: &mut Sheet, doc: &Matrix) {
    list(sheet, "left out", skipped_rows(doc).into_iter().map(|(what, why)| format!("{what}: {why}")));
    list(sheet, "not here", impossible_rows(doc).into_iter().map(|(what, why)| format!("{what}: {why}")));
}

/// What cannot be had, and why; numbers of events and periods with the same reason in one row.
pub(crate) fn impossible_rows(doc: &Matrix) -> Vec<(String, String)> {
    let mut rows: Vec<(&MatrixImpossible, Vec<u32>)> = Vec::new();
    for one in &doc.impossible {
        match rows.iter_mut().find(|(first, _)| (first.mode, &first.set, &first.why) == (one.mode, &one.set, &one.why)) {
            Some((_, events)) => events.push(one.events),
            None => rows.push((one, vec![one.events])),
        }
    }
    let row = |(one, events): (&MatrixImpossible, Vec<u32>)| {
        let events = events.into_iter().sorted_unstable().dedup().join(", ");
        (format!("{} {events} of {}", one.mode, printable(&one.set)), printable(&one.why))
    };
    rows.into_iter().map(row).collect()
}

/// Events that were left out of their sets, and why; modes with the same reason in one row.
pub(crate) fn skipped_rows(doc: &Matrix) -> Vec<(String, String)> {
    let mut rows: Vec<(&MatrixSkipped, Vec<&str>)> = Vec::new();
    for one in &doc.skipped {
        match rows.iter_mut().find(|(first, _)| (&first.set, &first.why) == (&one.set, &one.why)) {
            Some((_, modes)) => modes.push(one.mode.name()),
            None => rows.push((one, vec![one.mode.name()])),
        }
    }
    let row = |(one, modes): (&MatrixSkipped, Vec<&str>)| {
        (format!("{} of {}", modes.join(", "), printable(&one.set)), printable(&one.why))
    };
    rows.into_iter().map(row).collect()
}

/// Rows under one label, as many as a terminal shows.
fn list(sheet: &mut Sheet, label: &str, rows: impl Iterator<Item = String>) {
    let rows: Vec<String> = rows.collect();
    for (i, row) in rows.iter().take(MAX).enumerate() {
        sheet.row(if i == 0 { label } else { "" }, &printable(row));
    }
    if rows.len() > MAX {
        sheet.row("", &format!("and {} more: --html and --json have all", rows.len() - MAX));
    }
}

fn controls(sheet: &mut Sheet, doc: &Matrix) {
    let failed: Vec<_> = doc.controls.iter().filter(|c| !c.control.passed).collect();
    for c in &failed {
        let difference = units::estimate_share(&c.control.difference);
        let what = format!("{}, {} at once", printable(&c.workload), c.instances);
        sheet.row("control", &format!("{}: off against off differs by {difference} in {what}", "FAILED".red()));
    }
    if failed.is_empty() && !doc.controls.is_empty() {
        let detects = doc.controls.iter().map(|c| c.control.detects).fold(0.0, f64::max);
        let n = plural(&doc.controls.len().to_string(), "control", "controls");
        sheet.row(
            "control",
            &format!("{}: {n} off against off; a bias above {} would show", "passed".green(), units::share(detects)),
        );
    }
}
