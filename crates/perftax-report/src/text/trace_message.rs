//! `perftax trace show` on a terminal.

use std::collections::BTreeMap;

use itertools::Itertools as _;
use owo_colors::OwoColorize;
use perftax_doc::{PathStep, RelatedMessage, SampledFunction, TraceMessage, Waterfall, WaterfallPiece};

use super::plural;
use super::trace::shortened;
use crate::printable::printable;
use crate::sheet::Sheet;
use crate::table::Table;
use crate::trace_events;
use crate::trace_execution;
use crate::units;
use crate::waker;

/// One message: what its time went to, piece by piece, and what was around it. The longest `most` pieces have a line each.
pub fn trace_message(doc: &TraceMessage, most: usize) -> String {
    let message = &doc.waterfall;
    let mut sheet = Sheet::about(&doc.meta.origin);
    let label = message.label.as_deref().map_or_else(String::new, |label| format!(" ({})", printable(label)));
    let took = match message.latency_ns {
        Some(ns) => format!(
            "took {}, more than {} of {} messages (median {})",
            units::time_ns(ns as f64).bold(),
            percentage(doc.faster_share),
            units::count(doc.messages),
            units::time_ns(doc.median_ns as f64)
        ),
        None => "never ended".into(),
    };
    sheet.row("message", &format!("{}{label} began at {}, {took}", message.id.bold(), units::time_s(message.begin_s)));
    if doc.occurrences > 1 {
        let text = format!(
            "{} of {} messages with this id, in order of time: --occurrence shows another",
            doc.occurrence, doc.occurrences
        );
        sheet.row("", &text);
    }
    related(&mut sheet, doc);
    let mut counts = Vec::new();
    if message.faults > 0 {
        counts.push(plural(&units::count(message.faults.into()), "page fault", "page faults"));
    }
    if message.migrations > 0 {
        counts.push(format!("moved to another CPU {}", plural(&units::count(message.migrations.into()), "time", "times")));
    }
    if !counts.is_empty() {
        sheet.row("", &counts.join(", "));
    }
    sheet.table(&causes(doc));
    sheet.table(&pieces(message, most));
    if !doc.path.is_empty() {
        let along = along(doc);
        if !along.is_empty() {
            sheet.row("waited", "for whom, and what those did meanwhile, along who ended its waiting:");
            sheet.table(&along);
        }
        sheet.row("path", "the same, step by step:");
        sheet.table(&path(doc, most));
    }
    if message.left_out > 0 {
        let text =
            format!("{} pieces and samples of it were not kept; its times by cause are complete", units::count(message.left_out));
        sheet.row("left out", &text);
    }
    if !message.functions.is_empty() {
        let names: Vec<String> = message.functions.iter().map(sampled).collect();
        sheet.row("functions", &names.join(", "));
    }
    if let Some(executed) = &message.executed {
        sheet.row("executed", &trace_execution::of_message(executed));
    }
    for events in &message.events {
        sheet.row("events", &trace_events::of_message(events));
    }
    if !doc.neighbours.is_empty() {
        sheet.table(&neighbours(doc));
    }
    if message.is_doubtful {
        sheet.row("?", "records were lost meanwhile: what is said of this message may lack something");
    }
    sheet.warnings(&doc.meta.origin.warnings);
    sheet.finish()
}

