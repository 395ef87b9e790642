//! `perftax trace top` on a terminal.

use itertools::Itertools as _;
use owo_colors::OwoColorize;
use perftax_doc::{Latencies, TopBudget, TopNow, TraceTop};

use super::trace::{blamed, shortened, slowest};
use crate::printable::printable;
use crate::sheet::Sheet;
use crate::table::Table;
use crate::units;

/// Latencies, what the slow messages' extra time goes to, which kinds are slow, and the slowest messages.
pub fn trace_top(doc: &TraceTop) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    let program = doc.program.iter().map(|word| printable(word)).join(" ");
    sheet.row("program", &format!("{program}; messages by {}, since {}", printable(&doc.tag), units::span(doc.elapsed_s)));
    match &doc.now {
        Some(now) => {
            let rate = format!("last {}, {} a second", units::span(now.window_s), units::brief(now.per_s));
            sheet.row("now", &format!("{}: {rate}", latency(&now.latency)));
        }
        None => sheet.row("now", "no message ended"),
    }
    if let Some(all) = &doc.latency {
        sheet.row("all", &format!("{}: {} messages", latency(all), units::count(all.messages)));
    }
    if !doc.trouble.is_empty() {
        let odd = doc.trouble.iter().map(|(what, n)| format!("{} {what}", units::count(*n))).join("; ");
        sheet.row("odd", &odd);
    }
    sheet.row("cost", &cost(doc));
    if let Some(sent) = &doc.sent {
        let mut text = format!("{} slow messages taken", units::count(sent.taken));
        if sent.refused > 0 {
            text += &format!(", {} not", units::count(sent.refused));
        }
        if let Some(why) = &sent.why {
            text += &format!(" (last: {})", printable(why));
        }
        if sent.left_out > 0 {
            text += &format!(", {} not sent since there were so many", units::count(sent.left_out));
        }
        sheet.row("spans", &text);
    }
    if let Some(now) = &doc.now {
        of_now(&mut sheet, now);
    }
    sheet.warnings(&doc.origin.warnings);
    sheet.finish()
}

fn latency(latency: &Latencies) -> String {
    let time = |ns: u64| units::time_ns(ns as f64);
    format!(
        "median {}, 99 % {}, 99.9 % {}, slowest {}",
        time(latency.p50_ns).bold(),
        time(latency.p99_ns).bold(),
        time(latency.p999_ns).bold(),
        time(latency.max_ns).bold()
    )
}

fn of_now(sheet: &mut Sheet, now: &TopNow) {
    if let Some(blame) = &now.blame {
        let text = format!(
            "the {} beyond {} % ({}) took {} longer than the median one:",
            super::plural(&units::count(blame.messages), "message", "messages"),
            units::about(now.slow_from * 100.0),
            units::time_ns(now.slow_ns as f64),
            units::estimate_ns(&blame.extra_ns)
        );
        sheet.row("blame", &text);
        sheet.table(&blamed(blame));
    }
    let mut kinds = Table::default()
        .left("kind")
        .right("messages")
        .right("median")
        .right("99 %")
        .right("slowest")
        .right("slow")
        .right("beyond the median")
        .left("mostly");
    for kind in &now.kinds {
        kinds.row(vec![
            shortened(&kind.kind),
            units::count(kind.latency.messages),
            units::time_ns(kind.latency.p50_ns as f64),
            units::time_ns(kind.latency.p99_ns as f64),
            units::time_ns(kind.latency.max_ns as f64),
            units::count(kind.slow),
            units::time_s(kind.beyond_s),
            kind.mostly.as_deref().map(printable).unwrap_or_default(),
        ]);
    }
    sheet.table(&kinds);
    let more = [
        (now.kinds_left_out, "kinds are not listed"),
        (now.other_kinds, "messages are of kinds that were not told apart, there are so many"),
        (now.slow_left_out, "slow messages were not kept: the blame is of the slowest"),
    ];
    for (n, what) in more.into_iter().filter(|(n, _)| *n > 0) {
        sheet.row("", &format!("{} {what}", units::count(n)));
    }
    if !now.slowest.is_empty() {
        sheet.table(&slowest(&now.slowest));
    }
}

fn cost(doc: &TraceTop) -> String {
    let TopBudget { share, spent, on_share, rests, is_on } = &doc.budget;
    let budget = units::share(*share);
    let spent = match (spent, &doc.checked) {
        (Some(spent), Some(checked)) => format!(
            "{} of the program's CPU time ({budget} allowed): {} while it is on, {} of the time",
            units::estimate_share(spent).bold(),
            units::estimate_share(&checked.extra),
            units::share(*on_share)
        ),
        _ => format!(
            "not known yet ({budget} allowed): it is checked on the program from the third second on, as soon as it does enough"
        ),
    };
    let rests = match (rests, is_on) {
        (0, _) => String::new(),
        (rests, true) => format!(", after {}", super::plural(&units::count(*rests), "rest", "rests")),
        (_, false) => ", and it rests now".into(),
    };
    let lost = match doc.lost {
        Some(0) => String::new(),
        Some(lost) => format!("; {} records found no room", units::count(lost)),
        None => "; how many records found no room is not known".into(),
    };
    let dropped = if doc.dropped > 0 { format!("; {} marks found none", units::count(doc.dropped)) } else { String::new() };
    let memory = doc.own_memory_bytes.map_or_else(String::new, |bytes| format!(" and {}", units::bytes(bytes as f64)));
    let own = units::share(doc.own_cpu_s / doc.elapsed_s.max(1e-3));
    format!("{spent}{rests}{lost}{dropped}; beside it perftax itself takes {own} of a CPU{memory}")
}
