//! The same line around another command, or with another period: what a tool is tried out with, and what a plan makes of it.

use crate::bpftrace::BPFTRACE;
use crate::grammar::{Given, Grammar};
use crate::perf::options::{RECORD, STAT, TRACE};
use crate::strace::{STRACE, plain};
use crate::{Hook, Probe, Tool, ToolLine, Whom};

/// What a line is tried out with instead of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Instead {
    /// Samples a second, where it samples by a clock.
    pub hz: Option<f64>,
    /// File and function that its probes of a program's function sit on.
    pub function: Option<(String, String)>,
}

impl ToolLine {
    /// The line's words around `command`, its own command and whom it watches left out, its output in files below `folder`. None where the tool does not start
    /// a command.
    pub fn around(&self, command: &[String], folder: &str, instead: &Instead) -> Option<Vec<String>> {
        let own = self.own_words();
        let mut words: Vec<String> = Vec::new();
        match &self.tool {
            Tool::Record(_) => {
                words.extend(self.words[..2].iter().cloned());
                words.extend(kept(&RECORD, &self.words[2..own], &["pid", "tid", "output", "uid"]));
                words.extend(["-o".to_owned(), format!("{folder}/perf.out"), "--".to_owned()]);
            }
            Tool::Stat(_) => {
                words.extend(self.words[..2].iter().cloned());
                words.extend(kept(&STAT, &self.words[2..own], &["pid", "tid", "output", "repeat", "log-fd", "append"]));
                words.extend(["-o".to_owned(), format!("{folder}/perf.out"), "--".to_owned()]);
            }
            Tool::Trace(_) => {
                words.extend(self.words[..2].iter().cloned());
                words.extend(kept(&TRACE, &self.words[2..own], &["pid", "tid", "output", "uid"]));
                words.extend(["-o".to_owned(), format!("{folder}/perf.out"), "--".to_owned()]);
            }
            Tool::Strace(_) => {
                words.push(self.words[0].clone());
                words.extend(kept(&STRACE, &plain(&self.words[1..own]), &["attach", "output", "user"]));
                words.extend(["-o".to_owned(), format!("{folder}/strace.out")]);
            }
            Tool::Bpftrace(bpftrace) => {
                words.push(self.words[0].clone());
                let (options, script) = BPFTRACE.read(&self.words[1..]).map(|read| (read.options, read.rest)).ok()?;
                let is_kept = |given: &&Given<'_>| !matches!(given.letter, 'p' | 'c' | 'o' | 'e');
                words.extend(options.iter().filter(is_kept).flat_map(Given::words));
                words.extend(["-o".to_owned(), format!("{folder}/bpftrace.out"), "-c".to_owned()]);
                words.push(shlex::try_join(command.iter().map(String::as_str)).ok()?);
                match options.iter().rev().find(|given| given.letter == 'e').and_then(|given| given.value) {
                    Some(text) => words.extend(["-e".to_owned(), elsewhere(text, bpftrace, instead)]),
                    None => words.extend(script.into_iter().map(str::to_owned)),
                }
                return Some(words);
            }
            Tool::Profiler(_) => return None,
        }
        words.extend(command.iter().cloned());
        Some(words)
    }

    /// A `perf record` line without its command, with another period and buffer, and an event where it names none.
    pub fn sampling(&self, event: Option<&str>, period: u64, pages: u64) -> Vec<String> {
        let own = self.own_words();
        let is_memory = matches!(self.words.get(1).map(String::as_str), Some("mem" | "c2c"));
        let rest = &self.words[2.min(own)..own];
        let mut words: Vec<String> = self.words[..2.min(own)].to_vec();
        if is_memory {
            // Both grammars' options may be mixed here, and neither knows the other's: they stay as they are written.
            words.extend(rest.iter().filter(|word| *word != "--").cloned());
        } else {
            words.extend(event.into_iter().flat_map(|event| ["-e".to_owned(), event.to_owned()]));
            words.extend(kept(&RECORD, rest, &["freq", "count", "mmap-pages"]));
        }
        words.extend(["-c".to_owned(), period.to_string(), "-m".to_owned(), pages.to_string()]);
        words
    }

