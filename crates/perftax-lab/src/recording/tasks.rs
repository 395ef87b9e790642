//! What the coming and going of tasks cost while a recording's events were inherited.

use perftax_cost::document::BilledTasks;
use perftax_cost::tasks::{TASK_CPUS_TERM, TASK_TERM, TaskCost};

use super::Recording;
use super::billing::Priced;

/// The tasks of a recording whose events each of them inherited; none where no event was inherited, or nothing was created.
///
/// `perf record COMMAND` has its events begin with the command's exec, unless they begin later (`--delay`); of others only those of processes and threads
/// are inherited, and not those of CPUs, which the recording tells by its command line alone.
pub(super) fn of(recording: &Recording, priced: &[Priced]) -> Option<BilledTasks> {
    let of_whom = whom(&recording.features.command);
    // The first program is executed before anything is slowed. Of a group only the leader begins with it, and the others with the leader.
    let has_begun_with_exec = recording.events.iter().any(|event| event.attribute.enable_on_exec);
    let is_inherited = |attribute: &super::Attribute| attribute.inherit && (has_begun_with_exec || of_whom == Whom::Tasks);
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
    const WITH_A_WORD: [&str; 20] = [
        "--filter",
        "--clockid",
        "--cgroup",
        "--uid",
        "--max-size",
        "--affinity",
        "--cpu",
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
    let mut so_far = Whom::Others;
    let mut words = command.iter().skip_while(|word| *word != "record").skip(1);
    while let Some(word) = words.next() {
        let is_short = |letter: char| {
            let mut letters = word.chars().skip(1).take_while(|c| "agsdbnvqRTWNBi".contains(*c) || *c == letter);
            !word.starts_with("--") && letters.any(|c| c == letter)
        };
        let is_long = |name: &str| word == name || word.strip_prefix(name).is_some_and(|rest| rest.starts_with('='));
        if word == "--" || !word.starts_with('-') {
            break;
        }
        // perf lets these win, wherever they stand.
        if is_long("--pid") || is_long("--tid") || is_short('p') || is_short('t') {
            return Whom::Tasks;
        }
        if is_short('a') || word == "--all-cpus" || is_long("--cpu") || is_short('C') {
            so_far = Whom::Cpus;
        }
        let takes_a_word = |letter: char| is_short(letter) && word.ends_with(letter);
        if WITH_A_WORD.contains(&word.as_str()) || "ecFomDkGurjC".chars().any(takes_a_word) {
            words.next();
        }
    }
    so_far
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_is_read_from_perfs_options_alone() {
        let of = |line: &str| whom(&line.split(' ').map(String::from).collect::<Vec<_>>());
        for tasks in [
            "perf record -a -g -p 12",
            "perf record -agp 12",
            "perf record -C 1 -p 3",
            "perf record -k mono -p 3",
            "perf record -e cycles -p 4711",
            "perf record -p4711",
            "/usr/bin/perf record -F 99 -g --tid=12",
            "perf record -t 3",
        ] {
            assert_eq!(of(tasks), Whom::Tasks, "{tasks}");
        }
        for cpus in [
            "perf record -a mkdir -p x",
            "perf record -c 100 -a",
            "perf record -ga -- x",
            "perf record -C 0,1 x",
            "perf record --all-cpus x",
            "perf record -k 1 -a",
            "perf record -gF 99 -a",
            "perf record -iag",
        ] {
            assert_eq!(of(cpus), Whom::Cpus, "{cpus}");
        }
        for others in ["perf record -- make -t -a", "perf record -e cpu-clock ls -a", "perf report -p x", ""] {
            assert_eq!(of(others), Whom::Others, "{others}");
        }
    }
}
