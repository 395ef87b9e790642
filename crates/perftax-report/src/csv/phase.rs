//! `perftax phase` as separated values.

use perftax_doc::Phase;

use super::Rows;

/// One row an interval; which stretch it is in.
pub fn phase(doc: &Phase, separator: &str) -> String {
    let names = [
        "interval",
        "until",
        "passed",
        "first",
        "second",
        "ratio",
        "time_ns",
        "stretch",
        "interval_event",
        "first_event",
        "second_event",
    ];
    let mut rows = Rows::new(separator, &names);
    for (i, interval) in doc.intervals.iter().enumerate() {
        let stretch = doc.stretches.iter().position(|stretch| (stretch.from..stretch.to).contains(&(i as u64)));
        let numbers = [i as u64, interval.until, interval.passed, interval.first, interval.second].map(|n| n.to_string());
        let of = vec![
            interval.ratio().map_or(String::new(), |ratio| ratio.to_string()),
            interval.time_ns.to_string(),
            stretch.map_or(String::new(), |stretch| stretch.to_string()),
            doc.interval_event.clone(),
            doc.events[0].clone(),
            doc.events[1].clone(),
        ];
        rows.row([numbers.to_vec(), of].concat());
    }
    rows.out
}
