//! The main table of a document as separated values: a line of names, then one line a row, base SI units in the names.
//!
//! Fields that hold the separator, a quote or a line end are quoted as in RFC 4180, section 2. Numbers carry all digits.

use perftax_cost::Estimate;
use perftax_cost::document::{
    Audit, Bill, Calibration, ComparisonVerdict, Plan, Prediction, Sensitivity, Simulation, Verification,
};

use crate::document::Document;
use crate::shell;

/// The cost of a sample, its floor, its terms, and the cost by period.
pub fn calibration(doc: &Calibration, separator: &str) -> String {
    let mut rows =
        Rows::new(separator, &["quantity", "event", "period", "estimate_ns", "low_ns", "high_ns", "confidence", "samples"]);
    let mut quantity = |name: &str, period: String, e: &Estimate, samples: u64| {
        rows.row(
            [vec![name.into(), doc.event.clone(), period], ends(Some(e)), vec![e.confidence.to_string(), samples.to_string()]]
                .concat(),
        );
    };
    quantity("alpha", String::new(), &doc.alpha_ns, doc.samples);
    if let Some(floor) = &doc.floor_ns {
        quantity("floor", String::new(), floor, doc.samples);
    }
    for (name, cost) in &doc.terms {
        quantity(name, String::new(), cost, doc.samples);
    }
    for p in doc.linearity.iter().flat_map(|l| &l.periods) {
        quantity("alpha", p.period.to_string(), &p.alpha_ns, p.samples);
    }
    if let Some(witness) = &doc.witness {
        quantity("witness", String::new(), &witness.handler_ns, witness.samples);
    }
    rows.out
}

/// One row a period.
pub fn prediction(doc: &Prediction, separator: &str) -> String {
    let names = [
        "event",
        "period",
        "samples",
        "samples_per_s",
        "bytes_per_s",
        "overhead",
        "overhead_low",
        "overhead_high",
        "elapsed_s",
        "elapsed_low_s",
        "elapsed_high_s",
    ];
    let mut rows = Rows::new(separator, &names);
    for r in &doc.rows {
        let head = vec![
            doc.event.clone(),
            r.period.to_string(),
            r.samples.to_string(),
            r.samples_per_s.to_string(),
            r.bytes_per_s.to_string(),
        ];
        rows.row([head, ends(Some(&r.overhead)), ends(Some(&r.elapsed_s))].concat());
    }
    rows.out
}

/// One row of each experiment, then one a published figure: its experiment is `published`, its case figure and question.
pub fn audit(doc: &Audit, separator: &str) -> String {
    let names = [
        "experiment",
        "case",
        "unit",
        "expected",
        "found",
        "found_low",
        "found_high",
        "error",
        "lost",
        "throttled",
        "verdict",
        "published",
        "ours",
        "measured_on",
        "because",
    ];
    let mut rows = Rows::new(separator, &names);
    let empty = |n: usize| vec![String::new(); n];
    for (experiment, row) in doc.experiments.iter().flat_map(|e| e.rows.iter().map(move |row| (e, row))) {
        let head = vec![experiment.name.clone(), row.case.clone(), row.unit.clone(), row.expected.to_string()];
        let verdict = format!("{:?}", row.verdict).to_lowercase();
        let tail = vec![row.error.estimate.to_string(), row.lost.to_string(), row.throttled.to_string(), verdict];
        rows.row([head, ends(Some(&row.found)), tail, empty(4)].concat());
    }
    for row in &doc.comparisons {
        let head = vec!["published".into(), format!("{}: {}", row.figure, row.asks)];
        let verdict = match row.verdict {
            ComparisonVerdict::Reproduced => "reproduced",
            ComparisonVerdict::Differs => "differs",
            ComparisonVerdict::NotHere => "not-here",
        };
        let tail = [&row.published, &row.ours, &row.place, &row.because].map(Clone::clone).to_vec();
        rows.row([head, empty(8), vec![verdict.into()], tail].concat());
    }
    rows.out
}

