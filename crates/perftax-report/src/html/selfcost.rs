//! The page of a price list: box plots, growth with the number of events, the first time, switches, ratios.

use itertools::Itertools as _;
use perftax_doc::Estimate;
use perftax_doc::{CostUnit, Price, PriceRatio, PriceSection, Selfcost};
use serde_json::json;

use super::figure::{Axis, Figure, Trace};
use super::page::{Grid, Panel, Part};
use crate::text::{selfcost_cost as cost, selfcost_kept as kept, selfcost_method as method};
use crate::text::{selfcost_number as number, selfcost_points as points};
use crate::units;

const NS: f64 = 1e-9;

pub(super) fn part(doc: &Selfcost) -> Part {
    let mut part = Part::of(&doc.origin, "What it costs to measure oneself");
    part.lead = format!("{}.", capital(&method(doc)));
    let read = |method: &str| {
        let is_it = |p: &&Price| p.operation == "read" && p.method == method && p.events == 1 && p.cost.is_some();
        doc.of(PriceSection::Measuring).find(is_it).and_then(|price| Some((price, price.cost?)))
    };
    for by in ["read(), singles", "rdpmc", "in turns: PAPI"] {
        if let Some((price, known)) = read(by) {
            let of = match doc.unit {
                CostUnit::Nanoseconds => "",
                CostUnit::Instructions => " instructions",
            };
            part.fact(
                &format!("read one event, {by}"),
                cost(doc, &known.median) + of,
                format!("undisturbed {}", number(doc, known.floor)) + &set_of(price),
            );
        }
    }
    let priced = doc.prices.iter().filter(|price| price.cost.is_some()).count();
    part.fact("prices", priced.to_string(), format!("{} more cannot be had here", doc.prices.len() - priced));
    for set in &doc.sets {
        for operation in doc.of(PriceSection::Measuring).map(|price| price.operation.clone()).unique() {
            let rows: Vec<&Price> =
                doc.of(PriceSection::Measuring).filter(|price| price.set == set.name && price.operation == operation).collect();
            let caption =
                format!("Events: {}. Boxes are all warm runs, dots the medians with their intervals.", set.events.join(", "));
            let title = format!("{}: {} events", capital(&operation), set.name);
            boxes(&mut part, doc, &title, &caption, &rows);
        }
    }
    growth(&mut part, doc);
    first(&mut part, doc);
    for section in PriceSection::ALL.into_iter().filter(|section| *section != PriceSection::Measuring) {
        let rows: Vec<&Price> = doc.of(section).collect();
        boxes(&mut part, doc, section.title(), caption(section), &rows);
    }
    ratios(&mut part, doc);
    missing(&mut part, doc);
    part
}

fn set_of(price: &Price) -> String {
    if price.set.is_empty() { String::new() } else { format!(", {}", price.set) }
}

fn caption(section: PriceSection) -> &'static str {
    match section {
        PriceSection::Measuring => "",
        PriceSection::FirstTouch => {
            "A page that was never touched faults when it is: that, and not the counter, is what a first reading takes."
        }
        PriceSection::Call => {
            "Held against a call that does nothing. While these were timed another event stood open, as in a program that measures."
        }
        PriceSection::Switch => {
            "lat_ctx: processes in a ring pass a token on; what the pipe and the reading of memory take within one process is taken off. The ratios \
             to no event are below."
        }
        PriceSection::Task => {
            "Each inherited event is copied for a thread when it is created, and given up when it ends. The ratios to no event are below."
        }
        PriceSection::Tool => "Whole programs, from their start to their end; perf bench says its own figure.",
    }
}

/// What an axis has of costs, and what a cost is on it.
fn axis(doc: &Selfcost, title: &str) -> (Axis, f64) {
    match doc.unit {
        CostUnit::Nanoseconds => (Axis::time(title), NS),
        CostUnit::Instructions => (Axis::count(&format!("{title}, instructions")), 1.0),
    }
}

