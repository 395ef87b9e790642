//! The page of a trace. Messages are drawn by a script of ours on a canvas: a million of them is too many for elements or plotly.js.

mod packed;
mod waterfalls;

use itertools::Itertools as _;
use perftax_doc::Estimate;
use perftax_doc::{SlowMessage, TailBlame, TracePicture};
use serde_json::json;

use super::figure::{Axis, Figure, Trace};
use super::page::{Extra, Grid, Panel, Part, render_with};
use crate::printable::printable;
use crate::{shell, trace_events, trace_execution, units, waker};
use packed::{LATENCY_STEPS, Packed, base64};

/// Colours of causes, in their order (`perftax_trace::Cause::ALL`): warm where something else ran, cold where the program did, grey where
/// nothing happened.
pub(super) const CAUSES: [&str; 11] =
    ["#3b7dd8", "#1fa3b5", "#2fa36b", "#d64545", "#e0752d", "#b5891b", "#c2479b", "#8a63d2", "#7fb23c", "#8b949e", "#9c6b4f"];
/// Colours of noise: irq, softirq, vector, steal, other threads.
const NOISE: [&str; 5] = ["#d64545", "#e0752d", "#b5891b", "#c2479b", "#8a63d2"];

/// The script, part by part.
const SCRIPT: &str = concat!(
    "'use strict';\n(function () {\n",
    include_str!("../../../templates/trace/points.js"),
    include_str!("../../../templates/trace/units.js"),
    include_str!("../../../templates/trace/picture.js"),
    include_str!("../../../templates/trace/noise.js"),
    include_str!("../../../templates/trace/waterfall.js"),
    include_str!("../../../templates/trace/page.js"),
    "})();\n"
);

pub(super) fn page(picture: &TracePicture) -> String {
    let extra = Extra { style: include_str!("../../../templates/trace/style.css"), script: SCRIPT };
    render_with(vec![part(picture)], extra)
}

fn part(picture: &TracePicture) -> Part {
    let report = &picture.report;
    let program = report.meta.program.iter().map(|word| printable(word)).join(" ");
    let mut part = Part::of(&report.meta.origin, format!("Messages of {program}"));
    part.lead = lead(picture);
    if let Some(latency) = &report.latency {
        let of = |ns: u64| units::time_ns(ns as f64);
        part.fact("messages", units::count(latency.messages), format!("{} began", units::count(report.messages)));
        part.fact("median latency", of(latency.p50_ns), "of those that ended");
        part.fact("99 %", of(latency.p99_ns), "slow from here on");
        part.fact("99.9 %", of(latency.p999_ns), format!("slowest {}", of(latency.max_ns)));
    }
    part.panel(messages(picture));
    if !picture.noise.cpus.is_empty() {
        part.panel(noise(picture));
    }
    part.panel(slowest(picture));
    for panel in blames(&report.blames) {
        part.panel(panel);
    }
    if picture.quantiles.len() > 1 {
        part.panel(quantiles(picture));
    }
    if !report.trouble.is_empty() {
        let mut table = Grid::new(&["marks that", "#messages"]);
        for (what, n) in &report.trouble {
            table.row(vec![what.clone(), units::count(*n)]);
        }
        part.panel(Panel::new("What was odd", "Nothing of this stops the rest from being read.").table(table));
    }
    part
}

/// What the tail's extra time mostly went to.
fn lead(picture: &TracePicture) -> String {
    let Some(blame) = picture.report.blames.first() else { return "Too few messages to blame the slow ones.".into() };
    let most = blame.causes.first().filter(|cause| cause.extra_ns.estimate > 0.0);
    let mostly = most.map_or_else(String::new, |cause| {
        format!(", mostly {}: {}", printable(&cause.cause), units::estimate_ns(&cause.extra_ns))
    });
    format!(
        "The {} slowest messages (1 %) took {} longer than the median one{mostly}.",
        units::count(blame.messages),
        units::estimate_ns(&blame.extra_ns)
    )
}

