//! `perftax predict` as separated values.

use perftax_doc::Prediction;

use super::Rows;
use crate::columns::{Predicted, PredictionColumns};

/// One row a period.
pub fn prediction(doc: &Prediction, separator: &str) -> String {
    let PredictionColumns { event, period, samples, rate, bytes, overhead, of_cpu, of_busiest, elapsed } =
        PredictionColumns::new();
    let columns = [&event, &period, &samples, &rate, &bytes, &overhead, &elapsed, &of_cpu, &of_busiest];
    Rows::of(separator, &columns, Predicted::all(doc))
}
