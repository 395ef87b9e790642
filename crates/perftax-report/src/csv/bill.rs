//! `perftax bill` as separated values.

use perftax_doc::{Bill, Untold};

use super::{Rows, ends};

/// One row an event.
pub fn bill(doc: &Bill, separator: &str) -> String {
    let names = [
        "event",
        "mechanism",
        "period",
        "frequency",
        "samples",
        "lost",
        "throttled",
        "running",
        "alpha_ns",
        "alpha_low_ns",
        "alpha_high_ns",
        "cost_s",
        "cost_low_s",
        "cost_high_s",
        "idle",
        "synthesised",
        "untold",
    ];
    let mut rows = Rows::new(separator, &names);
    for e in &doc.events {
        let head = vec![
            e.event.clone(),
            e.mechanism.map_or(String::new(), |m| m.to_string()),
            e.period.map_or(String::new(), |p| p.to_string()),
            e.frequency.map_or(String::new(), |f| f.to_string()),
            e.samples.to_string(),
            e.lost.to_string(),
            e.throttled.to_string(),
            e.running.map_or(String::new(), |r| r.to_string()),
        ];
        let untold = match e.untold {
            Some(Untold::AuxBuffer) => "aux-buffer",
            Some(Untold::Overwritten) => "overwritten",
            Some(Untold::CutOff) => "cut-off",
            None => "",
        };
        let tail = vec![e.idle.to_string(), e.synthesised.to_string(), untold.into()];
        rows.row([head, ends(e.alpha_ns.as_ref()), ends(e.cost_s.as_ref()), tail].concat());
    }
    rows.out
}
