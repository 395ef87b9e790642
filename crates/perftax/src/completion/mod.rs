//! What a shell may complete: commands and options by clap, and the names that this machine and perftax know.

mod bash;

use std::ffi::OsStr;

use bash::Bash;
use clap::{Arg, Command};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, ValueCompleter};
use clap_complete::env::{Elvish, Fish, Powershell, Shells, Zsh};
use perftax_lab::{published, workload};
use perftax_pmu::event::{self, Catalog, Filter};

use crate::cli;

/// The variable by which a shell asks: its name for a script to source, and then, by that script, what may come next.
const VARIABLE: &str = "PERFTAX_COMPLETE";

/// Answers where a shell has asked, and ends the process then.
pub fn answer() {
    let shells = Shells(&[&Bash, &Elvish, &Fish, &Powershell, &Zsh]);
    CompleteEnv::with_factory(command).shells(shells).var(VARIABLE).bin("perftax").completer("perftax").complete();
}

/// The whole command line, with the names that values of its options may have.
fn command() -> Command {
    completed(cli::command())
}

fn completed(command: Command) -> Command {
    command.mut_args(with_names).mut_subcommands(completed)
}

fn with_names(arg: Arg) -> Arg {
    let is_called = |name: &str| arg.get_value_names().is_some_and(|names| names.iter().any(|each| each.as_str() == name));
    match arg.get_id().as_str() {
        _ if is_called("EVENT") => arg.add(ArgValueCompleter::new(Names::Events)),
        "workload" => arg.add(ArgValueCompleter::new(Names::Workloads)),
        "machine" => arg.add(ArgValueCompleter::new(Names::Machines)),
        _ => arg,
    }
}

/// Values by their kind.
#[derive(Clone, Copy, Debug)]
enum Names {
    Events,
    Workloads,
    Machines,
}

impl ValueCompleter for Names {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let Some(current) = current.to_str() else { return Vec::new() };
        let of = |names: Vec<String>| -> Vec<_> {
            names.into_iter().filter(|name| name.starts_with(current)).map(CompletionCandidate::new).collect()
        };
        match self {
            Self::Events => events(current),
            Self::Workloads => of(workload::shipped_names().into_iter().map(String::from).collect()),
            Self::Machines => of(published::shipped_names().into_iter().map(String::from).collect()),
        }
    }
}

/// Events that can be had here; tracepoints, of which there are thousands, by their system until one is named.
fn events(current: &str) -> Vec<CompletionCandidate> {
    let listed = event::list(&Catalog::of_this_machine(), &Filter { substring: None });
    let mut candidates: Vec<CompletionCandidate> = Vec::new();
    let mut systems: Vec<String> = Vec::new();
    for event in listed.iter().filter(|event| event.available) {
        for name in std::iter::once(&event.name).chain(&event.synonyms).filter(|name| name.starts_with(current)) {
            match name.split_once(':').filter(|_| !current.contains(':')) {
                Some((system, _)) => systems.push(format!("{system}:")),
                None => candidates.push(CompletionCandidate::new(name).help(Some(event.meaning.clone().into()))),
            }
        }
    }
    systems.dedup();
    candidates.extend(systems.into_iter().map(CompletionCandidate::new));
    candidates
}
