//! The page of a bill.

use perftax_doc::Estimate;
use perftax_doc::{Bill, SampleCount};

use super::figure::{Axis, Figure, Trace};
use super::page::{Grid, Panel, Part};
use crate::text::{billed_period, idle, known, missing_rates, span, switches, tasks};
use crate::{shell, units};

/// Bars in one plot; the rest is summed up.
const MAX_BARS: usize = 20;

pub(super) fn part(doc: &Bill) -> Part {
    let mut part = Part::of(&doc.origin, format!("What {} cost", doc.recording));
    part.lead = match (&doc.cost_s, &doc.share_of_run) {
        (Some(cost), Some(share)) => {
            format!("{} of CPU time; the run took {} longer.", units::estimate_s(cost), units::estimate_share(share))
        }
        (Some(cost), None) if doc.of_cpus => {
            let idle = idle(doc).map_or(String::new(), |idle| format!("; {idle}"));
            format!("{} of CPU time on all CPUs{idle}. There is no one run that took longer.", units::estimate_s(cost))
        }
        (Some(cost), None) => format!("{} of CPU time.", units::estimate_s(cost)),
        (None, _) => "No event could be priced.".into(),
    };
    part.origin.push(("recorded".into(), shell::join(&doc.recorded_command)));
    part.origin.push(("recorded on".into(), doc.recorded_on.clone()));
    let samples: u64 = doc.events.iter().map(|e| e.samples).sum();
    let lost: u64 = doc.events.iter().map(|e| e.lost).sum();
    let throttled: u64 = doc.events.iter().map(|e| e.throttled).sum();
    part.fact("CPU time", known(doc.cost_s.as_ref(), units::estimate_s), "samples × α on all CPUs, lost ones too");
    if !doc.of_cpus {
        part.fact(
            "elapsed time",
            known(doc.elapsed_cost_s.as_ref(), units::estimate_s),
            "of samples taken in parallel, the busiest CPU's",
        );
        let share = known(doc.share_of_run.as_ref(), units::estimate_share);
        part.fact("share of the run", share, "of what it would have taken without");
    }
    part.fact(
        "samples",
        units::count(samples),
        format!("{} lost, throttled {} times", units::count(lost), units::count(throttled)),
    );
    if let Some(text) = tasks(doc) {
        part.origin.push(("tasks".into(), text));
    }
    if let Some(text) = switches(doc) {
        part.origin.push(("switches".into(), text));
    }
    part.origin.push(("run".into(), span(doc)));
    if let Some(command) = missing_rates(doc).into_iter().next() {
        part.next = Some(("Find the missing rate".into(), command));
    }
    part.panel(events(doc));
    for (title, what, counts) in [
        ("Samples by CPU", "CPU", &doc.by_cpu),
        ("Samples by process", "process", &doc.by_process),
        ("Samples by thread", "thread", &doc.by_thread),
    ] {
        if !counts.is_empty() {
            part.panel(bars(title, what, counts));
        }
    }
    part
}

fn events(doc: &Bill) -> Panel {
    let billed: Vec<_> = doc.events.iter().filter_map(|e| Some((e.event.clone(), e.cost_s?))).collect();
    let mut table =
        Grid::new(&["event", "mechanism", "#period", "#samples", "#lost", "#throttled", "#counted", "#one sample", "#CPU time"]);
    for e in &doc.events {
        table.row(vec![
            e.event.clone(),
            e.mechanism.map_or("unknown".into(), |m| m.to_string()),
            billed_period(e),
            units::count(e.samples),
            units::count(e.lost),
            units::count(e.throttled),
            e.running.map_or("unknown".into(), units::share),
            known(e.alpha_ns.as_ref(), units::estimate_ns),
            known(e.cost_s.as_ref(), units::estimate_s),
        ]);
    }
    let panel = |caption: &str| Panel::new("Cost by event", caption);
    let height = |n: usize| 130 + 40 * n as u32;
    if billed.is_empty() {
        return panel("No event has a known cost of one sample, so there is nothing to draw.").table(table);
    }
    let (names, costs): (Vec<String>, Vec<Estimate>) = billed.into_iter().unzip();
    let mut figure = Figure::new(height(names.len()), Axis::time("CPU time").reference_zero(), Axis::names().downwards());
    figure.add(Trace::bars_right("cost", &costs, &names).colour(0).unlisted());
    let caption = if names.len() < doc.events.len() {
        "The longest bar is the event to sample less often; events without a calibration are in the table only."
    } else {
        "The longest bar is the event to sample less often."
    };
    panel(caption).figure(figure).table(table)
}

fn bars(title: &str, what: &str, counts: &[SampleCount]) -> Panel {
    let total: u64 = counts.iter().map(|c| c.samples).sum();
    let mut sorted: Vec<&SampleCount> = counts.iter().collect();
    sorted.sort_by_key(|c| std::cmp::Reverse(c.samples));
    let (shown, rest) = sorted.split_at(sorted.len().min(MAX_BARS));
    let prefix = if what == "CPU" { "CPU " } else { "" };
    let mut names: Vec<String> = shown.iter().map(|c| format!("{prefix}{}", c.key)).collect();
    let mut samples: Vec<Estimate> = shown.iter().map(|c| Estimate::exact(c.samples as f64)).collect();
    if !rest.is_empty() {
        names.push(format!("{} others", rest.len()));
        samples.push(Estimate::exact(rest.iter().map(|c| c.samples).sum::<u64>() as f64));
    }
    let height = 120 + 30 * names.len() as u32;
    let mut figure = Figure::new(height, Axis::count("samples").zero_based(), Axis::names().downwards());
    figure.add(Trace::bars_right("samples", &samples, &names).colour(0).unlisted());
    let (has_idle, has_cost) = (counts.iter().any(|c| c.idle > 0), counts.iter().any(|c| c.cost_s.is_some()));
    let mut columns = vec![what, "#samples", "#share"];
    columns.extend(has_idle.then_some("#while idle"));
    columns.extend(has_cost.then_some("#CPU time"));
    let mut table = Grid::new(&columns);
    for c in &sorted {
        let share = if total == 0 { String::new() } else { units::share(c.samples as f64 / total as f64) };
        let mut row = vec![c.key.clone(), units::count(c.samples), share];
        row.extend(has_idle.then(|| units::count(c.idle)));
        row.extend(has_cost.then(|| known(c.cost_s.as_ref(), units::estimate_s)));
        table.row(row);
    }
    let caption = match has_idle {
        true => "Samples while a CPU idled delayed nobody: the table tells them from the others.".into(),
        false => format!("Each sample cost the {what} that it was taken on: one long bar carries most of the bill."),
    };
    Panel::new(title, &caption).figure(figure).table(table)
}
