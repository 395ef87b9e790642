//! `perftax bill` on a terminal.

use std::collections::BTreeMap;

use owo_colors::OwoColorize;
use perftax_doc::Mechanism;
use perftax_doc::{Bill, BilledEvent, SampleCount, SpanOf, Untold};

use crate::printable::printable;
use crate::sheet::Sheet;
use crate::table::Table;
use crate::text::known;
use crate::{shell, units};

/// Threads and CPUs shown; the rest is summed up in one line.
const MAX_KEYS: usize = 10;

/// What a recording cost: in all, by event, by CPU and by thread.
pub fn bill(doc: &Bill) -> String {
    let mut sheet = Sheet::default();
    sheet.recording(&doc.recording, &doc.recorded_on, &doc.recorded_by, &doc.recorded_command);
    sheet.row("rates of", &crate::sheet::machine(&doc.origin));
    sheet.row("bill", &total(doc));
    sheet.row("run", &span(doc));
    sheet.table(&events(doc));
    if let Some(text) = tasks(doc) {
        sheet.row("tasks", &text);
    }
    if let Some(text) = switches(doc) {
        sheet.row("switches", &text);
    }
    sheet.table(&counts("CPU", &doc.by_cpu, doc.span_s));
    sheet.table(&counts("process", &doc.by_process, doc.span_s));
    sheet.table(&counts("thread", &doc.by_thread, 0.0));
    sheet.warnings(&doc.origin.warnings);
    for command in missing_rates(doc) {
        sheet.row("next", &format!("{}  (no cost of one sample is known)", command.bold()));
    }
    sheet.finish()
}

/// The whole bill in one line.
fn total(doc: &Bill) -> String {
    let Some(cost) = &doc.cost_s else {
        return match doc.events.iter().find_map(|event| event.untold) {
            Some(Untold::CutOff) => "unknown: the recording was cut off before any sample",
            Some(Untold::Overwritten) => "unknown: most samples were overwritten",
            Some(Untold::AuxBuffer) => "unknown: what filling AUX buffers costs has no price",
            None => "unknown: no event could be priced",
        }
        .into();
    };
    let cpu = units::estimate_s(cost);
    let mut text = match &doc.elapsed_cost_s {
        Some(elapsed) => {
            format!("{} longer, {cpu} of CPU time", units::estimate_s(elapsed).bold())
        }
        None => format!("{} of CPU time", cpu.bold()),
    };
    if let Some(share) = &doc.share_of_run {
        text += &format!(", {} of the run", units::estimate_share(share).bold());
    }
    if doc.of_cpus {
        text += &format!(" on all CPUs{}", idle(doc).map_or(String::new(), |idle| format!("; {idle}")));
    }
    text
}

/// What delayed nobody.
pub(crate) fn idle(doc: &Bill) -> Option<String> {
    let sum = |of: fn(&BilledEvent) -> u64| doc.events.iter().map(of).sum::<u64>();
    let (idle, samples) = (sum(|event| event.idle), sum(|event| event.samples));
    (idle > 0)
        .then(|| format!("{} of {} samples came while they idled and delayed nobody", units::count(idle), units::count(samples)))
}

/// Commands that find the rates that a bill lacks: one for each mechanism, however many events.
pub(crate) fn missing_rates(doc: &Bill) -> Vec<String> {
    let mut lacking: BTreeMap<Mechanism, Vec<&str>> = BTreeMap::new();
    for event in doc.events.iter().filter(|e| e.alpha_ns.is_none() && e.charged() > 0 && e.untold.is_none()) {
        if let Some(mechanism) = event.mechanism {
            lacking.entry(mechanism).or_default().push(&event.event);
        }
    }
    let command = |(mechanism, events): (Mechanism, Vec<&str>)| match events[..] {
        [event] if !mechanism.is_of_places() => shell::join(&["perftax", "calibrate", "-e", &printable(event)]),
        _ => shell::join(&["perftax", "calibrate", "--mechanism", &mechanism.to_string()]),
    };
    lacking.into_iter().map(command).collect()
}

