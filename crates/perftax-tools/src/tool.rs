//! A line, and which tool's it is.

use crate::grammar::Grammar;
use crate::perf::{of_c2c, of_mem};
use crate::{Bpftrace, Counting, Error, Left, Profiler, Recording, Strace, Tracing, Whom};

/// A tool, and what its line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Tool {
    /// `perf record`, `perf mem record`, `perf c2c record`.
    Record(Recording),
    /// `perf stat`.
    Stat(Counting),
    /// `perf trace`.
    Trace(Tracing),
    /// strace.
    Strace(Strace),
    /// bpftrace.
    Bpftrace(Bpftrace),
    /// A profiler by eBPF.
    Profiler(Profiler),
}

/// A tool's command line.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolLine {
    /// The tool's own words: program, subcommand, options.
    pub words: Vec<String>,
    /// What it asks for.
    pub tool: Tool,
    /// Whom it watches.
    pub whom: Whom,
    /// What it leaves without a price.
    pub left: Left,
}

/// What is known.
const KNOWN: &str =
    "perf record, stat, trace, mem record, c2c record; strace; bpftrace; bcc's profile, parca-agent, ebpf-profiler";

impl ToolLine {
    /// Reads a line as a shell would split it.
    ///
    /// # Errors
    /// [`Error`]: no such tool, an option that is not known, a value that cannot be.
    pub fn parse(line: &str) -> Result<Self, Error> {
        let words = shlex::split(line).ok_or_else(|| Error::Words { line: line.into(), why: "a quote does not end" })?;
        Self::of_words(&words)
    }

    /// The same, split already. What only puts a command in another place or time before it (`sudo`, `nice`, `timeout`, `env`) is passed by.
    ///
    /// # Errors
    /// As [`ToolLine::parse`].
    pub fn of_words(words: &[String]) -> Result<Self, Error> {
        let words = without_prefix(words);
        let Some((program, rest)) = words.split_first() else {
            return Err(Error::Words { line: String::new(), why: "there is none" });
        };
        let name = program.rsplit('/').next().unwrap_or_default();
        let subcommand = || rest.split_first().map_or(("", rest), |(first, rest)| (first.as_str(), rest));
        let (tool, whom, left) = match name {
            _ if name == "perf" || name.starts_with("perf_") => match subcommand() {
                ("record", rest) => Recording::read(rest).map(|(tool, whom, left)| (Tool::Record(tool), whom, left))?,
                ("stat", rest) => Counting::read(rest).map(|(tool, whom, left)| (Tool::Stat(tool), whom, left))?,
                ("trace", rest) => Tracing::read(rest).map(|(tool, whom, left)| (Tool::Trace(tool), whom, left))?,
                ("mem", rest) => of_mem(rest).map(|(tool, whom, left)| (Tool::Record(tool), whom, left))?,
                ("c2c", rest) => of_c2c(rest).map(|(tool, whom, left)| (Tool::Record(tool), whom, left))?,
                (other, _) => return Err(Error::UnknownTool { name: format!("perf {other}"), known: KNOWN }),
            },
            "strace" => Strace::read(rest).map(|(tool, whom, left)| (Tool::Strace(tool), whom, left))?,
            "bpftrace" => Bpftrace::read(rest).map(|(tool, whom, left)| (Tool::Bpftrace(tool), whom, left))?,
            _ => match Profiler::read(name, rest) {
                Some(read) => read.map(|(tool, whom, left)| (Tool::Profiler(tool), whom, left))?,
                None => return Err(Error::UnknownTool { name: name.into(), known: KNOWN }),
            },
        };
        Ok(Self { words: words.to_vec(), tool, whom, left })
    }

    /// The tool's name, its subcommand with it.
    pub fn name(&self) -> String {
        match &self.tool {
            Tool::Record(_) | Tool::Stat(_) | Tool::Trace(_) => {
                let is_nested = matches!(self.words.get(1).map(String::as_str), Some("mem" | "c2c"));
                let more = self.words.get(1).map_or(String::new(), |word| format!(" {word}"));
                format!("perf{more}{}", if is_nested { " record" } else { "" })
            }
            Tool::Strace(_) => "strace".into(),
            Tool::Bpftrace(_) => "bpftrace".into(),
            Tool::Profiler(profiler) => profiler.name.into(),
        }
    }
}

/// Words behind commands that hand on to another one.
fn without_prefix(mut words: &[String]) -> &[String] {
    use crate::grammar::Takes::{Nothing, Value};
    const SUDO: Grammar = Grammar {
        tool: "sudo",
        options: &[
            ('u', "user", Value),
            ('g', "group", Value),
            ('E', "preserve-env", Nothing),
            ('n', "non-interactive", Nothing),
            ('H', "set-home", Nothing),
        ],
    };
    const NICE: Grammar = Grammar { tool: "nice", options: &[('n', "adjustment", Value)] };
    const TIMEOUT: Grammar = Grammar {
        tool: "timeout",
        options: &[('s', "signal", Value), ('k', "kill-after", Value), ('f', "foreground", Nothing), ('v', "verbose", Nothing)],
    };
    const ENV: Grammar = Grammar { tool: "env", options: &[('i', "ignore-environment", Nothing), ('u', "unset", Value)] };
    loop {
        let Some((first, rest)) = words.split_first() else { return words };
        let (grammar, own) = match first.rsplit('/').next().unwrap_or_default() {
            "sudo" => (&SUDO, 0),
            "nice" => (&NICE, 0),
            "timeout" => (&TIMEOUT, 1),
            "env" => (&ENV, 0),
            _ if is_assignment(first) => {
                words = rest;
                continue;
            }
            _ => return words,
        };
        let behind = grammar.read_known(rest).rest.len();
        words = rest[rest.len() - behind..].get(own..).unwrap_or_default();
    }
}

/// `NAME=VALUE` before a command.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn tools_are_told_by_their_names() {
        for (line, name) in [
            ("perf record -F 99 -g -a", "perf record"),
            ("sudo -u root /usr/bin/perf stat -e cycles ls", "perf stat"),
            ("timeout -k 1 10 nice -n 5 perf trace -s ls", "perf trace"),
            ("LC_ALL=C env X=1 perf mem record ls", "perf mem record"),
            ("perf c2c record -a -- sleep 1", "perf c2c record"),
            ("strace -f ls", "strace"),
            ("bpftrace -e 'profile:hz:99 { @[ustack] = count(); }'", "bpftrace"),
            ("/usr/sbin/profile-bpfcc -F 99 30", "profile (bcc)"),
        ] {
            assert_eq!(ToolLine::parse(line).unwrap().name(), name, "{line}");
        }
    }

    #[test]
    fn what_is_not_known_is_said() {
        let error = |line: &str| ToolLine::parse(line).unwrap_err().to_string();
        assert!(error("gdb ./a").starts_with("'gdb' is no tool whose command line is known here (perf record, "));
        assert!(error("perf report").starts_with("'perf report' is no tool"));
        assert_eq!(error("perf record 'x"), "'perf record 'x' cannot be split into words: a quote does not end");
        assert!(error("").contains("cannot be split into words"));
        assert_eq!(
            error("perf record --frequent 9 x"),
            "perf record has no option '--frequent' that is known here; --freq is one"
        );
    }
}
