//! The program under measurement.

use std::ffi::OsString;
use std::path::PathBuf;

use perftax_pmu::Result;
use perftax_pmu::sys::{Child, ChildSpec, Stdio};

use super::leavings::{Leavings, Left};
use super::scratch::{Copy, Scratch};
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
    /// What copies the folder that it runs in; none where that is the folder itself.
    scratch: Option<Scratch>,
    /// What its runs leave; none where nobody looks.
    leavings: Option<Watching>,
}

/// Who looks at what runs leave, and who is told of it.
type Watching = (Leavings, fn(&Left));

impl Command {
    /// A command line of the user's that reads nothing. Its output is kept where `output` says.
    pub fn from_argv(argv: Vec<OsString>, output: Stdio) -> Self {
        let name = argv.first().map(PathBuf::from).and_then(|p| p.file_name().map(|n| n.to_string_lossy().into_owned()));
        let spec = ChildSpec { argv, directory: None, stdin: None, output, cpus: None, environment: Vec::new(), survives: false };
        Self::new(name.unwrap_or_default(), spec, 1)
    }

    fn new(name: String, spec: ChildSpec, threads: u32) -> Self {
        let (input, lifetime) = (Input::Nothing, Lifetime::ToItsEndHowever);
        Self { name, spec, threads, input, lifetime, scratch: None, leavings: None }
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
            survives: false,
        };
        Self::new(prepared.name.clone(), spec, prepared.threads)
            .reading(prepared.stdin.clone().map_or(Input::Nothing, Input::File))
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

    /// The same, each run in a copy of the folder of its own.
    pub fn in_copies(mut self, scratch: Scratch) -> Self {
        self.scratch = Some(scratch);
        self
    }

    /// The same, and `told` is called once where each run is seen to leave files that the next one does not write over.
    pub fn watching_what_is_left(mut self, told: fn(&Left)) -> Self {
        let folder = self.spec.directory.clone().or_else(|| std::env::current_dir().ok()).unwrap_or_default();
        self.leavings = Some((Leavings::of(folder, std::env::temp_dir()), told));
        self
    }

    /// The same, allowed on these CPUs only.
    pub fn on_cpus(mut self, cpus: Vec<u32>) -> Self {
        self.spec.cpus = Some(cpus);
        self
    }

    /// The folder that a run is in where that is a copy, to be kept until it has ended, and a child that waits at its gate.
    ///
    /// # Errors
    /// As [`Child::spawn`] and [`Scratch::copy`]; where what runs leave would fill the disk.
    pub fn spawn(&self) -> Result<(Option<Copy>, Child)> {
        if let Some((leavings, _)) = &self.leavings {
            leavings.before_run()?;
        }
        let copy = self.scratch.as_ref().map(Scratch::copy).transpose()?;
        let mut spec = self.spec.clone();
        if let Some(copy) = &copy {
            let directory = copy.directory();
            spec.environment.extend([("TMPDIR".into(), copy.temporary().into()), ("PWD".into(), directory.clone().into())]);
            spec.directory = Some(directory);
        }
        self.lifetime.before_run(&mut spec)?;
        Ok((copy, Child::spawn(&spec)?))
    }

    /// After a run, or several side by side.
    pub fn note_what_is_left(&self) {
        if let Some((leavings, told)) = &self.leavings
            && let Some(left) = leavings.after_run()
        {
            told(&left);
        }
    }

    /// What each run leaves, as far as that was found.
    pub fn left(&self) -> Option<Left> {
        self.leavings.as_ref().and_then(|(leavings, _)| leavings.left())
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
