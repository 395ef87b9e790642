//! `perftax trace report` on a terminal.

use itertools::Itertools as _;
use owo_colors::OwoColorize;
use perftax_doc::Estimate;
use perftax_doc::{BlamedDetail, CostPart, Latencies, SlowMessage, TailBlame, TraceReport};

use crate::printable::printable;
use crate::sheet::Sheet;
use crate::table::Table;
use crate::trace_events;
use crate::trace_execution;
use crate::units;
use crate::waker;

/// Latencies, what the tail's extra time went to, and the slowest messages.
pub fn trace(doc: &TraceReport) -> String {
    let meta = &doc.meta;
    let mut sheet = Sheet::about(&meta.origin);
    let program = meta.program.iter().map(|word| printable(word)).join(" ");
    let ended = meta.code.map_or(String::new(), |code| format!(", exit code {code}"));
    sheet.row("program", &format!("{program}: {}{ended}", units::time_s(meta.elapsed_s)));
    let threads = super::plural(&units::count(meta.rings as u64), "thread", "threads");
    match meta.tag.as_str() {
        "marks" => sheet.row("messages", &format!("{} by {threads}", units::count(doc.messages))),
        tag => sheet.row("messages", &format!("{} by {}", units::count(doc.messages), printable(tag))),
    }
    if let Some(unrecorded) = super::tag::unrecorded(meta, doc.messages) {
        sheet.row("", &unrecorded);
    }
    super::tag::rows(&mut sheet, meta);
    if !doc.trouble.is_empty() {
        let odd = doc.trouble.iter().map(|(what, n)| format!("{} {what}", units::count(*n))).join("; ");
        sheet.row("odd", &odd);
    }
    match &doc.latency {
        Some(latency) => {
            let of = |of: fn(&Latencies) -> u64| super::tag::latency(doc, latency, of);
            let slowest = of(|latency| latency.max_ns);
            sheet.row(
                "latency",
                &format!(
                    "median {}, 99 % {}, 99.9 % {}, slowest {} ({} that ended)",
                    of(|latency| latency.p50_ns).bold(),
                    of(|latency| latency.p99_ns).bold(),
                    of(|latency| latency.p999_ns).bold(),
                    slowest.bold(),
                    units::count(latency.messages)
                ),
            );
        }
        None => sheet.row("latency", "no message ended"),
    }
    if let Some(kept) = &meta.kept {
        let kept_from = units::time_ns(kept.kept_from_ns as f64);
        let mut text = format!(
            "every message of {kept_from} and more, {} in all, with its neighbours; of the others sums",
            units::count(kept.kept)
        );
        if kept.not_whole > 0 {
            text += &format!("; {} not whole, they took too long", units::count(kept.not_whole));
        }
        sheet.row("kept", &text);
    }
    if let Some(spent) = &meta.spent {
        let in_all = units::estimate_share(&spent.in_all);
        let text = format!(
            "{} of CPU time a message ({} asked for): {} while it was on, {} of the time, in {} of {} slices; {} of {} messages",
            in_all.bold(),
            units::share(spent.budget),
            units::estimate_share(&spent.while_on),
            units::share(spent.on_share),
            units::count(spent.on_slices),
            units::count(spent.slices),
            units::count(doc.watched),
            units::count(doc.messages)
        );
        sheet.row("budget", &text);
    }
    sheet.row("samples", &samples(doc));
    for event in &meta.counted {
        sheet.row("events", &trace_events::counted(event));
    }
    if let Some(sight) = &meta.executed {
        sheet.row("counters", &trace_execution::counted(sight));
    }
    sheet.row("cost", &cost(doc));
    for blame in &doc.blames {
        let text = format!(
            "the {} beyond {} % took {} longer than the median one:",
            super::plural(&units::count(blame.messages), "message", "messages"),
            units::about(blame.from * 100.0),
            units::estimate_ns(&blame.extra_ns)
        );
        sheet.row("blame", &text);
        sheet.table(&blamed(blame));
        if let Some(executed) = &blame.executed {
            sheet.row("", &trace_execution::blamed(executed));
        }
        for events in &blame.events {
            sheet.row("", &trace_events::blamed(events));
            trace_events::places(events).iter().for_each(|places| sheet.table(places));
        }
    }
    if !doc.slowest.is_empty() {
        sheet.table(&slowest(&doc.slowest));
    }
    super::tag::labels(&mut sheet, doc);
    if doc.slowest.iter().any(|slow| slow.is_doubtful) {
        sheet.row("?", "records were lost meanwhile: what is said of such a message may lack something");
    }
    sheet.warnings(&meta.origin.warnings);
    sheet.finish()
}

