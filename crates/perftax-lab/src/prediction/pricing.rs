//! The cost of a sample.

use perftax_cost::prediction::{Cost, FRESH_S, drift_at_age};
use perftax_doc::steps::{Calibrated, Operation};
use perftax_doc::{Calibration, MachineProfile, Mechanism, Warning};
use perftax_pmu::event::Event;

use crate::published::Published;

/// The cost of a sample and where it comes from.
#[derive(Clone, Debug)]
pub struct SampleCost {
    /// For the model.
    pub cost: Cost,
    /// Whose it is.
    pub machine: String,
}

/// The calibration of an event in a profile; else the newest of its mechanism, for the cost belongs to the mechanism, hardly to the event.
pub fn in_profile<'a>(profile: &'a MachineProfile, event: Option<&Event>, mechanism: Mechanism) -> Option<&'a Calibration> {
    let exact = event.and_then(|event| profile.find(mechanism, &event.name));
    exact.or_else(|| profile.of_mechanism(mechanism).max_by(|a, b| a.origin.taken_at_s.total_cmp(&b.origin.taken_at_s)))
}

/// The cost by a calibration, at `now_s` (seconds since 1970), and what is to be said of it: that it is of another event, or old.
pub fn of_calibration(calibration: &Calibration, event: Option<&Event>, now_s: f64) -> (SampleCost, Vec<Warning>) {
    let mut warnings = Vec::new();
    let other = event.filter(|event| !calibration.mechanism.is_time_driven() && event.name != calibration.event);
    if let Some(event) = other {
        warnings.push(Warning::Other {
            message: format!("{} is priced with the cost of {}, an event of the same mechanism", event.name, calibration.event),
            remedy: format!("{}, where it can be calibrated", Operation::Calibrate(Calibrated::Event(event.name.clone()))),
        });
    }
    let mut cost = Cost::from(calibration);
    let age_s = now_s - calibration.origin.taken_at_s;
    cost.drift = drift_at_age(calibration, age_s);
    if age_s > FRESH_S {
        warnings.push(Warning::OldCalibration { age_s, drift: cost.drift });
    }
    (SampleCost { cost, machine: calibration.origin.machine.name.clone() }, warnings)
}

/// The published cost of a machine, and where it is from; none where there is none of a mechanism.
pub fn of_published(published: &Published, mechanism: Mechanism) -> Option<(SampleCost, Warning)> {
    let found = published.costs.iter().find(|cost| cost.mechanism == mechanism)?;
    let warning = Warning::Other {
        message: format!("the cost of a sample is published, not measured here: {} ({})", published.source, found.condition),
        remedy: format!("{} on the machine itself", Operation::Calibrate(Calibrated::All)),
    };
    let cost = Cost { terms: found.terms.clone(), ..Cost::new(found.alpha_ns, 0.0) };
    Some((SampleCost { cost, machine: published.cpu.clone() }, warning))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use perftax_doc::{Estimate, MachineId, Origin, SCHEMA, StopReason};
    use perftax_pmu::event::{Catalog, parse_one};

    use super::*;

    fn calibration(mechanism: Mechanism, event: &str, taken_at_s: f64) -> Calibration {
        let origin = Origin {
            schema: SCHEMA,
            perftax: String::new(),
            kind: "calibrate".into(),
            machine: MachineId { name: "a machine".into(), ..MachineId::default() },
            kernel: String::new(),
            taken_at_s,
            command: Vec::new(),
            warnings: Vec::new(),
        };
        Calibration {
            origin,
            mechanism,
            event: event.into(),
            alpha_ns: Estimate::new(1_000.0, 900.0, 1_100.0),
            floor_ns: None,
            samples: 1,
            expected_samples: 1.0,
            lost: 0,
            throttled: 0,
            terms: Default::default(),
            wide_code_pages: None,
            linearity: None,
            control: None,
            cross_check: None,
            direct: None,
            drift: 0.01,
            sessions: 1,
            elapsed_s: 1.0,
            stopped: StopReason::Precision,
            blocks: Vec::new(),
        }
    }

    #[test]
    fn the_event_s_own_calibration_is_taken_and_else_the_newest_of_its_mechanism() {
        let of = |calibrations: Vec<Calibration>| MachineProfile {
            schema: SCHEMA,
            machine: MachineId::default(),
            kernel: String::new(),
            calibrations,
        };
        let profile = of(vec![
            calibration(Mechanism::Software, "page-faults", 1.0),
            calibration(Mechanism::Software, "minor-faults", 3.0),
            calibration(Mechanism::CpuClock, "cpu-clock", 9.0),
        ]);
        let event = |text: &str| parse_one(text, &Catalog::of_this_machine()).unwrap();
        let found = |text: &str| in_profile(&profile, Some(&event(text)), Mechanism::Software).unwrap().event.as_str();
        assert_eq!([found("page-faults"), found("major-faults")], ["page-faults", "minor-faults"]);
        assert!(in_profile(&profile, None, Mechanism::Pebs).is_none());
    }

    #[test]
    fn another_event_s_cost_and_an_old_one_are_said() {
        let event = parse_one("major-faults", &Catalog::of_this_machine()).unwrap();
        let known = calibration(Mechanism::Software, "page-faults", 1_000.0);
        let (cost, warnings) = of_calibration(&known, Some(&event), 1_001.0);
        assert_eq!((cost.machine.as_str(), cost.cost.alpha_ns, warnings.len()), ("a machine", known.alpha_ns, 1));
        let (old, warnings) = of_calibration(&known, Some(&event), 1_000.0 + 100.0 * FRESH_S);
        assert!(old.cost.drift > cost.cost.drift && warnings.len() == 2, "{} {}", old.cost.drift, cost.cost.drift);
        assert!(matches!(warnings[1], Warning::OldCalibration { .. }));
    }

    #[test]
    fn a_published_cost_names_its_source() {
        let published = Published::load("broadwell").unwrap();
        let (cost, warning) = of_published(&published, Mechanism::Pebs).unwrap();
        assert!(cost.cost.alpha_ns.estimate > 100.0 && warning.to_string().contains(&published.source), "{warning}");
        assert!(of_published(&published, Mechanism::Spe).is_none());
    }
}
