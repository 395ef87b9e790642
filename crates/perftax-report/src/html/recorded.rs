//! The page of a recording within a budget.

use itertools::Itertools as _;
use perftax_doc::{Recorded, Stretch};
use serde_json::json;

use super::figure::{Axis, Figure, Trace};
use super::page::{Grid, Panel, Part};
use crate::text::{expense_cost, expense_count, expense_name, recorded_budget, recorded_place, recorded_rates};
use crate::{shell, units};

pub(super) fn part(doc: &Recorded) -> Part {
    let mut part = Part::of(&doc.origin, format!("{} of {} within a budget", doc.event, shell::join(&doc.program)));
    let share = doc.spent_share.as_ref().map_or("unknown".into(), units::estimate_share);
    part.fact("cost", share, recorded_budget(doc));
    let resolves = format!("they resolve any function that takes ≥ {} of the CPU time", units::share(doc.resolves_share));
    part.fact("samples", units::count(doc.samples), resolves);
    part.fact(
        "CPU time",
        units::time_s(doc.program_cpu_s),
        [format!("in {}; {}", units::time_s(doc.elapsed_s), recorded_rates(doc))]
            .into_iter()
            .chain(recorded_place(doc))
            .join("; "),
    );
    part.panel(spending(doc));
    part.panel(work(doc));
    part.panel(samples(doc));
    part.panel(expenses(doc));
    part.panel(raw(doc));
    part
}

fn middle(stretch: &Stretch) -> f64 {
    stretch.from_s + stretch.elapsed_s / 2.0
}

/// The course in pieces of a second and longer, over which the budget binds: the middle of each, what was spent at most, and the program's CPU time.
fn seconds(course: &[Stretch]) -> Vec<(f64, f64, f64)> {
    let mut pieces: Vec<(f64, f64, f64)> = Vec::new();
    let mut rest = course;
    while let Some(first) = rest.first() {
        let mut elapsed = 0.0;
        let is_within = |stretch: &&Stretch| {
            let is_within = elapsed < 1.0;
            elapsed += stretch.elapsed_s;
            is_within
        };
        let count = rest.iter().take_while(is_within).count();
        let (piece, behind) = rest.split_at(count);
        rest = behind;
        let length: f64 = piece.iter().map(|stretch| stretch.elapsed_s).sum();
        let spent = piece.iter().map(|stretch| stretch.spent_high_s).sum();
        let used = piece.iter().map(|stretch| stretch.program_cpu_s).sum();
        pieces.push((first.from_s + length / 2.0, spent, used));
    }
    pieces
}

/// What was spent, against what the budget allowed.
fn spending(doc: &Recorded) -> Panel {
    let seconds = seconds(&doc.course);
    let used = || seconds.iter().filter(|(_, spent, used)| used > spent);
    let x: Vec<f64> = used().map(|(at, ..)| *at).collect();
    let y: Vec<f64> = used().map(|(_, spent, used)| spent / (used - spent)).collect();
    let mut figure = Figure::new(360, Axis::time("since the start"), Axis::share("of the program's CPU time").zero_based());
    figure.add(Trace::line("spent at most", &x, &y).colour(0).with(json!({"mode": "lines+markers"})));
    figure.level(doc.budget, false, "budget");
    let caption = "The upper end of what sampling took, as a share of what the program used of its own: a point for each second, over which the \
                   budget binds.";
    Panel::new("Spent over time", caption).figure(figure)
}

/// What the program did.
fn work(doc: &Recorded) -> Panel {
    let x: Vec<f64> = doc.course.iter().map(middle).collect();
    let y: Vec<f64> = doc.course.iter().map(|stretch| stretch.program_cpu_s / stretch.elapsed_s.max(1e-9)).collect();
    let mut figure = Figure::new(320, Axis::time("since the start"), Axis::number("CPUs used").zero_based());
    figure.add(Trace::line("CPUs used", &x, &y).colour(0));
    Panel::new("What the program did", "CPU time that it used, sampling included.").figure(figure)
}

fn samples(doc: &Recorded) -> Panel {
    let x: Vec<f64> = doc.course.iter().map(middle).collect();
    let y: Vec<f64> = doc.course.iter().map(|stretch| stretch.samples as f64 / stretch.elapsed_s.max(1e-9)).collect();
    let mut figure = Figure::new(320, Axis::time("since the start"), Axis::count("samples a second").zero_based());
    figure.add(Trace::line("samples", &x, &y).colour(1));
    Panel::new("Samples of it", "They follow the CPU time that the program uses.").figure(figure)
}

fn expenses(doc: &Recorded) -> Panel {
    let mut table = Grid::new(&["spent on", "#count", "#CPU time"]);
    for expense in &doc.expenses {
        table.row(vec![expense_name(expense.on).into(), expense_count(expense), expense_cost(expense)]);
    }
    Panel::new("Spent on", "Prices are this machine's calibration, each with its interval; counts are the recorder's own.")
        .table(table)
}

fn raw(doc: &Recorded) -> Panel {
    let mut table = Grid::new(&["#from", "#elapsed", "#CPU time", "#spent at most", "#samples"]);
    for stretch in &doc.course {
        table.row(vec![
            units::time_s(stretch.from_s),
            units::time_s(stretch.elapsed_s),
            units::time_s(stretch.program_cpu_s),
            units::time_s(stretch.spent_high_s),
            units::count(stretch.samples),
        ]);
    }
    Panel::new("Raw stretches", "Of a long recording each is longer, so that there are not more of them.").folded(table)
}

/// Several recordings: a row each.
pub(super) fn together(docs: &[(String, &Recorded)]) -> Option<Panel> {
    if docs.is_empty() {
        return None;
    }
    let mut table = Grid::new(&["", "program", "event", "#budget", "#cost", "#samples", "#resolves", "#lost"]);
    for (label, doc) in docs {
        table.row(vec![
            label.clone(),
            shell::join(&doc.program),
            doc.event.clone(),
            units::share(doc.budget),
            doc.spent_share.as_ref().map_or("unknown".into(), units::estimate_share),
            units::count(doc.samples),
            units::share(doc.resolves_share),
            units::count(doc.lost),
        ]);
    }
    Some(Panel::new("Recordings within a budget", "What each cost by its own account, and what it is good for.").table(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_of_the_course_is_a_second_or_longer_and_none_is_left_out() {
        let stretch = |i: u32| Stretch {
            from_s: f64::from(i) * 0.3,
            elapsed_s: 0.3,
            program_cpu_s: 0.1,
            spent_high_s: if i == 0 { 0.05 } else { 0.001 },
            ..Stretch::default()
        };
        let pieces = seconds(&(0..10).map(stretch).collect::<Vec<_>>());
        let used: Vec<f64> = pieces.iter().map(|(.., used)| (used * 10.0).round()).collect();
        assert_eq!(used, [4.0, 4.0, 2.0]);
        assert!((pieces[0].0 - 0.6).abs() < 1e-9 && (pieces[0].1 - 0.053).abs() < 1e-9);
    }
}