/// What tasks cost by coming and going.
pub(crate) fn tasks(doc: &Bill) -> Option<String> {
    let tasks = doc.tasks?;
    let how = match tasks.events {
        0 => "that CPUs told of".into(),
        events => format!("that inherited {} on each CPU", super::plural(&units::count(events.into()), "event", "events")),
    };
    Some(format!(
        "{} for {} {how}, and {}",
        known(tasks.cost_s.as_ref(), units::estimate_s),
        super::plural(&units::count(tasks.created), "thread or process", "threads and processes"),
        super::plural(&units::count(tasks.executed), "program executed", "programs executed"),
    ))
}

/// What context switches cost by swapping events.
pub(crate) fn switches(doc: &Bill) -> Option<String> {
    let switches = doc.switches?;
    Some(format!(
        "{} for {}, at each of which the events of a task were swapped",
        known(switches.cost_s.as_ref(), units::estimate_s),
        super::plural(&units::count(switches.switches), "context switch", "context switches"),
    ))
}

/// How long the recorded run took.
pub(crate) fn span(doc: &Bill) -> String {
    match doc.span_of {
        SpanOf::Command => format!("{} from exec to exit", units::time_s(doc.span_s)),
        SpanOf::Samples => format!("{} from the first to the last sample", units::time_s(doc.span_s)),
        SpanOf::Unknown => "the recording does not tell how long it took".into(),
    }
}

/// The period of a recorded event, or its frequency.
pub(crate) fn billed_period(e: &BilledEvent) -> String {
    match (e.period, e.frequency, e.mechanism) {
        (Some(period), _, Some(mechanism)) => units::period(mechanism, period),
        (Some(period), _, None) => units::count(period),
        (None, Some(frequency), _) => format!("{} Hz", units::count(frequency)),
        (None, None, _) => "by frequency".into(),
    }
}

fn events(doc: &Bill) -> Table {
    let mut table = Table::default()
        .left("event")
        .left("mechanism")
        .right("period")
        .right("samples")
        .right("lost")
        .right("throttled")
        .right("counted")
        .right("a sample")
        .right("CPU time");
    for e in &doc.events {
        let unless_zero = |n: u64| if n == 0 { "0".into() } else { units::count(n).yellow().to_string() };
        table.row(vec![
            printable(&e.event),
            e.mechanism.map_or("unknown".into(), |m| m.to_string()),
            billed_period(e).replace(" events", ""),
            units::count(e.samples),
            unless_zero(e.lost),
            unless_zero(e.throttled),
            e.running.map_or("unknown".into(), units::share),
            known(e.alpha_ns.as_ref(), units::estimate_ns),
            known(e.cost_s.as_ref(), units::estimate_s).bold().to_string(),
        ]);
    }
    table
}

/// `span_s`: what costs are told as a share of, where there are any.
fn counts(title: &str, counts: &[SampleCount], span_s: f64) -> Table {
    let total: u64 = counts.iter().map(|c| c.samples).sum();
    let mut sorted: Vec<&SampleCount> = counts.iter().collect();
    sorted.sort_by_key(|c| std::cmp::Reverse(c.samples));
    let has_idle = counts.iter().any(|c| c.idle > 0);
    let is_priced = span_s > 0.0 && counts.iter().any(|c| c.cost_s.is_some());
    let mut table = Table::default().left(title).right("samples").right("share");
    if has_idle {
        table = table.right("while idle");
    }
    if is_priced {
        table = table.right("CPU time").right("of the time");
    }
    let share = |n: u64| if total == 0 { String::new() } else { units::share(n as f64 / total as f64) };
    for c in sorted.iter().take(MAX_KEYS) {
        let mut row = vec![printable(&c.key), units::count(c.samples), share(c.samples)];
        if has_idle {
            row.push(units::count(c.idle));
        }
        if is_priced {
            row.push(known(c.cost_s.as_ref(), units::estimate_s));
            row.push(known(c.cost_s.map(|cost| cost.scaled(1.0 / span_s)).as_ref(), units::estimate_share));
        }
        table.row(row);
    }
    if sorted.len() > MAX_KEYS {
        let rest = |of: fn(&SampleCount) -> u64| sorted[MAX_KEYS..].iter().map(|c| of(c)).sum::<u64>();
        let samples = rest(|c| c.samples);
        let mut row = vec![format!("{} others", sorted.len() - MAX_KEYS), units::count(samples), share(samples)];
        if has_idle {
            row.push(units::count(rest(|c| c.idle)));
        }
        if is_priced {
            row.extend([String::new(), String::new()]);
        }
        table.row(row);
    }
    table
}
