//! `perftax matrix` as separated values.

use perftax_doc::Matrix;

use super::{Rows, ends};

/// One row a cell.
pub fn matrix(doc: &Matrix, separator: &str) -> String {
    let names = [
        "workload",
        "mode",
        "set",
        "events",
        "divisor",
        "instances",
        "pairs",
        "spoiled",
        "unmonitored_s",
        "unmonitored_low_s",
        "unmonitored_high_s",
        "monitored_s",
        "monitored_low_s",
        "monitored_high_s",
        "overhead",
        "overhead_low",
        "overhead_high",
        "reached",
        "variation",
        "excluded",
        "running",
        "expected_samples",
        "samples",
        "lost",
        "throttled",
        "record_bytes",
        "reader_s",
        "one_group",
    ];
    let mut rows = Rows::new(separator, &names);
    for cell in &doc.cells {
        let key = &cell.key;
        let numbers = [u64::from(key.events), key.divisor, key.instances.into(), cell.pairs.into(), cell.discarded.into()];
        let head = [vec![key.workload.clone(), key.mode.to_string(), key.set.clone()], numbers.map(|n| n.to_string()).to_vec()];
        let estimates = [&cell.unmonitored_s, &cell.monitored_s, &cell.overhead].into_iter().flat_map(|e| ends(e.as_ref()));
        let tail = [
            cell.reached.to_string(),
            cell.variation.map_or(String::new(), |variation| variation.to_string()),
            cell.excluded.clone().unwrap_or_default(),
            cell.running().to_string(),
            cell.expected_samples.to_string(),
            cell.samples.to_string(),
            cell.lost.to_string(),
            cell.throttled.to_string(),
            cell.record_bytes.to_string(),
            cell.reader_s.to_string(),
            doc.one_group.to_string(),
        ];
        rows.row([head.concat(), estimates.collect(), tail.to_vec()].concat());
    }
    rows.out
}