/// One row a size.
pub fn sensitivity(doc: &Sensitivity, separator: &str) -> String {
    let names = ["taken_bytes", "loss", "loss_low", "loss_high", "loss_ns_per_visit", "visit_low_ns", "visit_high_ns", "rounds"];
    let mut rows = Rows::new(separator, &names);
    for row in &doc.rows {
        let head = vec![row.taken_bytes.to_string()];
        rows.row([head, ends(Some(&row.loss)), ends(row.loss_ns_per_visit.as_ref()), vec![row.rounds.to_string()]].concat());
    }
    rows.out
}

/// One row a run: one, or those of a sweep.
pub fn simulation(doc: &Simulation, separator: &str) -> String {
    let names = [
        "machine",
        "mechanism",
        "event",
        "period",
        "buffer_bytes",
        "instructions",
        "events",
        "samples",
        "lost",
        "interrupts",
        "elapsed_s",
        "overhead",
        "assist_s",
        "pmi_s",
        "drain_s",
        "pollution_s",
        "memory_read_bytes",
        "memory_write_bytes",
    ];
    let mut rows = Rows::new(separator, &names);
    let runs = if doc.sweep.is_empty() { std::slice::from_ref(&doc.run) } else { &doc.sweep };
    for run in runs {
        rows.row(vec![
            doc.model.clone(),
            run.mechanism.clone(),
            run.event.clone(),
            run.period.to_string(),
            run.buffer_bytes.map_or(String::new(), |bytes| bytes.to_string()),
            run.instructions.to_string(),
            run.events.to_string(),
            run.samples.to_string(),
            run.lost.to_string(),
            run.interrupts.to_string(),
            run.elapsed_s.to_string(),
            run.predicted_overhead.to_string(),
            run.terms_s.assist.to_string(),
            run.terms_s.pmi.to_string(),
            run.terms_s.drain.to_string(),
            run.terms_s.pollution.to_string(),
            run.memory_read_bytes.to_string(),
            run.memory_write_bytes.to_string(),
        ]);
    }
    rows.out
}

/// One row: the settings.
pub fn plan(doc: &Plan, separator: &str) -> String {
    let names = [
        "feasible",
        "event",
        "mechanism",
        "period",
        "buffer_bytes",
        "budget",
        "overhead",
        "overhead_low",
        "overhead_high",
        "samples",
        "resolves_share",
        "stoker_samples",
        "stoker_period",
        "perf_record",
    ];
    let mut rows = Rows::new(separator, &names);
    let head = vec![
        doc.feasible.to_string(),
        doc.event.clone(),
        doc.mechanism.to_string(),
        doc.period.to_string(),
        doc.buffer_bytes.to_string(),
        doc.budget.to_string(),
    ];
    let tail = vec![
        doc.samples.to_string(),
        doc.resolves_share.to_string(),
        doc.stoker_samples.to_string(),
        doc.stoker_period.to_string(),
        shell::join(&doc.perf_record),
    ];
    rows.row([head, ends(Some(&doc.expected_overhead)), tail].concat());
    rows.out
}

/// One row a cell.
pub fn verification(doc: &Verification, separator: &str) -> String {
    let names = [
        "workload",
        "event",
        "period",
        "attach",
        "cpu",
        "unmonitored_s",
        "unmonitored_low_s",
        "unmonitored_high_s",
        "expected_s",
        "expected_low_s",
        "expected_high_s",
        "measured_s",
        "measured_low_s",
        "measured_high_s",
        "error",
        "error_low",
        "error_high",
        "covered",
        "rounds",
        "samples",
        "expected_samples",
        "lost",
        "throttled",
        "pollution_ns",
        "pollution_low_ns",
        "pollution_high_ns",
        "error_without_pollution",
    ];
    let mut rows = Rows::new(separator, &names);
    for c in &doc.cells {
        let head = vec![
            c.workload.clone(),
            c.event.clone(),
            c.period.to_string(),
            c.attach.clone(),
            c.cpu.map_or(String::new(), |cpu| cpu.to_string()),
        ];
        let tail = vec![
            c.covered.to_string(),
            c.rounds.to_string(),
            c.samples.to_string(),
            c.expected_samples.to_string(),
            c.lost.to_string(),
            c.throttled.to_string(),
        ];
        let estimates = [&c.unmonitored_s, &c.expected_s, &c.measured_s, &c.error];
        let mut pollution = ends(c.pollution.as_ref().map(|p| &p.extra_ns));
        pollution.push(c.pollution.map_or(String::new(), |p| p.error_without.estimate.to_string()));
        rows.row([head, estimates.into_iter().flat_map(|e| ends(Some(e))).collect(), tail, pollution].concat());
    }
    rows.out
}

