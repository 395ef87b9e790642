//! The page of a verification.

use std::collections::BTreeMap;

use perftax_doc::Estimate;
use perftax_doc::{Cell, Verification};
use serde_json::json;

use super::figure::{Axis, Figure, Trace};
use super::page::{Grid, Panel, Part};
use super::prediction::raw_runs;
use crate::{shell, units};

/// Plots side by side.
const COLUMNS: usize = 4;

pub(super) fn part(doc: &Verification) -> Part {
    let mut part = Part::of(&doc.origin, "Did the prediction hold?");
    part.tone = if doc.held { "good" } else { "bad" };
    let covered = doc.cells.iter().filter(|c| c.covered).count();
    part.lead = format!(
        "The prediction {}: median |E| {}, the interval of E covers 0 in {covered} of {} cells.",
        if doc.held { "held" } else { "did NOT hold" },
        units::share(doc.median_abs_error),
        doc.cells.len()
    );
    part.fact("median |E|", units::share(doc.median_abs_error), "E = (measured − expected)/expected");
    part.fact("coverage", units::share(doc.coverage), "of the cells have 0 in the interval of E");
    if let Some(r) = &doc.regression {
        part.fact("slope", units::estimate_number(&r.slope), "measured on predicted extra time; 1 where the model holds");
    }
    for c in doc.calibrations.iter().take(1) {
        part.fact("cost of one sample", units::estimate_ns(&c.alpha_ns), format!("{} by {}", c.event, c.mechanism));
    }
    part.next = Some(if doc.held {
        ("Plan with it".into(), format!("{} CMD", shell::join(&["perftax", "plan", "--budget", "1%", "-e", &doc.event, "--"])))
    } else {
        ("Calibrate anew".into(), shell::join(&["perftax", "calibrate", "-e", &doc.event]))
    });
    if !doc.cells.is_empty() {
        let groups = groups(doc);
        part.panel(elapsed(&groups));
        part.panel(errors(doc, &groups));
        part.panel(one_to_one(&groups));
        part.panel(extra(doc, &groups));
    }
    if !doc.controls.is_empty() {
        part.panel(controls(doc));
    }
    if !doc.left_out.is_empty() {
        part.panel(left_out(doc));
    }
    if doc.cells.iter().any(|c| !c.runs.is_empty()) {
        part.panel(raw_runs("Raw runs", doc.cells.iter().flat_map(|c| c.runs.iter().map(|run| (name(c), run)))));
    }
    part
}

/// What a cell is about, apart from the period.
fn name(c: &Cell) -> String {
    let cpu = c.cpu.map_or(String::new(), |cpu| format!(" CPU {cpu}"));
    let attach = if matches!(c.attach.as_str(), "" | "inherited") { String::new() } else { format!(" {}", c.attach) };
    format!("{}{attach}{cpu}", c.workload)
}

/// The cells of each workload in order of samples, workloads in the order of the document.
fn groups(doc: &Verification) -> Vec<(String, Vec<&Cell>)> {
    let mut groups: Vec<(String, Vec<&Cell>)> = Vec::new();
    let events = doc.cells.iter().any(|c| c.event != doc.cells[0].event);
    for c in &doc.cells {
        let name = if events { format!("{} {}", name(c), c.event) } else { name(c) };
        match groups.iter_mut().find(|(n, _)| *n == name) {
            Some((_, cells)) => cells.push(c),
            None => groups.push((name, vec![c])),
        }
    }
    for (_, cells) in &mut groups {
        cells.sort_by(|a, b| a.predicted_overhead.estimate.total_cmp(&b.predicted_overhead.estimate));
    }
    groups
}

