//! Commands as a reader can paste them into a shell.

use itertools::Itertools as _;
use perftax_doc::{Prediction, WorkloadProfile};

use crate::printable::printable;

/// The arguments quoted where a shell needs it, joined by spaces.
pub fn join<S: AsRef<str>>(arguments: &[S]) -> String {
    arguments.iter().map(|a| quote(a.as_ref())).join(" ")
}

/// One argument: as it is where every character is harmless to a shell, else in single quotes.
pub fn quote(argument: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !argument.is_empty() && argument.chars().all(harmless) {
        argument.into()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

/// The plan that follows a prediction: of the same event and program, and for the same machine.
pub fn plan(doc: &Prediction) -> String {
    let mut words: Vec<String> = ["perftax", "plan", "--budget", "1%"].map(String::from).to_vec();
    words.extend(carried(&doc.origin.command));
    words.extend(["-e".into(), printable(&doc.event)]);
    match doc.workload.pid {
        Some(pid) => words.extend(["-p".into(), pid.to_string()]),
        None => {
            words.push("--".into());
            words.extend(doc.workload.command.iter().map(|word| printable(word)));
        }
    }
    join(&words)
}

/// A plan for a program, by what was measured of it; of all CPUs a recording within a budget, for a plan is of a program.
pub fn plan_for(workload: &WorkloadProfile) -> String {
    plan_like(workload, None)
}

/// The same, of a recording's line whose options the plan keeps.
pub fn plan_like(workload: &WorkloadProfile, line: Option<&[String]>) -> String {
    if workload.is_of_all_cpus() {
        return "perftax record --budget 1% -a -o perf.data".into();
    }
    let of_process = workload.pid.map(|pid| format!("-p {pid}"));
    let command: Vec<String> = workload.command.iter().map(|word| printable(word)).collect();
    let like = line.map(|line| {
        let line: Vec<String> = line.iter().map(|word| printable(word)).filter(|word| word != "--").collect();
        format!("--like {} ", quote(&join(&line)))
    });
    let target = of_process.unwrap_or_else(|| format!("-- {}", join(&command)));
    format!("perftax plan --budget 1% {}{target}", like.unwrap_or_default())
}

/// What a program is called: its command as one can paste it, or the process that was looked at.
pub fn program(workload: &WorkloadProfile) -> String {
    match workload.pid {
        Some(pid) => format!("process {pid}: {}", join(&workload.command)),
        None => join(&workload.command),
    }
}

/// The options of a command line that say which machine is meant, how events are counted there, and how the program is run.
fn carried(command: &[String]) -> Vec<String> {
    const CARRIED: [&str; 9] =
        ["--machine", "--profile", "--count-of", "--counts-from", "--for", "--load", "--ready", "--stdin", "--with"];
    const FLAGS: [&str; 2] = ["-a", "--all-cpus"];
    let mut words = command.iter().take_while(|word| *word != "--");
    let mut carried = Vec::new();
    while let Some(word) = words.next() {
        if CARRIED.contains(&word.as_str()) {
            carried.push(printable(word));
            carried.extend(words.next().map(|value| printable(value)));
        } else if FLAGS.contains(&word.as_str()) {
            carried.push(word.clone());
        } else if CARRIED.iter().any(|option| word.starts_with(&format!("{option}="))) {
            carried.push(printable(word));
        }
    }
    carried
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_carried_over() {
        let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
        let command = words("perftax predict --machine skylake -c 5 --counts-from=sim -- prog --machine x");
        assert_eq!(carried(&command), ["--machine", "skylake", "--counts-from=sim"]);
        let command = words("perftax predict -a --load wrk --ready=80 -- server -a");
        assert_eq!(carried(&command), ["-a", "--load", "wrk", "--ready=80"]);
    }

    #[test]
    fn only_what_needs_quotes_gets_them() {
        assert_eq!(
            join(&["perf", "record", "-e", "cpu/event=0xc2/ppp", "--", "./a b", "it's", ""]),
            r"perf record -e cpu/event=0xc2/ppp -- './a b' 'it'\''s' ''"
        );
        assert_eq!(quote("$(reboot)"), "'$(reboot)'");
    }
}
