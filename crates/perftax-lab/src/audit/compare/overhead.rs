//! Figures 8 to 11 and 14, and table III: what sampling costs in time and memory.

use perftax_doc::steps::{Calibrated, Operation};
use perftax_doc::{Comparison, Estimate, Mechanism};

use super::{Entry, Ours, Row, on, range, spoken};
use crate::audit::Name;
use crate::audit::case::Case;
use crate::audit::unit::Unit;
use crate::published::pes::{Figure, Overhead, Pes, Programs, Sampled, SeveralEvents, Spread};

/// Figure 8: elapsed time of the accuracy benchmark, and with it the cost of a sample, without and with a signal for each.
pub(super) fn of_the_loop(pes: &Pes, ours: &Ours) -> Vec<Comparison> {
    pes.overhead.iter().filter(|row| !row.with_signal).map(|without| loop_row(pes, ours, without)).collect()
}

fn loop_row(pes: &Pes, ours: &Ours, without: &Overhead) -> Comparison {
    let mechanism = without.mechanism;
    let is_same = |other: &&Overhead| other.with_signal && other.event == without.event && other.machine == without.machine;
    let with = pes.overhead.iter().find(is_same);
    let of = |overhead: &Overhead| {
        let spread = |values: &[f64]| Spread::of(values.iter().copied());
        let (time, cost) = (spread(&overhead.time_percent), spread(&overhead.cost_us));
        time.zip(cost)
            .map_or(String::new(), |(time, cost)| format!("{}, {} a sample", range(&time, "%", 2), range(&cost, "µs", 2)))
    };
    let row = Row {
        figure: Figure::Eight,
        asks: format!("time, {}", event(without)),
        published: format!("{}; with a signal {} {}", of(without), with.map_or("unknown".into(), of), on(without.machine)),
    };
    let of_misses = without.event == Sampled::Misses;
    let rows = ours.by(Name::Overhead, mechanism);
    let costs = |signal: bool| -> Vec<Estimate> {
        let is_asked = |entry: &&&Entry| entry.case.has_signal() == signal && entry.case.is_of_misses() == of_misses;
        rows.iter().filter(is_asked).filter_map(|entry| cost_us(entry)).collect()
    };
    let (here, here_with) = (costs(false), costs(true));
    let Some(cost) = here.first() else {
        let is_first = mechanism == Mechanism::Pebs && of_misses;
        let because = if ours.has(Name::Overhead) { ours.missing(Name::Overhead, mechanism) } else { no_overhead() };
        return row.not_here(if is_first { signal_instead(ours) } else { "nothing".into() }, because);
    };
    let mut text = format!("{} a sample", microseconds(cost));
    if let Some(with) = here_with.first() {
        text += &format!("; with a signal {}", microseconds(with));
    }
    let published = Spread::of(without.cost_us.iter().copied());
    if published.is_some_and(|spread| spread.contains(cost.estimate) || cost.contains(spread.median)) {
        return row.reproduced(text, "the cost of a sample is the published one; the overhead is that times the samples");
    }
    row.differs(text, "the cost of a sample is a machine's own; the overhead is that times the samples")
}

/// Why an audit without the experiment has no overhead.
fn no_overhead() -> String {
    format!("this audit measures no overhead; {} does", Operation::Calibrate(Calibrated::All))
}

fn event(overhead: &Overhead) -> String {
    match overhead.mechanism {
        Mechanism::Pebs if overhead.event == Sampled::Misses => "PEBS of first-level misses".into(),
        Mechanism::Pebs => "PEBS of instructions".into(),
        other => spoken(other).into(),
    }
}

/// A row's cost of a sample, where it is one.
fn cost_us(entry: &Entry) -> Option<Estimate> {
    (Unit::read(&entry.row.unit)? == Unit::MicrosecondsASample).then_some(entry.row.found)
}

fn microseconds(cost: &Estimate) -> String {
    format!("{:.2} µs [{:.2}, {:.2}]", cost.estimate, cost.low, cost.high)
}

/// By how much a signal multiplies the cost of a sample by other events.
fn signal_instead(ours: &Ours) -> String {
    let all: Vec<&Entry> = ours.rows(Name::Overhead).filter(|entry| cost_us(entry).is_some()).collect();
    let name = |entry: &Entry| entry.row.case.split([' ', ',']).next().unwrap_or_default().to_owned();
    let ratio = |with: &Entry| {
        let without = all.iter().find(|entry| name(entry) == name(with) && !entry.case.has_signal())?;
        let ratio = cost_us(with)?.estimate / cost_us(without)?.estimate;
        Some(format!("{}: a signal makes a sample {ratio:.1} times as expensive", name(with)))
    };
    let ratios: Vec<String> = all.iter().filter(|entry| entry.case.has_signal()).filter_map(|entry| ratio(entry)).collect();
    if ratios.is_empty() { "nothing was measured instead".into() } else { ratios.join("; ") }
}