/// What it is part of and what is part of it, what others call it, where it went.
fn related(sheet: &mut Sheet, doc: &TraceMessage) {
    if let Some(identity) = &doc.identity {
        sheet.row("trace", &format!("{} (trace and span)", printable(identity)));
    }
    if let Some(parent) = &doc.parent {
        let among = doc.among_parts.as_ref().map(|among| {
            let parts = units::count(among.parts);
            match among.alone_ns {
                Some(ns) => format!(
                    "; it ended last of {parts} parts, and no other was under way in its last {}",
                    units::time_ns(ns as f64)
                ),
                None => format!("; the last of its {parts} parts ended {} later", units::time_ns(among.before_last_ns as f64)),
            }
        });
        sheet.row("part of", &format!("{}{}", named(parent), among.unwrap_or_default()));
    }
    if !doc.parts.is_empty() {
        let mut parts: Vec<String> = doc.parts.iter().take(PARTS).map(named).collect();
        let others = (doc.parts.len() - parts.len()) as u64 + doc.parts_left_out;
        if others > 0 {
            parts.push(format!("{} others", units::count(others)));
        }
        let slowest = if others > 0 { "the slowest: " } else { "" };
        sheet.row("parts", &format!("{slowest}{}", parts.join(", ")));
    }
    if let Some(last) = doc.last_part.as_ref().filter(|_| doc.parts.len() > 1) {
        let alone = units::time_ns(last.alone_ns as f64);
        sheet.row("last part", &format!("{}: no other was under way in its last {alone}", named(&last.part)));
    }
    for hop in &doc.hops {
        let way = if hop.is_sent { "sent" } else { "received" };
        let time = units::time_ns(hop.from_ns.unsigned_abs() as f64);
        let when = if hop.from_ns < 0 { format!("{time} before it began") } else { format!("after {time}") };
        let mut text = format!("{way} {when} by {}", printable(&hop.thread));
        if let Some(between) = &hop.between {
            let parts = [
                (between.kernel_ns, "in the kernel"),
                (between.queue_ns, "in a queue, its receiver not being at it"),
                (between.unseen_ns, "not seen"),
            ];
            let parts = parts.into_iter().filter(|(ns, _)| *ns > 0);
            let parts = parts.map(|(ns, what)| format!("{} {what}", units::time_ns(ns as f64))).join(", ");
            text += &format!(", {} after it was sent: {parts}", units::time_ns(between.ns as f64));
        }
        sheet.row("hop", &text);
    }
}

/// Parts that are named.
const PARTS: usize = 12;

fn named(message: &RelatedMessage) -> String {
    let mostly = message.cause.as_deref().map(|cause| {
        let which = message.which.as_deref().map_or_else(String::new, |which| format!(": {}", printable(which)));
        format!("mostly {}{which}", printable(cause))
    });
    let known = [
        message.label.as_deref().map(printable),
        message.thread.as_deref().map(printable),
        message.latency_ns.map(|ns| units::time_ns(ns as f64)),
        mostly,
    ];
    let known = known.into_iter().flatten().join("; ");
    if known.is_empty() { message.id.to_string() } else { format!("{} ({known})", message.id) }
}

/// The critical path in sums: each thread and what it was at, and the functions that it was sampled in then.
fn along(doc: &TraceMessage) -> Table {
    // Its own time of each cause is told of above; of whom it waited for nothing is.
    let mut sums: Vec<(&PathStep, u64, BTreeMap<&str, u64>)> = Vec::new();
    for step in doc.path.iter().filter(|step| step.depth > 0) {
        let known = sums.iter().position(|(other, ..)| (other.tid, &other.cause) == (step.tid, &step.cause));
        let at = known.unwrap_or_else(|| {
            sums.push((step, 0, BTreeMap::new()));
            sums.len() - 1
        });
        let (_, ns, functions) = &mut sums[at];
        *ns += step.ns;
        step.functions.iter().for_each(|function| *functions.entry(&function.name).or_default() += function.samples);
    }
    sums.sort_by_key(|(_, ns, _)| std::cmp::Reverse(*ns));
    let all = doc.path.iter().map(|step| step.ns).sum::<u64>().max(1) as f64;
    let mut table = Table::default().right("took").right("of it").left("thread").left("what").remarks("in, by samples");
    for (step, ns, functions) in sums.into_iter().filter(|(_, ns, _)| *ns as f64 >= WORTH_A_LINE * all) {
        let samples: u64 = functions.values().sum();
        let mut order: Vec<(&str, u64)> = functions.into_iter().collect();
        order.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
        let functions = order.iter().take(FUNCTIONS).map(|(name, own)| format!("{} ({own} of {samples})", shortened(name)));
        table.row(vec![
            units::time_ns(ns as f64),
            units::share(ns as f64 / all),
            printable(&step.thread),
            printable(&step.cause),
            functions.collect::<Vec<_>>().join(", "),
        ]);
    }
    table
}

/// Of the whole path; and functions of a row.
const WORTH_A_LINE: f64 = 0.01;
const FUNCTIONS: usize = 3;