    /// How many of the words are the tool's own.
    pub fn own_words(&self) -> usize {
        match &self.whom {
            Whom::Command(words) if !matches!(self.tool, Tool::Bpftrace(_)) => self.words.len() - words.len(),
            _ => self.words.len(),
        }
    }
}

/// Options without some, each by itself.
fn kept(grammar: &Grammar, words: &[String], left_out: &[&str]) -> Vec<String> {
    let read = grammar.read_known(words);
    read.options.iter().filter(|given| !left_out.contains(&given.name)).flat_map(Given::words).collect()
}

/// A script with its probes at another frequency, and on another function.
fn elsewhere(text: &str, bpftrace: &crate::Bpftrace, instead: &Instead) -> String {
    let other = |probe: &Probe| match (&probe.hook, instead.hz, &instead.function) {
        (Hook::Profile { .. }, Some(hz), _) => Some(format!("profile:us:{}", (1e6 / hz).round().max(1.0))),
        (Hook::Function { on_return, .. }, _, Some((file, function))) => {
            Some(format!("{}:{file}:{function}", if *on_return { "uretprobe" } else { "uprobe" }))
        }
        _ => None,
    };
    bpftrace.probes.iter().fold(text.to_owned(), |text, probe| match other(probe) {
        Some(other) => text.replace(&probe.text, &other),
        None => text,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn around(line: &str, hz: Option<f64>) -> String {
        let command = ["try".to_owned(), "it".to_owned()];
        let instead = Instead { hz, function: Some(("/p".into(), "g".into())) };
        ToolLine::parse(line).unwrap().around(&command, "/f", &instead).unwrap().join(" ")
    }

    #[test]
    fn lines_go_around_other_commands() {
        assert_eq!(around("strace -f -o out -p 12", None), "strace -f -o /f/strace.out try it");
        // A file of the user's must not be written over, however its option stands.
        assert_eq!(around("strace -ffo out ls", None), "strace -f -o /f/strace.out try it");
        assert_eq!(around("strace -e trace=read ls -l", None), "strace -etrace=read -o /f/strace.out try it");
        assert_eq!(around("sudo perf trace -s -p 12", None), "perf trace -s -o /f/perf.out -- try it");
        assert_eq!(around("perf stat -e a -r 3 -aAo x -- make -o x", None), "perf stat -ea -a -A -o /f/perf.out -- try it");
        assert_eq!(around("perf record -gF 99 -a", None), "perf record -g -F99 -a -o /f/perf.out -- try it");
        assert_eq!(
            around("bpftrace -e 'profile:hz:99 { @ = count(); }'", Some(5000.0)),
            "bpftrace -o /f/bpftrace.out -c try it -e profile:us:200 { @ = count(); }"
        );
        assert_eq!(
            around("bpftrace -e 'u:/a:f, uretprobe:/a:f { @ = count(); }'", None),
            "bpftrace -o /f/bpftrace.out -c try it -e uprobe:/p:g, uretprobe:/p:g { @ = count(); }"
        );
        assert_eq!(around("bpftrace -p 12 x.bt", None), "bpftrace -o /f/bpftrace.out -c try it x.bt");
    }

    #[test]
    fn periods_and_buffers_are_exchanged_and_nothing_else() {
        let sampling = |line: &str, event: Option<&str>| ToolLine::parse(line).unwrap().sampling(event, 5, 8).join(" ");
        assert_eq!(
            sampling("perf record -gF 99 -m16 --call-graph dwarf -- make -F x", Some("cpu-clock")),
            "perf record -e cpu-clock -g --call-graph=dwarf -c 5 -m 8"
        );
        assert_eq!(sampling("perf record -e faults -p 12 --no-inherit", None), "perf record -efaults -p12 -i -c 5 -m 8");
    }
}
