//! The page of transfers between threads.

mod comparison;
mod lines;
mod map;

use perftax_doc::Estimate;
use perftax_doc::{Comm, CommExact, CommPair, CommShare, CommWay};
use serde_json::json;

use super::figure::{Axis, Figure, Trace};
use super::page::{Grid, Panel, Part};
use crate::text::{comm_blind, comm_evidence, comm_exact, comm_lost, comm_name, comm_own, comm_program, comm_thread, comm_way};
use crate::units;

pub(super) use comparison::together;

pub(super) fn part(doc: &Comm) -> Part {
    let mut part = Part::of(&doc.origin, format!("Cache lines that the threads of {} share", comm_program(doc)));
    part.lead = lead(doc);
    facts(&mut part, doc);
    part.panels.extend(map::of_threads(doc));
    part.panels.extend(map::of_cores(doc));
    part.panels.extend(lines::bars(doc));
    part.panels.extend(lines::table(doc));
    part.panels.extend(against_exact(doc));
    part.panels.extend(every_pair(doc));
    part.panel(rests_on(doc));
    part.panel(threads(doc));
    part
}

fn lead(doc: &Comm) -> String {
    let Some(share) = doc.total.false_share() else { return "No thread was seen to fetch a line that another wrote.".into() };
    let total = units::estimate_number(&doc.total.total);
    let most = doc.lines.first().map_or(String::new(), |line| format!("; the most in {}", comm_name(line)));
    format!("{total} transfers between threads, {} of them false sharing{most}.", units::estimate_share(&share))
}

fn facts(part: &mut Part, doc: &Comm) {
    let share = &doc.total;
    part.fact("transfers", units::estimate_number(&share.total), comm_way(doc));
    let if_exact = share.exact.map_or(String::new(), |exact| format!("exact: {}", units::count(exact.true_sharing)));
    part.fact("true sharing", units::estimate_number(&share.true_sharing), if_exact);
    let if_exact = share.exact.map_or(String::new(), |exact| format!("exact: {}", units::count(exact.false_sharing)));
    part.fact("false sharing", units::estimate_number(&share.false_sharing), if_exact);
    let elapsed = if doc.elapsed_s > 0.0 { format!("watched for {}", units::time_s(doc.elapsed_s)) } else { String::new() };
    part.fact("threads", doc.threads.len().to_string(), elapsed);
    let lost = doc.evidence.lost();
    part.fact(
        "lost",
        if lost == 0 { "nothing".into() } else { units::count(lost) },
        if lost == 0 { String::new() } else { comm_lost(doc) },
    );
    if let Some(cost) = &doc.cost {
        let overhead = cost.overhead.as_ref().map_or("unknown".into(), units::estimate_share);
        let budget = cost
            .budget
            .map_or(String::new(), |budget| format!("of the program's CPU time; the budget is {}", units::share(budget)));
        part.fact("cost", overhead, budget);
    }
}

