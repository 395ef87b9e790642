//! The page of messages over services. Waterfalls are elements, without a script: there are some twenty of them.

use std::fmt::Write as _;

use perftax_doc::{JoinedRequests, RequestPart, RequestWaterfall, TraceJoin, WaterfallPiece};

use super::page::{Extra, Grid, Panel, Part, render_with};
use super::trace::CAUSES;
use crate::printable::printable;
use crate::text::{request_cause, request_charged};
use crate::units;

/// Causes by the colours of [`CAUSES`].
const NAMES: [&str; 11] = [
    "on CPU",
    "page fault",
    "system call",
    "irq",
    "softirq",
    "vector",
    "steal",
    "preempted",
    "runnable",
    "blocked",
    "unattended",
];
/// Pieces of a part that are drawn, the longest: more are no wider than a dot.
const MAX_PIECES: usize = 400;
/// Pieces that are told in words.
const TOLD: usize = 12;

pub(super) fn page(doc: &TraceJoin) -> String {
    let extra = Extra { style: include_str!("../../templates/trace/requests.css"), script: "" };
    render_with(vec![part(doc)], extra)
}

fn part(doc: &TraceJoin) -> Part {
    let services: Vec<String> = doc.traces.iter().map(|trace| printable(&trace.service)).collect();
    let mut part = Part::of(&doc.origin, format!("Messages over {}", services.join(", ")));
    part.kind = "trace join".into();
    if let Some(requests) = &doc.requests {
        part.lead = lead(requests);
        let ns = |ns: u64| units::time_ns(ns as f64);
        let latency = &requests.latency;
        part.fact("requests", units::count(latency.messages), format!("begin in {}", printable(&requests.entry)));
        part.fact("median", ns(latency.p50_ns), "from beginning to end");
        part.fact("99 %", ns(latency.p99_ns), format!("slow from {} on", ns(requests.slow_ns)));
        part.fact("99.9 %", ns(latency.p999_ns), format!("slowest {}", ns(latency.max_ns)));
        if !requests.waterfalls.is_empty() {
            part.panel(waterfalls(requests));
        }
        if requests.blame.is_some() {
            part.panel(blame(requests));
        }
        part.panel(slow(requests));
    }
    part.panel(clocks(doc));
    if !doc.lying.is_empty() {
        let mut table = Grid::new(&["clock of", "clock", "or that of", "#more than their kernels admit"]);
        for lying in &doc.lying {
            let name = |at: usize| services.get(at).cloned().unwrap_or_default();
            let or = lying.or_trace.map_or_else(String::new, name);
            table.row(vec![name(lying.trace), lying.clock.clone(), or, units::time_ns(lying.by_ns as f64)]);
        }
        let caption = "By these, something was received before it was sent.";
        part.panel(Panel::new("Clocks that causality contradicts", caption).table(table));
    }
    part
}

fn lead(requests: &JoinedRequests) -> String {
    let Some(blame) = &requests.blame else { return "Too few slow requests to blame them.".into() };
    let most = blame.charges.first().filter(|of| of.extra_ns.estimate > 0.0);
    let mostly = most
        .map_or_else(String::new, |of| format!(", mostly for {}: {}", request_charged(&of.to), units::estimate_ns(&of.extra_ns)));
    let n = units::count(blame.requests);
    format!("The {n} slow requests took {} longer than the others{mostly}.", units::estimate_ns(&blame.extra_ns))
}

fn blame(requests: &JoinedRequests) -> Panel {
    let mut table = Grid::new(&["service", "host", "cause", "#longer by", "mostly"]);
    for of in requests.blame.iter().flat_map(|blame| &blame.charges) {
        let details: Vec<String> =
            of.details.iter().map(|(name, ns)| format!("{} ({})", printable(name), units::time_ns(*ns))).collect();
        table.row(vec![
            of.to.service.clone(),
            of.to.host.clone().unwrap_or_default(),
            request_cause(&of.to),
            units::estimate_ns(&of.extra_ns),
            details.join(", "),
        ]);
    }
    let caption = format!(
        "Mean time of a slow request beyond the mean of {} that are not slow ({}); the rows add up. What a service waits for another one counts there.",
        units::count(requests.usual),
        units::time_ns(requests.usual_ns)
    );
    Panel::new("What slow requests took longer for", &caption).table(table)
}

fn slow(requests: &JoinedRequests) -> Panel {
    let mut table = Grid::new(&["request", "called", "#took", "mostly", "#beyond the others", "in particular", "not known"]);
    for request in &requests.slow {
        let details: Vec<&str> = [&request.which, &request.function].into_iter().flatten().map(String::as_str).collect();
        table.row(vec![
            request.identity.clone().unwrap_or_else(|| request.id.to_string()),
            request.label.clone().unwrap_or_default(),
            units::time_ns(request.latency_ns as f64),
            request_charged(&request.foremost),
            units::time_ns(request.beyond_ns),
            details.join("; "),
            request.flaws.join("; "),
        ]);
    }
    let flaws: Vec<String> =
        requests.flaws.iter().map(|(flaw, n)| format!("of {}: {}", units::count(*n), printable(flaw))).collect();
    let caption = match flaws.is_empty() {
        true => "Slowest first. All of their parts are known.".into(),
        false => format!("Slowest first. What is not known, {}.", flaws.join("; ")),
    };
    Panel::new("Slow requests", &caption).folded(table)
}