/// The critical path: the longest steps have lines, the others between them are folded.
fn path(doc: &TraceMessage, most: usize) -> Table {
    let mut lengths: Vec<u64> = doc.path.iter().map(|step| step.ns).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let least = if most == 0 { u64::MAX } else { lengths.get(most - 1).copied().unwrap_or(0) };
    let mut table = Table::default().right("at").right("took").left("thread").left("at message").left("what").remarks("");
    let mut short: Vec<&PathStep> = Vec::new();
    let fold = |short: &mut Vec<&PathStep>, table: &mut Table| {
        let Some(first) = short.first() else { return };
        let ns: u64 = short.iter().map(|step| step.ns).sum();
        let text = plural(&units::count(short.len() as u64), "shorter step", "shorter steps");
        table.row(vec![units::time_ns(first.from_ns as f64), units::time_ns(ns as f64), format!("… {text}")]);
        short.clear();
    };
    for step in &doc.path {
        if step.ns < least {
            short.push(step);
            continue;
        }
        fold(&mut short, &mut table);
        let at = match (step.message, &step.label) {
            (Some(id), _) if id == doc.waterfall.id && step.depth == 0 => String::new(),
            (Some(id), Some(label)) => format!("{id} ({})", printable(label)),
            (Some(id), None) => id.to_string(),
            (None, _) => "none".into(),
        };
        table.row(vec![
            units::time_ns(step.from_ns as f64),
            units::time_ns(step.ns as f64),
            format!("{}{}", "  ".repeat(step.depth as usize), printable(&step.thread)),
            at,
            [Some(printable(&step.cause)), step.which.as_deref().map(printable)].into_iter().flatten().join(": "),
            step.functions.iter().map(in_piece).join(", "),
        ]);
    }
    fold(&mut short, &mut table);
    table
}

/// Who ended a piece of waiting, what was worked on meanwhile, and functions by samples.
fn remarks(piece: &WaterfallPiece) -> String {
    let woken = piece.woken_by.iter().map(|waker| format!("woken by {}", waker::named(waker)));
    let functions = piece.functions.iter().map(in_piece).join(", ");
    let functions = Some(functions).filter(|functions| !functions.is_empty());
    woken.chain(piece.meanwhile.iter().map(waker::worked_on)).chain(functions).join("; ")
}

/// As many digits as tell it from all.
fn percentage(share: f64) -> String {
    let beyond = (1.0 - share).max(1e-9);
    let decimals = (-(beyond * 100.0).log10()).ceil().clamp(0.0, 6.0) as usize;
    // Rounded down: it is not more than all of them.
    let scale = 10f64.powi(decimals as i32);
    format!("{:.decimals$} %", (share * 100.0 * scale + 1e-6).floor() / scale)
}

fn causes(doc: &TraceMessage) -> Table {
    let mut table = Table::default().left("").right("time").right("of it").right("median message");
    let mut order: Vec<(&String, &u64)> = doc.waterfall.shares_ns.iter().collect();
    order.sort_by_key(|(_, ns)| std::cmp::Reverse(**ns));
    let all = doc.waterfall.shares_ns.values().sum::<u64>().max(1) as f64;
    for (cause, ns) in order {
        let usual = doc.median_shares_ns.get(cause).map_or_else(String::new, |ns| units::time_ns(*ns as f64));
        table.row(vec![printable(cause), units::time_ns(*ns as f64), units::share(*ns as f64 / all), usual]);
    }
    table
}

/// Characters of the bar that says where in the message a piece lies.
const BAR: usize = 16;

