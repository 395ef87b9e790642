//! A bpftrace program: which probes it has. What they do is for bpftrace.

use crate::Error;

/// A probe of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// As it is written.
    pub text: String,
    /// Where it sits.
    pub hook: Hook,
}

/// What a probe runs at.
#[derive(Clone, Debug, PartialEq)]
pub enum Hook {
    /// At the program's own beginning and end, or at intervals on one CPU: no program waits for it.
    Own,
    /// So many times a second on each CPU (`profile:hz:99`).
    Profile {
        /// Samples a second and CPU.
        hz: f64,
    },
    /// A kernel's event each so many times (`software:page-faults:1`, `hardware:cycles:1000000`).
    Event {
        /// In perf's syntax.
        name: String,
        /// Of so many one; none: bpftrace's default.
        period: Option<u64>,
    },
    /// A tracepoint, `SYSTEM:NAME`; both may be patterns.
    Tracepoint(String),
    /// A function of a program: file and function, or address.
    Function {
        /// The program.
        file: String,
        /// Its function.
        function: String,
        /// Whether it runs as it returns.
        on_return: bool,
    },
    /// Anything else: functions of the kernel, watchpoints, static probes, iterators.
    Other,
}

/// The probes of a program's text.
pub(super) fn probes(text: &str) -> Result<Vec<Probe>, Error> {
    let mut probes = Vec::new();
    for names in headers(text)? {
        // What stands between slashes behind the names is a filter: file names have slashes, too, but no space before.
        let names = names.split_once(" /").or_else(|| names.split_once("\n/")).map_or(names.as_str(), |(names, _)| names);
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            probes.push(Probe { text: name.to_owned(), hook: hook(name) });
        }
    }
    if probes.is_empty() {
        return Err(wrong(text, "at least one probe with its { actions }"));
    }
    Ok(probes)
}

fn wrong(text: &str, needed: &str) -> Error {
    Error::Value { tool: "bpftrace", option: "the program".into(), value: text.into(), needed: needed.into() }
}

/// What stands before each block of actions at the program's top.
fn headers(text: &str) -> Result<Vec<String>, Error> {
    let (mut headers, mut header, mut depth) = (Vec::new(), String::new(), 0u32);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '/' if letters.peek() == Some(&'/') => {
                letters.by_ref().take_while(|letter| *letter != '\n').for_each(drop);
                continue;
            }
            '/' if letters.peek() == Some(&'*') => {
                let mut before = ' ';
                letters
                    .by_ref()
                    .take_while(|letter| !(std::mem::replace(&mut before, *letter) == '*' && *letter == '/'))
                    .for_each(drop);
                continue;
            }
            '"' => {
                let mut is_escaped = false;
                let inside = |letter: &char| {
                    let goes_on = *letter != '"' || is_escaped;
                    is_escaped = *letter == '\\' && !is_escaped;
                    goes_on
                };
                letters.by_ref().take_while(inside).for_each(drop);
            }
            '{' => {
                if depth == 0 {
                    headers.push(std::mem::take(&mut header));
                }
                depth += 1;
            }
            '}' => depth = depth.checked_sub(1).ok_or_else(|| wrong(text, "braces that belong together"))?,
            // Directives of the preprocessor, and what is declared before probes.
            '#' if depth == 0 && header.trim().is_empty() => letters.by_ref().take_while(|letter| *letter != '\n').for_each(drop),
            letter if depth == 0 => header.push(letter),
            _ => {}
        }
    }
    if depth > 0 {
        return Err(wrong(text, "braces that belong together"));
    }
    // Structures, functions and settings are no probes.
    let is_probe = |header: &String| {
        let first = header.trim().split(|c: char| c.is_whitespace() || c == '=').next().unwrap_or_default();
        !["struct", "union", "enum", "config", "macro", "fn"].contains(&first)
    };
    Ok(headers.into_iter().map(|header| header.trim().to_owned()).filter(is_probe).collect())
}

fn hook(name: &str) -> Hook {
    let parts: Vec<&str> = name.split(':').collect();
    match parts[..] {
        ["BEGIN" | "END" | "begin" | "end"] => Hook::Own,
        ["interval" | "i" | "self" | "test" | "bench", ..] => Hook::Own,
        ["profile" | "p", unit, number] => match rate(unit, number) {
            Some(hz) => Hook::Profile { hz },
            None => Hook::Other,
        },
        ["profile" | "p", time] => match time.find(|c: char| !c.is_ascii_digit()).and_then(|at| rate(&time[at..], &time[..at])) {
            Some(hz) => Hook::Profile { hz },
            None => Hook::Other,
        },
        ["software" | "s" | "hardware" | "h", event, ref period @ ..] => {
            Hook::Event { name: usual(event).into(), period: period.first().and_then(|period| period.parse().ok()) }
        }
        ["tracepoint" | "t", system, event] => Hook::Tracepoint(format!("{system}:{event}")),
        [kind @ ("uprobe" | "u" | "uretprobe" | "ur"), file, ref function @ ..] if !function.is_empty() => {
            Hook::Function { file: file.into(), function: function.join(":"), on_return: kind.starts_with("ur") }
        }
        _ => Hook::Other,
    }
}

/// Times a second of a profile probe.
fn rate(unit: &str, number: &str) -> Option<f64> {
    let number: f64 = number.parse().ok().filter(|number| *number > 0.0)?;
    match unit {
        "hz" => Some(number),
        "s" => Some(1.0 / number),
        "ms" => Some(1e3 / number),
        "us" => Some(1e6 / number),
        "ns" => Some(1e9 / number),
        _ => None,
    }
}

/// perf's name of an event that bpftrace has another one for.
fn usual(name: &str) -> &str {
    match name {
        "faults" => "page-faults",
        "cs" => "context-switches",
        "cpu" => "cpu-clock",
        "migrations" => "cpu-migrations",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn hooks(text: &str) -> Vec<Hook> {
        probes(text).unwrap().into_iter().map(|probe| probe.hook).collect()
    }

    #[test]
    fn probes_are_found_between_actions() {
        let text = r#"
            // profile:hz:1 { in a comment }
            #include <linux/sched.h>
            struct x { int y; }
            BEGIN { printf("a { brace in \" quotes\n"); }
            profile:hz:99, profile:ms:20 /comm == "a"/ { @[kstack, ustack] = count(); if (1) { @x = 1; } }
            tracepoint:raw_syscalls:sys_enter { @ = count(); } /* kprobe:x { } */
            uprobe:/usr/bin/a:main, uretprobe:/lib/b.so:"f(int)" { }
            software:faults:100 { } kprobe:vfs_read { } interval:s:1 { print(@); }
        "#;
        let function = |file: &str, function: &str, on_return: bool| Hook::Function {
            file: file.into(),
            function: function.into(),
            on_return,
        };
        assert_eq!(
            hooks(text),
            [
                Hook::Own,
                Hook::Profile { hz: 99.0 },
                Hook::Profile { hz: 50.0 },
                Hook::Tracepoint("raw_syscalls:sys_enter".into()),
                function("/usr/bin/a", "main", false),
                function("/lib/b.so", "", true),
                Hook::Event { name: "page-faults".into(), period: Some(100) },
                Hook::Other,
                Hook::Own,
            ]
        );
    }

    #[test]
    fn what_is_no_program_is_refused() {
        for text in ["", "profile:hz:99", "BEGIN { ", "BEGIN } {"] {
            assert!(probes(text).is_err(), "{text}");
        }
    }
}
