//! `perftax verify` as separated values.

use perftax_doc::Verification;

use super::{Rows, ends};

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
