//! Several machines or kernels side by side on one page.

use itertools::Itertools as _;
use perftax_cost::buffering::ASSIST_TERM;
use perftax_cost::regression::least_squares;
use perftax_doc::Estimate;
use perftax_doc::{Bill, Calibration, Cell, Lint, Plan, Prediction, Verification};
use serde_json::json;

use super::figure::{Axis, Figure, Trace, place};
use super::page::{Grid, Panel, Part};
use crate::document::Document;
use crate::sheet::machine;
use crate::text::{known, label, labelled, lint_found, ratio};
use crate::{shell, units};

const NS: f64 = 1e-9;

/// Width of a strip of workloads on a logarithmic axis, in natural logarithms: overheads a factor of 2 apart stay apart.
const STRIP: f64 = 0.35;

/// The documents of one kind with their labels.
macro_rules! of_kind {
    ($documents:expr, $variant:ident) => {
        $documents
            .iter()
            .enumerate()
            .filter_map(|(i, d)| match d {
                Document::$variant(doc) => Some((label(i), doc.as_ref())),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
}

/// The machines, and what is told of documents of this kind in common.
pub(super) fn part(documents: &[Document]) -> Part {
    let mut part = Part { kind: "report".into(), title: format!("{} results side by side", documents.len()), ..Part::default() };
    let mut table = Grid::new(&["", "machine", "microcode", "hypervisor", "taken", "command"]);
    for (i, document) in documents.iter().enumerate() {
        let o = document.origin();
        table.row(vec![
            label(i),
            machine(o),
            o.machine.microcode.clone(),
            o.machine.virtualisation.clone(),
            if o.taken_at_s > 0.0 { units::date(o.taken_at_s) } else { String::new() },
            shell::join(&o.command),
        ]);
        let about = |w: &perftax_doc::Warning| (format!("{}: {w}", label(i)), w.remedy());
        part.warnings.extend(o.warnings.iter().map(about));
    }
    part.panel(Panel::new("Machines", "").table(table));
    part.panels.extend(super::field_test::together(&of_kind!(documents, FieldTest)));
    calibrations(&mut part, &labelled(documents, Document::calibrations));
    predictions(&mut part, &of_kind!(documents, Prediction));
    plans(&mut part, &of_kind!(documents, Plan));
    verifications(&mut part, &of_kind!(documents, Verification));
    bills(&mut part, &of_kind!(documents, Bill));
    lints(&mut part, &of_kind!(documents, Lint));
    super::selfcost_comparison::panels(&mut part, &labelled(documents, Document::selfcosts));
    super::phase::side_by_side(&mut part, &of_kind!(documents, Phase));
    part.panels.extend(super::matrix::together(&of_kind!(documents, Matrix)));
    part.panels.extend(super::comm::together(&of_kind!(documents, Comm)));
    part.panels.extend(super::recorded::together(&of_kind!(documents, Recorded)));
    part
}

/// Intervals below each other, one a document.
fn forest(axis: Axis, name: &str, names: &[String], x: &[Estimate]) -> Figure {
    let mut figure = Figure::new(140 + 36 * names.len() as u32, axis, Axis::names().downwards());
    figure.add(Trace::forest(name, x, names).colour(0));
    figure
}

fn calibrations(part: &mut Part, docs: &[(String, &Calibration)]) {
    if docs.is_empty() {
        return;
    }
    let names: Vec<String> = docs.iter().map(|(l, doc)| format!("{l}: {}, Linux {}", doc.event, doc.origin.kernel)).collect();
    let costs: Vec<Estimate> = docs.iter().map(|(_, doc)| doc.alpha_ns.scaled(NS)).collect();
    let mut figure = forest(Axis::time("cost of one sample").log(), "ambient α", &names, &costs);
    let floors: Vec<(String, Estimate)> =
        names.iter().zip(docs).filter_map(|(n, (_, doc))| Some((n.clone(), doc.floor_ns?.scaled(NS)))).collect();
    if !floors.is_empty() {
        let (names, floors): (Vec<String>, Vec<Estimate>) = floors.into_iter().unzip();
        figure.add(Trace::forest("floor", &floors, &names).colour(1).with(json!({"marker": {"symbol": "diamond-open"}})));
    }
    let mut table = Grid::new(&["", "event", "mechanism", "#α", "#floor", "against the first", "#drift", "#samples"]);
    for (label, doc) in docs {
        let first = docs.iter().find(|(_, d)| (d.mechanism, &d.event) == (doc.mechanism, &doc.event));
        let against = first.filter(|(l, _)| l != label).and_then(|(l, base)| Some((l, ratio(&doc.alpha_ns, &base.alpha_ns)?)));
        table.row(vec![
            label.clone(),
            doc.event.clone(),
            doc.mechanism.to_string(),
            units::estimate_ns(&doc.alpha_ns),
            doc.floor_ns.as_ref().map_or(String::new(), units::estimate_ns),
            against.map_or(String::new(), |(l, r)| format!("{} × {l}", units::estimate_number(&r))),
            format!("±{}", units::share(doc.drift)),
            units::count(doc.samples),
        ]);
    }
    let caption = "Intervals that do not overlap are real differences; a wide gap between α and floor means a busy machine, not a slow one.";
    part.panel(Panel::new("Cost of one sample", caption).figure(figure).table(table));
    by_term(part, docs);
    by_period(part, docs);
}

fn by_term(part: &mut Part, docs: &[(String, &Calibration)]) {
    let names = docs.iter().flat_map(|(_, doc)| doc.terms.keys()).sorted().dedup().collect_vec();
    if names.is_empty() {
        return;
    }
    let height = 140 + (names.len() * (14 + 16 * docs.len())) as u32;
    let mut figure = Figure::new(height, Axis::time("cost").reference_zero(), Axis::names().downwards());
    figure.set("barmode", json!("group"));
    let mut table = Grid::new(&["term"]);
    for (i, (label, doc)) in docs.iter().enumerate() {
        let known = names.iter().filter_map(|name| Some((name.to_string(), doc.terms.get(*name)?.scaled(NS))));
        let (terms, costs): (Vec<String>, Vec<Estimate>) = known.unzip();
        figure.add(Trace::bars_right(&format!("{label} {}", doc.event), &costs, &terms).colour(i));
        table.column(format!("{label} {}", doc.event));
    }
    for name in &names {
        let cell = |(_, doc): &(String, &Calibration)| doc.terms.get(*name).map_or(String::new(), units::estimate_ns);
        table.row([name.to_string()].into_iter().chain(docs.iter().map(cell)).collect());
    }
    let caption = "Where one machine is more expensive, its longest bar says why; a term that is missing was not separated on that machine.";
    part.panel(Panel::new("Terms", caption).figure(figure).table(table));
}

fn by_period(part: &mut Part, docs: &[(String, &Calibration)]) {
    // Times and numbers of events do not go on one axis.
    let Some(mechanism) = docs.first().map(|(_, doc)| doc.mechanism) else { return };
    if docs.iter().any(|(_, d)| d.mechanism.is_time_driven() != mechanism.is_time_driven() || d.linearity.is_none()) {
        return;
    }
    let mut figure = Figure::new(420, Axis::period(mechanism).log(), Axis::time("cost of one sample").log());
    for (i, (label, doc)) in docs.iter().enumerate() {
        let periods = doc.linearity.iter().flat_map(|l| &l.periods).filter(|p| p.alpha_ns.estimate > 0.0);
        let (x, y): (Vec<f64>, Vec<Estimate>) = periods
            .map(|p| (place(mechanism, p.period as f64), p.alpha_ns.scaled(NS)))
            .map(|(x, e)| (x, Estimate { low: e.low.max(e.estimate / 100.0), ..e }))
            .unzip();
        let trace = Trace::points(&format!("{label} {}", doc.event), &x, &y).colour(i);
        figure.add(trace.with(json!({"mode": "lines+markers"})));
    }
    let caption = "Level lines are linear machines: the cost of a sample does not depend on how often samples are taken.";
    part.panel(Panel::new("Cost by period", caption).figure(figure));
}

fn predictions(part: &mut Part, docs: &[(String, &Prediction)]) {
    let Some(mechanism) = docs.first().map(|(_, doc)| doc.mechanism) else { return };
    let mut table = Grid::new(&["", "program", "event", "#one sample", "#period", "#samples/s", "#overhead"]);
    let mut figure = Figure::new(460, Axis::period(mechanism).log(), Axis::share("expected overhead").log());
    for (i, (label, doc)) in docs.iter().enumerate() {
        let mut rows: Vec<_> = doc.rows.iter().filter(|row| row.overhead.estimate > 0.0).collect();
        rows.sort_by_key(|row| row.period);
        let x: Vec<f64> = rows.iter().map(|row| place(mechanism, row.period as f64)).collect();
        let y: Vec<Estimate> =
            rows.iter().map(|r| Estimate { low: r.overhead.low.max(r.overhead.estimate / 100.0), ..r.overhead }).collect();
        let trace = Trace::points(&format!("{label} {}", doc.event), &x, &y).colour(i);
        figure.add(trace.with(json!({"mode": "lines+markers"})));
        for row in &doc.rows {
            table.row(vec![
                label.clone(),
                shell::program(&doc.workload),
                doc.event.clone(),
                units::estimate_ns(&doc.alpha_ns),
                units::period(doc.mechanism, row.period),
                units::rate(row.samples_per_s),
                units::estimate_share(&row.overhead),
            ]);
        }
    }
    let caption = "The lower curve is the machine where the same sampling disturbs less.";
    let panel = Panel::new("Overhead over the sampling period", caption).table(table);
    let mixed = docs.iter().any(|(_, d)| d.mechanism.is_time_driven() != mechanism.is_time_driven());
    part.panel(if mixed { panel } else { panel.figure(figure) });
}

fn plans(part: &mut Part, docs: &[(String, &Plan)]) {
    if docs.is_empty() {
        return;
    }
    let mut table = Grid::new(&["", "program", "#budget", "event", "#one sample", "#period", "#overhead", "#resolves"]);
    for (label, doc) in docs {
        let when = |text: String| if doc.feasible { text } else { "—".into() };
        table.row(vec![
            label.clone(),
            shell::program(&doc.workload),
            units::share(doc.budget),
            doc.event.clone(),
            units::estimate_ns(&doc.alpha_ns),
            if doc.feasible { units::period(doc.mechanism, doc.period) } else { "none fits".into() },
            when(units::estimate_share(&doc.expected_overhead)),
            when(format!("≥ {}", units::share(doc.resolves_share))),
        ]);
    }
    let feasible: Vec<_> = docs.iter().filter(|(_, doc)| doc.feasible).collect();
    let names: Vec<String> = feasible.iter().map(|(l, doc)| format!("{l}: {}", doc.event)).collect();
    let x: Vec<Estimate> = feasible.iter().map(|(_, doc)| doc.expected_overhead).collect();
    let panel = Panel::new("Plans", "The upper end of each interval stays below that plan's budget.").table(table);
    let axis = Axis::share("expected overhead").zero_based();
    part.panel(if names.is_empty() { panel } else { panel.figure(forest(axis, "expected overhead", &names, &x)) });
}

fn verifications(part: &mut Part, docs: &[(String, &Verification)]) {
    if docs.is_empty() {
        return;
    }
    by_samples(part, docs);
    let mut table = Grid::new(&["", "event", "#cells", "#median |E|", "#covered", "#slope", "verdict"]);
    let mut figure = Figure::new(440, Axis::share("predicted overhead").log(), Axis::share("E").reference_zero());
    for (i, (label, doc)) in docs.iter().enumerate() {
        let cells = doc.cells.iter().filter(|c| c.predicted_overhead.estimate > 0.0);
        let workloads = doc.cells.iter().map(|c| c.workload.as_str()).dedup().collect_vec();
        // Workloads share their overheads by design: side by side in a narrow strip, their intervals can be told apart.
        let spread = |c: &Cell| {
            let place = workloads.iter().position(|&w| w == c.workload).unwrap_or(0) as f64 + i as f64 / docs.len() as f64;
            (STRIP * (place / workloads.len() as f64 - 0.5)).exp()
        };
        let (x, y): (Vec<f64>, Vec<Estimate>) = cells.map(|c| (c.predicted_overhead.estimate * spread(c), c.error)).unzip();
        figure.add(Trace::points(&format!("{label} {}", doc.event), &x, &y).colour(i).with(json!({"marker": {"size": 6}})));
        table.row(vec![
            label.clone(),
            doc.event.clone(),
            doc.cells.len().to_string(),
            units::share(doc.median_abs_error),
            units::share(doc.coverage),
            doc.regression.as_ref().map_or(String::new(), |r| units::estimate_number(&r.slope)),
            if doc.held { "held" } else { "did NOT hold" }.into(),
        ]);
    }
    let caption = "Each point is one cell, workloads of one overhead side by side: intervals should cross 0 at any overhead, on every machine.";
    part.panel(Panel::new("Error of the predictions", caption).figure(figure).table(table));
}

/// The straight line that α is the slope of (ROSS'17, figure 2): one for each program on each machine.
fn by_samples(part: &mut Part, docs: &[(String, &Verification)]) {
    let mut table = Grid::new(&["", "program", "machine", "#slope", "#α calibrated", "#of it the hardware's"]);
    let mut figure = Figure::new(460, Axis::count("samples"), Axis::time("extra elapsed time"));
    let mut colour = 0;
    for (label, doc) in docs {
        for workload in doc.cells.iter().filter(|c| c.cpu.is_none()).map(|c| c.workload.as_str()).dedup() {
            let cells: Vec<&Cell> = doc.cells.iter().filter(|c| c.cpu.is_none() && c.workload == workload).collect();
            let extra = |c: &Cell| c.measured_s.plus(&Estimate::exact(-c.unmonitored_s.estimate));
            let (x, y): (Vec<f64>, Vec<Estimate>) = cells.iter().map(|c| (c.samples, extra(c))).unzip();
            // Every cell counts alike: they share their unmonitored runs, and with them most of their noise.
            let points: Vec<(f64, f64, f64)> = x.iter().zip(&y).map(|(&x, y)| (x, y.estimate / NS, 1.0)).collect();
            let Some(line) = least_squares(&points) else { continue };
            let slope = units::estimate_ns(&line.slope);
            let name = format!("{label} {workload}: {slope} a sample");
            figure.add(Trace::points(&name, &x, &y).colour(colour).with(json!({"mode": "lines+markers"})));
            colour += 1;
            let calibrated = doc.calibrations.first();
            table.row(vec![
                label.clone(),
                workload.into(),
                machine(&doc.origin),
                slope,
                calibrated.map_or(String::new(), |c| units::estimate_ns(&c.alpha_ns)),
                calibrated.and_then(|c| c.terms.get(ASSIST_TERM)).map_or(String::new(), units::estimate_ns),
            ]);
        }
    }
    if colour == 0 {
        return;
    }
    let caption = "A straight line through 0: every sample costs the same, its slope is α. What of α is the hardware's share is told where \
                   records wait in a buffer; the rest is the kernel's work for them.";
    part.panel(Panel::new("Extra time against samples", caption).figure(figure).table(table));
}

fn lints(part: &mut Part, docs: &[(String, &Lint)]) {
    if docs.is_empty() {
        return;
    }
    let mut table = Grid::new(&["", "recording", "#samples", "verdict", "found"]);
    for (label, doc) in docs {
        let row = [label.clone(), doc.recording.clone(), units::count(doc.samples), doc.verdict.name().into(), lint_found(doc)];
        table.row(row.to_vec());
    }
    part.panel(Panel::new("Whether they can be trusted", "The worst check stands first.").table(table));
}

fn bills(part: &mut Part, docs: &[(String, &Bill)]) {
    if docs.is_empty() {
        return;
    }
    let shares = docs.iter().filter_map(|(l, doc)| Some((format!("{l}: {}", doc.recording), doc.share_of_run?)));
    let (names, x): (Vec<String>, Vec<Estimate>) = shares.unzip();
    let mut table = Grid::new(&["", "recording", "#samples", "#lost", "#CPU time", "#of the run"]);
    for (label, doc) in docs {
        table.row(vec![
            label.clone(),
            doc.recording.clone(),
            units::count(doc.events.iter().map(|e| e.samples).sum()),
            units::count(doc.events.iter().map(|e| e.lost).sum()),
            known(doc.cost_s.as_ref(), units::estimate_s),
            known(doc.share_of_run.as_ref(), units::estimate_share),
        ]);
    }
    let caption = "Further right disturbed its program more.";
    let panel = Panel::new("Bills", caption).table(table);
    let axis = Axis::share("cost as a share of the run").zero_based();
    part.panel(if names.is_empty() { panel } else { panel.figure(forest(axis, "share of the run", &names, &x)) });
}