fn messages(picture: &TracePicture) -> Panel {
    let caption = match picture.left_out {
        0 => "Each message where it began, by what it spent most of its time on; a slow one by what it spent most on beyond the \
              median message."
            .into(),
        left_out => format!(
            "Each message where it began, by what it spent most of its time on; a slow one by what it spent most on beyond the median \
             message. {} messages are shown, every slow one among them; {} others are left out, evenly.",
            units::count(picture.points.len() as u64),
            units::count(left_out)
        ),
    };
    let packed = Packed::of(&picture.points, &picture.functions);
    let colours: Vec<_> =
        picture.causes.iter().zip(CAUSES).map(|(name, colour)| json!({"name": name, "colour": colour})).collect();
    let settings = json!({
        "count": picture.points.len(),
        "quantum": packed.quantum,
        "latencySteps": LATENCY_STEPS,
        "hasAllIds": packed.has_all_ids,
        "causes": colours,
        "functions": packed.function_names,
        "palette": super::figure::PALETTE,
        "slow": picture.slow_ns,
        "folder": shell::quote(&printable(&picture.folder)),
        "waterfalls": waterfalls::json(&picture.waterfalls),
        "noise": {
            "from": picture.noise.from_ns,
            "bin": picture.noise.bin_ns,
            "kinds": picture.noise.kinds.iter().zip(NOISE).map(|(name, colour)| json!({"name": name, "colour": colour})).collect::<Vec<_>>(),
            "cpus": picture.noise.cpus.iter().map(|(cpu, bins)| json!([cpu, bins.len() / picture.noise.kinds.len().max(1)])).collect::<Vec<_>>(),
        },
    });
    let columns = [
        ("times", &packed.times),
        ("latencies", &packed.latencies),
        ("causes", &packed.causes),
        ("functions", &packed.functions),
        ("ids", &packed.ids),
        ("noise", &shares(picture)),
    ];
    let mut body = String::from(include_str!("../../../templates/trace/picture.html"));
    let safe = settings.to_string().replace('<', "\\u003c");
    body += &format!("<script type=\"application/json\" id=\"trace-settings\">{safe}</script>\n");
    for (name, bytes) in columns {
        body += &format!("<script type=\"application/octet-stream\" data-column=\"{name}\">{}</script>\n", base64(bytes));
    }
    Panel::new("Messages over time", &caption).body(body)
}

/// Of each bin of each CPU the share of each kind, in 1/65535.
fn shares(picture: &TracePicture) -> Vec<u8> {
    let bin_ns = picture.noise.bin_ns.max(1) as f64;
    // What there is at all is never rounded down to nothing.
    let share = |ns: &u64| if *ns == 0 { 0 } else { (*ns as f64 / bin_ns * 65535.0).ceil().min(65535.0) as u16 };
    picture.noise.cpus.iter().flat_map(|(_, bins)| bins.iter().flat_map(move |ns| share(ns).to_le_bytes())).collect()
}

fn noise(picture: &TracePicture) -> Panel {
    let noise = &picture.noise;
    let caption = format!(
        "The same stretch of time as above, in steps of {} at least: the stronger a colour, the larger the share of the time.",
        units::time_ns(noise.bin_ns as f64)
    );
    let names: Vec<String> = noise.kinds.iter().map(|kind| format!("#{}", printable(kind))).collect();
    let columns: Vec<&str> = std::iter::once("#CPU").chain(names.iter().map(String::as_str)).collect();
    let mut table = Grid::new(&columns);
    for (cpu, bins) in &noise.cpus {
        let total = |kind: usize| bins.iter().skip(kind).step_by(noise.kinds.len().max(1)).sum::<u64>() as f64;
        let cells = (0..noise.kinds.len()).map(|kind| units::time_ns(total(kind)));
        table.row(std::iter::once(cpu.to_string()).chain(cells).collect());
    }
    let body = include_str!("../../../templates/trace/noise.html").to_string();
    Panel::new("What kept CPUs from the program", &caption).body(body).folded(table)
}

fn slowest(picture: &TracePicture) -> Panel {
    let mut body = String::from("<div class=\"scroll\"><table class=\"slowest\"><thead><tr>");
    for name in ["message", "began", "latency", "mostly", "beyond the median", "", ""] {
        let class = if ["began", "latency", "beyond the median"].contains(&name) { " class=\"number\"" } else { "" };
        body += &format!("<th{class}>{name}</th>");
    }
    body += "</tr></thead><tbody>\n";
    for slow in &picture.report.slowest {
        body += &slow_row(slow);
    }
    body += "</tbody></table></div>\n";
    body += include_str!("../../../templates/trace/waterfall.html");
    Panel::new("The slowest messages", "Choose one, here or in the picture above: what its time went to is shown below.")
        .body(body)
}

