//! `perftax selfcost` on a terminal.

use itertools::Itertools as _;
use owo_colors::OwoColorize;
use perftax_doc::Estimate;
use perftax_doc::{CostUnit, EventSet, Price, PriceFit, PriceRatio, PriceSection, Selfcost};

use crate::printable::printable;
use crate::sheet::Sheet;
use crate::table::Table;
use crate::units;

/// The list, part by part; ratios; lines over the number of events; what cannot be had.
pub fn selfcost(doc: &Selfcost) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    sheet.row("method", &method(doc));
    for set in &doc.sets {
        sheet.row(&set.name, &events(set));
    }
    for section in PriceSection::ALL {
        let tables = match section {
            PriceSection::Measuring => measuring(doc),
            _ => others(doc, section),
        };
        if tables.is_empty() {
            continue;
        }
        sheet.blank();
        sheet.row("", &section.title().bold().to_string());
        tables.iter().for_each(|table| sheet.table(table));
    }
    if !doc.fits.is_empty() {
        sheet.blank();
        sheet.row("", &"Growing with the events".bold().to_string());
        sheet.table(&fits(doc));
    }
    if !doc.ratios.is_empty() {
        sheet.blank();
        sheet.row("", &"Against each other, in the same rounds".bold().to_string());
        sheet.table(&ratios(doc));
    }
    missing(&mut sheet, doc);
    remarks(&mut sheet, doc);
    sheet.warnings(&doc.origin.warnings);
    sheet.finish()
}

/// What a price is read by, and how its interval is made.
pub(crate) fn method(doc: &Selfcost) -> String {
    let timer = doc
        .timer_ticks
        .cost
        .map_or(String::new(), |cost| format!("; {} ticks of its own are taken off", units::about(cost.median.estimate)));
    let ticks = match doc.unit {
        CostUnit::Nanoseconds => format!("rdtscp, {} ticks/ns{timer}", units::about(doc.ticks_per_unit)),
        CostUnit::Instructions => {
            format!("rdtscp, {} tick an instruction, user's and kernel's{timer}", units::about(doc.ticks_per_unit))
        }
    };
    format!(
        "{ticks}; medians of {} rounds of {} runs, the interval by order statistics of the rounds; {} in all",
        doc.rounds,
        doc.runs_per_round,
        units::span(doc.elapsed_s)
    )
}

fn events(set: &EventSet) -> String {
    if set.events.is_empty() { "none here".into() } else { set.events.join(", ") }
}

/// A cost in the document's unit.
pub(crate) fn cost(doc: &Selfcost, cost: &Estimate) -> String {
    match doc.unit {
        CostUnit::Nanoseconds => units::estimate_ns(cost),
        CostUnit::Instructions => units::estimate_number(cost),
    }
}

/// A cost in few letters: the larger half of its interval stands for both.
pub(super) fn brief(doc: &Selfcost, known: &Estimate) -> String {
    cost(doc, &symmetric(known))
}

fn symmetric(known: &Estimate) -> Estimate {
    let half = (known.estimate - known.low).max(known.high - known.estimate);
    Estimate { low: known.estimate - half, high: known.estimate + half, ..*known }
}

/// A cost without its unit, in whole nanoseconds or instructions.
fn whole(known: &Estimate) -> String {
    let known = symmetric(known);
    let number = |x: f64| units::count(x.abs().round() as u64);
    let sign = if known.estimate <= -0.5 { "-" } else { "" };
    if known.half_width() == 0.0 {
        format!("{sign}{}", number(known.estimate))
    } else {
        format!("{sign}{} ± {}", number(known.estimate), number(known.half_width()))
    }
}

/// What costs are in, for the head of a table.
fn unit(doc: &Selfcost) -> &'static str {
    match doc.unit {
        CostUnit::Nanoseconds => "ns",
        CostUnit::Instructions => "instructions",
    }
}

/// A number without an interval, in the document's unit.
pub(crate) fn number(doc: &Selfcost, value: f64) -> String {
    match doc.unit {
        CostUnit::Nanoseconds => units::time_ns(value),
        CostUnit::Instructions => units::about(value),
    }
}

/// For each set and operation a table: ways downwards, numbers of events to the right.
fn measuring(doc: &Selfcost) -> Vec<Table> {
    let prices: Vec<&Price> = doc.of(PriceSection::Measuring).filter(|price| price.cost.is_some()).collect();
    let mut tables = Vec::new();
    for set in &doc.sets {
        let of_set: Vec<&Price> = prices.iter().copied().filter(|price| price.set == set.name).collect();
        for operation in ["start", "read", "stop", "start, stop, read", "reset, start, stop, read"] {
            let rows: Vec<&Price> = of_set.iter().copied().filter(|price| price.operation == operation).collect();
            let counts = rows.iter().map(|price| price.events).unique().collect_vec();
            // A terminal has no place for more.
            const MAX: usize = 5;
            let shown: Vec<u32> =
                if counts.len() > MAX { counts.iter().copied().filter(|n| n.is_power_of_two()).collect() } else { counts };
            let mut table = Table::default().left(&format!("{operation} ({}, {})", set.name, unit(doc)));
            for count in &shown {
                table = table.right(&count.to_string());
            }
            for method in rows.iter().map(|price| price.method.clone()).unique() {
                let at = |count: &u32| {
                    let price = rows.iter().find(|price| price.method == method && price.events == *count);
                    let known = price.and_then(|price| price.cost.map(|cost| (price, cost.median)));
                    known.map_or(String::new(), |(price, median)| {
                        format!(
                            "{}{}",
                            whole(&median),
                            if price.remark.as_ref().is_some_and(|r| r.contains("multiplexed")) { "*" } else { "" }
                        )
                    })
                };
                table.row([printable(&method)].into_iter().chain(shown.iter().map(at)).collect());
            }
            if !rows.is_empty() {
                tables.push(table);
            }
        }
    }
    tables
}

