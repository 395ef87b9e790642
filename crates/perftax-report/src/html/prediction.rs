//! The page of a prediction.

use itertools::Itertools as _;
use perftax_doc::Estimate;
use perftax_doc::observation::Run;
use perftax_doc::{Prediction, WorkloadProfile};
use serde_json::json;

use super::figure::{Axis, Figure, Trace, place};
use super::page::{Grid, Panel, Part};
use crate::columns::{Predicted, PredictionColumns};
use crate::{shell, units};

pub(super) fn part(doc: &Prediction) -> Part {
    let program = shell::program(&doc.workload);
    let mut part = Part::of(&doc.origin, format!("What sampling {} would cost {program}", doc.event));
    part.fact("cost of one sample", units::estimate_ns(&doc.alpha_ns), format!("{}, drift included", doc.cost_machine));
    program_facts(&mut part, &doc.workload);
    part.next = Some(("Choose a period for a budget".into(), shell::plan(doc)));
    if !doc.rows.is_empty() {
        part.panel(overhead(doc));
        if doc.rows.iter().any(|row| row.terms.len() > 1) {
            part.panel(terms(doc));
        }
        if doc.rows.iter().any(|row| row.extra_s_per_cpu.len() > 1) {
            part.panel(per_cpu(doc));
        }
    }
    part.panel(program_panel(&doc.workload));
    part.panel(raw_runs("Raw runs", doc.workload.runs.iter().map(|run| (String::new(), run))));
    part
}

/// What a program is like, as facts.
pub(super) fn program_facts(part: &mut Part, w: &WorkloadProfile) {
    part.fact("program", units::estimate_s(&w.elapsed_s), format!("unmonitored; varies by {}", units::share(w.variation)));
    part.fact("threads", units::count(w.threads.into()), format!("{} of CPU time", units::estimate_s(&w.cpu_s)));
}

fn overhead(doc: &Prediction) -> Panel {
    let mut rows: Vec<_> = doc.rows.iter().filter(|row| row.overhead.estimate > 0.0).collect();
    rows.sort_by_key(|row| row.period);
    let mut figure = Figure::new(460, Axis::period(doc.mechanism).log(), Axis::share("expected overhead").log());
    let x: Vec<f64> = rows.iter().map(|row| place(doc.mechanism, row.period as f64)).collect();
    // A logarithmic axis has no place for 0: an interval that reaches it ends a hundredth below the estimate.
    let low: Vec<f64> = rows.iter().map(|row| row.overhead.low.max(row.overhead.estimate / 100.0)).collect();
    let high: Vec<f64> = rows.iter().map(|row| row.overhead.high).collect();
    let centre: Vec<f64> = rows.iter().map(|row| row.overhead.estimate).collect();
    figure.add(Trace::band("interval", &x, &low, &high).colour(0));
    figure.add(Trace::line("expected overhead", &x, &centre).colour(0).with(json!({"mode": "lines+markers"})));
    for budget in [0.01, 0.05, 0.1] {
        figure.level(budget, true, &format!("{} budget", units::share(budget)));
    }
    let PredictionColumns { period, samples, rate, bytes, overhead, elapsed, .. } = PredictionColumns::new();
    let table = Grid::of(&[&period, &samples, &rate, &bytes, &overhead, &elapsed], Predicted::all(doc));
    Panel::new(
        "Overhead over the sampling period",
        "Where the upper edge of the band crosses a budget line is the shortest period that keeps the budget; a curve that bends \
         up at the left is sampling its own overhead.",
    )
    .figure(figure)
    .table(table)
}

fn terms(doc: &Prediction) -> Panel {
    let names = doc.rows.iter().flat_map(|row| row.terms.keys()).sorted().dedup().collect_vec();
    let periods: Vec<String> = doc.rows.iter().map(|row| units::period(doc.mechanism, row.period)).collect();
    let mut figure = Figure::new(400, Axis::names(), Axis::share("share of the overhead"));
    figure.set("barmode", json!("stack"));
    figure.set("bargap", json!(0.35));
    let mut table = Grid::new(&["#period"]);
    for (i, name) in names.iter().enumerate() {
        let share = |row: &perftax_doc::PredictionRow| {
            let total: f64 = row.terms.values().map(|e| e.estimate.max(0.0)).sum();
            row.terms.get(*name).map_or(0.0, |e| if total > 0.0 { e.estimate.max(0.0) / total } else { 0.0 })
        };
        let shares: Vec<f64> = doc.rows.iter().map(share).collect();
        figure.add(Trace::bars_up(name, &periods, &shares).colour(i));
        table.column(name.to_string());
    }
    for row in &doc.rows {
        let cell = |name: &&String| row.terms.get(*name).map_or(String::new(), units::estimate_share);
        table.row([units::period(doc.mechanism, row.period)].into_iter().chain(names.iter().map(cell)).collect());
    }
    Panel::new(
        "What the overhead is made of",
        "Each bar is the whole overhead at that period: a term that grows to the right does not shrink with the number of samples. \
         The table has each term as a share of the run.",
    )
    .figure(figure)
    .table(table)
}

