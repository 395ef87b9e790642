//! `perftax calibrate` on a terminal.

use itertools::Itertools as _;
use owo_colors::OwoColorize;
use perftax_doc::{Calibration, DirectCost, StopReason};

use crate::printable::printable;
use crate::sheet::{Sheet, event};
use crate::table::Table;
use crate::{shell, units};

/// The cost of a sample, how it splits, and how far it can be trusted.
pub fn calibration(doc: &Calibration) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    sheet.row("event", &event(&doc.event, doc.mechanism));
    let floor = doc.floor_ns.as_ref().map_or(String::new(), |f| format!(" (floor {})", units::estimate_ns(f)));
    sheet.row("sample", &format!("{}{floor}", units::estimate_ns(&doc.alpha_ns).bold()));
    sheet.row("from", &basis(doc));
    if let Some(control) = &doc.control {
        let verdict = if control.passed { "passed".green().to_string() } else { "FAILED".red().to_string() };
        sheet.row(
            "control",
            &format!(
                "{verdict}: off against off differ by {}; a bias above {} would show",
                units::estimate_share(&control.difference),
                units::share(control.detects)
            ),
        );
    }
    if let Some(cross_check) = &doc.cross_check {
        sheet.row(
            "checked",
            &format!(
                "{} in the handler by {}, over {} samples (a lower bound: delivery is outside of it)",
                units::estimate_ns(&cross_check.handler_ns),
                printable(&cross_check.source),
                units::count(cross_check.samples)
            ),
        );
    }
    if let Some(linearity) = &doc.linearity {
        let verdict = if linearity.curvature.contains(0.0) { "none seen" } else { "present" };
        sheet.row(
            "curvature",
            &format!(
                "{verdict}: shortest against longest period {}; Theil–Sen slope {}",
                units::estimate_share(&linearity.curvature),
                units::estimate_ns(&linearity.theil_sen_ns)
            ),
        );
    }
    if !doc.terms.is_empty() {
        let mut table = Table::default().left("term").right("cost").left("of");
        for (name, cost) in &doc.terms {
            table.row(vec![printable(name), units::estimate_ns(cost), unit_of_term(name).into()]);
        }
        sheet.table(&table);
    }
    if let Some(direct) = &doc.direct {
        own_buffers(&mut sheet, direct);
    }
    if let Some(linearity) = doc.linearity.as_ref().filter(|l| l.periods.len() > 1) {
        let mut table = Table::default().right("period").right("samples").right("cost of a sample");
        for p in &linearity.periods {
            let period = units::period(doc.mechanism, p.period);
            table.row(vec![period, units::count(p.samples), units::estimate_ns(&p.alpha_ns)]);
        }
        sheet.table(&table);
    }
    sheet.warnings(&doc.origin.warnings);
    if doc.mechanism.only_measures() {
        return sheet.finish();
    }
    sheet.row("next", &format!("{} CMD", shell::join(&["perftax", "plan", "--budget", "1%", "-e", &doc.event, "--"]).bold()));
    sheet.finish()
}

/// What our own module found: costs by buffer, the line of figure 2, and the published ones.
fn own_buffers(sheet: &mut Sheet, direct: &DirectCost) {
    let mut table =
        Table::default().right("buffer").right("records an interrupt").right("a record").right("with its share of an interrupt");
    for buffer in &direct.buffers {
        table.row(vec![
            units::bytes(buffer.buffer_bytes as f64),
            units::count(buffer.records_per_interrupt),
            units::estimate_ns(&buffer.record_ns),
            units::estimate_ns(&buffer.alpha_ns),
        ]);
    }
    sheet.table(&table);
    if let Some(line) = &direct.line {
        let text = format!(
            "extra time of a block = {} + {} a sample",
            units::estimate_ns(&line.intercept_ns),
            units::estimate_ns(&line.slope_ns)
        );
        sheet.row("line", &text);
    }
    match &direct.decomposition {
        Some(parts) => sheet.row(
            "by perf",
            &format!(
                "{} a sample = {} for the record + {} for its share of an interrupt (one in {}) + {} for perf's software",
                units::estimate_ns(&parts.sample_ns),
                units::estimate_ns(&parts.record_ns),
                units::estimate_ns(&parts.interrupt_ns),
                units::about(parts.records_per_interrupt.round()),
                units::estimate_ns(&parts.software_ns)
            ),
        ),
        None => sheet.row(
            "by perf",
            "not told apart: perf's buffer was never full, or takes one record at a time (perftax doctor -e EVENT)",
        ),
    }
    if !direct.published.is_empty() {
        let slopes = direct.published.iter().map(|p| format!("{} {}", p.machine, units::estimate_ns(&p.alpha_ns))).join("; ");
        sheet.row("published", &format!("{slopes} a sample (ROSS'17, figure 2)"));
    }
}

/// Samples, sessions and time behind the estimate, and why it stopped.
fn basis(doc: &Calibration) -> String {
    let expected = if doc.expected_samples > 0.0 && (doc.samples as f64 - doc.expected_samples).abs() >= 1.0 {
        format!(" of {} expected", units::about(doc.expected_samples.round()))
    } else {
        String::new()
    };
    let mut text = format!(
        "{} samples{expected} in {} over {}; drifts ±{} between sessions; {}",
        units::count(doc.samples),
        super::plural(&units::count(doc.sessions.into()), "session", "sessions"),
        units::span(doc.elapsed_s),
        units::share(doc.drift),
        match doc.stopped {
            StopReason::Precision => "stopped at the precision asked for",
            StopReason::TimeLimit => "stopped by the time limit",
        }
    );
    if doc.lost > 0 {
        text += &format!("; {} lost", units::count(doc.lost));
    }
    if doc.throttled > 0 {
        text += &format!("; throttled {} times", units::count(doc.throttled));
    }
    text
}

/// What one unit of a term is: most are per sample.
pub(crate) fn unit_of_term(name: &str) -> &'static str {
    if name.starts_with("switch") {
        "a context switch"
    } else if name == "task" {
        "a thread or process"
    } else if name == "task-event" {
        "each, and further copy of an event"
    } else if name == "task-cpus" {
        "a thread or process, CPUs being watched"
    } else if name == "exec" {
        "a program executed"
    } else if name == "exec-cpus" {
        "a program executed, CPUs being watched"
    } else if name.contains("signal") {
        "a signal"
    } else if name.contains("interrupt") || name.starts_with("excluded") {
        "an interrupt"
    } else {
        "a sample"
    }
}
