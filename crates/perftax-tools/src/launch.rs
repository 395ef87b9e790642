//! The same line around another command: what a tool is tried out with.

use crate::{Hook, Tool, ToolLine, Whom};

impl ToolLine {
    /// The line's words around `command`, its own command and whom it watches left out, its output in files below `folder`; sampling `hz` times a second
    /// where that is given and the line samples by a clock. None where the tool does not start a command.
    pub fn around(&self, command: &[String], folder: &str, hz: Option<f64>) -> Option<Vec<String>> {
        let own_words = match &self.whom {
            Whom::Command(words) if !matches!(self.tool, Tool::Bpftrace(_)) => self.words.len() - words.len(),
            _ => self.words.len(),
        };
        let mut words: Vec<String> = self.words[..own_words].to_vec();
        if words.last().is_some_and(|word| word == "--") {
            words.pop();
        }
        match &self.tool {
            Tool::Record(_) | Tool::Stat(_) | Tool::Trace(_) => {
                let head = if matches!(words.get(1).map(String::as_str), Some("mem" | "c2c")) { 3 } else { 2 };
                let options = without(
                    &words[head.min(words.len())..],
                    &["-p", "--pid", "-t", "--tid", "-o", "--output", "-r", "--repeat", "-u", "--uid"],
                );
                words.truncate(head);
                words.extend(options);
                words.extend(["-o".to_owned(), format!("{folder}/perf.out"), "--".to_owned()]);
                words.extend(command.iter().cloned());
            }
            Tool::Strace(_) => {
                let options = without(&words[1..], &["-p", "--attach", "-o", "--output"]);
                words.truncate(1);
                words.extend(options);
                words.extend(["-o".to_owned(), format!("{folder}/strace.out")]);
                words.extend(command.iter().cloned());
            }
            Tool::Bpftrace(bpftrace) => {
                let mut options = without(&words[1..], &["-p", "-c", "-o"]);
                if let Some(hz) = hz {
                    for probe in bpftrace.probes.iter().filter(|probe| matches!(probe.hook, Hook::Profile { .. })) {
                        let other = format!("profile:us:{}", (1e6 / hz).round().max(1.0));
                        options.iter_mut().for_each(|word| *word = word.replace(&probe.text, &other));
                    }
                }
                words.truncate(1);
                let command = shlex::try_join(command.iter().map(String::as_str)).ok()?;
                words.extend(["-o".to_owned(), format!("{folder}/bpftrace.out"), "-c".to_owned(), command]);
                words.extend(options);
            }
            Tool::Profiler(_) => return None,
        }
        Some(words)
    }
}

/// Options without some, each of which takes a value in its word or the next.
fn without(words: &[String], names: &[&str]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let is_one = names.iter().any(|name| {
            let is_letter = name.len() == 2;
            word == name || (is_letter && word.starts_with(name)) || (!is_letter && word.starts_with(&format!("{name}=")))
        });
        if !is_one {
            kept.push(word.clone());
        } else if names.contains(&word.as_str()) {
            words.next();
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn around(line: &str, hz: Option<f64>) -> String {
        let command = ["try".to_owned(), "it".to_owned()];
        ToolLine::parse(line).unwrap().around(&command, "/f", hz).unwrap().join(" ")
    }

    #[test]
    fn lines_go_around_other_commands() {
        assert_eq!(around("strace -f -o out -p 12", None), "strace -f -o /f/strace.out try it");
        assert_eq!(around("strace -e trace=read ls -l", None), "strace -e trace=read -o /f/strace.out try it");
        assert_eq!(around("sudo perf trace -s -p 12", None), "perf trace -s -o /f/perf.out -- try it");
        assert_eq!(around("perf stat -e a -r 3 -- make -o x", None), "perf stat -e a -o /f/perf.out -- try it");
        assert_eq!(
            around("bpftrace -e 'profile:hz:99 { @ = count(); }'", Some(5000.0)),
            "bpftrace -o /f/bpftrace.out -c try it -e profile:us:200 { @ = count(); }"
        );
    }
}