fn slow_row(slow: &SlowMessage) -> String {
    let mut mostly = match &slow.which {
        Some(which) => format!("{}: {which}", slow.cause),
        None => slow.cause.clone(),
    };
    if let Some(waker) = &slow.woken_by {
        mostly += &format!("; woken by {}", waker::named(waker));
    }
    if let Some(meanwhile) = &slow.meanwhile {
        mostly += &format!("; {}", waker::worked_on(meanwhile));
    }
    let function = slow.function.as_ref().map_or_else(String::new, |function| {
        let times = function.between_ns.map_or_else(String::new, |(low, high)| {
            format!(", {} to {}", units::time_ns(low as f64), units::time_ns(high as f64))
        });
        format!("{} ({} samples{times})", function.name, units::count(function.samples))
    });
    let particular =
        [Some(function).filter(|text| !text.is_empty()), trace_execution::beside(slow), trace_events::worth_a_word(&slow.events)];
    let particular = particular.into_iter().flatten().join("; ");
    let doubt = if slow.is_doubtful { "?" } else { "" };
    format!(
        "<tr><td><button type=\"button\" data-select=\"{id}\" data-begin=\"{begin}\">{id}{label}</button></td>\
         <td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"wrap\">{}</td><td class=\"number\">{}</td><td class=\"wrap\">{}</td>\
         <td title=\"records were lost meanwhile\">{doubt}</td></tr>\n",
        units::time_s(slow.begin_s),
        units::time_ns(slow.latency_ns as f64),
        escaped(&mostly),
        units::time_ns(slow.beyond_ns as f64),
        escaped(&particular),
        id = slow.id,
        begin = slow.begin_s * 1e9,
        label = slow.label.as_deref().map_or_else(String::new, |label| format!(" {}", escaped(label))),
    )
}

