//! strace.

use crate::grammar::Takes::{Maybe, Nothing, Value};
use crate::grammar::{Grammar, Opt};
use crate::{Error, Left, Whom};

/// What an strace asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strace {
    /// Whether processes and threads that are created are traced, too (`-f`).
    pub follows: bool,
    /// Which system calls are shown, as it was written; none: all of them. All of them stop the program either way, but for `--seccomp-bpf`.
    pub wanted: Option<String>,
    /// Whether the kernel passes by what is not wanted (`--seccomp-bpf`, with `-f` alone).
    pub passes_by: bool,
    /// Whether calls are counted and not shown (`-c`).
    pub counts: bool,
}

/// strace's options: strace(1) of 6.1, and what later ones (to 6.16) have beside it.
pub(crate) const STRACE: Grammar = Grammar { tool: "strace", options: OPTIONS };

const OPTIONS: &[Opt] = &[
    ('a', "columns", Value),
    ('A', "output-append-mode", Nothing),
    ('b', "detach-on", Value),
    ('c', "summary-only", Nothing),
    ('C', "summary", Nothing),
    ('d', "debug", Nothing),
    ('D', "daemonize", Maybe),
    ('e', "", Value),
    ('E', "env", Value),
    ('f', "follow-forks", Nothing),
    ('F', "", Nothing),
    ('h', "help", Nothing),
    ('i', "instruction-pointer", Nothing),
    ('I', "interruptible", Value),
    ('k', "stack-traces", Nothing),
    ('n', "syscall-number", Nothing),
    ('N', "arg-names", Nothing),
    ('o', "output", Value),
    ('O', "summary-syscall-overhead", Value),
    ('p', "attach", Value),
    ('P', "trace-path", Value),
    ('q', "quiet", Maybe),
    ('r', "relative-timestamps", Maybe),
    ('s', "string-limit", Value),
    ('S', "summary-sort-by", Value),
    ('t', "absolute-timestamps", Maybe),
    ('T', "syscall-times", Maybe),
    ('u', "user", Value),
    ('U', "summary-columns", Value),
    ('v', "no-abbrev", Nothing),
    ('V', "version", Nothing),
    ('w', "summary-wall-clock", Nothing),
    ('x', "strings-in-hex", Maybe),
    ('X', "const-print-style", Value),
    ('y', "decode-fds", Maybe),
    ('Y', "decode-pids", Maybe),
    ('z', "successful-only", Nothing),
    ('Z', "failed-only", Nothing),
    ('\0', "abbrev", Value),
    ('\0', "argv0", Value),
    ('\0', "always-show-pid", Nothing),
    ('\0', "fault", Value),
    ('\0', "inject", Value),
    ('\0', "kill-on-exit", Nothing),
    ('\0', "kvm", Value),
    ('\0', "namespace", Value),
    ('\0', "output-separately", Nothing),
    ('\0', "raw", Value),
    ('\0', "read", Value),
    ('\0', "seccomp-bpf", Nothing),
    ('\0', "secontext", Maybe),
    ('\0', "signals", Value),
    ('\0', "signal", Value),
    ('\0', "stack-trace-frame-limit", Value),
    ('\0', "status", Value),
    ('\0', "strings-in-hex", Maybe),
    ('\0', "syscall-limit", Value),
    ('\0', "tips", Maybe),
    ('\0', "trace", Value),
    ('\0', "trace-fds", Value),
    ('\0', "verbose", Value),
    ('\0', "write", Value),
];

/// Letters whose repetition means more (`-ff`, `-yy`, `-tt`): they take no value in their word.
const REPEATED: [char; 8] = ['D', 'q', 'r', 't', 'T', 'x', 'y', 'Y'];

impl Strace {
    /// Reads the words behind `strace`.
    pub(crate) fn read(words: &[String]) -> Result<(Self, Whom, Left), Error> {
        let words = plain(words);
        let read = STRACE.read(&words)?;
        let has_letter = |letter: char| read.options.iter().any(|option| option.letter == letter && !option.is_denied);
        let expressions = || read.options.iter().filter(|option| option.letter == 'e').filter_map(|option| option.value);
        let mut by_expression =
            expressions().filter_map(|text| text.strip_prefix("trace=").or((!text.contains('=')).then_some(text)));
        let wanted = by_expression.next_back().or(read.value("trace")).map(str::to_owned).filter(|wanted| wanted != "all");
        let follows = has_letter('f') || has_letter('F');
        let mut left = Left::default();
        let changes = |text: &str| text.starts_with("inject") || text.starts_with("fault");
        if expressions().any(changes) || read.value("inject").is_some() || read.value("fault").is_some() {
            left.unpriced.push(("-e inject".into(), "what the program does with results that are not its own".into()));
        }
        if has_letter('k') {
            left.unpriced.push(("-k".into(), "unwinding the stack at each call, as deep as the program's".into()));
        }
        let processes: Vec<&str> = read.values("attach").collect();
        let whom = match processes[..] {
            [] => Whom::Command(read.rest.iter().map(|word| (*word).to_owned()).collect()),
            _ => Whom::Processes(processes.join(",")),
        };
        let strace = Self { follows, wanted, passes_by: read.has("seccomp-bpf") && follows, counts: has_letter('c') };
        Ok((strace, whom, left))
    }
}

/// Options whose letters stand once, up to the first word that is none.
pub(crate) fn plain(words: &[String]) -> Vec<String> {
    let mut is_option = true;
    words
        .iter()
        .map(|word| {
            is_option &= word.starts_with('-');
            if is_option { without_repetitions(word) } else { word.clone() }
        })
        .collect()
}

/// `-ff` as `-f`, `-tt` as `-t`: grammar knows no letters that count.
fn without_repetitions(word: &str) -> String {
    let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else { return word.to_owned() };
    let mut kept = String::from("-");
    let mut rest = letters.chars().peekable();
    while let Some(letter) = rest.next() {
        kept.push(letter);
        let is_repeated = letter == 'f' || REPEATED.contains(&letter);
        while is_repeated && rest.peek() == Some(&letter) {
            rest.next();
        }
        // A value follows: it is nobody's letters.
        if OPTIONS.iter().any(|option| option.0 == letter && option.2 == Value) {
            kept.extend(rest.by_ref());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn read(line: &str) -> (Strace, Whom, Left) {
        Strace::read(&line.split(' ').map(String::from).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn lines_of_strace_are_read() {
        let (strace, whom, left) = read("-ff -tt -o out -e trace=%file -e signal=none make -j2");
        assert_eq!((strace.follows, strace.wanted.as_deref(), strace.passes_by), (true, Some("%file"), false));
        assert_eq!((whom, left), (Whom::Command(vec!["make".into(), "-j2".into()]), Left::default()));
        assert_eq!(read("-fp 12 -p 13").1, Whom::Processes("12,13".into()));
        assert_eq!(read("-e open,read ls").0.wanted.as_deref(), Some("open,read"));
        assert!(read("-f --seccomp-bpf --trace=read ls").0.passes_by && !read("--seccomp-bpf ls").0.passes_by);
        assert_eq!(read("-e inject=read:error=EIO ls").2.unpriced.len(), 1);
        assert!(Strace::read(&["--frob".into(), "x".into()]).is_err());
    }
}
