//! `perftax plan` as separated values.

use perftax_doc::Plan;

use super::{Rows, ends};
use crate::shell;

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
        "whole_cpus",
        "cpu_overhead",
        "cpu_overhead_low",
        "cpu_overhead_high",
        "busiest_overhead",
        "busiest_overhead_low",
        "busiest_overhead_high",
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
        doc.whole_cpus.to_string(),
    ];
    let of_cpu = [ends(doc.expected_cpu_overhead.as_ref()), ends(doc.expected_busiest_overhead.as_ref())].concat();
    rows.row([head, ends(Some(&doc.expected_overhead)), tail, of_cpu].concat());
    rows.out
}
