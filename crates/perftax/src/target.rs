//! The program that a command is about.

use std::ffi::OsString;

use anyhow::Result;
use perftax_lab::run::Command;
use perftax_lab::simulation::Guest;
use perftax_lab::workload::{Prepared, Workload, default_cache_dir};
use perftax_pmu::Error;
use perftax_pmu::process::command_line;
use perftax_pmu::sys::Stdio;

use crate::input::InputChoice;

/// A command line, or a workload by name.
#[derive(Clone, Debug, clap::Args)]
pub struct Target {
    /// A shipped workload by name, or a workload description (.toml), instead of a command
    #[arg(short, long, value_name = "NAME", conflicts_with = "command")]
    workload: Option<String>,
    #[command(flatten)]
    input: InputChoice,
    /// The command, after --
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What results call who is watched: the command, or what the process was started as, with its number.
pub fn program(pid: Option<u32>, command: &[OsString]) -> Vec<String> {
    match pid {
        Some(pid) => command_line(pid).into_iter().chain([format!("(process {pid})")]).collect(),
        None => command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
    }
}

impl Target {
    /// Whether it names a program.
    pub fn is_given(&self) -> bool {
        self.workload.is_some() || !self.command.is_empty()
    }

    /// The same with this command, where it names none.
    pub fn or_command(&self, words: &[String]) -> Self {
        match self.is_given() {
            true => self.clone(),
            false => Self { command: words.iter().map(OsString::from).collect(), ..self.clone() },
        }
    }

    /// The command to run, its output discarded: it runs several times.
    pub fn command(&self) -> Result<Command> {
        Ok(match self.prepared()? {
            Some(prepared) => Command::from_workload(&prepared),
            None => Command::from_argv(self.argv()?, Stdio::Discard).reading(self.input.input()?),
        })
    }

    /// The same to be simulated; a command of the user's keeps its output.
    pub fn guest(&self) -> Result<Guest> {
        Ok(match self.prepared()? {
            Some(Prepared { argv, cwd, stdin, .. }) => {
                Guest { argv, directory: Some(cwd), stdin, silent: true, ..Guest::default() }
            }
            None => Guest { argv: self.argv()?, stdin: self.input.stdin.clone(), ..Guest::default() },
        })
    }

    fn prepared(&self) -> Result<Option<Prepared>> {
        Ok(match &self.workload {
            Some(name) => Some(Workload::load(name)?.prepare(&default_cache_dir())?),
            None => None,
        })
    }

    fn argv(&self) -> Result<Vec<OsString>> {
        if self.command.is_empty() {
            let needed = "a command after --, or a workload with -w".into();
            return Err(Error::Argument { argument: "COMMAND", value: "missing".into(), needed }.into());
        }
        Ok(self.command.clone())
    }
}