fn clocks(doc: &TraceJoin) -> Panel {
    let name = |at: usize| doc.traces.get(at).map_or_else(String::new, |trace| trace.service.clone());
    let mut table = Grid::new(&[
        "services",
        "#there",
        "#back",
        "second less first",
        "#known to",
        "#shortest there and back",
        "other clocks say",
    ]);
    for pair in &doc.pairs {
        let difference = match (&pair.causal, pair.is_one_host) {
            (_, true) => "0: one clock".into(),
            (Some(causal), _) => format!("{:.6} s", f64::midpoint(causal.low_s, causal.high_s)),
            (None, _) => format!("unknown: {}", pair.unaligned.as_deref().unwrap_or("")),
        };
        let ns = |of: fn(&perftax_doc::CausalDifference) -> u64| {
            pair.causal.as_ref().map_or_else(String::new, |causal| units::time_ns(of(causal) as f64))
        };
        let stated = pair.stated.iter().map(|stated| {
            let against = match stated.contradicted_by_ns {
                0 => String::new(),
                ns => format!(", contradicted by {}", units::time_ns(ns as f64)),
            };
            let middle = f64::midpoint(stated.low_s, stated.high_s);
            format!("{}: {middle:.6} s ± {}{against}", stated.clock, units::time_s((stated.high_s - stated.low_s) / 2.0))
        });
        table.row(vec![
            format!("{}, {}", name(pair.traces[0]), name(pair.traces[1])),
            units::count(pair.crossings[0] as u64),
            units::count(pair.crossings[1] as u64),
            difference,
            ns(|causal| causal.width_ns),
            ns(|causal| causal.shortest_round_trip_ns),
            stated.collect::<Vec<_>>().join("; "),
        ]);
    }
    let caption = "By causality: nothing is received before it was sent, both ways. A bound, not an interval of confidence. No time above depends on it but when a service's part began, \
                   seen from the first one.";
    Panel::new("Clocks", caption).table(table)
}

fn waterfalls(requests: &JoinedRequests) -> Panel {
    let mut body = String::from("<p class=\"keys\">");
    for (name, colour) in NAMES.into_iter().zip(CAUSES) {
        let _ = write!(body, "<span><i style=\"background:{colour}\"></i>{name}</span>");
    }
    body += "<span><i class=\"way\"></i>on the way, as far as clocks tell</span></p>";
    for (at, request) in requests.waterfalls.iter().enumerate() {
        waterfall(&mut body, request, at == 0);
    }
    let caption = "Each row is a message of one service, in the first one's time. A bar is what the service's threads did for it; hatched is the way there and back, and the line beneath \
                   is where the bar may begin: it stands in the middle of that.";
    Panel::new("The slowest requests, part by part", caption).body(body)
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in printable(text).chars() {
        match letter {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            other => safe.push(other),
        }
    }
    safe
}

fn waterfall(body: &mut String, waterfall: &RequestWaterfall, is_open: bool) {
    let request = &waterfall.request;
    let name = request.identity.clone().unwrap_or_else(|| format!("message {}", request.id));
    let label = request.label.as_ref().map_or_else(String::new, |label| format!(" · {}", escape(label)));
    let open = if is_open { " open" } else { "" };
    let _ = write!(
        body,
        "<details class=\"request\"{open}><summary><b>{}</b> {}{label} · <span>mostly {}</span></summary>",
        units::time_ns(request.latency_ns as f64),
        escape(&name),
        escape(&request_charged(&request.foremost)),
    );
    let details: Vec<String> = [&request.which, &request.function].into_iter().flatten().map(|detail| escape(detail)).collect();
    let which = if details.is_empty() { String::new() } else { format!(" ({})", details.join("; ")) };
    let _ = write!(
        body,
        "<p>{} beyond the other requests went to {}{which}.</p>",
        units::time_ns(request.beyond_ns),
        escape(&request_charged(&request.foremost))
    );
    for flaw in &request.flaws {
        let _ = write!(body, "<p class=\"flaw\">Not known: {}.</p>", escape(flaw));
    }
    let all_ns = request.latency_ns.max(1) as f64;
    *body += "<div class=\"rows\">";
    for part in &waterfall.parts {
        row(body, part, all_ns);
    }
    let _ = write!(
        body,
        "<span></span><div class=\"axis\"><span>0</span><span>{}</span><span>{}</span></div></div>",
        units::time_ns(all_ns / 2.0),
        units::time_ns(all_ns)
    );
    *body += "<div class=\"scroll\"><table><thead><tr><th>where</th><th>cause</th><th class=\"number\">time</th><th class=\"number\">share</th></tr></thead><tbody>";
    for (charged, ns) in waterfall.charges.iter().filter(|(_, ns)| *ns >= all_ns * 1e-3) {
        let _ = write!(
            body,
            "<tr><td>{}</td><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
            escape(
                &charged.host.as_ref().map_or_else(|| charged.service.clone(), |host| format!("{} on {host}", charged.service))
            ),
            escape(&request_cause(charged)),
            units::time_ns(*ns),
            units::share(ns / all_ns)
        );
    }
    *body += "</tbody></table></div></details>";
}

