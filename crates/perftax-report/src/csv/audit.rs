//! `perftax audit` as separated values.

use perftax_doc::{Audit, ComparisonVerdict};

use super::{Rows, ends};

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
