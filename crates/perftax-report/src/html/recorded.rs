//! The page of a recording within a budget.

use itertools::Itertools as _;
use perftax_doc::{Recorded, Stretch};

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

/// What was spent, against what the budget allowed.
fn spending(doc: &Recorded) -> Panel {
    let used = || doc.course.iter().filter(|stretch| stretch.program_cpu_s > stretch.spent_high_s);
    let x: Vec<f64> = used().map(middle).collect();
    let y: Vec<f64> = used().map(|stretch| stretch.spent_high_s / (stretch.program_cpu_s - stretch.spent_high_s)).collect();
    let mut figure = Figure::new(360, Axis::time("since the start"), Axis::share("of the program's CPU time").zero_based());
    figure.add(Trace::line("spent at most", &x, &y).colour(0));
    figure.level(doc.budget, false, "budget");
    let caption = "The upper end of what sampling took, as a share of what the program used of its own. A stretch is shorter than a second where the \
                   recording is: the budget binds over a second and longer.";
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
