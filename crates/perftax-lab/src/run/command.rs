//! The program under measurement.

use std::ffi::OsString;
use std::path::PathBuf;

use perftax_pmu::Result;
use perftax_pmu::sys::{ChildSpec, Stdio};

use super::{Input, Lifetime};
use crate::workload::Prepared;

/// A command that is run again and again.
#[derive(Clone, Debug)]
pub struct Command {
    /// What results call it.
    pub name: String,
    /// How it is executed.
    pub spec: ChildSpec,
    /// Threads that do the work, as far as known beforehand.
    pub threads: u32,
    /// What it reads: what `spec` opens for it.
    input: Input,
    /// When a run is over.
    pub lifetime: Lifetime,
}

impl Command {
    /// A command line of the user's that reads nothing. Its output is kept where `output` says.
    pub fn from_argv(argv: Vec<OsString>, output: Stdio) -> Self {
        let name = argv.first().map(PathBuf::from).and_then(|p| p.file_name().map(|n| n.to_string_lossy().into_owned()));
        let spec = ChildSpec { argv, directory: None, stdin: None, output, cpus: None, environment: Vec::new() };
        Self { name: name.unwrap_or_default(), spec, threads: 1, input: Input::Nothing, lifetime: Lifetime::ToItsEndHowever }
    }

    /// A prepared workload; its output is discarded.
    pub fn from_workload(prepared: &Prepared) -> Self {
        let spec = ChildSpec {
            argv: prepared.argv.clone(),
            directory: Some(prepared.cwd.clone()),
            stdin: None,
            output: Stdio::Discard,
            cpus: None,
            environment: Vec::new(),
        };
        let command = Self {
            name: prepared.name.clone(),
            spec,
            threads: prepared.threads,
            input: Input::Nothing,
            lifetime: Lifetime::ToItsEndHowever,
        };
        command.reading(prepared.stdin.clone().map_or(Input::Nothing, Input::File))
    }

    /// The same, which reads this in each run.
    pub fn reading(mut self, input: Input) -> Self {
        self.spec.stdin = input.path();
        self.input = input;
        self
    }

    /// The same, which runs so long.
    pub fn lasting(mut self, lifetime: Lifetime) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// The same, allowed on these CPUs only.
    pub fn on_cpus(mut self, cpus: Vec<u32>) -> Self {
        self.spec.cpus = Some(cpus);
        self
    }

    /// Whether what it has read until now was there.
    ///
    /// # Errors
    /// As [`Input::check`].
    pub fn check_input(&self) -> Result<()> {
        self.input.check()
    }

    /// The command line for people.
    pub fn line(&self) -> String {
        self.words().join(" ")
    }

    /// The command line as words.
    pub fn words(&self) -> Vec<String> {
        self.spec.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }
}
