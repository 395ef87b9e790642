//! `perftax predict --tool` as separated values.

use perftax_doc::ToolPrediction;

use super::Rows;
use crate::columns::ToolColumns;

/// One row a term.
pub fn tool_prediction(doc: &ToolPrediction, separator: &str) -> String {
    let ToolColumns { what, count, each, overhead, source } = ToolColumns::new();
    Rows::of(separator, &[&what, &count, &each, &overhead, &source], doc.terms.iter())
}