/// Sampling gaps that a delay must be long for its function to be told.
const GAPS_IN_SIGHT: u64 = 3;

/// How many samples a message gets, and which delays are too short for them.
fn samples(doc: &TraceReport) -> String {
    let meta = &doc.meta;
    let messages = doc.latency.map_or(doc.messages, |latency| latency.messages).max(1);
    let each = doc.samples as f64 / messages as f64;
    let mut text = format!(
        "{} of {} while a thread worked on a message: {} each",
        units::count(doc.samples),
        printable(&meta.event),
        units::about(each)
    );
    if let Some(gap_ns) = meta.sampling_gap_ns {
        let sight = units::time_ns((GAPS_IN_SIGHT * gap_ns) as f64);
        text += &format!("; the function of a delay below {sight} is seen over many messages only");
    }
    text
}

/// What recording took.
fn cost(doc: &TraceReport) -> String {
    let part = |part: &CostPart| {
        let each = match (&part.each_ns, &part.remedy) {
            (Some(each), _) => format!("× {}", units::estimate_ns(each)),
            (None, Some(remedy)) => format!("without a price ({remedy})"),
            (None, None) => "without a price".into(),
        };
        format!("{} {} {each}", units::count(part.count), part.what)
    };
    let parts = doc.cost.parts.iter().map(part).join(", ");
    let busiest = doc.cost.busiest.as_ref().map(|thread| {
        let share = thread.share.as_ref().map_or_else(String::new, |share| format!("{} of ", units::estimate_share(share)));
        let [marks, samples, records] = thread.recorded.map(units::count);
        let taken = format!("{marks} marks, {samples} samples, {records} kernel records in {}", units::time_s(thread.cpu_s));
        format!("; {share}{}'s: {taken}", printable(&thread.name))
    });
    let parts = parts + &busiest.unwrap_or_default();
    let is_whole = doc.cost.parts.iter().all(|part| part.each_ns.is_some());
    let checked = doc.meta.checked.as_ref();
    let checks = checked.map(|checked| {
        let pairs = super::plural(&units::count(checked.pairs.len() as u64), "comparison", "comparisons");
        format!("in {pairs} with nothing recorded, {} in all", units::time_s(checked.off_s))
    });
    let checks = checks.unwrap_or_default();
    let mut text = match (&doc.cost.share, &doc.cost.priced_share) {
        (Some(share), None) if !doc.cost.is_checked => {
            let found = checked.map(|checked| format!("; on the program {} {checks}", units::estimate_share(&checked.extra)));
            let share = units::estimate_share(share);
            format!("{} of the program's CPU time: {parts}{}", share.bold(), found.unwrap_or_default())
        }
        (Some(share), priced) => {
            let share = units::estimate_share(share);
            // A part of a sum is no sum.
            let priced = priced.as_ref().map(|priced| {
                let of_what = if is_whole { "" } else { " for what has one" };
                format!("; prices give {}{of_what}", units::estimate_share(priced))
            });
            let least = if checked.is_some_and(|checked| checked.at_least) { "at least " } else { "" };
            let priced = priced.unwrap_or_default();
            format!("{least}{} of the program's CPU time, as found on it {checks}{priced}: {parts}", share.bold())
        }
        (None, Some(share)) => format!("{} of the program's CPU time by what has a price: {parts}", units::estimate_share(share)),
        (None, None) if is_whole && !doc.cost.parts.is_empty() => format!(
            "not known as a share of the program's CPU time ({}): by price it would be nearly all of it, or more, and records of other \
             programs are among them: {parts}",
            units::time_s(doc.meta.cpu_s)
        ),
        (None, None) => parts,
    };
    if let Some(own_s) = doc.meta.own_cpu_s {
        text += &format!("; beside it perftax itself used {} of CPU time", units::time_s(own_s));
    }
    text
}

