//! Profilers that sample whole machines by a frequency, in BPF programs: what they are called, and how that frequency is set.

use crate::grammar::Takes::{Maybe, Nothing, Value};
use crate::grammar::{Grammar, Opt};
use crate::{Error, Left, Whom};

/// A profiler by eBPF: at each sample the kernel walks both stacks and counts, or hands over, what it found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profiler {
    /// Its name.
    pub name: &'static str,
    /// Samples a second and CPU.
    pub hz: f64,
}

struct Known {
    /// Names of its program.
    programs: &'static [&'static str],
    grammar: Grammar,
    /// The option of its frequency.
    frequency: &'static str,
    /// Its default, samples a second.
    default_hz: f64,
}

/// bcc's tools/profile.py (49), Parca's agent (19), OpenTelemetry's eBPF profiler (20): each one's own help.
const KNOWN: [Known; 3] = [
    Known {
        programs: &["profile-bpfcc", "profile.py", "profile"],
        grammar: Grammar { tool: "profile (bcc)", options: BCC },
        frequency: "frequency",
        default_hz: 49.0,
    },
    Known {
        programs: &["parca-agent"],
        grammar: Grammar { tool: "parca-agent", options: PARCA },
        frequency: "profiling-cpu-sampling-frequency",
        default_hz: 19.0,
    },
    Known {
        programs: &["ebpf-profiler", "otel-profiling-agent"],
        grammar: Grammar { tool: "ebpf-profiler", options: OTEL },
        frequency: "samples-per-second",
        default_hz: 20.0,
    },
];

const BCC: &[Opt] = &[
    ('p', "pid", Value),
    ('L', "tid", Value),
    ('U', "user-stacks-only", Nothing),
    ('K', "kernel-stacks-only", Nothing),
    ('F', "frequency", Value),
    ('c', "count", Value),
    ('d', "delimited", Nothing),
    ('a', "annotations", Nothing),
    ('I', "include-idle", Nothing),
    ('f', "folded", Nothing),
    ('C', "cpu", Value),
    ('\0', "stack-storage-size", Value),
    ('\0', "cgroupmap", Value),
    ('\0', "mntnsmap", Value),
];

const PARCA: &[Opt] = &[
    ('\0', "profiling-cpu-sampling-frequency", Value),
    ('\0', "profiling-duration", Value),
    ('\0', "remote-store-address", Value),
    ('\0', "remote-store-insecure", Maybe),
    ('\0', "remote-store-bearer-token", Value),
    ('\0', "remote-store-bearer-token-file", Value),
    ('\0', "http-address", Value),
    ('\0', "node", Value),
    ('\0', "config-path", Value),
    ('\0', "log-level", Value),
    ('\0', "local-store-directory", Value),
];

const OTEL: &[Opt] = &[
    ('\0', "samples-per-second", Value),
    ('\0', "collection-agent", Value),
    ('\0', "reporter-interval", Value),
    ('\0', "tracers", Value),
    ('\0', "disable-tls", Maybe),
    ('\0', "off-cpu-threshold", Value),
    ('\0', "send-error-frames", Maybe),
    ('t', "", Value),
    ('v', "verbose", Nothing),
];

impl Profiler {
    /// Reads a line of one of them; none where its program is none of them.
    pub(crate) fn read(program: &str, words: &[String]) -> Option<Result<(Self, Whom, Left), Error>> {
        let known = KNOWN.iter().find(|known| known.programs.contains(&program))?;
        Some(known.read(words))
    }
}

impl Known {
    fn read(&self, words: &[String]) -> Result<(Profiler, Whom, Left), Error> {
        // Go's flags have one dash, and mean two.
        let two_dashes = |word: &String| {
            let name = word.strip_prefix('-').filter(|name| name.len() > 1 && !name.starts_with('-'));
            let is_long =
                |name: &str| self.grammar.options.iter().any(|option| option.1 == name.split('=').next().unwrap_or_default());
            match name.filter(|name| is_long(name)) {
                Some(name) => format!("--{name}"),
                None => word.clone(),
            }
        };
        let words: Vec<String> = words.iter().map(two_dashes).collect();
        let read = self.grammar.read(&words)?;
        let wrong = |value: &str| Error::Value {
            tool: self.grammar.tool,
            option: format!("--{}", self.frequency),
            value: value.into(),
            needed: "samples a second".into(),
        };
        let hz = match read.value(self.frequency) {
            Some(text) => text.parse().ok().filter(|hz| *hz > 0.0).ok_or_else(|| wrong(text))?,
            None => self.default_hz,
        };
        let mut left = Left::default();
        if let Some(events) = read.value("count") {
            left.unpriced.push(("-c".into(), format!("a sample every {events} cycles: priced by its frequency")));
        }
        if read.value("off-cpu-threshold").is_some() {
            left.unpriced.push(("--off-cpu-threshold".into(), "a BPF program at each context switch".into()));
        }
        let whom = read.value("pid").map_or(Whom::Cpus(read.value("cpu").map(Into::into)), |pid| Whom::Processes(pid.into()));
        Ok((Profiler { name: self.grammar.tool, hz }, whom, left))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn profilers_are_read_by_their_frequency() {
        let read = |line: &str| {
            let words: Vec<String> = line.split(' ').map(String::from).collect();
            Profiler::read(&words[0], &words[1..]).unwrap()
        };
        assert_eq!(read("profile-bpfcc -F 99 -adf 30").unwrap().0.hz, 99.0);
        assert_eq!(read("parca-agent --node=x").unwrap().0.hz, 19.0);
        assert_eq!(read("ebpf-profiler -samples-per-second=97").unwrap().0.hz, 97.0);
        assert!(read("profile-bpfcc -F often").is_err() && read("parca-agent --frob").is_err());
        assert!(Profiler::read("perf", &[]).is_none());
    }
}
