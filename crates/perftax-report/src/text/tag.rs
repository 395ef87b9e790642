//! What told a trace's messages apart, on a terminal.

use perftax_doc::{Latencies, TraceMeta, TraceReport};

use crate::printable::printable;
use crate::sheet::Sheet;
use crate::table::Table;
use crate::units;

/// How well a register, probes or sockets did.
pub(super) fn rows(sheet: &mut Sheet, meta: &TraceMeta) {
    if let Some(register) = &meta.register {
        let looks = (register.looks_valid + register.looks_filled + register.looks_unknown).max(1) as f64;
        let share = |n: u64, of: f64| units::share(n as f64 / of);
        let text = format!(
            "{}: a tag in {} of {} samples; of all looks {} filled in between two of one message, {} unknown",
            printable(&register.name),
            share(register.samples_valid, register.samples.max(1) as f64),
            units::count(register.samples),
            share(register.looks_filled, looks),
            share(register.looks_unknown, looks),
        );
        sheet.row("register", &text);
        let few = register.threads.iter().filter(|(_, all, valid)| *all > 0 && 2 * valid < *all);
        let few: Vec<String> = few.map(|(tid, all, valid)| format!("{tid} {}", share(*valid, *all as f64))).collect();
        if !few.is_empty() && register.threads.len() > 1 {
            sheet.row("", &format!("fewer than half in threads {}", few.join(", ")));
        }
        let text = format!(
            "a change is known to {} (median; 99 %: {}); what is shorter than {} is below its sight",
            units::time_ns(register.gap_p50_ns as f64),
            units::time_ns(register.gap_p99_ns as f64),
            units::time_ns(register.shortest_ns as f64),
        );
        sheet.row("sight", &text);
    }
    if let Some(probes) = &meta.probes {
        let text = format!(
            "{}: begun {}, ended {}, {} broken off by the next, {} ends without a begin",
            printable(&probes.binary),
            units::count(probes.started),
            units::count(probes.done),
            units::count(probes.broken_off),
            units::count(probes.done_without_start),
        );
        sheet.row("probes", &text);
    }
    if let Some(sockets) = &meta.sockets {
        let port = sockets.port.map_or_else(|| "all ports".into(), |port| format!("port {port}"));
        let text = format!(
            "{port}: {} connections; asked {}, answered {}, {} closed without an answer; {} writes of no request; {} refused, where requests overlapped",
            units::count(sockets.connections),
            units::count(sockets.begun),
            units::count(sockets.answered),
            units::count(sockets.unanswered),
            units::count(sockets.unasked),
            units::count(sockets.refused),
        );
        sheet.row("sockets", &text);
    }
    if let Some((interrupts, each)) = meta.interrupts.and_then(|interrupts| Some((interrupts, interrupts.samples_each()?))) {
        let text = format!("{each:.1} samples each ({} interrupts of all CPUs meanwhile)", units::count(interrupts.interrupts));
        sheet.row("interrupt", &text);
    }
}

/// Messages that were seen while nothing was recorded, where there were any: the price of a recording is checked on the program by pauses. Of recordings that keep
/// slow messages alone nobody counts them.
pub(super) fn unrecorded(meta: &TraceMeta, messages: u64) -> Option<String> {
    let seen = meta.sockets.as_ref().map(|sockets| sockets.begun).or(meta.contexts.as_ref().map(|contexts| contexts.begun))?;
    let more = seen.checked_sub(messages).filter(|more| *more > 0 && meta.checked.is_some() && meta.kept.is_none())?;
    Some(format!(
        "{} more came while recording paused, for its price to be seen: they are in nothing but the counts below",
        units::count(more)
    ))
}

/// A quantile of the latencies, as well as it is known.
pub(super) fn latency(doc: &TraceReport, latencies: &Latencies, of: fn(&Latencies) -> u64) -> String {
    match (&doc.meta.register, &doc.latency_between) {
        (Some(register), _) if of(latencies) < register.shortest_ns => {
            format!("below {}", units::time_ns(register.shortest_ns as f64))
        }
        (Some(_), Some([least, most])) => between((of(least), of(most))),
        _ => units::time_ns(of(latencies) as f64),
    }
}

/// From one time to another.
pub(super) fn between((low, high): (u64, u64)) -> String {
    format!("{} to {}", units::time_ns(low as f64), units::time_ns(high as f64))
}

/// Longest label that is shown.
const LONGEST: usize = 90;

/// Latencies by label.
pub(super) fn labels(sheet: &mut Sheet, doc: &TraceReport) {
    if doc.labels.is_empty() {
        return;
    }
    let slow = doc.labels.iter().map(|label| label.slow).sum::<u64>().max(1) as f64;
    let mut table =
        Table::default().right("messages").right("median").right("99 %").right("slowest").right("of the slow ones").left("label");
    for label in &doc.labels {
        let text = printable(&label.label);
        let text = match text.char_indices().nth(LONGEST) {
            Some((at, _)) => format!("{}…", &text[..at]),
            None => text,
        };
        table.row(vec![
            units::count(label.messages),
            units::time_ns(label.p50_ns as f64),
            units::time_ns(label.p99_ns as f64),
            units::time_ns(label.max_ns as f64),
            units::share(label.slow as f64 / slow),
            text,
        ]);
    }
    sheet.table(&table);
    if doc.labels_left_out > 0 {
        sheet.row("", &format!("and {} more labels", units::count(doc.labels_left_out)));
    }
}
