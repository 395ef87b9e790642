//! `perftax sim` on a terminal.

use owo_colors::OwoColorize;
use perftax_doc::{SimulatedRun, Simulation, TermsS};

use crate::columns::{self, Column, Counted, RunColumns, SampledAt, Simulated};
use crate::printable::printable;
use crate::sheet::Sheet;
use crate::table::Table;
use crate::{shell, units};

/// Instructions listed; --json has all.
const MAX_ADDRESSES: usize = 12;

/// What sampling would do on a modelled machine.
pub fn simulation(doc: &Simulation) -> String {
    let mut sheet = Sheet::default();
    sheet.row("machine", &printable(&doc.origin.machine.name));
    sheet.row("program", &program(doc));
    if doc.sweep.len() > 1 {
        sheet.table(&sweep(doc));
    } else {
        one(&mut sheet, &doc.run);
    }
    sheet.warnings(&doc.origin.warnings);
    if doc.run.samples > 0 && doc.sweep.is_empty() && doc.run.mechanism == "pebs" {
        let mut next = vec!["perftax", "sim", "--machine", &doc.model, "--sweep", "buffer=16K,64K,256K,1M,4M", "--"];
        next.extend(doc.program.iter().map(String::as_str));
        sheet.command("next", &next);
    }
    sheet.finish()
}

fn program(doc: &Simulation) -> String {
    let command: Vec<String> = doc.program.iter().map(|word| printable(word)).collect();
    let threads = match doc.run.by_thread.len() {
        1 => "1 thread".into(),
        n => format!("{n} threads"),
    };
    format!(
        "{}: {} instructions on {threads}, {} by the machine's cost model",
        shell::join(&command),
        units::count(doc.run.instructions),
        units::time_s(doc.run.elapsed_s)
    )
}

fn one(sheet: &mut Sheet, run: &SimulatedRun) {
    if run.period > 0 {
        let lost = if run.lost == 0 { "none lost".into() } else { format!("{} lost", units::count(run.lost)) };
        let buffer = run.buffer_bytes.map_or(String::new(), |bytes| {
            format!(", buffer of {}, {} interrupts", units::bytes(bytes as f64), units::count(run.interrupts))
        });
        let text = format!(
            "{} of {} by {} every {}, {lost}{buffer}",
            units::count(run.samples).bold(),
            units::count(run.events),
            run.mechanism,
            units::count(run.period)
        );
        sheet.row("samples", &text);
        sheet.row("cost", &format!("{}: {}", share(run.predicted_overhead).bold(), terms(&run.terms_s, run.elapsed_s)));
    }
    if run.caches {
        sheet.row("memory", &memory(run));
    }
    if let Some(advice) = run.buffer_advice.as_ref().filter(|_| run.samples > 0) {
        let bytes = |n: u64| units::bytes(n as f64);
        let best = advice.curve.iter().find(|cost| cost.buffer_bytes == advice.best_bytes);
        let cost = best.map_or(0.0, |cost| (cost.pmi_s + cost.pollution_s) / run.elapsed_s);
        sheet.row(
            "buffer",
            &format!(
                "best {}: interrupts and pollution {}; within {} of that from {} to {}",
                bytes(advice.best_bytes).bold(),
                units::share(cost),
                units::share(advice.tolerance),
                bytes(advice.flat_from_bytes),
                bytes(advice.flat_to_bytes)
            ),
        );
    }
    sheet.table(&counts(run));
    if !run.by_address.is_empty() {
        sheet.table(&addresses(run));
    }
}

/// A share of the elapsed time, with its sign.
fn share(fraction: f64) -> String {
    if fraction >= 0.0 { format!("+{}", units::share(fraction)) } else { units::share(fraction) }
}

fn terms(terms: &TermsS, elapsed_s: f64) -> String {
    let named = [("assists", terms.assist), ("interrupts", terms.pmi), ("draining", terms.drain), ("pollution", terms.pollution)];
    let parts = named.iter().filter(|(_, s)| *s != 0.0).map(|(name, s)| format!("{name} {}", units::share(s / elapsed_s)));
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { "nothing".into() } else { parts.join(", ") }
}

fn memory(run: &SimulatedRun) -> String {
    let bytes = |n: u64| units::bytes(n as f64);
    let mut text = format!("{} read, {} written", bytes(run.memory_read_bytes), bytes(run.memory_write_bytes));
    if let Some((read, written)) = run.unsampled_memory_bytes.filter(|_| run.period > 0) {
        text += &format!(" (without sampling {} and {})", bytes(read), bytes(written));
    }
    if let Some(caused) = run.llc_misses_caused.filter(|_| run.period > 0) {
        text += &format!(
            "; last-level misses: {} of the records, {} more of the program because of them",
            units::count(run.llc_misses_of_records),
            super::signed(caused)
        );
    }
    text
}

fn counts(run: &SimulatedRun) -> Table {
    Table::of(&columns::counts().each_ref(), Counted::all(run))
}

fn addresses(run: &SimulatedRun) -> Table {
    let mut table = Table::of(&columns::addresses().each_ref(), SampledAt::all(run).take(MAX_ADDRESSES));
    if run.by_address.len() > MAX_ADDRESSES {
        let rest = run.by_address.len() - MAX_ADDRESSES;
        table.row(vec![String::new(), String::new(), format!("and {} more", units::count(rest as u64)), String::new()]);
    }
    table
}

fn sweep(doc: &Simulation) -> Table {
    let RunColumns { period, buffer, samples, overhead, assists, interrupts, draining, pollution, read, written } =
        RunColumns::new();
    let before = [&period, &buffer, &samples];
    let behind = [&assists, &interrupts, &draining, &pollution, &read, &written];
    let mut table = Table::headed(&[&before[..], &[&overhead], &behind].concat());
    let least = doc.sweep.iter().map(|run| run.predicted_overhead).fold(f64::INFINITY, f64::min);
    for run in &doc.sweep {
        let of = Simulated { doc, run };
        let signed = share(run.predicted_overhead);
        let overhead = if run.predicted_overhead == least { signed.bold().to_string() } else { signed };
        table.row([cells(&before, &of), vec![overhead], cells(&behind, &of)].concat());
    }
    table
}

fn cells<'a>(columns: &[&Column<Simulated<'a>>], of: &Simulated<'a>) -> Vec<String> {
    columns.iter().map(|column| (column.cell)(of)).collect()
}
