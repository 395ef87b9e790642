//! The page of a grid.

use itertools::Itertools as _;
use perftax_doc::Estimate;
use perftax_doc::{Matrix, MatrixCell, MatrixKey, MatrixMode};
use serde_json::json;

use super::figure::{Axis, Figure, Trace};
use super::page::{Grid, Panel, Part};
use crate::text::{
    grid_keys, grids_told_apart, impossible_rows, matrix_brief, matrix_divisor, matrix_marks, matrix_watched_how, skipped_rows,
    watcher,
};
use crate::units;

pub(super) fn part(doc: &Matrix) -> Part {
    let mut part = Part::of(&doc.origin, "What counting and sampling cost");
    let excluded = doc.excluded().count();
    let reached = doc.accepted().filter(|(cell, _)| cell.reached).count();
    let failed = doc.controls.iter().filter(|control| !control.control.passed).count();
    let range = |mode: MatrixMode| {
        let all: Vec<f64> = doc.accepted().filter(|(cell, _)| cell.key.mode == mode).map(|(_, e)| e.estimate).collect();
        let ends = all.iter().fold((f64::MAX, f64::MIN), |(low, high), &x| (low.min(x), high.max(x)));
        (!all.is_empty()).then(|| format!("{mode} {} to {}", units::share(ends.0), units::share(ends.1)))
    };
    let ranges: Vec<String> = MatrixMode::WATCHING.into_iter().filter_map(range).collect();
    part.lead = if ranges.is_empty() { "No cell can be read.".into() } else { format!("Overheads: {}.", ranges.join("; ")) };
    part.tone = if failed == 0 && !ranges.is_empty() { "good" } else { "bad" };
    let plan = &doc.plan;
    part.fact("cells", doc.cells.len().to_string(), format!("of {} planned", plan.cells));
    part.fact(
        "known as well as asked",
        reached.to_string(),
        format!("half of the interval at most {:.2} points", plan.precision * 100.0),
    );
    part.fact("excluded", excluded.to_string(), "listed below, each with its reason");
    part.fact("events took turns", doc.cells.iter().filter(|cell| cell.is_multiplexed()).count().to_string(), counters(doc));
    part.fact("watched by", if doc.one_group { "groups" } else { "events" }, matrix_watched_how(doc));
    part.fact("SMT", doc.placement.smt.clone(), format!("{} cores, {} CPUs", doc.placement.cores, doc.placement.cpus.len()));
    for workload in workloads(doc) {
        part.panel(heat(doc, &workload));
        part.panel(bars(doc, &workload));
    }
    part.panels.extend(turns(doc));
    part.panels.extend(volume(doc));
    part.panels.extend(controls(doc));
    part.panel(every_cell(doc));
    part.panels.extend(not_there(doc));
    part.panel(sets(doc));
    part
}

fn counters(doc: &Matrix) -> String {
    doc.counters.map_or("of all cells".into(), |counters| format!("of all cells; a core has {counters} counters for them"))
}

fn workloads(doc: &Matrix) -> Vec<String> {
    doc.cells.iter().map(|cell| cell.key.workload.clone()).dedup().collect()
}

fn watched<'a>(doc: &'a Matrix, workload: &'a str) -> impl Iterator<Item = &'a MatrixCell> {
    doc.cells.iter().filter(move |cell| cell.key.workload == workload && cell.key.mode != MatrixMode::Off)
}

fn events(n: u32) -> String {
    if n == 1 { "1 event".into() } else { format!("{n} events") }
}

/// A row of the map: `sampling core ÷10, 2 at once`.
fn row(key: &MatrixKey) -> String {
    let divisor = if key.divisor == 0 { String::new() } else { format!(" {}", matrix_divisor(key)) };
    format!("{}{divisor}, {} at once", watcher(key), key.instances)
}

/// The numbers of events in the grid.
fn columns(doc: &Matrix) -> Vec<u32> {
    crate::text::events_of(doc)
}

