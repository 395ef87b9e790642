//! What the coming and going of tasks cost while a recording's events were inherited.

use perftax_cost::tasks::{TASK_CPUS_TERM, TASK_TERM, TaskCost};
use perftax_doc::BilledTasks;

use super::billing::PricedEvent;
use crate::recording::command_line::{Whom, whom};
use crate::recording::{Attribute, Recording};

/// The tasks of a recording whose events each of them inherited; none where no event was inherited, or nothing was created.
///
/// `perf record COMMAND` has its events begin with the command's exec, unless they begin later (`--delay`); of others only those of processes and threads
/// are inherited, and not those of CPUs, which the recording tells by its command line alone.
pub(super) fn of(recording: &Recording, priced: &[PricedEvent]) -> Option<BilledTasks> {
    let of_whom = whom(&recording.features.command);
    // The first program is executed before anything is slowed. Of a group only the leader begins with it, and the others with the leader.
    let has_begun_with_exec = recording.events.iter().any(|event| event.attribute.enable_on_exec);
    let is_inherited = |attribute: &Attribute| attribute.inherit && (has_begun_with_exec || of_whom == Whom::Tasks);
    let events = recording.events.iter().filter(|event| is_inherited(&event.attribute)).count() as u32;
    let created = recording.counts.created;
    let executed = recording.counts.executed.saturating_sub(has_begun_with_exec.into());
    let of_cpus = recording.counts.of_cpus;
    if (events == 0 && !of_cpus) || created == 0 {
        return None;
    }
    let cpus = recording.features.cpus_online.unwrap_or(1);
    let term = if of_cpus { TASK_CPUS_TERM } else { TASK_TERM };
    let price = priced.iter().filter_map(|priced| priced.price.as_ref()).find(|price| price.calibration.terms.contains_key(term));
    let cost_s = price.and_then(|price| {
        let (terms, drift) = (&price.calibration.terms, price.drift);
        let all_ns = match of_cpus {
            true => TaskCost::of_cpus(terms)?.of_run_ns(created, executed, (1, 1), drift),
            false => TaskCost::of(terms)?.of_run_ns(created, executed, (events, cpus), drift),
        };
        Some(all_ns.scaled(1e-9))
    });
    // Nothing is inherited of CPUs.
    Some(BilledTasks { created, executed, events: if of_cpus { 0 } else { events }, cost_s })
}
