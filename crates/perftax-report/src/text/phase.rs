//! `perftax phase` on a terminal.

use owo_colors::OwoColorize;
use perftax_doc::Estimate;
use perftax_doc::{Phase, PhaseInterval, PhaseStretch};

use crate::printable::printable;
use crate::sheet::Sheet;
use crate::table::Table;
use crate::{shell, units};

/// Columns of a curve.
const COLUMNS: usize = 56;
/// Heights that a column may have.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Two events over a run: their curves, and the stretches.
pub fn phase(doc: &Phase) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    let command: Vec<String> = doc.program.iter().map(|word| printable(word)).collect();
    sheet.row("program", &shell::join(&command));
    sheet.row("every", &interval(doc));
    let [first, second] = doc.events.each_ref().map(|name| printable(name));
    let counted = |i: usize, name: &str| format!("{} {name}", units::count(doc.counted[i]));
    let ratio = doc.ratio.as_ref().map_or(format!("too few {second} for a ratio"), |ratio| {
        format!("{first} / {second} {}", units::estimate_number(ratio).bold())
    });
    sheet.row("counted", &format!("{}, {}: {ratio}", counted(1, &first), counted(2, &second)));
    sheet.table(&curves(doc));
    let (_, unit) = doc.shown_per();
    let narrow = units::share(SHOWN);
    sheet.row("stretches", &format!("in which neither rate changes, {unit}; intervals narrower than {narrow} are not shown"));
    sheet.table(&stretches(doc));
    sheet.warnings(&doc.origin.warnings);
    sheet.finish()
}

/// What ends an interval, and what came of it.
pub(crate) fn interval(doc: &Phase) -> String {
    let lost = if doc.lost == 0 { "none lost".into() } else { format!("{} lost", units::count(doc.lost)) };
    let throttled = if doc.throttled == 0 { String::new() } else { format!(", throttled {} times", units::count(doc.throttled)) };
    let period = if doc.is_time { units::exact_time(doc.period) + " of" } else { units::count(doc.period) };
    format!(
        "{period} {}: {} samples of {} expected, {lost}{throttled}, on counters for {} of the time",
        printable(&doc.interval_event),
        units::count(doc.samples),
        units::count(doc.expected_samples),
        units::share(doc.running)
    )
}

fn curves(doc: &Phase) -> Table {
    let (per, unit) = doc.shown_per();
    let intervals = doc.thinned(COLUMNS);
    let mut table = Table::default().left(&unit).left("from the start to the end").right("least").right("most");
    let mut curve = |name: String, values: Vec<Option<f64>>| {
        let known = values.iter().copied().flatten();
        let (least, most) = known.clone().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), v| (l.min(v), m.max(v)));
        if known.count() == 0 {
            return;
        }
        table.row(vec![name, line(&values, most), units::about(least), units::about(most)]);
    };
    let rate = |of: fn(&PhaseInterval) -> u64| {
        intervals.iter().map(|i| (i.passed > 0).then(|| per * of(i) as f64 / i.passed as f64)).collect::<Vec<_>>()
    };
    curve(printable(&doc.events[0]), rate(|i| i.first));
    curve(printable(&doc.events[1]), rate(|i| i.second));
    curve("ratio".into(), intervals.iter().map(PhaseInterval::ratio).collect());
    table
}

/// A column a value, its height by where it lies between nothing and the most; a gap where there is none.
fn line(values: &[Option<f64>], most: f64) -> String {
    let block = |value: &f64| {
        let share = if most > 0.0 { value / most } else { 0.0 };
        BLOCKS[((share * BLOCKS.len() as f64) as usize).min(BLOCKS.len() - 1)]
    };
    values.iter().map(|value| value.as_ref().map_or(' ', block)).collect()
}

fn stretches(doc: &Phase) -> Table {
    let (per, _) = doc.shown_per();
    let [first, second] = doc.events.each_ref().map(|name| printable(name));
    let per_of = |rate: Option<&Estimate>| rate.map_or("–".into(), |rate| short(&rate.scaled(per)));
    let mut table = Table::default()
        .right("stretch")
        .right("intervals")
        .right(&printable(&doc.interval_event))
        .right(&first)
        .right(&second)
        .right("ratio");
    for (i, stretch) in doc.stretches.iter().enumerate() {
        let PhaseStretch { from, to, passed, first_rate, second_rate, ratio } = stretch;
        table.row(vec![
            (i + 1).to_string(),
            format!("{}–{}", units::count(from + 1), units::count(*to)),
            if doc.is_time { units::time_ns(*passed as f64) } else { units::count(*passed) },
            per_of(first_rate.as_ref()),
            per_of(second_rate.as_ref()),
            ratio.as_ref().map_or("–".into(), short),
        ]);
    }
    table
}

/// Several runs: a row each, with the curve of its ratio.
pub(super) fn side_by_side(docs: &[(String, &Phase)]) -> Vec<Table> {
    const NARROW: usize = 16;
    if docs.is_empty() {
        return Vec::new();
    }
    let mut table = Table::default()
        .left("")
        .left("program")
        .left("events")
        .right("ratio")
        .left("over the run")
        .right("least")
        .right("most")
        .right("lost");
    for (label, doc) in docs {
        let ratios: Vec<Option<f64>> = doc.thinned(NARROW).iter().map(PhaseInterval::ratio).collect();
        let known = || ratios.iter().copied().flatten();
        let (least, most) = known().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), v| (l.min(v), m.max(v)));
        let end = |value: f64| if value.is_finite() { units::about(value) } else { String::new() };
        let program: Vec<String> = doc.program.iter().map(|word| printable(word)).collect();
        table.row(vec![
            label.clone(),
            shell::join(&program),
            printable(&format!("{} / {}", doc.events[0], doc.events[1])),
            doc.ratio.as_ref().map_or("–".into(), short),
            line(&ratios, most),
            end(least),
            end(most),
            units::count(doc.lost),
        ]);
    }
    vec![table]
}

/// The smallest share of a number that its interval is shown for: beyond, digits of counts that are exact would fill the line.
const SHOWN: f64 = 0.001;

/// A number with its interval; without where that is narrower than [`SHOWN`].
fn short(e: &Estimate) -> String {
    const DIGITS: i32 = 4;
    if e.relative_half_width() >= SHOWN || e.estimate == 0.0 {
        return units::estimate_number(e);
    }
    let decimals = (DIGITS - 1 - e.estimate.abs().log10().floor() as i32).max(0) as usize;
    let text = format!("{:.decimals$}", e.estimate);
    if decimals == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_all_but_exact_is_short() {
        let of = |estimate: f64, half: f64| short(&Estimate::new(estimate, estimate - half, estimate + half));
        assert_eq!(of(124.99988, 0.0001), "125");
        assert_eq!(of(26.31576, 0.0002), "26.32");
        assert_eq!(of(0.2500001, 0.0), "0.25");
        assert_eq!(of(12345.6, 0.0), "12346");
        assert_eq!(of(0.4774, 0.0014), "0.4774 ± 0.0014");
        assert_eq!(of(0.0, 0.0), "0");
    }

    #[test]
    fn a_curve_begins_at_nothing_and_reaches_the_highest_block() {
        assert_eq!(line(&[Some(0.0), Some(0.5), None, Some(1.0)], 1.0), "▁▅ █");
        assert_eq!(line(&[Some(3.0), Some(3.0)], 3.0), "██");
        assert_eq!(line(&[Some(0.0)], 0.0), "▁");
    }
}
