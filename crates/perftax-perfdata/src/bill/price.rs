//! The price of one sample, out of a machine profile.

use perftax_cost::drive::Drive;
use perftax_cost::payload::TRACEPOINT_MORE;
use perftax_cost::prediction::{Cost, drift_at_age};
use perftax_doc::{Calibration, MachineProfile};
use perftax_doc::{Estimate, Mechanism};

use super::payload::Payload;
use crate::recording::{Attribute, Carried};

/// What one sample of an event costs.
pub struct Price<'a> {
    /// α with payload, and of a clock with what a program's caches may lose to it ([`Cost::own_ns`]), its interval widened by the drift of the calibration.
    pub alpha_ns: Estimate,
    /// The drift that it carries, a fraction.
    pub drift: f64,
    /// The calibration used.
    pub calibration: &'a Calibration,
    /// Whether the calibration is of this event, and not of another one of the same mechanism.
    pub exact: bool,
    /// Payload terms included.
    pub payload: Vec<String>,
    /// Payload that the recording has and the calibration lacks the term of.
    pub unpriced_payload: Vec<&'static str>,
    /// Payload that no calibration has a term for, and what asks for it.
    pub unknown_payload: Vec<(&'static str, &'static str)>,
}

/// The price of an event's sample; None where the profile has no calibration of its mechanism.
///
/// At the recording's own period, where it has one, and with the drift of the calibration's age at `now_s`. `code`: pages of code that the program goes through, where its samples tell.
pub fn price_of<'a>(
    profile: &'a MachineProfile,
    mechanism: Mechanism,
    name: &str,
    attribute: &Attribute,
    carried: Carried,
    code: Option<Estimate>,
    now_s: f64,
) -> Option<Price<'a>> {
    let newest = |a: &&Calibration, b: &&Calibration| a.origin.taken_at_s.total_cmp(&b.origin.taken_at_s);
    let same = profile.of_mechanism(mechanism).filter(|c| is_of(&c.event, name, attribute)).max_by(newest);
    // cpu-clock and task-clock are one timer, and breakpoints differ by their address alone; what the other mechanisms' events cost is theirs.
    let calibration = same.or_else(|| profile.of_mechanism(mechanism).max_by(newest))?;
    let breaks_alike = || breaks_on_execution(&calibration.event) == breaks_on_execution(name);
    let exact = same.is_some() || mechanism.is_time_driven() || (mechanism == Mechanism::Breakpoint && breaks_alike());
    let payload = Payload::of(attribute, carried, &calibration.terms);
    let cost = Cost { drift: 0.0, ..Cost::from(calibration) };
    let drive = Drive::of(mechanism, false);
    let mut alpha_ns = attribute.events_a_sample().map_or(calibration.alpha_ns, |period| cost.of_sample_ns(drive, period));
    // What a program's data lose to a timer's interrupt nobody sees in a recording, as nobody does before one; how wide its code is, its samples tell.
    let own_ns = attribute.clock_period_ns().and_then(|gap_ns| cost.own_ns(&alpha_ns, gap_ns as f64, code.as_ref()));
    for more_ns in payload.cost_ns.into_iter().chain(own_ns) {
        alpha_ns = alpha_ns.plus(&more_ns);
    }
    if mechanism == Mechanism::Tracepoint {
        alpha_ns = alpha_ns.widened_apart(0.0, TRACEPOINT_MORE - 1.0);
    }
    let drift = drift_at_age(calibration, now_s - calibration.origin.taken_at_s);
    Some(Price {
        alpha_ns: alpha_ns.widened(drift),
        drift,
        calibration,
        exact,
        payload: payload.priced,
        unpriced_payload: payload.unpriced,
        unknown_payload: payload.unknown,
    })
}

/// Whether a calibrated event is this one: by what the kernel was asked for where that has a name, for a recording may call it anything (`faults`,
/// `page-faults/name=mine/`); else by what both are called.
fn is_of(calibrated: &str, name: &str, attribute: &Attribute) -> bool {
    match attribute.generic_name() {
        Some(generic) => usual_name(without_modifiers(calibrated)) == generic,
        None => calibrated == name || without_modifiers(calibrated) == without_modifiers(name),
    }
}

/// Whether a breakpoint (`mem:ADDRESS/BYTES:ACCESS:MODIFIERS`) is one of code.
fn breaks_on_execution(name: &str) -> bool {
    name.split(':').nth(2).is_some_and(|access| access.contains('x'))
}

/// The kernel's name of an event that perf has another one for, too.
fn usual_name(name: &str) -> &str {
    match name {
        "faults" => "page-faults",
        "cs" => "context-switches",
        "migrations" => "cpu-migrations",
        "cpu-cycles" => "cycles",
        "branch-instructions" => "branches",
        "idle-cycles-frontend" => "stalled-cycles-frontend",
        "idle-cycles-backend" => "stalled-cycles-backend",
        other => other,
    }
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
    fn an_event_is_what_the_kernel_was_asked_for() {
        let of = |pmu_type: u32, config: u64| Attribute { pmu_type, config, ..Attribute::default() };
        let page_faults = of(1, 2);
        for name in ["faults", "page-faults:u", "mine", "context-switches"] {
            assert!(is_of("page-faults", name, &page_faults) && is_of("faults:u", name, &page_faults), "{name}");
            assert!(!is_of("context-switches", name, &page_faults) && !is_of("major-faults", name, &page_faults), "{name}");
        }
        // What has no name of the kernel's is what it is called.
        assert!(
            is_of("sched:sched_switch", "sched:sched_switch:k", &of(2, 314)) && !is_of("sched:sched_switch", "mine", &of(2, 314))
        );
        assert!(is_of("cpu-cycles", "cycles:u", &of(0, 0)));
    }

    #[test]
    fn modifiers_are_not_tracepoints() {
        assert_eq!(without_modifiers("page-faults:u"), "page-faults");
        assert_eq!(without_modifiers("sched:sched_switch"), "sched:sched_switch");
        assert_eq!(without_modifiers("sched:sched_switch:k"), "sched:sched_switch");
        assert_eq!(without_modifiers("cycles:ppp"), "cycles");
    }
}
