//! `perftax plan` on a terminal.

use owo_colors::OwoColorize;
use perftax_doc::code::CodeFootprint;
use perftax_doc::{Plan, Work, WorkloadProfile, busiest_tells, cpu_time_tells};

use crate::printable::printable;
use crate::sheet::{Sheet, event};
use crate::table::Table;
use crate::units;

/// The recommended settings, why, and the command to paste.
pub fn plan(doc: &Plan) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    sheet
        .row("sample", &format!("{} of {}, drift included", units::estimate_ns(&doc.alpha_ns), event(&doc.event, doc.mechanism)));
    sheet.row("program", &workload(&doc.workload));
    if doc.feasible {
        sheet.row(
            "plan",
            &format!(
                "{} every {}: about {}, costs {} (budget {})",
                printable(&doc.event).bold(),
                units::period(doc.mechanism, doc.period).bold(),
                super::plural(&units::about(doc.samples.round()), "sample", "samples"),
                units::estimate_share(&doc.expected_overhead).bold(),
                units::share(doc.budget)
            ),
        );
        // Of what the program does, where it waits for the rest.
        if let Some(cpu) = cpu_time_tells(&doc.expected_overhead, doc.expected_cpu_overhead) {
            sheet.row("", &format!("{} of its CPU time", units::estimate_share(&cpu)));
        }
        if let Some(busiest) = busiest_tells(&doc.expected_overhead, doc.expected_cpu_overhead, doc.expected_busiest_overhead) {
            sheet.row("", &format!("{} of the CPU time of its busiest thread", units::estimate_share(&busiest)));
        }
        if doc.whole_cpus {
            sheet.row("", "watches whole CPUs, whatever runs there");
        }
        sheet.row("", &format!("resolves any function that takes ≥ {} of the CPU time", units::share(doc.resolves_share)));
        if let Some(work) = &doc.work {
            sheet.row("work", &piece(work));
        }
        if doc.stoker_period > 0 && doc.stoker_samples.is_finite() {
            sheet.row(
                "optimum",
                &format!(
                    "by Stoker, about {} samples: every {}",
                    units::about(doc.stoker_samples.round()),
                    units::period(doc.mechanism, doc.stoker_period)
                ),
            );
        }
        sheet.row("buffer", &format!("{} a CPU", units::bytes(doc.buffer_bytes as f64)));
    } else {
        let text = format!("no period of {} fits a budget of {}", printable(&doc.event), units::share(doc.budget));
        sheet.row("plan", &text.red().bold().to_string());
    }
    if !doc.reasons.is_empty() {
        sheet.blank();
        for (i, reason) in doc.reasons.iter().enumerate() {
            let text = format!("{}: {}", printable(&reason.setting), printable(&reason.why));
            sheet.row(if i == 0 { "why" } else { "" }, &text);
        }
        sheet.blank();
    }
    sheet.warnings(&doc.origin.warnings);
    sheet.command("run", &doc.perf_record);
    sheet.finish()
}

/// What sampling makes of a piece of work.
pub(crate) fn piece(work: &Work) -> String {
    let samples = match work.samples {
        each if each >= 1.0 => format!("gets {} samples", units::about(each)),
        each if each > 0.0 => format!("one in {} gets a sample", units::about((1.0 / each).round())),
        _ => "none gets a sample".into(),
    };
    format!(
        "each of {} {} uses {} of CPU time, and {} more while sampled; {samples}",
        units::about(work.pieces.estimate.round()),
        printable(&work.event),
        units::time_s(work.cpu_s),
        units::estimate_s(&work.extra_cpu_s)
    )
}

/// One line on a measured program.
pub(crate) fn workload(w: &WorkloadProfile) -> String {
    let runs = w.measured_runs().len().to_string();
    let over = match w.pid {
        _ if w.runs.is_empty() => String::new(),
        None => format!(" over {}", super::plural(&runs, "run", "runs")),
        Some(pid) => format!(" in {} at process {pid}", super::plural(&runs, "look", "looks")),
    };
    let cpu = if w.threads > 1 { format!(", {} of CPU time", units::estimate_s(&w.cpu_s)) } else { String::new() };
    // A simulated program has no runs, and nobody switched it.
    let switches = || super::plural(&units::about(w.switches.estimate.round()), "context switch", "context switches");
    let switches = if w.runs.is_empty() { "simulated".into() } else { switches() };
    // Processes are told apart from threads where somebody looked.
    let processes = w.tasks.as_ref().map_or(0, |tasks| tasks.processes);
    let threads = match processes {
        0 => super::plural(&units::count(w.threads.into()), "thread", "threads"),
        processes => format!(
            "{} in {}",
            super::plural(&units::count(w.threads.into()), "thread", "threads"),
            super::plural(&units::count(processes + 1), "process", "processes")
        ),
    };
    let code = w.code.as_ref().map_or(String::new(), |code| format!(", code of {}", code_pages(code)));
    format!("{}{over}{cpu}, {threads}, {switches}{code}", units::estimate_s(&w.elapsed_s))
}

/// How many pages of code a program goes through.
pub(crate) fn code_pages(code: &CodeFootprint) -> String {
    format!("{} pages", units::estimate_number(&code.pages))
}

/// The measured program in full, for commands that are about the program.
pub(crate) fn workload_table(w: &WorkloadProfile) -> Table {
    let mut table = Table::default().left("program").right("a run");
    table.row(vec!["elapsed".into(), units::estimate_s(&w.elapsed_s)]);
    table.row(vec!["CPU time".into(), units::estimate_s(&w.cpu_s)]);
    for (cpu, e) in w.cpu_s_per_cpu.iter().enumerate().filter(|(_, e)| w.cpu_s_per_cpu.len() > 1 && e.estimate > 0.0) {
        table.row(vec![format!("  on CPU {cpu}"), units::estimate_s(e)]);
    }
    if !w.runs.is_empty() {
        table.row(vec!["context switches".into(), units::estimate_number(&w.switches)]);
        table.row(vec!["page faults".into(), units::estimate_number(&w.faults)]);
        if let Some(code) = &w.code {
            table.row(vec!["pages of code gone through".into(), units::estimate_number(&code.pages)]);
        }
        table.row(vec!["largest resident set".into(), units::bytes(w.max_rss_bytes as f64)]);
    }
    for (event, n) in &w.counts {
        table.row(vec![printable(event), units::estimate_number(n)]);
    }
    if !w.runs.is_empty() {
        table.row(vec!["variation of elapsed".into(), units::share(w.variation)]);
    }
    table
}