fn pieces(message: &Waterfall, most: usize) -> Table {
    let end_ns = message.pieces.iter().map(|piece| piece.from_ns + piece.ns).max().unwrap_or(0);
    let all_ns = message.latency_ns.unwrap_or(end_ns).max(1);
    let mut lengths: Vec<u64> = message.pieces.iter().map(|piece| piece.ns).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    // Of equal ones the first have lines.
    let least = if most == 0 { u64::MAX } else { lengths.get(most - 1).copied().unwrap_or(0) };
    let mut equal = most.saturating_sub(lengths.iter().filter(|ns| **ns > least).count());
    let threads = message.pieces.iter().filter(|piece| piece.tid != 0).map(|piece| piece.tid);
    let has_several = threads.collect::<std::collections::BTreeSet<_>>().len() > 1;
    let mut table = Table::default().right("at").left("").right("took").left("what").left("thread").remarks("");
    let mut short: Vec<&WaterfallPiece> = Vec::new();
    let fold = |short: &mut Vec<&WaterfallPiece>, table: &mut Table| {
        let Some(first) = short.first() else { return };
        let ns: u64 = short.iter().map(|piece| piece.ns).sum();
        let text = plural(&units::count(short.len() as u64), "shorter piece", "shorter pieces");
        let at = units::time_ns(first.from_ns as f64);
        table.row(vec![at, String::new(), units::time_ns(ns as f64), format!("… {text}")]);
        short.clear();
    };
    for piece in &message.pieces {
        let has_line = piece.ns > least || (piece.ns == least && equal > 0);
        if !has_line {
            short.push(piece);
            continue;
        }
        equal -= usize::from(piece.ns == least);
        fold(&mut short, &mut table);
        let what = [Some(printable(&piece.cause)), piece.which.as_deref().map(printable)];
        let thread = if has_several || piece.tid == 0 { printable(&piece.thread) } else { String::new() };
        table.row(vec![
            units::time_ns(piece.from_ns as f64),
            bar(piece.from_ns, piece.ns, all_ns),
            units::time_ns(piece.ns as f64),
            what.into_iter().flatten().join(": "),
            thread,
            remarks(piece),
        ]);
    }
    fold(&mut short, &mut table);
    table
}

/// Where a piece lies, and how long it is.
fn bar(from_ns: u64, ns: u64, all_ns: u64) -> String {
    let place = |ns: u64| (u128::from(ns) * BAR as u128 / u128::from(all_ns)) as usize;
    let from = place(from_ns).min(BAR - 1);
    let to = place(from_ns + ns).clamp(from + 1, BAR);
    // Less than half a character is a line.
    let mark = if (ns as f64) * (BAR as f64) < 0.5 * all_ns as f64 { "▏" } else { "█" };
    format!("{}{}{}", " ".repeat(from), mark.repeat(to - from), " ".repeat(BAR - to))
}

/// A function with its samples, and its time where samples say it: at least, at most.
fn sampled(function: &SampledFunction) -> String {
    let samples = plural(&units::count(function.samples), "sample", "samples");
    let times = function
        .between_ns
        .map_or_else(String::new, |(low, high)| format!(", {} to {}", units::time_ns(low as f64), units::time_ns(high as f64)));
    format!("{} ({samples}{times})", printable(&function.name))
}

/// The same, short: of a single sample the time says nothing that the piece does not.
fn in_piece(function: &SampledFunction) -> String {
    const LONGEST: usize = 32;
    let name = printable(&function.name);
    let name = match name.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name,
    };
    match function.between_ns {
        Some((low, high)) if function.samples > 1 => {
            let (low, high) = (units::time_ns(low as f64), units::time_ns(high as f64));
            format!("{name} ×{}, {low} to {high}", units::count(function.samples))
        }
        _ => format!("{name} ×{}", units::count(function.samples)),
    }
}

fn neighbours(doc: &TraceMessage) -> Table {
    let mut table =
        Table::default().left("neighbours").right("message").left("").right("apart").right("latency").left("mostly").left("on");
    for other in &doc.neighbours {
        let apart = if other.apart_ns > 0 { units::time_ns(other.apart_ns as f64) } else { String::new() };
        table.row(vec![
            other.place.name().into(),
            other.id.to_string(),
            other.label.as_deref().map(printable).unwrap_or_default(),
            apart,
            units::time_ns(other.latency_ns as f64),
            printable(&other.cause),
            printable(&other.thread),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_and_percentages() {
        assert_eq!(bar(0, 100, 100), "█".repeat(16));
        assert_eq!(bar(50, 25, 100), format!("{}{}{}", " ".repeat(8), "█".repeat(4), " ".repeat(4)));
        assert_eq!(bar(100, 0, 100), format!("{}▏", " ".repeat(15)));
        assert_eq!(percentage(0.99995), "99.995 %");
        assert_eq!((percentage(0.5), percentage(0.0)), ("50 %".into(), "0 %".into()));
        assert_eq!(percentage(19_999.0 / 20_000.0), "99.995 %");
    }
}