fn row_name(price: &Price) -> String {
    let events = if price.events == 0 { String::new() } else { format!(", {}", price.events) };
    let set = if price.section == PriceSection::Measuring { String::new() } else { set_of(price).replace(", ", " ") };
    let operation = if price.section == PriceSection::Measuring { String::new() } else { format!("{}, ", price.operation) };
    format!("{operation}{}{events}{set}", price.method).trim_end_matches(", ").replace(", , ", ", ")
}

/// Box plots with the medians' intervals, and the table of the numbers.
fn boxes(part: &mut Part, doc: &Selfcost, title: &str, caption: &str, rows: &[&Price]) {
    let known: Vec<(&Price, perftax_doc::Cost)> = rows.iter().filter_map(|price| Some((*price, price.cost?))).collect();
    if known.is_empty() {
        return;
    }
    let (axis, scale) = axis(doc, "cost");
    let names: Vec<String> = known.iter().map(|(price, _)| row_name(price)).collect();
    let mut figure = Figure::new(120 + 24 * known.len() as u32, axis.log(), Axis::names().downwards());
    let of = |value: fn(&perftax_doc::Cost) -> f64| -> Vec<f64> { known.iter().map(|(_, cost)| value(cost) * scale).collect() };
    let medians: Vec<Estimate> = known.iter().map(|(_, cost)| cost.median.scaled(scale)).collect();
    figure.add(
        Trace::forest("median", &medians, &names)
            .with(json!({
                "type": "box", "orientation": "h", "name": "runs", "x": null, "error_x": null, "mode": null,
                "q1": of(|c| c.spread.q1), "median": of(|c| c.spread.median), "q3": of(|c| c.spread.q3),
                "lowerfence": of(|c| c.spread.low), "upperfence": of(|c| c.spread.high),
            }))
            .colour(0),
    );
    figure.add(Trace::forest("median of the rounds, 95 %", &medians, &names).colour(1).with(json!({"marker": {"size": 5}})));
    let mut table =
        Grid::new(&["what", "by", "#events", "#median", "#floor", "#first", "#quartiles", "#most", "#runs", "remark"]);
    for (price, known) in &known {
        table.row(vec![
            price.operation.clone(),
            price.method.clone(),
            if price.events == 0 { String::new() } else { price.events.to_string() },
            cost(doc, &known.median),
            number(doc, known.floor),
            known.first.as_ref().map_or(String::new(), |first| cost(doc, first)),
            format!("{} – {}", number(doc, known.spread.q1), number(doc, known.spread.q3)),
            number(doc, known.spread.most),
            units::count(price.runs_ticks.len() as u64),
            price.remark.clone().unwrap_or_default(),
        ]);
    }
    part.panel(Panel::new(title, caption).figure(figure).table(table));
}

/// Prices over the number of events.
fn growth(part: &mut Part, doc: &Selfcost) {
    if doc.fits.is_empty() {
        return;
    }
    let mut table = Grid::new(&["what", "by", "events", "#fixed", "#each event adds", "#off the line at most"]);
    for fit in &doc.fits {
        table.row(vec![
            fit.operation.clone(),
            fit.method.clone(),
            points(fit),
            cost(doc, &fit.fixed),
            cost(doc, &fit.per_event),
            units::share(fit.worst_residual) + if fit.is_line() { "" } else { ": no line" },
        ]);
    }
    let (axis, scale) = axis(doc, "cost of a start, a read, a stop");
    let mut figure = Figure::new(520, Axis::count("events").zero_based(), axis.zero_based());
    for (at, fit) in doc.fits.iter().filter(|fit| fit.operation != "start, stop, read").enumerate() {
        let is_of = |p: &&Price| {
            p.operation == fit.operation && p.method == fit.method && p.set == fit.set && fit.events.contains(&p.events)
        };
        let known = doc
            .of(PriceSection::Measuring)
            .filter(is_of)
            .filter_map(|price| Some((f64::from(price.events), price.cost?.median.scaled(scale))));
        let (x, y): (Vec<f64>, Vec<Estimate>) = known.unzip();
        let name = format!("{}, {} ({})", fit.operation, fit.method, fit.set);
        figure.add(Trace::points(&name, &x, &y).colour(at).with(json!({"legendgroup": name})));
        if !fit.is_line() {
            continue;
        }
        let ends = [0.0, x.iter().copied().fold(0.0, f64::max)];
        let line = ends.map(|n| (fit.fixed.estimate + fit.per_event.estimate * n) * scale);
        figure.add(Trace::line(&name, &ends, &line).colour(at).unlisted().with(json!({"legendgroup": name})));
    }
    let caption = "A line for each way that has one: its height at 0 is paid however many events there are, its slope for each.";
    part.panel(Panel::new("Growing with the events", caption).figure(figure).table(table));
}