fn escaped(text: &str) -> String {
    printable(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Tails of fewer messages have no bars: their intervals would be all that is seen. The table has them.
const MIN: u64 = 10;
/// Less than this share of the extra time has no bar.
const WORTH: f64 = 0.005;

fn blames(blames: &[TailBlame]) -> Vec<Panel> {
    let Some(first) = blames.first() else { return Vec::new() };
    let is_worth = |blame: &TailBlame, ns: &Estimate| ns.estimate.abs() >= WORTH * blame.extra_ns.estimate.abs();
    let barred: Vec<&TailBlame> =
        blames.iter().enumerate().filter(|(at, b)| *at == 0 || b.messages >= MIN).map(|(_, b)| b).collect();
    let shown: Vec<String> = {
        let all = barred.iter().flat_map(|blame| blame.causes.iter().filter(|cause| is_worth(blame, &cause.extra_ns)));
        let mut names: Vec<String> = Vec::new();
        for cause in all {
            if !names.contains(&cause.cause) {
                names.push(cause.cause.clone());
            }
        }
        names
    };
    let mut figure =
        Figure::new(130 + 52 * shown.len() as u32, Axis::time("time a message beyond the median"), Axis::names().downwards());
    for (at, blame) in barred.iter().enumerate() {
        let of = |name: &String| {
            let own = blame.causes.iter().find(|cause| &cause.cause == name);
            own.map_or(Estimate::exact(0.0), |cause| cause.extra_ns.scaled(1e-9))
        };
        let values: Vec<Estimate> = shown.iter().map(of).collect();
        let name = format!("beyond {} %", units::about(blame.from * 100.0));
        figure.add(Trace::bars_right(&name, &values, &shown).colour(at));
    }
    figure.set("barmode", json!("group"));
    let mut table = Grid::new(&["slow from", "cause", "in particular", "how", "#a message", "#of the extra time"]);
    for blame in blames {
        let mut row = |cause: &str, detail: &str, how: &str, ns: &Estimate| {
            if is_worth(blame, ns) {
                let from = format!("{} %", units::about(blame.from * 100.0));
                let share = units::share(ns.estimate / blame.extra_ns.estimate);
                table.row(vec![from, cause.into(), detail.into(), how.into(), units::estimate_ns(ns), share]);
            }
        };
        row("all", "", "", &blame.extra_ns);
        for cause in &blame.causes {
            row(&cause.cause, "", "", &cause.extra_ns);
            let measured = cause.which.iter().chain(&cause.by_whom);
            measured.for_each(|detail| row(&cause.cause, &detail.name, "measured", &detail.extra_ns));
            cause.functions.iter().for_each(|detail| row(&cause.cause, &detail.name, "by samples", &detail.extra_ns));
        }
    }
    let caption = format!(
        "What slow messages spent more than the median one, by cause: {} a message beyond {} %. Medians do not add up exactly, so neither \
         do the bars.",
        units::estimate_ns(&first.extra_ns),
        units::about(first.from * 100.0)
    );
    let time = Panel::new("What the tail's extra time went to", &caption).figure(figure).folded(table);
    std::iter::once(time).chain(executed(blames)).chain(events(blames)).collect()
}

/// Whether slow messages had more work to do; none where nothing was counted.
fn executed(blames: &[TailBlame]) -> Option<Panel> {
    let columns =
        ["slow from", "#on CPU", "#more work", "#slower work", "#neither", "#instructions", "#usually", "#cycles for each"];
    let mut table = Grid::new(&[&columns[..], &["#usually"]].concat());
    for blame in blames {
        let Some(of) = &blame.executed else { continue };
        let each = |cycles: f64, instructions: f64| units::about(cycles / instructions.max(1.0));
        let instructions = of.usual_instructions + of.extra_instructions.estimate;
        table.row(vec![
            format!("{} %", units::about(blame.from * 100.0)),
            units::estimate_ns(&of.extra_on_cpu_ns),
            units::estimate_ns(&of.more_work_ns),
            units::estimate_ns(&of.slower_work_ns),
            units::estimate_ns(&of.rest_ns),
            units::about(instructions),
            units::about(of.usual_instructions),
            each(of.usual_cycles + of.extra_cycles.estimate, instructions),
            each(of.usual_cycles, of.usual_instructions),
        ]);
    }
    let caption = format!("Slow messages were {}.", trace_execution::blamed(blames.first()?.executed.as_ref()?));
    Some(Panel::new("Whether slow messages had more work, or did it more slowly", &caption).table(table))
}

/// How many of the counted events slow messages had more; none where none was counted.
fn events(blames: &[TailBlame]) -> Option<Panel> {
    let mut table = Grid::new(&["slow from", "event", "function", "object", "#more a message", "#usually"]);
    for blame in blames {
        let from = format!("{} %", units::about(blame.from * 100.0));
        for events in &blame.events {
            let mut row = |function: Option<&str>, object: Option<&str>, extra: &Estimate, usual: String| {
                let words = [function, object].map(|word| word.unwrap_or_default().to_string());
                let [function, object] = words;
                table.row(vec![from.clone(), events.event.clone(), function, object, units::estimate_number(extra), usual]);
            };
            row(None, None, &events.extra_events, units::about(events.usual_events));
            let more = events.places.iter().filter(|at| at.extra_events.low > 0.0);
            more.for_each(|at| row(at.function.as_deref(), at.object.as_deref(), &at.extra_events, String::new()));
        }
    }
    let caption = blames.first()?.events.iter().map(trace_events::blamed).join(". ");
    (!caption.is_empty()).then(|| Panel::new("Events that slow messages had more of", &caption).table(table))
}

fn quantiles(picture: &TracePicture) -> Panel {
    let fewest = picture.quantiles.iter().map(|(q, _)| 1.0 / (1.0 - q).max(1e-12)).fold(1.0, f64::max);
    let x: Vec<f64> = picture.quantiles.iter().map(|(q, _)| 1.0 / (1.0 - q).max(1e-12)).collect();
    let y: Vec<f64> = picture.quantiles.iter().map(|(_, ns)| *ns as f64 * 1e-9).collect();
    let mut figure = Figure::new(460, Axis::quantile("messages that took at most so long", fewest), Axis::time("latency").log());
    figure.add(Trace::line("latency", &x, &y).colour(0).unlisted().with(json!({"line": {"shape": "hv"}})));
    figure.level(picture.slow_ns as f64 * 1e-9, true, "slow");
    let mut table = Grid::new(&["#share", "#latency"]);
    for q in [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 1.0] {
        if let Some((_, ns)) = picture.quantiles.iter().rev().find(|(at, _)| *at <= q + 1e-12)
            && (q >= 1.0 || 1.0 / (1.0 - q) <= fewest * 1.0001)
        {
            // All their nines, and no noise of the binary fraction.
            table.row(vec![format!("{} %", (q * 1e7).round() / 1e5), units::time_ns(*ns as f64)]);
        }
    }
    let caption = "Each latency is that of a message: how long all but so few of them took at most.";
    Panel::new("Latencies in order", caption).figure(figure).folded(table)
}