fn elapsed(groups: &[(String, Vec<&Cell>)]) -> Panel {
    let columns = groups.len().min(COLUMNS);
    let rows = groups.len().div_ceil(columns);
    let mut figure = Figure::new(110 + 260 * rows as u32, Axis::count(""), Axis::time(""));
    figure.set("grid", json!({"rows": rows, "columns": columns, "pattern": "independent", "xgap": 0.24, "ygap": 0.34}));
    figure.set("legend", json!({"orientation": "h", "x": 0, "y": 1.0 + 0.16 / rows as f64, "yanchor": "bottom"}));
    for (i, (name, cells)) in groups.iter().enumerate() {
        let axis = if i == 0 { String::new() } else { (i + 1).to_string() };
        let bottom = i + columns >= groups.len();
        figure.axis(&format!("xaxis{axis}"), Axis::count(if bottom { "samples a run" } else { "" }).few().zero_based());
        figure.axis(&format!("yaxis{axis}"), Axis::time(if i % columns == 0 { "elapsed" } else { "" }).few());
        figure.heading(&axis, name);
        let place = |trace: Trace, group: &str| {
            let trace = trace.with(json!({"xaxis": format!("x{axis}"), "yaxis": format!("y{axis}"), "legendgroup": group}));
            if i == 0 { trace } else { trace.unlisted() }
        };
        let base = cells.first().map_or(Estimate::exact(0.0), |c| c.unmonitored_s);
        let x: Vec<f64> = std::iter::once(0.0).chain(cells.iter().map(|c| c.samples)).collect();
        let expected: Vec<Estimate> = std::iter::once(base).chain(cells.iter().map(|c| c.expected_s)).collect();
        let of = |get: fn(&Estimate) -> f64| expected.iter().map(get).collect::<Vec<f64>>();
        figure.add(place(Trace::band("interval of expected", &x, &of(|e| e.low), &of(|e| e.high)).colour(1), "band"));
        figure.add(place(Trace::line("expected", &x, &of(|e| e.estimate)).colour(1), "expected"));
        let measured: Vec<Estimate> = std::iter::once(base).chain(cells.iter().map(|c| c.measured_s)).collect();
        figure.add(place(Trace::points("measured", &x, &measured).colour(0).with(json!({"marker": {"size": 6}})), "measured"));
    }
    Panel::new(
        "Elapsed time against samples",
        "Measured points should lie on the expected line; one that leaves it at the right (many samples) shows a cost that the \
         model lacks. The leftmost point is the unmonitored run.",
    )
    .figure(figure)
}

