//! The page of two events over a run.

use perftax_doc::Estimate;
use perftax_doc::{Phase, PhaseInterval};
use serde_json::json;

use super::figure::{Axis, Figure, Trace};
use super::page::{Grid, Panel, Part};
use crate::text::phase_interval;
use crate::{shell, units};

/// Points of a curve at most: what a screen can show apart.
const MAX_POINTS: usize = 2000;
/// Beyond this ratio of the larger rate to the smaller, both are shown on a logarithmic axis.
const APART: f64 = 20.0;

pub(super) fn part(doc: &Phase) -> Part {
    let program = shell::join(&doc.program);
    let [first, second] = &doc.events;
    let mut part = Part::of(&doc.origin, format!("{first} and {second} over a run of {program}"));
    if let Some(ratio) = &doc.ratio {
        part.fact("ratio", units::estimate_number(ratio), format!("{first} for each {second}, the whole run"));
    }
    let stretches = doc.stretches.len().to_string();
    part.fact("stretches", stretches, "in which neither rate changes".to_string());
    part.fact("intervals", units::count(doc.intervals.len() as u64), phase_interval(doc));
    part.panel(curves(doc));
    part.panel(ratios(doc));
    part.panel(against(doc));
    part.panel(stretch_table(doc));
    part.panel(raw(doc));
    part
}

/// Intervals that stand for the run on a plot, and what to say of them.
fn shown(doc: &Phase) -> (Vec<PhaseInterval>, String) {
    let intervals = doc.thinned(MAX_POINTS);
    let each = doc.intervals.len() as f64 / intervals.len().max(1) as f64;
    let said = if each == 1.0 { String::new() } else { format!(" A point stands for {} intervals.", units::about(each)) };
    (intervals, said)
}

/// The run's axis: where an interval ends.
fn run_axis(doc: &Phase) -> Axis {
    let title = format!("{} since the start", doc.interval_event);
    if doc.is_time { Axis::time(&title) } else { Axis::count(&title) }
}

fn place(doc: &Phase, until: u64) -> f64 {
    if doc.is_time { until as f64 * 1e-9 } else { until as f64 }
}

/// Each interval's rate, and where it ends.
fn rates(doc: &Phase, intervals: &[PhaseInterval], of: fn(&PhaseInterval) -> u64) -> (Vec<f64>, Vec<f64>) {
    let (per, _) = doc.shown_per();
    let there = intervals.iter().filter(|i| i.passed > 0);
    there.map(|i| (place(doc, i.until), per * of(i) as f64 / i.passed as f64)).unzip()
}

fn curves(doc: &Phase) -> Panel {
    let (intervals, said) = shown(doc);
    let (x, first) = rates(doc, &intervals, |i| i.first);
    let (_, second) = rates(doc, &intervals, |i| i.second);
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let (high, low) = (most(&first).max(most(&second)), most(&first).min(most(&second)));
    let (_, unit) = doc.shown_per();
    let axis = Axis::count(&unit);
    let axis = if low > 0.0 && high / low > APART { axis.log() } else { axis.zero_based() };
    let mut figure = Figure::new(400, run_axis(doc), axis);
    figure.add(Trace::line(&doc.events[0], &x, &first).colour(0));
    figure.add(Trace::line(&doc.events[1], &x, &second).colour(1));
    Panel::new("Both over the run", &format!("How often each event came in each interval.{said}")).figure(figure)
}

fn ratios(doc: &Phase) -> Panel {
    let (intervals, said) = shown(doc);
    let known = intervals.iter().filter_map(|i| Some((place(doc, i.until), i.ratio()?)));
    let (x, y): (Vec<f64>, Vec<f64>) = known.unzip();
    let title = format!("{} / {}", doc.events[0], doc.events[1]);
    let mut figure = Figure::new(380, run_axis(doc), Axis::number(&title).zero_based());
    figure.add(Trace::line("interval", &x, &y).colour(2));
    // A stretch is a level from its start to its end; between two of them the line is broken.
    let (mut edges, mut levels, mut from) = (Vec::new(), Vec::new(), 0);
    for stretch in &doc.stretches {
        let to = from + stretch.passed;
        let level = stretch.ratio.map(|ratio| ratio.estimate);
        edges.extend([Some(place(doc, from)), Some(place(doc, to)), None]);
        levels.extend([level, level, None]);
        from = to;
    }
    let level = Trace::line("stretch", &[], &[]).with(json!({"x": edges, "y": levels, "line": {"width": 4}}));
    figure.add(level.colour(3).with(json!({"opacity": 0.6})));
    let caption = format!("One event for each of the other; a broad line is a stretch in which neither rate changes.{said}");
    Panel::new("Their ratio", &caption).figure(figure)
}