fn per_cpu(doc: &Prediction) -> Panel {
    let mut rows: Vec<_> = doc.rows.iter().collect();
    rows.sort_by_key(|row| row.period);
    let cpus = rows.iter().map(|row| row.extra_s_per_cpu.len()).max().unwrap_or(0);
    let mut figure = Figure::new(420, Axis::period(doc.mechanism).log(), Axis::time("extra time").log());
    let mut table = Grid::new(&["#period"]);
    for cpu in 0..cpus {
        let known = rows.iter().filter_map(|row| Some((row.period, row.extra_s_per_cpu.get(cpu)?)));
        let (x, y): (Vec<f64>, Vec<Estimate>) = known
            .filter(|(_, e)| e.estimate > 0.0)
            .map(|(p, e)| (place(doc.mechanism, p as f64), Estimate { low: e.low.max(e.estimate / 100.0), ..*e }))
            .unzip();
        let name = format!("CPU {cpu}");
        table.column(name.clone());
        if !x.is_empty() {
            figure.add(Trace::points(&name, &x, &y).colour(cpu).with(json!({"mode": "lines+markers"})));
        }
    }
    for row in &doc.rows {
        let cells = row.extra_s_per_cpu.iter().map(units::estimate_s);
        table.row([units::period(doc.mechanism, row.period)].into_iter().chain(cells).collect());
    }
    Panel::new(
        "Extra time on each CPU",
        "A program is as late as its slowest CPU: look for one that lies above the others, since sums over CPUs would hide it.",
    )
    .figure(figure)
    .table(table)
}

/// A table of what the program does unmonitored.
pub(super) fn program_panel(w: &WorkloadProfile) -> Panel {
    let mut table = Grid::new(&["", "#a run"]);
    let mut row = |name: &str, value: String| table.row(vec![name.into(), value]);
    row("elapsed time", units::estimate_s(&w.elapsed_s));
    row("CPU time", units::estimate_s(&w.cpu_s));
    for (cpu, e) in w.cpu_s_per_cpu.iter().enumerate() {
        row(&format!("CPU time on CPU {cpu}"), units::estimate_s(e));
    }
    row("threads", units::count(w.threads.into()));
    // A simulated program has no runs: none of this is known of it.
    if !w.runs.is_empty() {
        row("context switches", units::estimate_number(&w.switches));
        row("page faults", units::estimate_number(&w.faults));
        if let Some(code) = &w.code {
            row("pages of code gone through", units::estimate_number(&code.pages));
        }
        row("largest resident set", units::bytes(w.max_rss_bytes as f64));
    }
    for (event, n) in &w.counts {
        row(event, units::estimate_number(n));
    }
    row("variation of the elapsed time", units::share(w.variation));
    Panel::new("The program, unmonitored", "").table(table)
}

/// Raw runs, closed at first.
pub(super) fn raw_runs<'a>(title: &str, runs: impl Iterator<Item = (String, &'a Run)>) -> Panel {
    let mut table = Grid::new(&[
        "workload",
        "#round",
        "arm",
        "#period",
        "#elapsed (s)",
        "#user (s)",
        "#system (s)",
        "#samples",
        "#expected",
        "#lost",
        "#throttled",
        "#switches",
        "#faults",
        "#stolen (s)",
        "discarded",
    ]);
    for (workload, r) in runs {
        table.row(vec![
            workload,
            r.round.to_string(),
            r.arm.clone(),
            r.period.to_string(),
            format!("{:.6}", r.elapsed_s),
            format!("{:.4}", r.user_s),
            format!("{:.4}", r.system_s),
            r.samples.to_string(),
            units::about(r.expected_samples),
            r.lost.to_string(),
            r.throttled.to_string(),
            (r.voluntary_switches + r.involuntary_switches).to_string(),
            (r.minor_faults + r.major_faults).to_string(),
            format!("{:.3}", r.steal_s),
            r.discarded.clone().unwrap_or_default(),
        ]);
    }
    Panel::new(title, "Every run, before any statistics.").folded(table)
}