/// Cells by period where workloads share their periods, else by rank of predicted overhead; with a name for each.
fn series<'a>(doc: &Verification, groups: &[(String, Vec<&'a Cell>)]) -> Vec<(String, Vec<(usize, &'a Cell)>)> {
    const MAX_PERIODS: usize = 8;
    let mut by_period: BTreeMap<u64, Vec<(usize, &Cell)>> = BTreeMap::new();
    let mut by_rank: BTreeMap<usize, Vec<(usize, &Cell)>> = BTreeMap::new();
    for (g, (_, cells)) in groups.iter().enumerate() {
        for (rank, &c) in cells.iter().enumerate() {
            by_period.entry(c.period).or_default().push((g, c));
            by_rank.entry(rank).or_default().push((g, c));
        }
    }
    if by_period.len() <= MAX_PERIODS {
        by_period.into_iter().rev().map(|(p, cells)| (units::period(doc.mechanism, p), cells)).collect()
    } else {
        let mean =
            |cells: &[(usize, &Cell)]| cells.iter().map(|(_, c)| c.predicted_overhead.estimate).sum::<f64>() / cells.len() as f64;
        by_rank.into_values().map(|cells| (format!("about +{:.0} %", mean(&cells) * 100.0), cells)).collect()
    }
}

fn errors(doc: &Verification, groups: &[(String, Vec<&Cell>)]) -> Panel {
    let names: Vec<String> = groups.iter().map(|(name, _)| name.clone()).collect();
    let mut figure = Figure::new(440, Axis::labels(&names), Axis::share("E").reference_zero());
    let series = series(doc, groups);
    let step = 0.7 / series.len().max(1) as f64;
    for (i, (name, cells)) in series.iter().enumerate() {
        let shift = (i as f64 - (series.len() as f64 - 1.0) / 2.0) * step;
        let (x, y): (Vec<f64>, Vec<Estimate>) = cells.iter().map(|(g, c)| (*g as f64 + shift, c.error)).unzip();
        figure.add(Trace::points(name, &x, &y).colour(i).with(json!({"marker": {"size": 7}})));
    }
    figure.level(0.0, false, "");
    let mut table = Grid::new(&[
        "workload",
        "#period",
        "#E",
        "covers 0",
        "#rounds",
        "#samples",
        "#of expected",
        "#unmonitored",
        "#expected",
        "#measured",
    ]);
    for (name, cells) in groups {
        for c in cells {
            table.row(vec![
                name.clone(),
                units::period(doc.mechanism, c.period),
                units::estimate_share(&c.error),
                if c.covered { "yes" } else { "NO" }.into(),
                c.rounds.to_string(),
                units::about(c.samples.round()),
                if c.expected_samples > 0.0 { units::share(c.samples / c.expected_samples) } else { String::new() },
                units::estimate_s(&c.unmonitored_s),
                units::estimate_s(&c.expected_s),
                units::estimate_s(&c.measured_s),
            ]);
        }
    }
    Panel::new(
        "Error of the prediction",
        "Every interval should cross the zero line; within one workload, E that grows from left to right (shorter periods) points to \
         a cost that the model lacks, such as polluted caches.",
    )
    .figure(figure)
    .table(table)
}

fn one_to_one(groups: &[(String, Vec<&Cell>)]) -> Panel {
    let mut figure = Figure::new(500, Axis::time("expected elapsed time"), Axis::time("measured elapsed time"));
    let ends = |get: fn(&Cell) -> f64| groups.iter().flat_map(|(_, cells)| cells).map(|c| get(c)).collect::<Vec<f64>>();
    let low = ends(|c| c.expected_s.low.min(c.measured_s.low)).into_iter().fold(f64::MAX, f64::min);
    let high = ends(|c| c.expected_s.high.max(c.measured_s.high)).into_iter().fold(0.0, f64::max);
    figure.add(Trace::line("1:1", &[low, high], &[low, high]).reference());
    for (i, (name, cells)) in groups.iter().enumerate() {
        let x: Vec<Estimate> = cells.iter().map(|c| c.expected_s).collect();
        let y: Vec<Estimate> = cells.iter().map(|c| c.measured_s).collect();
        figure.add(Trace::cross(name, &x, &y).colour(i));
    }
    Panel::new(
        "Measured against expected elapsed time",
        "Points on the dashed line took as long as expected; above it longer, below it shorter.",
    )
    .figure(figure)
}

fn extra(doc: &Verification, groups: &[(String, Vec<&Cell>)]) -> Panel {
    let mut figure = Figure::new(500, Axis::time("predicted extra time"), Axis::time("measured extra time"));
    let mut most = 0.0f64;
    for (i, (name, cells)) in groups.iter().enumerate() {
        let x: Vec<Estimate> = cells.iter().map(|c| c.predicted_overhead.scaled(c.unmonitored_s.estimate)).collect();
        let y: Vec<Estimate> = cells.iter().map(|c| c.measured_overhead.scaled(c.unmonitored_s.estimate)).collect();
        most = x.iter().chain(&y).map(|e| e.high).fold(most, f64::max);
        figure.add(Trace::cross(name, &x, &y).colour(i));
    }
    figure.add(Trace::line("1:1", &[0.0, most], &[0.0, most]).reference());
    let caption = match &doc.regression {
        Some(r) => {
            let y = |x: f64| r.intercept_s.estimate + r.slope.estimate * x;
            figure.add(Trace::line("regression", &[0.0, most], &[y(0.0), y(most)]).colour(7));
            format!(
                "Extra time alone, without the run itself, is the sharper test: the fitted line should have slope 1 (it has {}) and \
                 pass through the origin (it meets {}).",
                units::estimate_number(&r.slope),
                units::estimate_s(&r.intercept_s)
            )
        }
        None => "Extra time alone, without the run itself, is the sharper test: points should lie on the dashed line.".into(),
    };
    Panel::new("Measured against predicted extra time", &caption).figure(figure)
}

fn left_out(doc: &Verification) -> Panel {
    let mut table = Grid::new(&["program", "#round", "arm", "#period", "why"]);
    for run in &doc.left_out {
        let period = if run.period == 0 { String::new() } else { units::period(doc.mechanism, run.period) };
        table.row(vec![run.workload.clone(), (run.round + 1).to_string(), run.arm.clone(), period, run.why.clone()]);
    }
    let caption = format!("{} of {} runs are in no cell.", doc.left_out.len(), doc.runs_made);
    Panel::new("Runs left out", &caption).table(table)
}

fn controls(doc: &Verification) -> Panel {
    let names: Vec<String> = doc.controls.iter().map(|c| c.workload.clone()).collect();
    let x: Vec<Estimate> = doc.controls.iter().map(|c| c.control.difference).collect();
    let height = 140 + 30 * names.len() as u32;
    let mut figure = Figure::new(height, Axis::share("difference of two unmonitored arms"), Axis::names().downwards());
    figure.add(Trace::forest("off against off", &x, &names).colour(0));
    figure.upright(0.0);
    let mut table = Grid::new(&["workload", "#off against off", "#tells a bias of", "verdict"]);
    for c in &doc.controls {
        table.row(vec![
            c.workload.clone(),
            units::estimate_share(&c.control.difference),
            units::share(c.control.detects),
            if c.control.passed { "passed" } else { "FAILED" }.into(),
        ]);
    }
    Panel::new(
        "Control: off against off",
        "Two arms without any sampling must not differ: an interval that misses the zero line means that the runner itself is biased.",
    )
    .figure(figure)
    .table(table)
}
