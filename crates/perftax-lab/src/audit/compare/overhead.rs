//! Figures 8 to 11 and 14, and table III: what sampling costs in time and memory.

use perftax_doc::{AuditRow, Comparison, Verdict};
use perftax_doc::{Estimate, Mechanism};

use super::{Ours, Row, number_before, on, range, spoken};
use crate::published::pes::{Overhead, Pes, Programs, SeveralEvents, Spread};

/// Words of a case whose samples come as signals.
const SIGNAL: &str = "with a signal";

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
        figure: "figure 8",
        asks: format!("time, {}", event(without)),
        published: format!("{}; with a signal {} {}", of(without), with.map_or("unknown".into(), of), on(without.machine)),
    };
    let of_misses = without.event.contains("MISS");
    let rows = ours.by("overhead", mechanism.name());
    let costs = |signal: bool| -> Vec<Estimate> {
        let is_asked = |row: &&&AuditRow| row.case.contains(SIGNAL) == signal && row.case.contains("miss") == of_misses;
        rows.iter().filter(is_asked).filter_map(|row| cost_us(row)).collect()
    };
    let (here, here_with) = (costs(false), costs(true));
    let Some(cost) = here.first() else {
        let is_first = mechanism == Mechanism::Pebs && of_misses;
        let because = if ours.has("overhead") { ours.missing("overhead", mechanism) } else { NO_OVERHEAD.into() };
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
const NO_OVERHEAD: &str = "this audit measures no overhead; perftax calibrate does";

fn event(overhead: &Overhead) -> String {
    match overhead.mechanism {
        Mechanism::Pebs if overhead.event.contains("MISS") => "PEBS of first-level misses".into(),
        Mechanism::Pebs => "PEBS of instructions".into(),
        other => spoken(other).into(),
    }
}

/// A row's cost of a sample, where it is one.
fn cost_us(row: &AuditRow) -> Option<Estimate> {
    let factor = match row.unit.as_str() {
        "ns a sample" => 1e-3,
        "µs a sample" => 1.0,
        _ => return None,
    };
    Some(row.found.scaled(factor))
}

fn microseconds(cost: &Estimate) -> String {
    format!("{:.2} µs [{:.2}, {:.2}]", cost.estimate, cost.low, cost.high)
}

/// By how much a signal multiplies the cost of a sample by other events.
fn signal_instead(ours: &Ours) -> String {
    let all: Vec<&AuditRow> = ours.rows("overhead").filter(|row| cost_us(row).is_some()).collect();
    let name = |row: &AuditRow| row.case.split(' ').next().unwrap_or_default().to_owned();
    let ratio = |with: &&&AuditRow| {
        let without = all.iter().find(|row| name(row) == name(with) && !row.case.contains(SIGNAL))?;
        let ratio = cost_us(with)?.estimate / cost_us(without)?.estimate;
        Some(format!("{}: a signal makes a sample {ratio:.1} times as dear", name(with)))
    };
    let ratios: Vec<String> = all.iter().filter(|row| row.case.contains(SIGNAL)).filter_map(|row| ratio(&row)).collect();
    if ratios.is_empty() { "nothing was measured instead".into() } else { ratios.join("; ") }
}

/// Figure 8's other half: resident memory.
pub(super) fn memory(pes: &Pes, ours: &Ours) -> Comparison {
    let more = Spread::of(pes.overhead.iter().flat_map(|row| row.memory_percent.iter().copied()));
    let sd = Spread::of(pes.overhead.iter().flat_map(|row| row.memory_sd_percent.iter().copied()));
    let published = more.zip(sd).map_or(String::new(), |(more, sd)| {
        format!("{} of some 1.5 to 2.2 MB, where a run's standard deviation is {}", super::span(&more), range(&sd, "points", 1))
    });
    let row = Row { figure: "figure 8", asks: "memory, every mechanism".into(), published };
    let rows: Vec<&AuditRow> = super::HARDWARE[..3].iter().flat_map(|hardware| ours.by("memory", hardware)).collect();
    let Some(most) = rows.iter().map(|row| 100.0 * row.error.estimate).max_by(f64::total_cmp) else {
        let because =
            if ours.has("memory") { ours.missing("memory", Mechanism::Pebs) } else { "this audit measures no memory".into() };
        return row.not_here(if ours.has("memory") { ours.instead("memory") } else { "nothing".into() }, because);
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
            let name = if row.event.as_deref().is_some_and(|event| event.contains("miss")) {
                "PEBS misses"
            } else {
                spoken(row.mechanism)
            };
            Some(format!("{name} {}", super::span(&spread)))
        };
        rows.iter().filter_map(each).collect::<Vec<_>>().join(", ")
    };
    let mut all = vec![
        Row {
            figure: "figure 9",
            asks: "time, five programs of Rodinia".into(),
            published: format!("{}; with a signal {}", of(&without), of(&with)),
        }
        .not_here(
            "other programs: eight under cpu-clock and six by PEBS on the emulated machine cost what was predicted (docs/results)".into(),
            "the suite is not among perftax's workloads; without its work the numbers cannot be held against each other",
        ),
    ];
    for (number, figure) in [("10", "figure 10"), ("11", "figure 11")] {
        if let Some(prose) = pes.prose(number) {
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
        figure: "table III",
        asks: "time, heartwall, 2 to 16 events by PEBS".into(),
        published: format!("{}; with a signal {} {}", list(false), list(true), on(crate::published::pes::Maker::Intel)),
    };
    let pinned = ours.rows("events").find(|row| row.case.contains(" pinned on ") && row.verdict == Verdict::Passed);
    let refused = ours.rows("events").filter(|row| row.unit == "events opened" && row.found.high == 0.0);
    let refused = refused.filter_map(|row| number_before(&row.case, " at once")).min();
    let instead = match (pinned, refused) {
        (Some(row), _) => format!("{}: {:.0} of them", row.case, row.found.estimate),
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
        figure: "figure 14",
        asks: format!("time, {programs} programs under ComDetective"),
        published: pes.tools.iter().filter_map(each).collect::<Vec<_>>().join(", "),
    }
    .not_here(
        "nothing".into(),
        "it is the cost of another tool, with signals and debug registers of its own, on programs that are not here",
    )
}
