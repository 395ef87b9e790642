//! `perftax trace join` on a terminal.

use perftax_doc::{Charged, JoinedPair, JoinedRequests, JoinedTrace, Latencies, SlowRoundTrip, TraceJoin};

use crate::printable::printable;
use crate::sheet::Sheet;
use crate::table::Table;
use crate::units;

/// The traces, how far their clocks are apart, and which clocks say otherwise.
pub fn trace_join(doc: &TraceJoin) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    sheet.table(&traces(doc));
    sheet.table(&pairs(doc));
    for pair in doc.pairs.iter().filter(|pair| pair.causal.is_none() && !pair.is_one_host) {
        let why = pair.unaligned.as_deref().unwrap_or("not known");
        sheet.row("unaligned", &format!("{} and {}: {}", name(doc, pair.traces[0]), name(doc, pair.traces[1]), printable(why)));
    }
    for pair in doc.pairs.iter().filter(|pair| pair.left_out + pair.contradictions > 0) {
        let names = format!("{} and {}", name(doc, pair.traces[0]), name(doc, pair.traces[1]));
        let messages = |n: usize| units::plural(&units::count(n as u64), "message", "messages");
        if pair.left_out > 0 {
            let why = "a name was used more than once on one side, or a third one sent it through both";
            sheet.row("left out", &format!("{} of {names}: {why}", messages(pair.left_out)));
        }
        if pair.contradictions > 0 {
            let why = "received before they were sent, though of one clock: perftax_send goes before the write, perftax_receive after the read";
            sheet.row("marks", &format!("{} of {names} {why}", messages(pair.contradictions)));
        }
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
                "{}'s {}{or} is wrong: {by} more than their kernels admit, by what was sent and received",
                name(doc, lying.trace),
                lying.clock
            ),
        );
    }
    doc.requests.iter().for_each(|followed| requests(&mut sheet, followed));
    sheet.warnings(&doc.origin.warnings);
    sheet.finish()
}

fn name(doc: &TraceJoin, at: usize) -> String {
    doc.traces.get(at).map_or_else(String::new, |trace| printable(&trace.service))
}

fn traces(doc: &TraceJoin) -> Table {
    let mut table = Table::default()
        .left("service")
        .left("trace")
        .left("host")
        .right("messages with a name")
        .right("readings")
        .left("CLOCK_REALTIME");
    for trace in &doc.traces {
        let JoinedTrace { folder, service, host, named, clocks, realtime_error_ns, tai_offset_s } = trace;
        let error = realtime_error_ns.map_or_else(
            || "kept right by nobody, or nobody says".into(),
            |ns| format!("wrong by {} at most, by its kernel", units::time_ns(ns as f64)),
        );
        let tai = tai_offset_s.map_or_else(String::new, |offset_s| format!("; TAI {offset_s} s more"));
        table.row(vec![
            printable(service),
            printable(folder),
            host.as_ref().map_or_else(|| "unknown".into(), |host| printable(&host.name)),
            units::count(*named as u64),
            units::count(*clocks as u64),
            error + &tai,
        ]);
    }
    table
}

/// Requests that have a line.
const SLOWEST: usize = 10;

/// Messages over services.
fn requests(sheet: &mut Sheet, doc: &JoinedRequests) {
    let ns = |ns: u64| units::time_ns(ns as f64);
    let latency = &doc.latency;
    let n = units::plural(&units::count(latency.messages), "request", "requests");
    let (p50, p99, p999, max) = (ns(latency.p50_ns), ns(latency.p99_ns), ns(latency.p999_ns), ns(latency.max_ns));
    let text = format!("{n} begin in {}: median {p50}, 99 % {p99}, 99.9 % {p999}, slowest {max}", printable(&doc.entry));
    sheet.row("requests", &text);
    for (service, n) in &doc.other_entries {
        let requests = units::plural(&units::count(*n), "other request begins", "other requests begin");
        sheet.row("", &format!("{requests} in {}: --entry {}", printable(service), printable(service)));
    }
    let messages = |n: u64| units::plural(&units::count(n), "message", "messages");
    if doc.from_elsewhere > 0 {
        sheet.row("", &format!("{} came from a service that is in no trace", messages(doc.from_elsewhere)));
    }
    if doc.repeated > 0 {
        sheet.row("", &format!("{} left out: their numbers occur again in their trace", messages(doc.repeated)));
    }
    if let Some(blame) = &doc.blame {
        let slow = units::plural(&units::count(blame.requests), "slow request", "slow requests");
        let from = format!("{slow} (from {} on, {})", ns(doc.slow_ns), units::share(1.0 - doc.slow_from));
        let usual = format!("the mean of {} others, {}", units::count(doc.usual), units::time_ns(doc.usual_ns));
        sheet.row("blame", &format!("{from} took {} longer than {usual}", units::estimate_ns(&blame.extra_ns)));
        let mut table = Table::default().left("service").left("host").left("cause").right("longer by").remarks("mostly");
        // What is within its interval of nothing, and a thousandth of all, is not told on a terminal.
        let least_ns = blame.extra_ns.estimate.abs() * 1e-3;
        for of in blame.charges.iter().filter(|of| of.extra_ns.estimate.abs() >= least_ns) {
            let details = of.details.iter().take(2).filter(|(_, ns)| *ns >= least_ns);
            let details: Vec<String> =
                details.map(|(name, ns)| format!("{} ({})", printable(name), units::time_ns(*ns))).collect();
            table.row(vec![
                printable(&of.to.service),
                of.to.host.as_ref().map_or_else(String::new, |host| printable(host)),
                cause(&of.to),
                units::estimate_ns(&of.extra_ns),
                details.join(", "),
            ]);
        }
        sheet.table(&table);
    }
    let mut table = Table::default().left("slowest").right("took").left("mostly").right("beyond the others").remarks("");
    for request in doc.slow.iter().take(SLOWEST) {
        let of = [&request.which, &request.function].into_iter().flatten().map(|detail| printable(detail));
        let flaws = request.flaws.iter().map(|flaw| printable(flaw));
        table.row(vec![
            request.identity.as_ref().map_or_else(|| request.id.to_string(), |identity| printable(trace_of(identity))),
            ns(request.latency_ns),
            charged(&request.foremost),
            units::time_ns(request.beyond_ns),
            of.chain(flaws).collect::<Vec<_>>().join("; "),
        ]);
    }
    sheet.table(&table);
    for (flaw, n) in &doc.flaws {
        let of = units::plural(&units::count(*n), "slow request", "slow requests");
        sheet.row("not known", &format!("of {of}: {}", printable(flaw)));
    }
    if doc.slow_left_out > 0 {
        let of = units::plural(&units::count(doc.slow_left_out), "slow request", "slow requests");
        sheet.row("left out", &format!("{of}, the fastest of them"));
    }
}

/// The trace of a name, which is enough to ask for it.
fn trace_of(identity: &str) -> &str {
    identity.split_once('-').map_or(identity, |(trace, _)| trace)
}

/// A cause; of ways between two services where they go.
pub(crate) fn cause(charged: &Charged) -> String {
    charged
        .to
        .as_ref()
        .map_or_else(|| printable(&charged.cause), |to| format!("{} to {}", printable(&charged.cause), printable(to)))
}

/// The same with the service.
pub(crate) fn charged(charged: &Charged) -> String {
    format!("{}: {}", printable(&charged.service), cause(charged))
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
