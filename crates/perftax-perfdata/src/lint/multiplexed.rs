//! Events that took turns on too few counters.

use super::check::{Check, Judgement, Rule, Unit, Whole};
use perftax_doc::words::{named, share};

pub(super) struct Multiplexed;

static RULE: Rule = Rule {
    name: "multiplexed",
    measures: "time off the counter, of the time enabled, of the event that had most",
    unit: Unit::Share,
    warning: Some(0.01),
    error: Some(0.5),
    source: "time_enabled and time_running (perf_event_open(2)): events rotate every tick, and what is shorter falls between",
};

impl Check for Multiplexed {
    fn rule(&self) -> &'static Rule {
        &RULE
    }

    fn judge(&self, whole: &Whole<'_>) -> Judgement {
        let counters = whole.recording.events.iter().filter(|event| !event.attribute.needs_no_counter());
        let counters: Vec<_> = counters.collect();
        if counters.is_empty() {
            return Judgement::none("no event needs a counter");
        }
        let off: Vec<(&str, f64)> =
            counters.iter().filter_map(|event| Some((event.name.as_str(), 1.0 - event.running()?))).collect();
        let Some(&(worst, most)) = off.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else {
            return Judgement::unknown("the recording has no times enabled and running; perf record -s writes them");
        };
        let shared: Vec<&str> = off.iter().filter(|(_, off)| *off >= 0.001).map(|(name, _)| *name).collect();
        if shared.is_empty() {
            return Judgement::none("every event was on its counter all the time");
        }
        Judgement::measured(
            most,
            format!("{} shared counters, {worst} was off for {} of its time", named(&shared), share(most)),
            "events are not seen together: ratios between them hold for long, steady runs only",
            "record fewer events at a time; sudo sysctl kernel.nmi_watchdog=0 gives a counter back",
        )
    }
}
