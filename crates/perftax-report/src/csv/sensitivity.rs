//! `perftax sensitivity` as separated values.

use perftax_doc::Sensitivity;

use super::{Rows, ends};

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
