//! `perf trace`.

use super::options::TRACE;
use super::{unpriced, whom};
use crate::{Error, Left, Whom};

/// What a `perf trace` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    /// What `-e` names: system calls, groups of them, events; none: every system call.
    pub wanted: Vec<String>,
    /// Whether page faults are traced as well.
    pub faults: bool,
    /// Whether system calls are.
    pub calls: bool,
    /// Whether tasks that are created are traced, too.
    pub inherits: bool,
}

/// What costs the program something that has no price here, by option.
const UNPRICED: [(&str, &str); 5] = [
    ("cgroup", "switching events with control groups"),
    ("filter", "which events the filter drops: all are priced"),
    ("filter-pids", "which events the filter drops: all are priced"),
    ("sched", "a tracepoint of the scheduler at each wait"),
    ("delay", "that events are off for a part of the run: all of it is priced"),
];

impl Tracing {
    /// Reads the words behind `perf trace`.
    pub(crate) fn read(words: &[String]) -> Result<(Self, Whom, Left), Error> {
        let read = TRACE.read(words)?;
        if read.value("input").is_some() || matches!(read.rest.first(), Some(&"record" | &"report")) {
            let value = read.rest.first().map_or("-i".into(), |word| (*word).to_owned());
            let needed = "a command to trace: this line traces nothing, or hands on to perf record".into();
            return Err(Error::Value { tool: TRACE.tool, option: "the line".into(), value, needed });
        }
        let whom = whom(&read);
        let wanted: Vec<String> = ["event", "expr"]
            .into_iter()
            .flat_map(|name| read.values(name))
            .flat_map(|list| list.split(',').map(str::to_owned))
            .collect();
        let is_denied = |name: &str| read.options.iter().any(|option| option.name == name && option.is_denied);
        let faults = read.value("pf").is_some();
        let tracing = Self {
            faults,
            // Where nothing but other events is named there are no system calls among them.
            calls: !is_denied("syscalls") && (wanted.is_empty() || !wanted.iter().all(|name| name.contains(':'))),
            inherits: !read.has("no-inherit") && !whom.is_of_cpus(),
            wanted,
        };
        let left = Left { unpriced: unpriced(&read, &UNPRICED), ..Left::default() };
        Ok((tracing, whom, left))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn lines_of_perf_trace_are_read() {
        let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
        let (tracing, whom, _) = Tracing::read(&words("-s -e open*,read --call-graph dwarf ls -l")).unwrap();
        assert_eq!((tracing.wanted, tracing.calls), (words("open* read"), true));
        assert_eq!(whom, Whom::Command(words("ls -l")));
        let faults = |line: &str| {
            let (tracing, ..) = Tracing::read(&words(line)).unwrap();
            (tracing.faults, tracing.calls)
        };
        assert_eq!(faults("-F all ls"), (true, true));
        assert_eq!(faults("-F all --no-syscalls ls"), (true, false));
        assert_eq!(faults("-e sched:sched_switch ls"), (false, false));
        assert!(Tracing::read(&words("-i perf.data")).is_err());
    }
}
