//! `perftax selfcost` as separated values.

use perftax_doc::{Cost, Selfcost};

use super::{Rows, ends, word};

/// One row a price. `unit` is that of the costs; where there is none, `remark` says why.
pub fn selfcost(doc: &Selfcost, separator: &str) -> String {
    let names = [
        "section",
        "operation",
        "method",
        "set",
        "events",
        "unit",
        "median",
        "low",
        "high",
        "floor",
        "first",
        "first_low",
        "first_high",
        "q1",
        "q3",
        "most",
        "runs",
        "remark",
    ];
    let mut rows = Rows::new(separator, &names);
    for price in &doc.prices {
        let head = vec![
            word(&price.section),
            price.operation.clone(),
            price.method.clone(),
            price.set.clone(),
            price.events.to_string(),
            word(&doc.unit),
        ];
        let cost = price.cost.as_ref();
        let number = |of: fn(&Cost) -> f64| cost.map_or(String::new(), |cost| of(cost).to_string());
        let tail = vec![
            number(|cost| cost.spread.q1),
            number(|cost| cost.spread.q3),
            number(|cost| cost.spread.most),
            price.runs_ticks.len().to_string(),
            price.remark.clone().unwrap_or_default(),
        ];
        let median = ends(cost.map(|cost| &cost.median));
        let first = ends(cost.and_then(|cost| cost.first.as_ref()));
        rows.row([head, median, vec![number(|cost| cost.floor)], first, tail].concat());
    }
    rows.out
}