/// A kind of sharing: its name, its transfers as estimated, and as they were.
type Kind = (&'static str, fn(&CommShare) -> Estimate, fn(&CommExact) -> u64);

/// Estimates against what every access says, a point a pair.
fn against_exact(doc: &Comm) -> Option<Panel> {
    let known = || doc.pairs.iter().filter_map(|pair| Some((&pair.share, pair.share.exact?)));
    if known().count() == 0 {
        return None;
    }
    let kinds: [Kind; 3] = [
        ("all", |share| share.total, CommExact::total),
        ("true sharing", |share| share.true_sharing, |exact| exact.true_sharing),
        ("false sharing", |share| share.false_sharing, |exact| exact.false_sharing),
    ];
    let mut figure = Figure::new(520, Axis::count("transfers, exact").log(), Axis::count("transfers, estimated").log());
    let (mut least, mut most, mut left_out) = (f64::MAX, 1.0_f64, 0);
    for (i, (name, estimated, exact)) in kinds.into_iter().enumerate() {
        let points = known().map(|(share, known)| (exact(&known) as f64, estimated(share)));
        // What is nothing has no place on a logarithmic axis; an interval that reaches it ends at a hundredth.
        let (shown, hidden): (Vec<_>, Vec<_>) = points.partition(|(exact, estimate)| *exact > 0.0 && estimate.estimate > 0.0);
        left_out += hidden.iter().filter(|(exact, estimate)| *exact > 0.0 || estimate.estimate > 0.0).count();
        let (x, y): (Vec<f64>, Vec<Estimate>) =
            shown.into_iter().map(|(exact, e)| (exact, Estimate { low: e.low.max(e.estimate / 100.0), ..e })).unzip();
        for (exact, estimate) in x.iter().zip(&y) {
            least = least.min(*exact).min(estimate.estimate);
            most = most.max(*exact).max(estimate.estimate);
        }
        figure.add(Trace::points(name, &x, &y).colour(i));
    }
    if least > most {
        return None;
    }
    figure.add(Trace::line("estimate = exact", &[least, most], &[least, most]).reference());
    let (pairs, covered) = doc.covered();
    let hidden =
        if left_out > 0 { format!(" {left_out} points of which one side is nothing are not drawn.") } else { String::new() };
    let caption = format!(
        "A point a pair of threads; the intervals should reach the dashed line. Of {pairs} totals, {covered} do.{hidden}"
    );
    Some(Panel::new("Estimated against exact", &caption).figure(figure))
}

fn every_pair(doc: &Comm) -> Option<Panel> {
    if doc.pairs.is_empty() {
        return None;
    }
    let columns = ["writer", "reader", "#transfers", "#true sharing", "#false sharing", "#rests on", "exact"];
    let has_exact = doc.pairs.iter().any(|pair| pair.share.exact.is_some());
    let columns = &columns[..if has_exact { columns.len() } else { columns.len() - 1 }];
    let mut table = Grid::new(columns);
    let row = |CommPair { from, to, share }: &CommPair| {
        vec![
            comm_thread(doc, *from),
            comm_thread(doc, *to),
            units::estimate_number(&share.total),
            units::estimate_number(&share.true_sharing),
            units::estimate_number(&share.false_sharing),
            units::count(share.evidence),
            comm_exact(share),
        ]
    };
    for pair in &doc.pairs {
        table.row(row(pair).into_iter().take(columns.len()).collect());
    }
    Some(Panel::new("Every pair", "The most transfers first; pairs without any are left out.").folded(table))
}

/// What it rests on, what that cannot see, what was lost and what it cost.
fn rests_on(doc: &Comm) -> Panel {
    let mut table = Grid::new(&["", ""]);
    let mut row = |name: &str, text: String| table.row(vec![name.into(), text]);
    row("seen by", comm_way(doc));
    row("does not see", comm_blind(doc).into());
    if let CommWay::Watched { places, .. } = &doc.way {
        for place in places {
            row("watched", format!("{}: {} bytes from {:#x}", place.name, place.bytes, place.address));
        }
    }
    row("evidence", comm_evidence(doc));
    row("lost", comm_lost(doc));
    if let Some(cost) = &doc.cost {
        if let Some(trap) = &cost.trap_ns {
            row("a trap", units::estimate_ns(trap));
        }
        row("armed", format!("for {} of the time", units::share(cost.armed)));
        if cost.probes > 0 {
            row("probes on the allocator", format!("{} hits", units::count(cost.probes)));
        }
        if let Some(overhead) = &cost.overhead {
            row("cost", format!("{} of the program's CPU time, {}", units::estimate_share(overhead), comm_own(cost)));
        }
        if let Some(budget) = cost.budget {
            row("budget", units::share(budget));
        }
    }
    Panel::new("What it rests on", "What was lost may be transfers that are missing above.").table(table)
}

fn threads(doc: &Comm) -> Panel {
    let mut table = Grid::new(&["#number", "name", "#process", "#thread id", "#core", "#as writer", "#as reader"]);
    for thread in &doc.threads {
        let number = |n: Option<i32>| n.map_or(String::new(), |n| n.to_string());
        let sum = |of: &dyn Fn(&CommPair) -> u32| {
            let shares = doc.pairs.iter().filter(|pair| of(pair) == thread.number).map(|pair| pair.share.total);
            shares.reduce(|sum, share| sum.plus(&share)).map_or("0".into(), |sum| units::estimate_number(&sum))
        };
        table.row(vec![
            thread.number.to_string(),
            thread.name.clone(),
            number(thread.process),
            number(thread.tid),
            thread.core.map_or(String::new(), |core| core.to_string()),
            sum(&|pair| pair.from),
            sum(&|pair| pair.to),
        ]);
    }
    Panel::new("Threads", "The core is the one that a thread ran on the most.").folded(table)
}

/// Bars for true and false sharing side by side, named to their left.
fn both_kinds(figure: &mut Figure, names: &[String], shares: &[&CommShare]) {
    figure.set("barmode", json!("group"));
    let of = |kind: fn(&CommShare) -> Estimate| shares.iter().map(|share| kind(share)).collect::<Vec<_>>();
    figure.add(Trace::bars_right("true sharing", &of(|share| share.true_sharing), names).colour(0));
    figure.add(Trace::bars_right("false sharing", &of(|share| share.false_sharing), names).colour(1));
}
