//! `perftax calibrate` as separated values.

use perftax_doc::Calibration;
use perftax_doc::Estimate;

use super::{Rows, ends};

/// The cost of a sample, its floor, its terms, and the cost by period.
pub fn calibration(doc: &Calibration, separator: &str) -> String {
    let mut rows =
        Rows::new(separator, &["quantity", "event", "period", "estimate_ns", "low_ns", "high_ns", "confidence", "samples"]);
    let mut quantity = |name: &str, period: String, e: &Estimate, samples: u64| {
        rows.row(
            [vec![name.into(), doc.event.clone(), period], ends(Some(e)), vec![e.confidence.to_string(), samples.to_string()]]
                .concat(),
        );
    };
    quantity("alpha", String::new(), &doc.alpha_ns, doc.samples);
    if let Some(floor) = &doc.floor_ns {
        quantity("floor", String::new(), floor, doc.samples);
    }
    for (name, cost) in &doc.terms {
        quantity(name, String::new(), cost, doc.samples);
    }
    for p in doc.linearity.iter().flat_map(|l| &l.periods) {
        quantity("alpha", p.period.to_string(), &p.alpha_ns, p.samples);
    }
    if let Some(cross_check) = &doc.cross_check {
        quantity("witness", String::new(), &cross_check.handler_ns, cross_check.samples);
    }
    rows.out
}
