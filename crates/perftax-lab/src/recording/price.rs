//! The price of one sample, out of a machine profile.

use perftax_cost::document::{Calibration, MachineProfile};
use perftax_cost::drive::Drive;
use perftax_cost::prediction::{Cost, drift_at_age};
use perftax_cost::{Estimate, Mechanism};

use super::attribute::{Attribute, sample_type};

/// What one sample of an event costs.
pub struct Price<'a> {
    /// α with payload, its interval widened by the drift of the calibration.
    pub alpha_ns: Estimate,
    /// The drift that it carries, a fraction.
    pub drift: f64,
    /// The calibration used.
    pub calibration: &'a Calibration,
    /// Whether the calibration is of this event, and not of another one of the same mechanism.
    pub exact: bool,
    /// Payload terms included.
    pub payload: Vec<String>,
    /// Payload that the recording has and the calibration knows no term for.
    pub unpriced_payload: Vec<&'static str>,
}

/// Payload that costs extra, by the name of the profile's term.
const PAYLOAD: [(u64, &str); 3] =
    [(sample_type::CALLCHAIN, "callchain"), (sample_type::REGS_USER, "user-regs"), (sample_type::STACK_USER, "user-stack")];

/// The price of an event's sample; None where the profile has no calibration of its mechanism.
///
/// At the recording's own period, where it has one, and with the drift of the calibration's age at `now_s`.
pub fn price_of<'a>(
    profile: &'a MachineProfile,
    mechanism: Mechanism,
    name: &str,
    attribute: &Attribute,
    now_s: f64,
) -> Option<Price<'a>> {
    let newest = |a: &&Calibration, b: &&Calibration| a.origin.taken_at_s.total_cmp(&b.origin.taken_at_s);
    let wanted = without_modifiers(name);
    let same =
        profile.of_mechanism(mechanism).filter(|c| c.event == name || without_modifiers(&c.event) == wanted).max_by(newest);
    // cpu-clock and task-clock are one timer; what the other mechanisms' events cost is theirs alone.
    let exact = same.is_some() || mechanism.is_time_driven();
    let calibration = same.or_else(|| profile.of_mechanism(mechanism).max_by(newest))?;
    let (mut payload, mut unpriced_payload) = (Vec::new(), Vec::new());
    let cost = Cost { drift: 0.0, ..Cost::from(calibration) };
    let drive = Drive::of(mechanism, false);
    let mut alpha_ns = attribute.period.map_or(calibration.alpha_ns, |period| cost.of_sample_ns(drive, period));
    for (bit, term) in PAYLOAD {
        if attribute.samples(bit) {
            match calibration.terms.get(term) {
                Some(cost) => {
                    alpha_ns = alpha_ns.plus(cost);
                    payload.push(term.to_string());
                }
                None => unpriced_payload.push(term),
            }
        }
    }
    let drift = drift_at_age(calibration, now_s - calibration.origin.taken_at_s);
    Some(Price { alpha_ns: alpha_ns.widened(drift), drift, calibration, exact, payload, unpriced_payload })
}

/// An event's name without what follows its last colon or slash, where that is modifiers and not a tracepoint's name.
fn without_modifiers(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((event, modifiers)) if modifiers.chars().all(|c| "ukhIGHpPSDWebR".contains(c)) => event,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers_are_not_tracepoints() {
        assert_eq!(without_modifiers("page-faults:u"), "page-faults");
        assert_eq!(without_modifiers("sched:sched_switch"), "sched:sched_switch");
        assert_eq!(without_modifiers("sched:sched_switch:k"), "sched:sched_switch");
        assert_eq!(without_modifiers("cycles:ppp"), "cycles");
    }
}
