//! Results as rows.

use perftax_dataset::Publisher;
use perftax_dataset::rows::{AuditRow, PriceRow};
use perftax_doc::{Audit, Calibration, Cost, CostUnit, Estimate, Matrix, Recorded, Selfcost};

use super::Of;

/// What a price is of.
struct Priced<'a> {
    source: &'a str,
    mechanism: &'a str,
    event: &'a str,
    unit: &'a str,
}

fn price(publisher: &mut Publisher, of: &Of<'_>, what: &Priced<'_>, term: &str, estimate: &Estimate) {
    let machine = &of.origin.machine;
    publisher.push(PriceRow {
        host: of.host.as_str().into(),
        recording: of.recording.into(),
        fingerprint: machine.fingerprint.as_str().into(),
        cpu: machine.cpu.as_str().into(),
        microcode: machine.microcode.as_str().into(),
        kernel: of.origin.kernel.as_str().into(),
        mitigations: machine.mitigations.as_str().into(),
        virtualisation: machine.virtualisation.as_str().into(),
        time_ns: of.time_ns,
        source: what.source.into(),
        mechanism: what.mechanism.into(),
        event: what.event.into(),
        term: term.into(),
        unit: what.unit.into(),
        value: estimate.estimate,
        low: estimate.low,
        high: estimate.high,
        confidence: estimate.confidence,
    });
}

/// The cost of a sample and its terms.
pub fn calibration(doc: &Calibration, publisher: &mut Publisher, of: &Of<'_>) {
    let source = if of.is_published { "published" } else { "calibrate" };
    let what = Priced { source, mechanism: doc.mechanism.name(), event: &doc.event, unit: "ns" };
    price(publisher, of, &what, "alpha", &doc.alpha_ns);
    doc.floor_ns.iter().for_each(|floor| price(publisher, of, &what, "floor", floor));
    doc.terms.iter().for_each(|(term, estimate)| price(publisher, of, &what, term, estimate));
}

/// Prices of counting.
pub fn selfcost(doc: &Selfcost, publisher: &mut Publisher, of: &Of<'_>) {
    let unit = match doc.unit {
        CostUnit::Nanoseconds => "ns",
        CostUnit::Instructions => "instructions",
    };
    for one in &doc.prices {
        let Some(Cost { median, .. }) = &one.cost else { continue };
        let what = Priced { source: "selfcost", mechanism: &one.method, event: &one.set, unit };
        price(publisher, of, &what, &format!("{}, {} events", one.operation, one.events), median);
    }
}

/// Overheads of each cell.
pub fn matrix(doc: &Matrix, publisher: &mut Publisher, of: &Of<'_>) {
    for cell in &doc.cells {
        let Some(overhead) = &cell.overhead else { continue };
        let key = &cell.key;
        let what =
            Priced { source: "matrix", mechanism: &format!("{:?}", key.mode).to_lowercase(), event: &key.set, unit: "share" };
        let term =
            format!("{}, {} instances, {} events, period divided by {}", key.workload, key.instances, key.events, key.divisor);
        price(publisher, of, &what, &term, overhead);
    }
}

/// What a recording cost.
pub fn recorded(doc: &Recorded, publisher: &mut Publisher, of: &Of<'_>) {
    let what = Priced { source: "record", mechanism: doc.mechanism.name(), event: &doc.event, unit: "share" };
    doc.spent_share.iter().for_each(|share| price(publisher, of, &what, "recording", share));
}

/// What was found of how true samples are.
pub fn audit(doc: &Audit, publisher: &mut Publisher, of: &Of<'_>) {
    let machine = &of.origin.machine;
    for (experiment, row) in
        doc.experiments.iter().flat_map(|experiment| experiment.rows.iter().map(move |row| (experiment, row)))
    {
        let findings =
            [("expected", Some(row.expected), None), ("found", None, Some(&row.found)), ("error", None, Some(&row.error))];
        for (finding, exact, estimate) in findings {
            let unit = if finding == "error" { "share" } else { row.unit.as_str() };
            publisher.push(AuditRow {
                host: of.host.as_str().into(),
                recording: of.recording.into(),
                fingerprint: machine.fingerprint.as_str().into(),
                cpu: machine.cpu.as_str().into(),
                kernel: of.origin.kernel.as_str().into(),
                time_ns: of.time_ns,
                mechanism: experiment.name.as_str().into(),
                event: row.case.as_str().into(),
                finding: finding.into(),
                unit: unit.into(),
                value: exact.or(estimate.map(|estimate| estimate.estimate)),
                low: estimate.map(|estimate| estimate.low),
                high: estimate.map(|estimate| estimate.high),
            });
        }
    }
}