/// Figure 8's other half: resident memory.
pub(super) fn memory(pes: &Pes, ours: &Ours) -> Comparison {
    let more = Spread::of(pes.overhead.iter().flat_map(|row| row.memory_percent.iter().copied()));
    let sd = Spread::of(pes.overhead.iter().flat_map(|row| row.memory_sd_percent.iter().copied()));
    let published = more.zip(sd).map_or(String::new(), |(more, sd)| {
        format!("{} of some 1.5 to 2.2 MB, where a run's standard deviation is {}", super::span(&more), range(&sd, "points", 1))
    });
    let row = Row { figure: Figure::Eight, asks: "memory, every mechanism".into(), published };
    let rows = ours.precise(Name::Memory);
    let Some(most) = rows.iter().map(|entry| 100.0 * entry.row.error.estimate).max_by(f64::total_cmp) else {
        let because = if ours.has(Name::Memory) {
            ours.missing(Name::Memory, Mechanism::Pebs)
        } else {
            "this audit measures no memory".into()
        };
        return row.not_here(if ours.has(Name::Memory) { ours.instead(Name::Memory) } else { "nothing".into() }, because);
    };
    let text = format!("at most {} % ({} rows)", super::percent(most), rows.len());
    if more.is_some_and(|more| most <= more.most) {
        row.reproduced(text, "no more than the published growth, which its own runs do not tell from none")
    } else {
        row.differs(text, "buffers are of a fixed size, and against another program's memory they weigh otherwise")
    }
}

/// Figures 9, 10 and 11: programs of a suite, and what there are no numbers of.
pub(super) fn elsewhere(pes: &Pes) -> Vec<Comparison> {
    let without: Vec<&Programs> = pes.programs.iter().filter(|row| row.with_signal == Some(false)).collect();
    let with: Vec<&Programs> = pes.programs.iter().filter(|row| row.with_signal == Some(true)).collect();
    let of = |rows: &[&Programs]| {
        let each = |row: &&Programs| {
            let spread = Spread::of(row.time_percent.iter().copied())?;
            let name = if row.event == Some(Sampled::Misses) { "PEBS misses" } else { spoken(row.mechanism) };
            Some(format!("{name} {}", super::span(&spread)))
        };
        rows.iter().filter_map(each).collect::<Vec<_>>().join(", ")
    };
    let mut all = vec![
        Row {
            figure: Figure::Nine,
            asks: "time, five programs of Rodinia".into(),
            published: format!("{}; with a signal {}", of(&without), of(&with)),
        }
        .not_here(
            "other programs: eight under cpu-clock and six by PEBS on the emulated machine cost what was predicted (docs/results)".into(),
            "the suite is not among perftax's workloads; without its work the numbers cannot be held against each other",
        ),
    ];
    for figure in [Figure::Ten, Figure::Eleven] {
        if let Some(prose) = pes.prose(figure) {
            let row = Row { figure, asks: prose.asks.clone(), published: prose.finding.clone() };
            all.push(row.not_here("nothing".into(), "no published number to hold anything against"));
        }
    }
    all
}

/// Table III: one program under two to sixteen events.
pub(super) fn several_events(pes: &Pes, ours: &Ours) -> Comparison {
    let list = |with_signal: bool| {
        let rows = pes.several.iter().filter(|row| row.with_signal == with_signal);
        rows.map(|row: &SeveralEvents| format!("{} % of {}", super::percent(row.time_percent), row.at_once))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let row = Row {
        figure: Figure::TableThree,
        asks: "time, heartwall, 2 to 16 events by PEBS".into(),
        published: format!("{}; with a signal {} {}", list(false), list(true), on(crate::published::pes::Maker::Intel)),
    };
    let pinned = ours.rows(Name::Events).find(|entry| matches!(entry.case, Case::Pinned { .. }) && entry.has_passed());
    let is_refused = |entry: &&Entry| Unit::read(&entry.row.unit) == Some(Unit::EventsOpened) && entry.row.found.high == 0.0;
    let refused = ours.rows(Name::Events).filter(is_refused).filter_map(|entry| entry.case.at_once()).min();
    let instead = match (pinned, refused) {
        (Some(entry), _) => format!("{}: {:.0} of them", entry.case, entry.row.found.estimate),
        (None, Some(n)) => format!("{n} watchpoints at once are refused when they are opened, not left out in silence"),
        (None, None) => "nothing".into(),
    };
    row.not_here(
        instead,
        "the program is not among perftax's workloads. That the table is flat from 4 events on needs no measurement: pinned events beyond the \
         counters go to an error state and take no samples",
    )
}

/// Figure 14: a profiling tool.
pub(super) fn tool(pes: &Pes) -> Comparison {
    let each = |row: &Programs| {
        let spread = Spread::of(row.time_percent.iter().copied())?;
        Some(format!("{} (median {:.1}) by {} {}", super::span(&spread), spread.median, spoken(row.mechanism), on(row.machine)))
    };
    let programs = pes.tools.first().map_or(0, |row| row.programs.len());
    Row {
        figure: Figure::Fourteen,
        asks: format!("time, {programs} programs under ComDetective"),
        published: pes.tools.iter().filter_map(each).collect::<Vec<_>>().join(", "),
    }
    .not_here(
        "nothing".into(),
        "it is the cost of another tool, with signals and debug registers of its own, on programs that are not here",
    )
}