fn heat(doc: &Matrix, workload: &str) -> Panel {
    let columns = columns(doc);
    let rows = watched(doc, workload).map(|cell| row(&cell.key)).unique().collect_vec();
    let find = |name: &String, n: u32| watched(doc, workload).find(|cell| row(&cell.key) == *name && cell.key.events == n);
    let accepted = |cell: &&MatrixCell| cell.excluded.is_none();
    let field = |name: &String, n: u32| find(name, n).filter(accepted).and_then(|cell| cell.overhead.map(|e| e.estimate));
    let text = |name: &String, n: u32| find(name, n).filter(accepted).map_or(String::new(), said);
    let of_rows = |get: &dyn Fn(&String, u32) -> Option<f64>| -> Vec<Vec<Option<f64>>> {
        rows.iter().map(|name| columns.iter().map(|&n| get(name, n)).collect()).collect()
    };
    let texts: Vec<Vec<String>> = rows.iter().map(|name| columns.iter().map(|&n| text(name, n)).collect()).collect();
    let names: Vec<String> = columns.iter().map(|&n| events(n)).collect();
    let mut figure = Figure::new(130 + 30 * rows.len() as u32, Axis::names(), Axis::names().downwards());
    figure.add(Trace::heat(&names, &rows, &of_rows(&field), &texts));
    let out: Vec<&MatrixCell> = watched(doc, workload).filter(|cell| cell.excluded.is_some()).collect();
    let (x, y): (Vec<String>, Vec<String>) = out.iter().map(|cell| (events(cell.key.events), row(&cell.key))).unzip();
    figure.add(Trace::words(&x, &y, &vec!["excluded".to_string(); out.len()]));
    Panel::new(
        &format!("{workload}: overhead"),
        "Warm fields cost time. Each shows its overhead with half of its interval (m: events took turns on the counters; ~: the interval \
         is wider than was asked for; !: samples were lost or throttled).",
    )
    .figure(figure)
}

/// The overhead with half of its interval, and its marks: what a field has place for.
fn said(cell: &MatrixCell) -> String {
    format!("{}{}", matrix_brief(cell), matrix_marks(cell))
}

fn bars(doc: &Matrix, workload: &str) -> Panel {
    let mut figure = Figure::new(460, Axis::names(), Axis::share("overhead").reference_zero());
    figure.set("barmode", json!("group"));
    let place = |key: &MatrixKey| {
        let divisor = if key.divisor == 0 { String::new() } else { format!(" {}", matrix_divisor(key)) };
        format!("{}{divisor}, {} at once", events(key.events), key.instances)
    };
    let order = watched(doc, workload).map(|cell| (cell.key.divisor, cell.key.instances, cell.key.events, place(&cell.key)));
    let order = order.sorted().dedup().collect_vec();
    let names = order.iter().map(|(_, _, _, name)| name).collect_vec();
    let mut axis = Axis::names();
    axis.order(&names);
    figure.axis("xaxis", axis);
    let series = watched(doc, workload).map(|cell| watcher(&cell.key)).unique().collect_vec();
    for (i, name) in series.iter().enumerate() {
        let cells = || watched(doc, workload).filter(|cell| watcher(&cell.key) == *name && cell.excluded.is_none());
        let (x, y): (Vec<String>, Vec<Estimate>) = cells().filter_map(|cell| Some((place(&cell.key), cell.overhead?))).unzip();
        figure.add(Trace::bars_between(name, &x, &y).colour(i));
    }
    Panel::new(
        &format!("{workload}: overhead with intervals"),
        "Bars whose intervals overlap are not told apart; one whose interval holds zero costs nothing that this grid could see.",
    )
    .figure(figure)
}