/// One row a price; beside a switch, what it is of one without events.
fn others(doc: &Selfcost, section: PriceSection) -> Vec<Table> {
    let rows: Vec<&Price> = doc.of(section).filter(|price| price.cost.is_some()).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let mut table = Table::default().left("").left("events").right("median").right("floor").right("first").right("against none");
    for price in rows {
        let Some(known) = &price.cost else { continue };
        let first = known.first.filter(|_| !section.is_against_none());
        table.row(vec![
            printable(&what(&price.operation, &price.method)),
            match price.events {
                0 => String::new(),
                n => format!("{n} {}", price.set),
            },
            brief(doc, &known.median),
            number(doc, known.floor),
            first.map_or(String::new(), |first| brief(doc, &first)),
            against_none(doc, price),
        ]);
    }
    vec![table]
}

/// What is done and by which way, as one name.
pub(super) fn what(operation: &str, method: &str) -> String {
    if method.is_empty() { operation.into() } else { format!("{operation}, {method}") }
}

/// The ratio of a switch, or of a task, to one without events.
pub(crate) fn against_none(doc: &Selfcost, price: &Price) -> String {
    let name = price.name();
    let ratio = doc.ratios.iter().find(|ratio| price.section.is_against_none() && ratio.of == name);
    ratio.map_or(String::new(), |ratio| format!("× {}", units::estimate_number(&symmetric(&ratio.ratio))))
}

fn fits(doc: &Selfcost) -> Table {
    let mut table =
        Table::default().left("").left("events").right("fixed").right("each event adds").right("off the line").left("");
    for fit in &doc.fits {
        table.row(vec![
            printable(&what(&fit.operation, &fit.method)),
            points(fit),
            brief(doc, &fit.fixed),
            brief(doc, &fit.per_event),
            format!("≤ {}", units::share(fit.worst_residual)),
            if fit.is_line() { String::new() } else { "no line".into() },
        ]);
    }
    table
}

/// The numbers of events that a line goes through: `1 to 16 software`.
pub(crate) fn points(fit: &PriceFit) -> String {
    let (least, most) = (fit.events.iter().min(), fit.events.iter().max());
    let [least, most] = [least, most].map(|n| n.map_or(String::new(), u32::to_string));
    format!("{least} to {most} {}", fit.set)
}

fn ratios(doc: &Selfcost) -> Table {
    let mut table = Table::default().left("").left("against").right("ratio").left("");
    // Switches and tasks have theirs beside them.
    let has_beside =
        |ratio: &PriceRatio| doc.prices.iter().any(|price| price.section.is_against_none() && price.name() == ratio.of);
    for ratio in doc.ratios.iter().filter(|ratio| !has_beside(ratio)) {
        let (of, to) = (short(&ratio.of), short(&ratio.to));
        table.row(vec![of.clone(), beyond(&of, &to), units::estimate_number(&symmetric(&ratio.ratio)), kept(ratio)]);
    }
    table
}

/// What the second name has that the first has not: words that both begin with are said once.
fn beyond(first: &str, second: &str) -> String {
    let common = first.split(", ").zip(second.split(", ")).take_while(|(a, b)| a == b).count();
    second.split(", ").skip(common).join(", ")
}

/// A price's name without what both sides of a ratio have in common.
fn short(name: &str) -> String {
    printable(&name.replace("in turns: ", "").replace(", 1 software event", "").replace(", 1 hardware event", " (hardware)"))
}

/// Whether what was promised holds.
pub(crate) fn kept(ratio: &PriceRatio) -> String {
    let Some(bound) = ratio.bound else { return String::new() };
    match ratio.is_kept() {
        Some(true) => format!("≤ {bound}: held"),
        Some(false) => format!("≤ {bound}: NOT held"),
        None => format!("≤ {bound}: too noisy to tell"),
    }
}

/// What there is no price of, those of one reason together.
fn missing(sheet: &mut Sheet, doc: &Selfcost) {
    let missing: Vec<&Price> = doc.prices.iter().filter(|price| price.cost.is_none()).collect();
    if missing.is_empty() {
        return;
    }
    sheet.blank();
    sheet.row("", &"Cannot be had here".bold().to_string());
    sheet.blank();
    let why = |price: &Price| price.remark.clone().unwrap_or_else(|| "no run of it came".into());
    for reason in missing.iter().map(|price| why(price)).unique() {
        let names: Vec<String> = missing.iter().filter(|price| why(price) == reason).map(|price| price.name()).collect();
        sheet.line(&format!("  {}", printable(&names.join("; "))));
        sheet.row("", &printable(&reason));
    }
}

fn remarks(sheet: &mut Sheet, doc: &Selfcost) {
    let priced = doc.prices.iter().filter(|price| price.cost.is_some());
    let said = priced.filter_map(|price| price.remark.clone()).unique().collect_vec();
    if said.is_empty() {
        return;
    }
    sheet.blank();
    for remark in said {
        let of: Vec<&Price> =
            doc.prices.iter().filter(|price| price.cost.is_some() && price.remark.as_ref() == Some(&remark)).collect();
        let about = match of.as_slice() {
            [one] => one.name(),
            many => format!("{} prices, from {}", many.len(), many[0].name()),
        };
        let star = if remark.contains("multiplexed") { "* " } else { "" };
        sheet.row("remark", &printable(&format!("{star}{about}: {remark}")));
    }
}
