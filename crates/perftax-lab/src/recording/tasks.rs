//! What the coming and going of tasks cost while a recording's events were inherited.

use perftax_cost::document::BilledTasks;
use perftax_cost::tasks::{TASK_TERM, TaskCost};

use super::Recording;
use super::billing::Priced;

/// The tasks of a recording whose events each of them inherited; none where no event was inherited, or nothing was created.
///
/// `perf record COMMAND` has its events begin with the command's exec, unless they begin later (`--delay`); of others only those of processes and threads
/// are inherited, and not those of CPUs, which the recording tells by its command line alone.
pub(super) fn of(recording: &Recording, priced: &[Priced]) -> Option<BilledTasks> {
    let of_whom = whom(&recording.features.command);
    let is_inherited = |attribute: &super::Attribute| attribute.inherit && (attribute.enable_on_exec || of_whom == Whom::Tasks);
    let events = recording.events.iter().filter(|event| is_inherited(&event.attribute)).count() as u32;
    // The first program is executed before anything is slowed.
    let has_begun_with_exec = recording.events.iter().any(|event| event.attribute.enable_on_exec);
    let created = recording.counts.created;
    let executed = recording.counts.executed.saturating_sub(has_begun_with_exec.into());
    if events == 0 || created == 0 {
        return None;
    }
    let cpus = recording.features.cpus_online.unwrap_or(1);
    let price =
        priced.iter().filter_map(|priced| priced.price.as_ref()).find(|price| price.calibration.terms.contains_key(TASK_TERM));
    let cost_s = price.and_then(|price| {
        let all_ns = TaskCost::of(&price.calibration.terms)?.of_run_ns(created, executed, events, cpus);
        Some(all_ns.widened(price.drift).scaled(1e-9))
    });
    Some(BilledTasks { created, executed, events, cost_s })
}

/// Whom `perf record` was told to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    /// Processes or threads that ran.
    Tasks,
    /// CPUs, whatever runs there.
    Cpus,
    /// A command, or nobody can tell.
    Others,
}

/// By perf's own options, which end where the command begins. Which of them take a word is known of those alone that stand before most often: what is
/// taken for the command's beginning may be such a word.
pub(super) fn whom(command: &[String]) -> Whom {
    const WITH_A_WORD: [&str; 13] = [
        "-e",
        "--event",
        "-c",
        "--count",
        "-F",
        "--freq",
        "-o",
        "--output",
        "-m",
        "--mmap-pages",
        "--call-graph",
        "-D",
        "--delay",
    ];
    let mut words = command.iter().skip_while(|word| *word != "record").skip(1);
    while let Some(word) = words.next() {
        let is_long = |name: &str| word == name || word.strip_prefix(name).is_some_and(|rest| rest.starts_with('='));
        if word == "--" || !word.starts_with('-') {
            return Whom::Others;
        }
        if is_long("--pid") || is_long("--tid") || (!word.starts_with("--") && (word.starts_with("-p") || word.starts_with("-t")))
        {
            return Whom::Tasks;
        }
        // -a may stand among other letters that take no word.
        let is_all = !word.starts_with("--") && word[1..].chars().take_while(|c| "agsdbnvqRTWNB".contains(*c)).any(|c| c == 'a');
        if is_all || word == "--all-cpus" || is_long("--cpu") || (!word.starts_with("--") && word.starts_with("-C")) {
            return Whom::Cpus;
        }
        if WITH_A_WORD.contains(&word.as_str()) {
            words.next();
        }
    }
    Whom::Others
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_is_read_from_perfs_options_alone() {
        let of = |line: &str| whom(&line.split(' ').map(String::from).collect::<Vec<_>>());
        for tasks in
            ["perf record -e cycles -p 4711", "perf record -p4711", "/usr/bin/perf record -F 99 -g --tid=12", "perf record -t 3"]
        {
            assert_eq!(of(tasks), Whom::Tasks, "{tasks}");
        }
        for cpus in [
            "perf record -a mkdir -p x",
            "perf record -c 100 -a",
            "perf record -ga -- x",
            "perf record -C 0,1 x",
            "perf record --all-cpus x",
        ] {
            assert_eq!(of(cpus), Whom::Cpus, "{cpus}");
        }
        for others in ["perf record -- make -t -a", "perf record -e cpu-clock ls -a", "perf report -p x", ""] {
            assert_eq!(of(others), Whom::Others, "{others}");
        }
    }
}