/// Less than this share of the extra time is not worth a line.
const WORTH: f64 = 0.005;

/// What the extra time went to: causes, and under each what it was in particular.
pub(super) fn blamed(blame: &TailBlame) -> Table {
    let mut table = Table::default().left("").right("a message").right("of the extra time").left("");
    let all = blame.extra_ns.estimate;
    let is_worth = |ns: &Estimate| ns.estimate.abs() >= 1.0 && ns.estimate.abs() >= WORTH * all.abs();
    let is_more = |detail: &BlamedDetail| detail.extra_ns.estimate > 0.0 && is_worth(&detail.extra_ns);
    for cause in blame.causes.iter().filter(|cause| is_worth(&cause.extra_ns)) {
        let share = |ns: &Estimate| units::share(ns.estimate / all);
        table.row(vec![printable(&cause.cause), units::estimate_ns(&cause.extra_ns), share(&cause.extra_ns), String::new()]);
        let details = cause
            .which
            .iter()
            .chain(&cause.by_whom)
            .map(|detail| (detail, ""))
            .chain(cause.functions.iter().map(|detail| (detail, "by samples")));
        for (detail, how) in details.filter(|(detail, _)| is_more(detail)) {
            let ns = &detail.extra_ns;
            // Who ended it stands at its end.
            let name = shortened_to(&detail.name, MAX_BLAMED);
            table.row(vec![format!("  {name}"), units::estimate_ns(ns), share(ns), how.into()]);
        }
    }
    table
}

pub(super) fn slowest(slowest: &[SlowMessage]) -> Table {
    let mut table = Table::default()
        .right("slowest")
        .left("")
        .right("began")
        .right("latency")
        .left("mostly")
        .right("beyond the median")
        .remarks("");
    for slow in slowest {
        let function = slow.function.as_ref().map(|function| {
            let times = function
                .between_ns
                .map(|(low, high)| format!(", {} to {}", units::time_ns(low as f64), units::time_ns(high as f64)));
            let samples = super::plural(&units::count(function.samples), "sample", "samples");
            format!("{} ({samples}{})", shortened(&function.name), times.unwrap_or_default())
        });
        let which = slow.which.as_deref().map(shortened);
        let woken = slow.woken_by.as_ref().map(|waker| format!("woken by {}", waker::named(waker)));
        table.row(vec![
            slow.id.to_string(),
            if slow.is_doubtful { "?".into() } else { String::new() },
            units::time_s(slow.begin_s),
            slow.latency_between_ns.map_or_else(|| units::time_ns(slow.latency_ns as f64), super::tag::between),
            [Some(printable(&slow.cause)), which].into_iter().flatten().join(": "),
            units::time_ns(slow.beyond_ns as f64),
            [
                slow.label.as_deref().map(shortened),
                woken,
                slow.meanwhile.as_ref().map(waker::worked_on),
                function,
                trace_execution::beside(slow),
                trace_events::worth_a_word(&slow.events),
            ]
            .into_iter()
            .flatten()
            .join("; "),
        ]);
    }
    table
}

/// What there is room for beside the numbers of a blame.
const MAX_BLAMED: usize = 64;

/// Names may be as long as a template's.
pub(super) fn shortened(name: &str) -> String {
    const MAX: usize = 48;
    shortened_to(name, MAX)
}

fn shortened_to(name: &str, max: usize) -> String {
    let name = printable(name);
    match name.char_indices().nth(max) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name,
    }
}