fn percent(ns: f64, all_ns: f64) -> f64 {
    (ns / all_ns * 100.0).clamp(0.0, 100.0)
}

fn row(body: &mut String, part: &RequestPart, all_ns: f64) {
    let name = part.label.clone().unwrap_or_else(|| format!("message {}", part.id));
    let service = if part.hop.is_some() || part.depth == 0 { escape(&part.service) } else { String::new() };
    let hop = part.hop.map_or_else(String::new, |hop| {
        let between = |(least, most): (u64, u64)| format!("{} to {}", units::time_ns(least as f64), units::time_ns(most as f64));
        let clocks = match hop.clocks_known_to_ns {
            None => "the clocks are not aligned".into(),
            Some(ns) if hop.is_shorter_than_known => {
                format!("shorter than the clocks are known to, {}", units::time_ns(ns as f64))
            }
            Some(ns) => format!("clocks known to {}", units::time_ns(ns as f64)),
        };
        format!(
            "<small>away {}, on the way {}: there {}, back {} ({clocks})</small>",
            units::time_ns(hop.away_ns as f64),
            units::time_ns(hop.ways_ns as f64),
            between(hop.there_ns),
            between(hop.back_ns)
        )
    });
    let _ = write!(
        body,
        "<div class=\"who\" style=\"padding-left:{}px\"><b>{service}</b> {} <span>{}</span>{hop}</div><div class=\"bar\">",
        part.depth.min(12) * 12,
        escape(&name),
        units::time_ns(part.ns as f64)
    );
    let from_ns = (part.from_ns.0 as f64).midpoint(part.from_ns.1 as f64);
    if let Some(hop) = part.hop {
        let sent_ns = part.from_ns.0 as f64 - hop.there_ns.0 as f64;
        // What encloses it is known to what it is known to: the whole call, from the middle of when it was sent.
        let sent_ns = sent_ns.midpoint(part.from_ns.1 as f64 - hop.there_ns.1 as f64);
        let (left, width) = (percent(sent_ns, all_ns), percent(hop.away_ns as f64, all_ns));
        let _ = write!(body, "<i class=\"way\" style=\"left:{left:.4}%;width:{width:.4}%\"></i>");
        let (left, width) = (percent(part.from_ns.0 as f64, all_ns), percent((part.from_ns.1 - part.from_ns.0) as f64, all_ns));
        let _ = write!(body, "<i class=\"unsure\" style=\"left:{left:.4}%;width:{width:.4}%\"></i>");
    }
    let (left, width) = (percent(from_ns, all_ns), percent(part.ns as f64, all_ns));
    let _ = write!(body, "<i class=\"whole\" style=\"left:{left:.4}%;width:{width:.4}%\"></i>");
    let mut pieces: Vec<&WaterfallPiece> = part.pieces.iter().flatten().collect();
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.ns));
    let told: Vec<&WaterfallPiece> = pieces.iter().take(TOLD).copied().collect();
    pieces.truncate(MAX_PIECES);
    for piece in pieces {
        let colour = NAMES.iter().position(|name| *name == piece.cause).map_or("#8b949e", |at| CAUSES[at]);
        let (left, width) = (percent(from_ns + piece.from_ns as f64, all_ns), percent(piece.ns as f64, all_ns));
        let words = format!("{}, {}", words(piece), units::time_ns(piece.ns as f64));
        let _ =
            write!(body, "<i style=\"left:{left:.4}%;width:{width:.4}%;background:{colour}\" title=\"{}\"></i>", escape(&words));
    }
    *body += "</div>";
    if part.pieces.is_none() {
        *body += "<span></span><small>marks alone are known of it</small>";
    } else if !told.is_empty() {
        let mut told = told;
        told.sort_by_key(|piece| piece.from_ns);
        *body += "<span></span><details class=\"pieces\"><summary>pieces</summary><ol>";
        for piece in told {
            let _ = write!(
                body,
                "<li>at {} for {}: {}</li>",
                units::time_ns(piece.from_ns as f64),
                units::time_ns(piece.ns as f64),
                escape(&words(piece))
            );
        }
        *body += "</ol></details>";
    }
}

fn words(piece: &WaterfallPiece) -> String {
    let which = piece.which.as_ref().map_or_else(String::new, |which| format!(", {which}"));
    let woken =
        piece.woken_by.as_ref().and_then(|waker| waker.thread.as_ref()).map_or_else(String::new, |by| format!(", ended by {by}"));
    let function = piece.functions.first().map_or_else(String::new, |function| format!(", in {}", function.name));
    format!("{} on {}{which}{woken}{function}", piece.cause, piece.thread)
}