/// Overhead over the number of events, and where they begin to take turns.
fn turns(doc: &Matrix) -> Option<Panel> {
    if columns(doc).len() < 2 {
        return None;
    }
    let mut figure = Figure::new(480, Axis::count("events at once").zero_based(), Axis::share("overhead").reference_zero());
    let alike = |key: &MatrixKey| MatrixKey { events: 0, ..key.clone() };
    let watching = doc.accepted().filter(|(cell, _)| cell.key.mode != MatrixMode::Off);
    let lines = watching.map(|(cell, _)| line(&cell.key)).unique().collect_vec();
    // More than these cannot be told apart; the table has all.
    const MAX_LINES: usize = 16;
    for (i, name) in lines.iter().take(MAX_LINES).enumerate() {
        let cells: Vec<(&MatrixCell, &Estimate)> = doc.accepted().filter(|(cell, _)| line(&cell.key) == *name).collect();
        let x: Vec<f64> = cells.iter().map(|(cell, _)| f64::from(cell.key.events)).collect();
        let y: Vec<Estimate> = cells.iter().map(|(_, e)| **e).collect();
        let symbols: Vec<&str> =
            cells.iter().map(|(cell, _)| if cell.is_multiplexed() { "diamond-open" } else { "circle" }).collect();
        let drawn = Trace::points(name, &x, &y).colour(i);
        figure.add(drawn.with(json!({"mode": "lines+markers", "marker": {"symbol": symbols, "size": 9}})));
    }
    if let Some(counters) = doc.counters {
        figure.upright(f64::from(counters) + 0.5);
    }
    let mut table = Grid::new(&["cell", "#before", "#with", "#after", "#with", "#each counts", "#more"]);
    for jump in doc.jumps() {
        let (Some(before), Some(after)) = (jump.before.overhead, jump.after.overhead) else { continue };
        table.row(vec![
            line(&alike(&jump.after.key)),
            units::estimate_share(&before),
            events(jump.before.key.events),
            units::estimate_share(&after),
            events(jump.after.key.events),
            units::share(jump.after.running()),
            format!("{:+.2} points", (after.estimate - before.estimate) * 100.0),
        ]);
    }
    let caption = "Open diamonds: more events than counters, so they take turns (time running below time enabled), and each change of turn \
                   programs the counters anew. The dashed line is the number of counters. The table has every place where that begins.";
    Some(Panel::new("Where events begin to take turns", caption).figure(figure).table(table))
}

fn line(key: &MatrixKey) -> String {
    format!("{}: {}", key.workload, row(key))
}

fn volume(doc: &Matrix) -> Option<Panel> {
    let cells: Vec<(&MatrixCell, f64)> =
        doc.cells.iter().filter_map(|cell| Some((cell, cell.bytes_per_s()?))).filter(|(_, rate)| *rate > 0.0).collect();
    if cells.is_empty() {
        return None;
    }
    let mut figure = Figure::new(420, Axis::names(), Axis::count("bytes a second of a copy").log());
    figure.set("barmode", json!("group"));
    let place = |key: &MatrixKey| format!("{}: {}, {} {}", key.workload, events(key.events), key.set, matrix_divisor(key));
    let fewest = cells.iter().map(|(cell, _)| cell.key.instances).min().unwrap_or(1);
    for (i, mode) in MatrixMode::WATCHING.into_iter().enumerate() {
        let of_mode = cells.iter().filter(|(cell, _)| cell.key.mode == mode && cell.key.instances == fewest);
        let (x, y): (Vec<String>, Vec<f64>) = of_mode.map(|(cell, rate)| (place(&cell.key), *rate)).unzip();
        if !x.is_empty() {
            figure.add(Trace::bars_up(mode.name(), &x, &y).colour(i));
        }
    }
    let mut table = Grid::new(&["cell", "#bytes a sample", "#bytes a second of a copy"]);
    for (cell, rate) in &cells {
        let a_sample = cell.bytes_per_sample().map_or(String::new(), |bytes| units::bytes(bytes.round()));
        table.row(vec![cell.key.to_string(), a_sample, units::bytes_per_s(*rate)]);
    }
    let caption = "Records written while the program ran: branch records (LBR) make a sample many times as large. Logarithmic; the fewest copies \
                   are drawn, the table has all.";
    Some(Panel::new("Volume of data", caption).figure(figure).folded(table))
}

fn controls(doc: &Matrix) -> Option<Panel> {
    if doc.controls.is_empty() {
        return None;
    }
    let names: Vec<String> = doc.controls.iter().map(|c| format!("{}, {} at once", c.workload, c.instances)).collect();
    let x: Vec<Estimate> = doc.controls.iter().map(|c| c.control.difference).collect();
    let axis = Axis::share("difference of two unmonitored arms");
    let mut figure = Figure::new(140 + 30 * names.len() as u32, axis, Axis::names().downwards());
    figure.add(Trace::forest("off against off", &x, &names).colour(0));
    figure.upright(0.0);
    let mut table = Grid::new(&["cell", "#off against off", "#tells a bias of", "verdict"]);
    for (name, c) in names.iter().zip(&doc.controls) {
        let verdict = if c.control.passed { "passed" } else { "FAILED" };
        table.row(vec![
            name.clone(),
            units::estimate_share(&c.control.difference),
            units::share(c.control.detects),
            verdict.into(),
        ]);
    }
    let caption =
        "The A/A cells: where two unmonitored arms differ, all cells of that program and number of copies are excluded.";
    Some(Panel::new("Control: off against off", caption).figure(figure).table(table))
}

