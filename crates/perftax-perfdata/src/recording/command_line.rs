//! The options of a `perf record` command line, as a recording's header keeps it.

use perftax_tools::grammar::Given;
use perftax_tools::perf::of_tasks_or_cpus;
use perftax_tools::perf::options::RECORD;

/// perf's own options, which end where the command begins; empty where this is no `perf record`. Some perf accepted them: those that are not known are left
/// out, and taken to have no value.
pub fn options(command: &[String]) -> Vec<Given<'_>> {
    match command.iter().position(|word| word == "record") {
        Some(at) => RECORD.read_known(&command[at + 1..]).options,
        None => Vec::new(),
    }
}

/// The lists of events that `-e` named.
pub fn event_lists(command: &[String]) -> impl Iterator<Item = &str> {
    options(command).into_iter().filter(|option| option.name == "event").filter_map(|option| option.value)
}

/// Whom `perf record` was told to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    /// Processes or threads that ran.
    Tasks,
    /// CPUs, whatever runs there.
    Cpus,
    /// A command, or nobody can tell.
    Others,
}

/// By perf's own options; those that name tasks win.
pub(crate) fn whom(command: &[String]) -> Whom {
    match of_tasks_or_cpus(command) {
        Some(whom) if whom.is_of_cpus() => Whom::Cpus,
        Some(_) => Whom::Tasks,
        None => Whom::Others,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(String::from).collect()
    }

    #[test]
    fn options_with_and_without_values() {
        let command =
            words("/usr/bin/perf record -gF 99 -e cycles:u --event=cpu-clock,faults -Iax --call-gr dwarf -z -- ls -e x");
        let found: Vec<(&str, Option<&str>)> = options(&command).iter().map(|option| (option.name, option.value)).collect();
        let expected = [
            ("", None),
            ("freq", Some("99")),
            ("event", Some("cycles:u")),
            ("event", Some("cpu-clock,faults")),
            ("intr-regs", Some("ax")),
            ("call-graph", Some("dwarf")),
            ("compression-level", None),
        ];
        assert_eq!(found, expected);
        assert!(options(&words("perf stat -e x")).is_empty());
    }

    #[test]
    fn whom_is_read_from_perfs_options_alone() {
        let of = |line: &str| whom(&words(line));
        for tasks in [
            "perf record -a -g -p 12",
            "perf record -agp 12",
            "perf record -C 1 -p 3",
            "perf record -k mono -p 3",
            "perf record -e cycles -p 4711",
            "perf record -p4711",
            "perf record --synth no -p 3",
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