/// One row an event.
pub fn bill(doc: &Bill, separator: &str) -> String {
    let names = [
        "event",
        "mechanism",
        "period",
        "frequency",
        "samples",
        "lost",
        "throttled",
        "running",
        "alpha_ns",
        "alpha_low_ns",
        "alpha_high_ns",
        "cost_s",
        "cost_low_s",
        "cost_high_s",
    ];
    let mut rows = Rows::new(separator, &names);
    for e in &doc.events {
        let head = vec![
            e.event.clone(),
            e.mechanism.map_or(String::new(), |m| m.to_string()),
            e.period.map_or(String::new(), |p| p.to_string()),
            e.frequency.map_or(String::new(), |f| f.to_string()),
            e.samples.to_string(),
            e.lost.to_string(),
            e.throttled.to_string(),
            e.running.map_or(String::new(), |r| r.to_string()),
        ];
        rows.row([head, ends(e.alpha_ns.as_ref()), ends(e.cost_s.as_ref())].concat());
    }
    rows.out
}

/// The main tables of several documents of one kind below one line of names, each row led by its machine and kernel.
pub fn comparison(documents: &[Document], separator: &str) -> String {
    let mut out = String::new();
    for (i, document) in documents.iter().enumerate() {
        let origin = document.origin();
        let lead = [field(&origin.machine.name, separator), field(&origin.kernel, separator)].join(separator);
        let table = document.csv(separator);
        let mut records = records(&table).into_iter();
        let names = records.next().unwrap_or_default();
        if i == 0 {
            out += &format!("machine{separator}kernel{separator}{names}\n");
        }
        for record in records {
            out += &format!("{lead}{separator}{record}\n");
        }
    }
    out
}

/// The records of separated values: a line end inside quotes does not end one.
fn records(table: &str) -> Vec<&str> {
    let (mut records, mut start, mut quoted) = (Vec::new(), 0, false);
    for (i, c) in table.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '\n' if !quoted => {
                records.push(&table[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    records
}

struct Rows<'a> {
    separator: &'a str,
    out: String,
}

impl<'a> Rows<'a> {
    fn new(separator: &'a str, names: &[&str]) -> Self {
        let mut rows = Self { separator, out: String::new() };
        rows.row(names.iter().map(ToString::to_string).collect());
        rows
    }

    fn row(&mut self, cells: Vec<String>) {
        let fields: Vec<String> = cells.iter().map(|cell| field(cell, self.separator)).collect();
        self.out += &fields.join(self.separator);
        self.out.push('\n');
    }
}

fn field(text: &str, separator: &str) -> String {
    let quoted = (!separator.is_empty() && text.contains(separator)) || text.contains(['"', '\n', '\r']);
    if quoted { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

/// An estimate and its ends, or three empty fields.
fn ends(e: Option<&Estimate>) -> Vec<String> {
    e.map_or(vec![String::new(); 3], |e| [e.estimate, e.low, e.high].map(|x| x.to_string()).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn awkward_fields_are_quoted() {
        assert_eq!(field("cpu/event=0xc2,umask=1/", ","), "\"cpu/event=0xc2,umask=1/\"");
        assert_eq!(field("say \"hi\"", ";"), "\"say \"\"hi\"\"\"");
        assert_eq!(field("plain", ","), "plain");
    }

    #[test]
    fn a_line_end_in_quotes_ends_no_record() {
        assert_eq!(records("a,b\n1,\"x\ny\"\n2,z\n"), ["a,b", "1,\"x\ny\"", "2,z"]);
    }
}
