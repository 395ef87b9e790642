//! `perftax sim stat` and `vm stat` on a terminal: counts as perf stat shows them, then what differs.

use owo_colors::OwoColorize;
use perftax_doc::{Stat, StatComparison, StatCount};
use serde_json::json;

use crate::columns;
use crate::printable::printable;
use crate::sheet::Sheet;
use crate::table::Table;
use crate::units;

/// Functions listed; --json has all.
const MAX_FUNCTIONS: usize = 10;
/// Functions listed that differ.
const MAX_DIFFERENCES: usize = 20;

/// A program's events, and what became of them since a baseline.
pub fn stat(doc: &Stat) -> String {
    let mut sheet = Sheet::default();
    let command: Vec<String> = doc.program.iter().map(|word| printable(word)).collect();
    sheet.line("");
    sheet.line(&format!(" Performance counter stats for '{}':", command.join(" ")));
    sheet.line("");
    doc.counts.iter().for_each(|count| sheet.line(counted(count).trim_end()));
    sheet.line("");
    sheet.row("counted", &how(doc));
    if let Some(functions) = doc.functions.as_ref().filter(|_| doc.comparison.is_none()) {
        let all = functions.iter().map(|function| function.instructions).sum();
        let mut table =
            Table::of(&columns::functions().each_ref(), functions.iter().take(MAX_FUNCTIONS).map(|function| (function, all)));
        more(&mut table, functions.len(), MAX_FUNCTIONS, 2);
        sheet.table(&table);
    }
    if let Some(comparison) = &doc.comparison {
        compared(&mut sheet, comparison);
    }
    sheet.warnings(&doc.origin.warnings);
    if doc.comparison.is_none() {
        let name = doc.program.first().map_or("program", |program| program.rsplit('/').next().unwrap_or(program));
        let file = format!("{name}.baseline.json");
        let (option, file) = doc.written_to.as_ref().map_or(("--write-baseline", &file), |written| ("--baseline", written));
        let mut next = vec!["perftax", &doc.fixed.kind, "stat", option, file, "--"];
        next.extend(doc.program.iter().map(String::as_str));
        sheet.command("next", &next);
    }
    sheet.finish()
}

/// A line of perf stat's: the count to the right, its unit, the event.
fn counted(count: &StatCount) -> String {
    let number = columns::number(count.count);
    let share = if count.running < 1.0 { format!("  ({} of the time)", units::share(count.running)) } else { String::new() };
    let unit = if count.unit.is_empty() { String::new() } else { format!("{} ", printable(&count.unit)) };
    format!("{number:>18}      {unit}{}{share}", printable(&count.event))
}

fn how(doc: &Stat) -> String {
    let fixed = &doc.fixed;
    let runs = match (doc.runs, is_repeatable(doc)) {
        (1, _) => "one run".into(),
        (n, true) => format!("{n} runs, all alike"),
        (n, false) => format!("{n} runs, {}", "which differ".bold()),
    };
    let processors = if fixed.processors == 1 { String::new() } else { format!(", {} processors", fixed.processors) };
    match fixed.kind.as_str() {
        "vm" => format!("{runs}, Linux {} on an emulated {}{processors}, {}", fixed.kernel, fixed.processor, fixed.emulator),
        _ => format!("{runs}, user mode in {}", fixed.emulator),
    }
}

fn is_repeatable(doc: &Stat) -> bool {
    doc.counts.iter().all(|count| count.least == count.most)
}

fn compared(sheet: &mut Sheet, comparison: &StatComparison) {
    let within = if comparison.tolerance == 0.0 {
        "exactly".to_string()
    } else {
        format!("within {}", units::share(comparison.tolerance))
    };
    let program = if comparison.is_same_program { ", of the same program to the byte" } else { "" };
    let baseline = printable(&comparison.baseline);
    if comparison.holds {
        sheet.row("verdict", &format!("{}, {within}{program}", format!("as in {baseline}").bold()));
    } else {
        let beyond = comparison.counts.iter().filter(|count| !count.holds).count();
        let events = units::plural(&beyond.to_string(), "event", "events");
        sheet.row("verdict", &format!("{}: {events} not {within}{program}", format!("not as in {baseline}").bold()));
    }
    sheet.table(&Table::of(
        &columns::differences().each_ref(),
        comparison.counts.iter().filter(|count| count.before != count.now || !comparison.holds),
    ));
    match comparison.functions.as_deref() {
        None => sheet.row("functions", "not known, of the baseline or of now"),
        Some([]) if comparison.holds => {}
        Some([]) => sheet.row("functions", "every one as it was, in user mode"),
        Some(functions) => {
            let mut table = Table::of(&columns::function_differences().each_ref(), functions.iter().take(MAX_DIFFERENCES));
            more(&mut table, functions.len(), MAX_DIFFERENCES, 3);
            sheet.table(&table);
            let sum: i64 = functions.iter().map(perftax_doc::StatFunctionDifference::change).sum();
            let n = units::plural(&units::count(functions.len() as u64), "function", "functions");
            sheet.row("functions", &format!("{n}, by {} instructions together", columns::signed(sum as f64)));
        }
    }
    if !comparison.other_libraries.is_empty() {
        let all: Vec<String> = comparison.other_libraries.iter().map(|name| printable(name)).collect();
        sheet.row("libraries", &format!("not the baseline's: {}", all.join(", ")));
    }
}

/// The line below a table that was cut.
fn more(table: &mut Table, all: usize, shown: usize, column: usize) {
    if all > shown {
        let mut cells = vec![String::new(); column];
        cells.push(format!("and {} more", units::count((all - shown) as u64)));
        table.row(cells);
    }
}

/// The counts as perf stat -j writes them: a line of JSON an event.
pub fn perf_lines(doc: &Stat) -> String {
    let line = |count: &StatCount| {
        let value = count.count.map_or("<not counted>".to_string(), |count| format!("{count:.6}"));
        let mut line = json!({"counter-value": value, "unit": count.unit, "event": count.event});
        if let Some(ns) = count.enabled_ns {
            line["event-runtime"] = ns.into();
        }
        line["pcnt-running"] = (100.0 * count.running).into();
        format!("{line}\n")
    };
    doc.counts.iter().map(line).collect()
}