fn against(doc: &Phase) -> Panel {
    let (intervals, said) = shown(doc);
    let (_, first) = rates(doc, &intervals, |i| i.first);
    let (at, second) = rates(doc, &intervals, |i| i.second);
    let (_, unit) = doc.shown_per();
    let axis = |name: &str| Axis::count(&format!("{name} {unit}"));
    let mut figure = Figure::new(460, axis(&doc.events[1]), axis(&doc.events[0]));
    let end = at.last().copied().unwrap_or(1.0).max(f64::MIN_POSITIVE);
    let shares: Vec<f64> = at.iter().map(|at| 100.0 * at / end).collect();
    let marker = json!({
        "color": shares, "colorscale": "Viridis", "cmin": 0, "cmax": 100, "showscale": true,
        "colorbar": {"title": {"text": "% of the run", "side": "right"}, "thickness": 12},
    });
    figure.add(Trace::dots("interval", &second, &first).with(json!({"marker": marker})).unlisted());
    let caption =
        format!("A point an interval, by when in the run it was: a program that behaves in one way is one cloud.{said}");
    Panel::new("One against the other", &caption).figure(figure)
}

fn stretch_table(doc: &Phase) -> Panel {
    let (per, unit) = doc.shown_per();
    let columns = [
        "#stretch".to_string(),
        "#intervals".into(),
        format!("#{}", doc.interval_event),
        format!("#{} {unit}", doc.events[0]),
        format!("#{} {unit}", doc.events[1]),
        "#ratio".into(),
    ];
    let per_of = |rate: Option<&Estimate>| rate.map_or(String::new(), |rate| units::estimate_number(&rate.scaled(per)));
    let mut table = Grid::new(&columns.each_ref().map(String::as_str));
    for (i, stretch) in doc.stretches.iter().enumerate() {
        table.row(vec![
            (i + 1).to_string(),
            format!("{}–{}", units::count(stretch.from + 1), units::count(stretch.to)),
            if doc.is_time { units::time_ns(stretch.passed as f64) } else { units::count(stretch.passed) },
            per_of(stretch.first_rate.as_ref()),
            per_of(stretch.second_rate.as_ref()),
            stretch.ratio.as_ref().map_or(String::new(), units::estimate_number),
        ]);
    }
    let caption = "Cut where a rate jumps by more than the noise from one interval to the next explains. The intervals of the numbers are by \
                   resampling the intervals of the stretch.";
    Panel::new("Stretches", caption).table(table)
}

/// Several runs on one plot: their ratios over the share of the run that has passed, and one cloud each.
pub(super) fn side_by_side(part: &mut Part, docs: &[(String, &Phase)]) {
    let Some((_, first)) = docs.first() else { return };
    let title = format!("{} / {}", first.events[0], first.events[1]);
    let (_, unit) = first.shown_per();
    let mut over = Figure::new(420, Axis::share("share of the run"), Axis::number(&title).zero_based());
    let axis = |name: &str| Axis::count(&format!("{name} {unit}"));
    let mut clouds = Figure::new(460, axis(&first.events[1]), axis(&first.events[0]));
    let mut table = Grid::new(&["", "program", "events", "#ratio", "#stretches", "#intervals", "#lost", "#on counters"]);
    for (i, (label, doc)) in docs.iter().enumerate() {
        let name = format!("{label}: {}", shell::join(&doc.program));
        let (intervals, _) = shown(doc);
        let end = intervals.last().map_or(1.0, |last| last.until.max(1) as f64);
        let (x, y): (Vec<f64>, Vec<f64>) = intervals.iter().filter_map(|i| Some((i.until as f64 / end, i.ratio()?))).unzip();
        over.add(Trace::line(&name, &x, &y).colour(i));
        let (_, a) = rates(doc, &intervals, |i| i.first);
        let (_, b) = rates(doc, &intervals, |i| i.second);
        clouds.add(Trace::dots(&name, &b, &a).colour(i));
        table.row(vec![
            label.clone(),
            shell::join(&doc.program),
            format!("{} / {}", doc.events[0], doc.events[1]),
            doc.ratio.as_ref().map_or(String::new(), units::estimate_number),
            doc.stretches.len().to_string(),
            units::count(doc.intervals.len() as u64),
            units::count(doc.lost),
            units::share(doc.running),
        ]);
    }
    let caption =
        "The ratio of the two events over each run, from its start to its end. Programs whose curves differ do different work.";
    part.panel(Panel::new("Ratio over the run", caption).figure(over).table(table));
    let caption = "A point an interval. Runs of the same events alone can be compared.";
    part.panel(Panel::new("One event against the other", caption).figure(clouds));
}

fn raw(doc: &Phase) -> Panel {
    let columns = ["#interval", "#until", "#passed", "#first", "#second", "#time"];
    let mut table = Grid::new(&columns);
    for (i, interval) in doc.intervals.iter().enumerate() {
        table.row(vec![
            (i + 1).to_string(),
            units::count(interval.until),
            units::count(interval.passed),
            units::count(interval.first),
            units::count(interval.second),
            units::time_ns(interval.time_ns as f64),
        ]);
    }
    let caption = format!(
        "Every interval: {} until its end and in it, {} and {} in it; the last one is what was left at the program's end.",
        doc.interval_event, doc.events[0], doc.events[1]
    );
    Panel::new("Raw intervals", &caption).folded(table)
}
