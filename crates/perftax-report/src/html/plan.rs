//! The page of a plan.

use perftax_doc::Estimate;
use perftax_doc::{Plan, busiest_tells, cpu_time_tells};
use serde_json::json;

use super::figure::{Axis, Figure, Trace, geometric, place};
use super::page::{Grid, Panel, Part};
use super::prediction::{program_facts, program_panel, raw_runs};
use crate::text::plan_piece;
use crate::{shell, units};

pub(super) fn part(doc: &Plan) -> Part {
    let mut part = Part::of(&doc.origin, format!("A plan for {}", shell::program(&doc.workload)));
    if doc.feasible {
        part.tone = "good";
        part.lead = format!(
            "{} every {}: about {} samples, costs {}, within the budget of {}.",
            doc.event,
            units::period(doc.mechanism, doc.period),
            units::about(doc.samples.round()),
            units::estimate_share(&doc.expected_overhead),
            units::share(doc.budget)
        );
        part.fact(
            "expected overhead",
            units::estimate_share(&doc.expected_overhead),
            format!("budget {}", units::share(doc.budget)),
        );
        if let Some(cpu) = cpu_time_tells(&doc.expected_overhead, doc.expected_cpu_overhead) {
            part.fact("of CPU time", units::estimate_share(&cpu), "what each thing that it does takes longer");
        }
        if let Some(busiest) = busiest_tells(&doc.expected_overhead, doc.expected_cpu_overhead, doc.expected_busiest_overhead) {
            part.fact("of the busiest thread", units::estimate_share(&busiest), "of its CPU time");
        }
        part.fact(
            "resolves",
            format!("≥ {}", units::share(doc.resolves_share)),
            "share of the CPU time that a function must take",
        );
        if let Some(work) = &doc.work {
            part.fact("a piece of work", format!("{} more", units::estimate_s(&work.extra_cpu_s)), plan_piece(work));
        }
        part.fact("buffer", units::bytes(doc.buffer_bytes as f64), "a CPU");
        part.next = Some(("Run this".into(), shell::join(&doc.perf_record)));
    } else {
        part.tone = "bad";
        part.lead = format!("No period of {} fits a budget of {}.", doc.event, units::share(doc.budget));
    }
    part.fact("cost of one sample", units::estimate_ns(&doc.alpha_ns), format!("{}, drift included", doc.mechanism));
    program_facts(&mut part, &doc.workload);
    match Curve::of(doc) {
        Some(curve) => {
            part.panel(budget(doc, &curve));
            if doc.feasible && doc.samples > 0.0 {
                part.panel(tradeoff(doc, &curve));
            }
        }
        None => part.panel(Panel::new("Budget curve", "The plan carries no count of this event, so there is no curve to draw.")),
    }
    if !doc.reasons.is_empty() {
        let mut table = Grid::new(&["setting", "why"]);
        for reason in &doc.reasons {
            table.row(vec![reason.setting.clone(), reason.why.clone()]);
        }
        part.panel(Panel::new("Why", "The reason for each setting.").table(table));
    }
    part.panel(program_panel(&doc.workload));
    part.panel(raw_runs("Raw runs", doc.workload.runs.iter().map(|run| (String::new(), run))));
    part
}

/// Overhead as a function of the period. Through the plan's own point where there is one, else from the workload's counts.
struct Curve {
    /// α where time drives the sampling and the overhead samples itself, else 0.
    feedback_ns: f64,
    /// Overhead × (period − feedback).
    reach: Estimate,
}

impl Curve {
    fn of(doc: &Plan) -> Option<Self> {
        let feedback_ns = if doc.mechanism.is_time_driven() { doc.alpha_ns.estimate } else { 0.0 };
        let reach = if doc.feasible && doc.expected_overhead.estimate > 0.0 {
            doc.expected_overhead.scaled(doc.period as f64 - feedback_ns)
        } else if doc.mechanism.is_time_driven() {
            doc.alpha_ns.scaled(doc.workload.cpu_s.estimate / doc.workload.elapsed_s.estimate)
        } else {
            let events = doc.workload.counts.get(&doc.event)?.estimate;
            doc.alpha_ns.scaled(events / (doc.workload.elapsed_s.estimate * 1e9))
        };
        (reach.estimate > 0.0 && reach.estimate.is_finite()).then_some(Self { feedback_ns, reach })
    }

    fn overhead(&self, period: f64) -> Estimate {
        self.reach.scaled(1.0 / (period - self.feedback_ns))
    }

