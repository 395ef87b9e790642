//! `perftax sensitivity` as separated values.

use perftax_doc::Sensitivity;

use super::Rows;
use crate::columns::SensitivityColumns;

/// One row a size.
pub fn sensitivity(doc: &Sensitivity, separator: &str) -> String {
    let SensitivityColumns { taken, loss, visit, rounds, .. } = SensitivityColumns::new();
    Rows::of(separator, &[&taken, &loss, &visit, &rounds], doc.rows.iter())
}