/// First runs against those behind them.
fn first(part: &mut Part, doc: &Selfcost) {
    let known = doc.of(PriceSection::Measuring).filter(|price| price.events == 1);
    let known: Vec<(String, Estimate, Estimate)> = known
        .filter_map(|price| {
            Some((format!("{}: {}{}", price.operation, price.method, set_of(price)), price.cost?.first?, price.cost?.median))
        })
        .collect();
    if known.is_empty() {
        return;
    }
    let (axis, scale) = axis(doc, "cost");
    let names: Vec<String> = known.iter().map(|(name, _, _)| name.clone()).collect();
    let mut figure = Figure::new(120 + 24 * known.len() as u32, axis.log(), Axis::names().downwards());
    let of = |which: fn(&(String, Estimate, Estimate)) -> Estimate| {
        known.iter().map(|one| which(one).scaled(scale)).collect::<Vec<_>>()
    };
    figure.add(Trace::forest("first run after opening", &of(|one| one.1), &names).colour(1));
    figure.add(Trace::forest("runs behind it", &of(|one| one.2), &names).colour(0));
    let caption =
        "What a program pays that measures once: the first run of every round, with caches, pages and predictors as they come.";
    part.panel(Panel::new("The first run and the others, one event", caption).figure(figure));
}

fn ratios(part: &mut Part, doc: &Selfcost) {
    if doc.ratios.is_empty() {
        return;
    }
    let is_switch =
        |ratio: &&PriceRatio| doc.prices.iter().any(|price| price.section.is_against_none() && price.name() == ratio.of);
    let (switches, others): (Vec<&PriceRatio>, Vec<&PriceRatio>) = doc.ratios.iter().partition(is_switch);
    let panel = |part: &mut Part, title: &str, caption: &str, rows: &[&PriceRatio]| {
        if rows.is_empty() {
            return;
        }
        let names: Vec<String> = rows.iter().map(|ratio| ratio.of.clone()).collect();
        let values: Vec<Estimate> = rows.iter().map(|ratio| ratio.ratio).collect();
        let mut figure = Figure::new(120 + 26 * rows.len() as u32, Axis::count("ratio").log(), Axis::names().downwards());
        figure.add(Trace::forest("ratio", &values, &names).colour(0).unlisted());
        figure.upright(1.0);
        let mut table = Grid::new(&["of", "against", "#ratio", "promised", "#rounds"]);
        for ratio in rows {
            let ratio_text = units::estimate_number(&ratio.ratio);
            table.row(vec![ratio.of.clone(), ratio.to.clone(), ratio_text, kept(ratio), ratio.rounds.len().to_string()]);
        }
        part.panel(Panel::new(title, caption).figure(figure).table(table));
    };
    panel(
        part,
        "Against each other",
        "Taken round by round: whatever slows a round slows both sides. Left of the line is cheaper.",
        &others,
    );
    let caption = "What an open event adds to a switch, or to a thread that comes and goes; 'no event, again' is the same as the base, and shows what differs without a reason.";
    panel(part, "Switches and threads against those without events", caption, &switches);
}

fn missing(part: &mut Part, doc: &Selfcost) {
    let mut table = Grid::new(&["what", "by", "events", "why"]);
    for price in doc.prices.iter().filter(|price| price.cost.is_none()) {
        let events = format!("{} {}", price.events, price.set);
        table.row(vec![price.operation.clone(), price.method.clone(), events, price.remark.clone().unwrap_or_default()]);
    }
    if doc.prices.iter().any(|price| price.cost.is_none()) {
        part.panel(Panel::new("Cannot be had here", "Nothing else was measured in their place.").table(table));
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