    /// Periods around those that matter, above what the cost itself takes.
    fn periods(&self, doc: &Plan) -> Vec<f64> {
        let at_budget = self.reach.high / doc.budget.clamp(1e-9, 1.0) + self.feedback_ns;
        let marks = [at_budget, doc.period as f64, doc.stoker_period as f64];
        let known = || marks.into_iter().filter(|&p| p > self.feedback_ns.max(0.0));
        let low = (known().fold(f64::MAX, f64::min) / 6.0).max(self.feedback_ns * 1.5).max(1.0);
        geometric(low, (known().fold(0.0, f64::max) * 6.0).max(low * 10.0), 120)
    }
}

fn budget(doc: &Plan, curve: &Curve) -> Panel {
    let periods = curve.periods(doc);
    let x: Vec<f64> = periods.iter().map(|&p| place(doc.mechanism, p)).collect();
    let overheads: Vec<Estimate> = periods.iter().map(|&p| curve.overhead(p)).collect();
    let of = |get: fn(&Estimate) -> f64| overheads.iter().map(get).collect::<Vec<f64>>();
    let mut figure = Figure::new(460, Axis::period(doc.mechanism).log(), Axis::share("expected overhead").log());
    let low: Vec<f64> = overheads.iter().map(|e| e.low.max(e.estimate / 100.0)).collect();
    figure.add(Trace::band("interval", &x, &low, &of(|e| e.high)).colour(0));
    figure.add(Trace::line("expected overhead", &x, &of(|e| e.estimate)).colour(0));
    figure.level(doc.budget, true, &format!("budget {}", units::share(doc.budget)));
    let big = |symbol: &str| json!({"marker": {"size": 13, "symbol": symbol}});
    if doc.feasible {
        let name = format!("the plan: {}", units::period(doc.mechanism, doc.period));
        let place = place(doc.mechanism, doc.period as f64);
        figure.add(Trace::points(&name, &[place], &[doc.expected_overhead]).colour(2).with(big("circle")));
    }
    if doc.stoker_period as f64 > curve.feedback_ns {
        let name = format!("Stoker's optimum: {}", units::period(doc.mechanism, doc.stoker_period));
        let place = place(doc.mechanism, doc.stoker_period as f64);
        figure.add(Trace::points(&name, &[place], &[curve.overhead(doc.stoker_period as f64)]).colour(1).with(big("diamond")));
    }
    Panel::new(
        "Budget curve",
        "The plan is the shortest period whose whole interval lies below the budget line; Stoker's optimum is where the error of \
         having few samples and the disturbance of having many add up to least, and may lie on either side.",
    )
    .figure(figure)
}

fn tradeoff(doc: &Plan, curve: &Curve) -> Panel {
    // A share s of n samples has the half-width 1.96·√(s(1 − s)/n); it is half of s where s = k/(k + n). k is taken from the plan.
    let s = doc.resolves_share.clamp(1e-9, 0.999);
    let k = s * doc.samples / (1.0 - s);
    let reach = doc.samples * (doc.period as f64 - curve.feedback_ns);
    let resolved = |p: f64| k / (k + reach / (p - curve.feedback_ns));
    let periods = curve.periods(doc);
    let x: Vec<f64> = periods.iter().map(|&p| curve.overhead(p).estimate).collect();
    let y: Vec<f64> = periods.iter().map(|&p| resolved(p)).collect();
    let mut figure = Figure::new(420, Axis::share("expected overhead").log(), Axis::share("smallest share resolved").log());
    figure.add(Trace::line("what each cost buys", &x, &y).colour(0));
    figure.upright(doc.budget);
    let mark = |name: &str, p: f64, symbol: &str, colour: usize| {
        Trace::dots(name, &[curve.overhead(p).estimate], &[resolved(p)])
            .colour(colour)
            .with(json!({"marker": {"size": 13, "symbol": symbol, "opacity": 1}}))
    };
    figure.add(mark("the plan", doc.period as f64, "circle", 2));
    let mut table = Grid::new(&["", "#period", "#samples", "#overhead", "#resolves shares from"]);
    let mut row = |name: &str, p: u64| {
        table.row(vec![
            name.into(),
            units::period(doc.mechanism, p),
            units::about((reach / (p as f64 - curve.feedback_ns)).round()),
            units::estimate_share(&curve.overhead(p as f64)),
            units::share(resolved(p as f64)),
        ]);
    };
    row("the plan", doc.period);
    if doc.stoker_period as f64 > curve.feedback_ns {
        figure.add(mark("Stoker's optimum", doc.stoker_period as f64, "diamond", 1));
        row("Stoker's optimum", doc.stoker_period);
    }
    Panel::new(
        "What you pay against what you see",
        "Going right costs more and sees smaller functions (a share counts as resolved where its 95 % half-width is at most half of \
         it); the dashed line is the budget.",
    )
    .figure(figure)
    .table(table)
}
