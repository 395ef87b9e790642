//! What the recording itself cost.

use super::check::{Check, Judgement, Rule, Unit, Whole};
use perftax_doc::steps::{Calibrated, Operation};
use perftax_doc::words::{share, time_s};

pub(super) struct OwnCost;

static RULE: Rule = Rule {
    name: "own-cost",
    measures: "time that sampling took, of the run without it",
    unit: Unit::Share,
    warning: Some(0.05),
    error: Some(0.25),
    source: "the recording's bill (docs/guide/bill.md); above 5 % what is sampled is no longer the program alone",
};

impl Check for OwnCost {
    fn rule(&self) -> &'static Rule {
        &RULE
    }

    fn judge(&self, whole: &Whole<'_>) -> Judgement {
        let bill = whole.bill;
        let of_cpus = || {
            let cost_s = bill.cost_s.filter(|_| bill.of_cpus)?;
            Some(cost_s.scaled(1.0 / (whole.span_s()? * whole.recording.cpus() as f64)))
        };
        let Some(cost) = bill.share_of_run.or_else(of_cpus) else {
            return Judgement::unknown(match bill.cost_s {
                Some(_) => "the recording does not tell how long the run took".into(),
                None => format!(
                    "what a sample costs is not known here: {} finds it, and {} says more",
                    Operation::Calibrate(Calibrated::All),
                    Operation::Bill
                ),
            });
        };
        Judgement::measured(
            cost.estimate,
            format!(
                "sampling took {} [{}, {}]{} of the run",
                share(cost.estimate),
                share(cost.low),
                share(cost.high),
                bill.cost_s.map_or(String::new(), |cost_s| format!(" ({} of CPU time)", time_s(cost_s.estimate)))
            ),
            "the program ran slower, and what has most samples was slowed most",
            format!("{} finds settings that keep within a budget", Operation::Plan),
        )
    }
}
