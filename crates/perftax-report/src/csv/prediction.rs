//! `perftax predict` as separated values.

use perftax_doc::Prediction;

use super::{Rows, ends};

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
        "cpu_overhead",
        "cpu_overhead_low",
        "cpu_overhead_high",
        "busiest_overhead",
        "busiest_overhead_low",
        "busiest_overhead_high",
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
        let of_cpu = [ends(r.cpu_overhead.as_ref()), ends(r.busiest_overhead.as_ref())].concat();
        rows.row([head, ends(Some(&r.overhead)), ends(Some(&r.elapsed_s)), of_cpu].concat());
    }
    rows.out
}