fn every_cell(doc: &Matrix) -> Panel {
    let mut table = Grid::new(&[
        "program",
        "watched by",
        "#events",
        "period",
        "#at once",
        "#pairs",
        "#discarded",
        "#unmonitored",
        "#overhead",
        "as asked",
        "#variation",
        "#samples expected",
        "#delivered",
        "#lost",
        "#throttled",
        "#counted of the time",
        "excluded",
    ]);
    for cell in &doc.cells {
        let key = &cell.key;
        let if_watched = |text: String| if key.mode == MatrixMode::Off { String::new() } else { text };
        let if_sampled = |text: String| if key.mode.samples() { text } else { String::new() };
        table.row(vec![
            key.workload.clone(),
            watcher(key),
            if_watched(key.events.to_string()),
            matrix_divisor(key),
            key.instances.to_string(),
            cell.pairs.to_string(),
            cell.discarded.to_string(),
            cell.unmonitored_s.as_ref().map_or("unknown".into(), units::estimate_s),
            cell.overhead.as_ref().map_or("unknown".into(), units::estimate_share),
            if cell.reached { "yes" } else { "NO" }.into(),
            cell.variation.map_or(String::new(), units::share),
            if_sampled(units::about(cell.expected_samples.round())),
            if_sampled(units::count(cell.samples)),
            if_sampled(units::count(cell.lost)),
            if_sampled(units::count(cell.throttled)),
            if_watched(units::share(cell.running())),
            cell.excluded.clone().unwrap_or_else(|| "no".into()),
        ]);
    }
    Panel::new(
        "Every cell",
        "Samples are those of all monitored runs that count together. Expected: what the events counted, divided by their periods (PEBS: \
         by the period and one more).",
    )
    .table(table)
}

/// What is excluded, was not measured or cannot be had.
fn not_there(doc: &Matrix) -> Option<Panel> {
    let mut table = Grid::new(&["what", "why"]);
    let excluded = doc.excluded().map(|(cell, why)| (format!("excluded: {}", cell.key), why.to_string()));
    let left = doc.unmeasured.iter().map(|key| (format!("not measured: {key}"), "the time ran out; --resume goes on".into()));
    let impossible = impossible_rows(doc).into_iter().map(|(what, why)| (format!("not to be had here: {what}"), why));
    let skipped = skipped_rows(doc).into_iter().map(|(what, why)| (format!("left out, the next one taken: {what}"), why));
    let rows: Vec<(String, String)> = excluded.chain(left).chain(skipped).chain(impossible).collect();
    if rows.is_empty() {
        return None;
    }
    for (what, why) in rows {
        table.row(vec![what, why]);
    }
    let limit = units::share(doc.plan.variation_limit);
    let caption = format!("Cells whose runs vary by more than {limit} are excluded, as in the CERN study (openlab 2014).");
    Some(Panel::new("Not in the grid", &caption).table(table))
}

fn sets(doc: &Matrix) -> Panel {
    let mut table = Grid::new(&["set", "#", "event", "#period", "counted here by", "for PEBS", "for IBS"]);
    for set in &doc.sets {
        for (at, event) in set.events.iter().enumerate() {
            let forms = [&event.code, &event.precise, &event.ibs].map(|form| form.clone().unwrap_or_default());
            let head = [set.name.clone(), (at + 1).to_string(), event.event.clone(), units::count(event.period)];
            table.row([head.as_slice(), &forms].concat());
        }
    }
    let described: Vec<String> =
        doc.sets.iter().map(|set| format!("{}: {} ({})", set.name, set.description, set.source)).collect();
    Panel::new("Sets of events", &described.join("; ")).folded(table)
}

/// The grids of several machines as one: heat maps and bars with the machines side by side, and a row for each cell.
pub(super) fn together(docs: &[(String, &Matrix)]) -> Vec<Panel> {
    if docs.is_empty() {
        return Vec::new();
    }
    let docs = &grids_told_apart(docs);
    let keys = grid_keys(docs.iter().map(|(_, doc)| *doc));
    let watched: Vec<&MatrixKey> = keys.iter().copied().filter(|key| key.mode != MatrixMode::Off).collect();
    let mut panels = Vec::new();
    for workload in watched.iter().map(|key| key.workload.clone()).unique() {
        let of: Vec<&MatrixKey> = watched.iter().copied().filter(|key| key.workload == workload).collect();
        panels.push(heat_of_machines(docs, &workload, &of));
        panels.push(bars_of_machines(docs, &workload, &of));
    }
    panels.push(cells_of_machines(docs, &keys));
    panels
}

