//! `perftax trace join` on a terminal.

use perftax_doc::{JoinedPair, JoinedTrace, Latencies, SlowRoundTrip, TraceJoin};

use crate::printable::printable;
use crate::sheet::Sheet;
use crate::table::Table;
use crate::units;

/// The traces, how far their clocks are apart, and which clocks say otherwise.
pub fn trace_join(doc: &TraceJoin) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    sheet.table(&traces(doc));
    sheet.table(&pairs(doc));
    for (at, pair) in doc.pairs.iter().enumerate().filter(|(_, pair)| pair.causal.is_none() && !pair.is_one_host) {
        let why = pair.unaligned.as_deref().unwrap_or("not known");
        let label = if at == 0 { "unaligned" } else { "" };
        sheet.row(label, &format!("{} and {}: {}", name(doc, pair.traces[0]), name(doc, pair.traces[1]), printable(why)));
    }
    for trips in doc.pairs.iter().flat_map(|pair| &pair.round_trips) {
        let [from, to] = trips.from_to.map(|at| name(doc, at));
        let of = |of: &Latencies| {
            let ns = |ns: u64| units::time_ns(ns as f64);
            format!("median {}, 99 % {}, slowest {}", ns(of.p50_ns), ns(of.p99_ns), ns(of.max_ns))
        };
        let messages = units::plural(&units::count(trips.away.messages), "message", "messages");
        sheet.row("away", &format!("{messages} from {from} to {to} and back: {}", of(&trips.away)));
        sheet.row("", &format!("there {}", of(&trips.there)));
        sheet.row("", &format!("on the way, both ways together {}", of(&trips.ways)));
        sheet.table(&slowest(&trips.slowest));
    }
    for lying in &doc.lying {
        let or = lying.or_trace.map_or_else(String::new, |other| format!(", or {}'s", name(doc, other)));
        let by = units::time_ns(lying.by_ns as f64);
        sheet.row(
            "clock",
            &format!(
                "{}'s {}{or} is wrong by {by} at least: what was sent by it was received before",
                name(doc, lying.trace),
                lying.clock
            ),
        );
    }
    sheet.warnings(&doc.origin.warnings);
    sheet.finish()
}

fn name(doc: &TraceJoin, at: usize) -> String {
    doc.traces.get(at).map_or_else(String::new, |trace| printable(&trace.folder))
}

fn traces(doc: &TraceJoin) -> Table {
    let mut table =
        Table::default().left("trace").left("host").right("messages with a name").right("readings").left("CLOCK_REALTIME");
    for trace in &doc.traces {
        let JoinedTrace { folder, host, named, clocks, realtime_error_ns, tai_offset_s } = trace;
        let error = realtime_error_ns.map_or_else(
            || "kept right by nobody, or nobody says".into(),
            |ns| format!("wrong by {} at most, by its kernel", units::time_ns(ns as f64)),
        );
        let tai = tai_offset_s.map_or_else(String::new, |offset_s| format!("; TAI {offset_s} s more"));
        table.row(vec![
            printable(folder),
            host.as_ref().map_or_else(|| "unknown".into(), |host| printable(&host.name)),
            units::count(*named as u64),
            units::count(*clocks as u64),
            error + &tai,
        ]);
    }
    table
}

fn slowest(slowest: &[SlowRoundTrip]) -> Table {
    let mut table = Table::default().left("away longest").right("away").right("there").right("way there").right("way back");
    let between = |(low, high): (u64, u64)| format!("{} to {}", units::time_ns(low as f64), units::time_ns(high as f64));
    for trip in slowest {
        table.row(vec![
            printable(&trip.identity),
            units::time_ns(trip.away_ns as f64),
            units::time_ns(trip.there_ns as f64),
            between(trip.way_there_ns),
            between(trip.way_back_ns),
        ]);
    }
    table
}

fn pairs(doc: &TraceJoin) -> Table {
    let mut table = Table::default()
        .left("traces")
        .right("there")
        .right("back")
        .right("second less first")
        .right("known to")
        .right("shortest there and back")
        .right("drift")
        .remarks("");
    for pair in &doc.pairs {
        let JoinedPair { traces, crossings, is_one_host, causal, stated, .. } = pair;
        let of = |text: fn(&perftax_doc::CausalDifference) -> String| causal.as_ref().map_or_else(String::new, text);
        let difference = match (causal, is_one_host) {
            (_, true) => "0: one clock".into(),
            (Some(causal), _) => format!("{:.6} s", f64::midpoint(causal.low_s, causal.high_s)),
            (None, _) => "unknown".into(),
        };
        let said = stated.iter().map(|stated| {
            let middle = f64::midpoint(stated.low_s, stated.high_s);
            let against = match stated.contradicted_by_ns {
                0 => String::new(),
                ns => format!(", contradicted by {}", units::time_ns(ns as f64)),
            };
            format!("{}: {middle:.6} s ± {}{against}", stated.clock, units::time_s((stated.high_s - stated.low_s) / 2.0))
        });
        table.row(vec![
            format!("{}, {}", name(doc, traces[0]), name(doc, traces[1])),
            units::count(crossings[0] as u64),
            units::count(crossings[1] as u64),
            difference,
            of(|causal| units::time_ns(causal.width_ns as f64)),
            of(|causal| units::time_ns(causal.shortest_round_trip_ns as f64)),
            of(|causal| format!("{:.2} to {:.2} ppm", causal.drift_ppm.0, causal.drift_ppm.1)),
            said.collect::<Vec<_>>().join("; "),
        ]);
    }
    table
}
