//! `perftax verify` on a terminal.

use owo_colors::OwoColorize;
use perftax_doc::Fit;
use perftax_doc::{Cell, LeftOutRun, Verification, WorkloadControl};

use crate::printable::printable;
use crate::sheet::{Sheet, event};
use crate::table::Table;
use crate::units;

/// Measured against expected, cell by cell, and the verdict.
pub fn verification(doc: &Verification) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    sheet.row("event", &event(&doc.event, doc.mechanism));
    sheet.table(&cells(doc));
    let verdict =
        if doc.held { "the prediction held".green().to_string() } else { "the prediction did NOT hold".red().to_string() };
    sheet.row(
        "verdict",
        &format!(
            "{}: median |E| {}, the interval of E covers 0 in {} of {} ({})",
            verdict.bold(),
            units::share(doc.median_abs_error),
            accepted(doc).filter(|c| c.covered).count(),
            super::plural(&accepted(doc).count().to_string(), "cell", "cells"),
            units::share(doc.coverage)
        ),
    );
    if let Some(r) = &doc.regression {
        let text = format!(
            "measured extra time = {} × predicted + {}, over {} cells",
            units::estimate_number(&r.slope),
            units::estimate_s(&r.intercept_s),
            r.cells
        );
        sheet.row("slope", &text);
    }
    if let Some(without) = &doc.without_pollution {
        let slope = without.regression.map_or(String::new(), |r| format!(", slope {}", units::estimate_number(&r.slope)));
        let text = format!(
            "without the programs' own pollution term: median |E| {}, {} of the intervals cover 0{slope}",
            units::share(without.median_abs_error),
            units::share(without.coverage)
        );
        sheet.row("α alone", &text);
    }
    if let Some(text) = reference_loops(doc) {
        sheet.row("reference", &text);
    }
    controls(&mut sheet, doc);
    left_out(&mut sheet, doc);
    // One a workload is normal; the page and --json have all.
    const MAX: usize = 3;
    for (i, c) in doc.calibrations.iter().take(MAX).enumerate() {
        let text = format!("{}, {} samples of {}", units::estimate_ns(&c.alpha_ns), units::count(c.samples), printable(&c.event));
        sheet.row(if i == 0 { "sample" } else { "" }, &text);
    }
    if doc.calibrations.len() > MAX {
        sheet.row("", &format!("and {} calibrations more", doc.calibrations.len() - MAX));
    }
    sheet.warnings(&doc.origin.warnings);
    let next: &[&str] = if doc.held {
        &["perftax", "plan", "--budget", "1%", "-e", &doc.event, "--"]
    } else {
        &["perftax", "calibrate", "-e", &doc.event]
    };
    let tail = if doc.held { " CMD" } else { "" };
    sheet.row("next", &format!("{}{tail}", crate::shell::join(next).bold()));
    sheet.finish()
}

/// The cells that the summary is about: those of workloads whose control passed.
fn accepted(doc: &Verification) -> impl Iterator<Item = &Cell> {
    let refused = |cell: &Cell| doc.controls.iter().any(|c| !c.control.passed && c.workload == cell.workload);
    doc.cells.iter().filter(move |cell| !refused(cell))
}

/// How much of the variation it explained, and how far sampling itself moved it.
fn reference_loops(doc: &Verification) -> Option<String> {
    let mean =
        |of: fn(&Fit) -> f64| doc.reference_loops.iter().map(|y| of(&y.fit)).sum::<f64>() / doc.reference_loops.len() as f64;
    let shifts = doc.reference_loops.iter().flat_map(|y| &y.fit.shift_by_arm);
    let (sum, n) = shifts.fold((0.0, 0_u32), |(sum, n), arm| (sum + arm.shift, n + 1));
    (n > 0).then(|| {
        format!(
            "explains the scatter of run times from {} down to {} (mean); in the monitored arms it took out {} more",
            units::share(mean(|fit| fit.scatter_before)),
            units::share(mean(|fit| fit.scatter_after)),
            units::share(sum / f64::from(n))
        )
    })
}

/// The runs that are in no cell, and why.
fn left_out(sheet: &mut Sheet, doc: &Verification) {
    let run = |run: &LeftOutRun| {
        let arm = match run.period {
            0 => "unmonitored".into(),
            period => format!("every {}", units::period(doc.mechanism, period)),
        };
        format!("{} round {} {arm} ({})", printable(&run.workload), run.round + 1, printable(&run.why))
    };
    // A page has room for them all; --json has them.
    const MAX: usize = 4;
    for (i, one) in doc.left_out.iter().take(MAX).enumerate() {
        sheet.row(if i == 0 { "left out" } else { "" }, &run(one));
    }
    if doc.left_out.len() > MAX {
        sheet.row("", &format!("and {} runs more of {}: --json has each", doc.left_out.len() - MAX, doc.runs_made));
    }
}

/// Each control that failed; the one that differs most where all passed.
fn controls(sheet: &mut Sheet, doc: &Verification) {
    let line = |c: &WorkloadControl| {
        format!(
            "off against off {} in {}; a bias above {} would show",
            units::estimate_share(&c.control.difference),
            printable(&c.workload),
            units::share(c.control.detects)
        )
    };
    let failed: Vec<_> = doc.controls.iter().filter(|c| !c.control.passed).collect();
    for (i, c) in failed.iter().enumerate() {
        sheet.row(if i == 0 { "controls" } else { "" }, &format!("{}: {}", "FAILED".red(), line(c)));
    }
    let size = |c: &&WorkloadControl| c.control.difference.estimate.abs();
    let most = doc.controls.iter().max_by(|a, b| size(a).total_cmp(&size(b)));
    if let (true, Some(most)) = (failed.is_empty(), most) {
        let passed = "passed".green();
        match doc.controls.len() {
            1 => sheet.row("control", &format!("{passed}: {}", line(most))),
            n => sheet.row("controls", &format!("all {n} {passed}; most: {}", line(most))),
        }
    }
}

fn cells(doc: &Verification) -> Table {
    let several = |key: fn(&Cell) -> &str| doc.cells.iter().any(|c| key(c) != key(&doc.cells[0]));
    let (attach, event) = (several(|c| &c.attach), several(|c| &c.event));
    let mut table = Table::default()
        .left("workload")
        .left("event")
        .left("attached")
        .right("CPU")
        .right("period")
        .right("predicted")
        .right("expected")
        .right("measured")
        .right("E")
        .left("")
        .right("pollution")
        .right("E by α");
    for c in &doc.cells {
        let when = |wanted: bool, text: &str| if wanted { printable(text) } else { String::new() };
        table.row(vec![
            printable(&c.workload),
            when(event, &c.event),
            when(attach, &c.attach),
            c.cpu.map_or(String::new(), |cpu| cpu.to_string()),
            units::period(doc.mechanism, c.period).replace(" events", ""),
            format!("+{}", units::share(c.predicted_overhead.estimate)),
            units::estimate_s(&c.expected_s),
            units::estimate_s(&c.measured_s),
            units::estimate_share(&c.error),
            if c.covered { "held".green().to_string() } else { "OFF".red().to_string() },
            c.pollution.map_or(String::new(), |p| units::time_ns(p.extra_ns.estimate)),
            c.pollution.map_or(String::new(), |p| units::share(p.error_without.estimate)),
        ]);
    }
    table
}