fn found<'a>(doc: &'a Matrix, key: &MatrixKey) -> Option<&'a MatrixCell> {
    doc.cells.iter().find(|cell| cell.key == *key)
}

fn readable<'a>(doc: &'a Matrix, key: &MatrixKey) -> Option<(&'a MatrixCell, Estimate)> {
    let cell = found(doc, key).filter(|cell| cell.excluded.is_none())?;
    Some((cell, cell.overhead?))
}

/// A row of the map of all machines: `4 events: sampling core ÷10, 2 at once`.
fn full_row(key: &MatrixKey) -> String {
    format!("{}: {}", events(key.events), row(key))
}

fn heat_of_machines(docs: &[(String, &Matrix)], workload: &str, keys: &[&MatrixKey]) -> Panel {
    let names: Vec<String> = docs.iter().map(|(label, _)| label.clone()).collect();
    let rows: Vec<String> = keys.iter().map(|key| full_row(key)).collect();
    let fields: Vec<Vec<Option<f64>>> =
        keys.iter().map(|key| docs.iter().map(|(_, doc)| readable(doc, key).map(|(_, e)| e.estimate)).collect()).collect();
    let text = |doc: &Matrix, key: &MatrixKey| readable(doc, key).map_or(String::new(), |(cell, _)| said(cell));
    let texts: Vec<Vec<String>> = keys.iter().map(|key| docs.iter().map(|(_, doc)| text(doc, key)).collect()).collect();
    let mut figure = Figure::new(130 + 26 * rows.len() as u32, Axis::names(), Axis::names().downwards());
    figure.add(Trace::heat(&names, &rows, &fields, &texts));
    Panel::new(&format!("{workload}: overhead by machine"), "Empty fields are excluded or were not measured there.")
        .figure(figure)
}

fn bars_of_machines(docs: &[(String, &Matrix)], workload: &str, keys: &[&MatrixKey]) -> Panel {
    let mut figure = Figure::new(520, Axis::names(), Axis::share("overhead").reference_zero());
    figure.set("barmode", json!("group"));
    let names: Vec<String> = keys.iter().map(|key| full_row(key)).collect();
    let mut axis = Axis::names();
    axis.order(&names.iter().collect::<Vec<_>>());
    figure.axis("xaxis", axis);
    for (i, (label, doc)) in docs.iter().enumerate() {
        let of = keys.iter().zip(&names).filter_map(|(key, name)| Some((name.clone(), readable(doc, key)?.1)));
        let (x, y): (Vec<String>, Vec<Estimate>) = of.unzip();
        figure.add(Trace::bars_between(label, &x, &y).colour(i));
    }
    Panel::new(
        &format!("{workload}: overhead with intervals, by machine"),
        "Machines whose intervals overlap are not told apart.",
    )
    .figure(figure)
}

fn cells_of_machines(docs: &[(String, &Matrix)], keys: &[&MatrixKey]) -> Panel {
    let mut table = Grid::new(&["cell"]);
    for (label, _) in docs {
        table.column(format!("{label}: overhead"));
        table.column(format!("{label}: pairs"));
        table.column(format!("{label}: samples delivered of expected, lost"));
    }
    let mut shared = 0;
    for key in keys {
        let mut cells = vec![key.to_string()];
        shared += usize::from(docs.iter().filter(|(_, doc)| found(doc, key).is_some()).count() > 1);
        for (_, doc) in docs {
            let Some(cell) = found(doc, key) else {
                cells.extend(["—", "", ""].map(String::from));
                continue;
            };
            let samples = format!(
                "{} of {}, {}",
                units::count(cell.samples),
                units::about(cell.expected_samples.round()),
                units::count(cell.lost)
            );
            let overhead = || cell.overhead.as_ref().map_or("unknown".into(), |e| units::estimate_share(e) + &matrix_marks(cell));
            cells.push(cell.excluded.as_ref().map_or_else(overhead, |why| format!("excluded: {why}")));
            cells.push(cell.pairs.to_string());
            cells.push(if key.mode.samples() { samples } else { String::new() });
        }
        table.row(cells);
    }
    let caption = format!("{} cells, {shared} of them cells of two machines or more.", keys.len());
    Panel::new("Every cell, machine by machine", &caption).table(table)
}
