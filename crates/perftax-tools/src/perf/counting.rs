//! `perf stat`.

use super::options::STAT;
use super::{events, number, unpriced, whom};
use crate::{Error, Left, Whom};

/// What a `perf stat` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counting {
    /// Events in perf's syntax; none: perf's default ones.
    pub events: Vec<String>,
    /// How often counts are printed while it runs, ms; none at the end alone.
    pub interval_ms: Option<u64>,
    /// Whether tasks that are created are counted, too.
    pub inherits: bool,
    /// How often the command runs.
    pub repeats: u64,
}

/// What costs the program something that has no price here, by option.
const UNPRICED: [(&str, &str); 6] = [
    ("cgroup", "switching counters with control groups"),
    ("for-each-cgroup", "switching counters with control groups"),
    ("bpf-counters", "counting in BPF programs"),
    ("bpf-prog", "counting in BPF programs"),
    ("delay", "that events are off for a part of the run: all of it is priced"),
    ("sync", "sync(2) before each run"),
];

impl Counting {
    /// Reads the words behind `perf stat`.
    pub(crate) fn read(words: &[String]) -> Result<(Self, Whom, Left), Error> {
        let tool = STAT.tool;
        let read = STAT.read(words)?;
        if let Some(&other @ ("record" | "report")) = read.rest.first() {
            let needed = "a command to count (perf stat record is not known here)".into();
            return Err(Error::Value { tool, option: "the command".into(), value: other.into(), needed });
        }
        let whom = whom(&read);
        let interval_ms =
            read.value("interval-print").map(|ms| number(tool, "-I", ms, "milliseconds, a whole number")).transpose()?;
        let repeats = read.value("repeat").map_or(Ok(1), |n| number(tool, "-r", n, "a whole number"))?;
        let counting = Self {
            events: read.values("event").flat_map(events).collect(),
            interval_ms,
            inherits: !read.has("no-inherit") && !whom.is_of_cpus(),
            repeats,
        };
        let left = Left { unpriced: unpriced(&read, &UNPRICED), ..Left::default() };
        Ok((counting, whom, left))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn lines_of_perf_stat_are_read() {
        let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
        let (counting, whom, left) = Counting::read(&words("-e a,b -I 100 -r 3 -G x make -j 2")).unwrap();
        assert_eq!((counting.events.len(), counting.interval_ms, counting.repeats), (2, Some(100), 3));
        assert_eq!((whom, left.unpriced.len()), (Whom::Command(words("make -j 2")), 1));
        assert_eq!(Counting::read(&words("-p 4711")).unwrap().1, Whom::Processes("4711".into()));
        assert!(Counting::read(&words("record x")).is_err() && Counting::read(&words("-I soon x")).is_err());
    }
}
