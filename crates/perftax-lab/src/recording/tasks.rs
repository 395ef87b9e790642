//! What the coming and going of tasks cost while a recording's events were inherited.

use perftax_cost::Estimate;
use perftax_cost::document::BilledTasks;
use perftax_cost::tasks::{EXEC_TERM, TASK_EVENT_TERM, TASK_TERM, TaskCost};

use super::Recording;
use super::billing::Priced;

/// The tasks of a recording whose events each of them inherited; none where no event was inherited, or nothing was created.
///
/// `perf record COMMAND` has its events begin with the command's exec; of the others only those of processes and threads are inherited, and not those of
/// CPUs, which the recording tells by its command line alone.
pub(super) fn of(recording: &Recording, priced: &[Priced]) -> Option<BilledTasks> {
    const OF_TASKS: [&str; 4] = ["-p", "-t", "--pid", "--tid"];
    let command = &recording.features.command;
    let of_tasks = command
        .iter()
        .take_while(|word| *word != "--")
        .any(|word| OF_TASKS.contains(&word.as_str()) || word.starts_with("--pid=") || word.starts_with("--tid="));
    let is_inherited = |attribute: &super::Attribute| attribute.inherit && (attribute.enable_on_exec || of_tasks);
    let events = recording.events.iter().filter(|event| is_inherited(&event.attribute)).count() as u32;
    let (created, executed) = (recording.counts.created, recording.counts.executed.saturating_sub(1));
    if events == 0 || created == 0 {
        return None;
    }
    let cpus = recording.features.cpus_online.unwrap_or(1);
    let price =
        priced.iter().filter_map(|priced| priced.price.as_ref()).find(|price| price.calibration.terms.contains_key(TASK_TERM));
    let cost_s = price.and_then(|price| {
        let term = |name: &str| price.calibration.terms.get(name).copied();
        let cost = TaskCost { first_ns: term(TASK_TERM)?, further_ns: term(TASK_EVENT_TERM) };
        let executed_ns = term(EXEC_TERM).unwrap_or(Estimate::exact(0.0)).scaled(executed as f64);
        let all_ns = cost.with_events(events, cpus).scaled(created as f64).plus(&executed_ns);
        Some(all_ns.widened(price.drift).scaled(1e-9))
    });
    Some(BilledTasks { created, executed, events, cost_s })
}
