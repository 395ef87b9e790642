//! What context switches cost while the events of tasks were swapped at each, where the recording tells how many there were.

use perftax_cost::tasks::SWITCH_INHERITED_TERM;
use perftax_doc::BilledSwitches;

use super::billing::PricedEvent;
use crate::recording::{EventCounts, Recording, kind};

/// The switches of a recording of tasks; none where it does not tell of any. Their price is that of two tasks whose events are copies of the same.
pub(super) fn of(recording: &Recording, priced: &[PricedEvent]) -> Option<BilledSwitches> {
    let tells = |event: &&EventCounts| {
        let is_named = event.attribute.generic_name() == Some("context-switches") || event.name == "sched:sched_switch";
        is_named && event.attribute.events_a_sample() == Some(1)
    };
    let sampled = recording.events.iter().filter(tells).map(|event| event.samples.saturating_add(event.lost())).max();
    // One as a task goes, and one as it comes.
    let recorded = recording.counts.records.get(&kind::SWITCH).map(|records| records / 2);
    let switches = sampled.max(recorded).filter(|switches| *switches > 0 && !recording.counts.of_cpus)?;
    let cost_s = priced.iter().filter_map(|priced| priced.price.as_ref()).find_map(|price| {
        let term_ns = price.calibration.terms.get(SWITCH_INHERITED_TERM)?.widened(price.drift);
        let all = term_ns.scaled(switches as f64 * 1e-9);
        Some(perftax_doc::Estimate { low: all.low.max(0.0), ..all })
    });
    Some(BilledSwitches { switches, cost_s })
}
