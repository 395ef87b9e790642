//! The options of a `perf record` command line, as a recording's header keeps it.

/// An option and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfOption<'a> {
    /// Its long name, without dashes.
    pub name: &'static str,
    /// Its value, where it has one.
    pub value: Option<&'a str>,
}

/// Whether an option takes a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    No,
    /// In the same word or the next.
    Needed,
    /// In the same word only.
    Optional,
}
use Value::{Needed, No, Optional};

/// Letter (or NUL), long name, value: `perf record -h` of perf 6.1 and 7.2.
const OPTIONS: [(char, &str, Value); 87] = [
    ('a', "all-cpus", No),
    ('b', "branch-any", No),
    ('B', "no-buildid", No),
    ('c', "count", Needed),
    ('C', "cpu", Needed),
    ('d', "data", No),
    ('D', "delay", Needed),
    ('e', "event", Needed),
    ('F', "freq", Needed),
    ('g', "", No),
    ('G', "cgroup", Needed),
    ('I', "intr-regs", Optional),
    ('i', "no-inherit", No),
    ('j', "branch-filter", Needed),
    ('k', "clockid", Needed),
    ('m', "mmap-pages", Needed),
    ('N', "no-buildid-cache", No),
    ('n', "no-samples", No),
    ('o', "output", Needed),
    ('P', "period", No),
    ('p', "pid", Needed),
    ('q', "quiet", No),
    ('R', "raw-samples", No),
    ('r', "realtime", Needed),
    ('S', "snapshot", Optional),
    ('s', "stat", No),
    ('t', "tid", Needed),
    ('T', "timestamp", No),
    ('u', "uid", Needed),
    ('v', "verbose", No),
    ('W', "weight", No),
    ('z', "compression-level", Optional),
    ('\0', "action", Needed),
    ('\0', "affinity", Needed),
    ('\0', "aio", Optional),
    ('\0', "all-cgroups", No),
    ('\0', "all-kernel", No),
    ('\0', "all-user", No),
    ('\0', "aux-sample", Optional),
    ('\0', "buildid-all", No),
    ('\0', "buildid-mmap", No),
    ('\0', "call-graph", Needed),
    ('\0', "clang-opt", Needed),
    ('\0', "clang-path", Needed),
    ('\0', "code-page-size", No),
    ('\0', "control", Needed),
    ('\0', "data-mmap", No),
    ('\0', "data-page-size", No),
    ('\0', "debuginfod", Optional),
    ('\0', "dry-run", No),
    ('\0', "exclude-perf", No),
    ('\0', "filter", Needed),
    ('\0', "group", No),
    ('\0', "kcore", No),
    ('\0', "kernel-callchains", No),
    ('\0', "latency", No),
    ('\0', "max-size", Needed),
    ('\0', "mmap-flush", Needed),
    ('\0', "namespaces", No),
    ('\0', "no-bpf-event", No),
    ('\0', "no-buffering", No),
    ('\0', "num-thread-synthesize", Needed),
    ('\0', "off-cpu", No),
    ('\0', "off-cpu-thresh", Needed),
    ('\0', "overwrite", No),
    ('\0', "per-thread", No),
    ('\0', "phys-data", No),
    ('\0', "proc-map-timeout", Needed),
    ('\0', "running-time", No),
    ('\0', "sample-cpu", No),
    ('\0', "sample-identifier", No),
    ('\0', "sample-mem-info", No),
    ('\0', "setup-filter", Needed),
    ('\0', "strict-freq", No),
    ('\0', "switch-events", No),
    ('\0', "switch-max-files", Needed),
    ('\0', "switch-output", Optional),
    ('\0', "switch-output-event", Needed),
    ('\0', "synth", Needed),
    ('\0', "tail-synthesize", No),
    ('\0', "threads", Optional),
    ('\0', "timestamp-boundary", No),
    ('\0', "timestamp-filename", No),
    ('\0', "transaction", No),
    ('\0', "user-callchains", No),
    ('\0', "vmlinux", Needed),
    ('\0', "user-regs", Optional),
];

/// perf's own options, which end where the command begins; empty where this is no `perf record`.
pub fn options(command: &[String]) -> Vec<PerfOption<'_>> {
    let mut words = command.iter().map(String::as_str).skip_while(|word| *word != "record").skip(1);
    let mut options = Vec::new();
    while let Some(word) = words.next() {
        match word.strip_prefix('-') {
            None | Some("" | "-") => break,
            Some(long) if long.starts_with('-') => {
                let (name, value) = long[1..].split_once('=').map_or((&long[1..], None), |(name, value)| (name, Some(value)));
                // What is not known takes none, as most do.
                let Some((name, takes)) = long_option(name) else { continue };
                let value = value.or_else(|| if takes == Needed { words.next() } else { None });
                options.push(PerfOption { name, value });
            }
            Some(letters) => short_options(letters, &mut words, &mut options),
        }
    }
    options
}

/// An option by its long name, or by as much of it as no other begins with.
fn long_option(name: &str) -> Option<(&'static str, Value)> {
    let known = || OPTIONS.iter().filter(|option| !option.1.is_empty());
    let mut alike = known().filter(|option| option.1.starts_with(name));
    let only = match (alike.next(), alike.next()) {
        (Some(one), None) => Some(one),
        _ => None,
    };
    known().find(|option| option.1 == name).or(only).map(|option| (option.1, option.2))
}

/// The letters of one word, of which the last may take the rest or the next word.
fn short_options<'a>(letters: &'a str, words: &mut impl Iterator<Item = &'a str>, options: &mut Vec<PerfOption<'a>>) {
    for (at, letter) in letters.char_indices() {
        let Some(&(_, name, takes)) = OPTIONS.iter().find(|option| option.0 == letter && letter != '\0') else { continue };
        let rest = &letters[at + letter.len_utf8()..];
        let value = match takes {
            No => None,
            Needed if rest.is_empty() => words.next(),
            _ => Some(rest).filter(|rest| !rest.is_empty()),
        };
        options.push(PerfOption { name, value });
        if takes != No {
            return;
        }
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
    let options = options(command);
    let has = |names: [&str; 2]| options.iter().any(|option| names.contains(&option.name));
    if has(["pid", "tid"]) {
        Whom::Tasks
    } else if has(["all-cpus", "cpu"]) {
        Whom::Cpus
    } else {
        Whom::Others
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
