//! The steps of a field test: each is a command of perftax's, whose result is kept.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use perftax_doc::{Audit, Calibration, FieldStep, Mechanism, Selfcost, StepOutcome};
use perftax_lab::run::Command;
use perftax_pmu::Error;
use perftax_pmu::guard::{WAIT_VARIABLE, check_interrupted};
use perftax_pmu::sys::{Ended, Stdio};
use serde::de::DeserializeOwned;

use crate::host::Host;
use crate::output::write_atomically;
use crate::progress::announce;

/// A step that is to be done.
struct Step {
    name: String,
    arguments: Vec<String>,
    /// Why this machine cannot do it, where that is known before.
    impossible: Option<String>,
}

/// All of them, in a folder.
pub(super) struct Steps {
    folder: PathBuf,
    all: Vec<Step>,
    only: Vec<String>,
}

/// What the steps found.
pub(super) struct Found {
    pub(super) calibrations: Vec<Calibration>,
    pub(super) audit: Option<Audit>,
    pub(super) selfcost: Option<Selfcost>,
}

/// Whose folder it is: what is done on another machine, kernel, or in another way is none of this test.
const HEAD: &str = "field-test";

impl Steps {
    /// The steps on this machine, in a folder that is made, or goes on.
    ///
    /// # Errors
    /// A folder that cannot be made, or is another test's; a name of no step.
    pub(super) fn open(here: &Host, folder: &Path, is_quick: bool, only: &[String]) -> Result<Self> {
        let head = format!("{} {} {}\n", here.id.fingerprint, here.kernel, if is_quick { "quick" } else { "whole" });
        let path = folder.join(HEAD);
        match std::fs::read_to_string(&path) {
            Ok(found) if found == head => {}
            Ok(found) => {
                let value = format!("{}, a test of '{}'", folder.display(), found.trim());
                let needed = format!("one of this machine, kernel and depth ('{}'), or a new folder", head.trim());
                return Err(Error::Argument { argument: "--folder", value, needed }.into());
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                std::fs::create_dir_all(folder).map_err(Error::file(folder))?;
                write_atomically(&path, head.as_bytes())?;
            }
            Err(error) => return Err(Error::file(&path)(error).into()),
        }
        // Commands of ours are run elsewhere.
        let folder = std::fs::canonicalize(folder).map_err(Error::file(folder))?;
        let all = all(here, &folder, is_quick);
        for name in only {
            if !all.iter().any(|step| step.name.contains(name.as_str())) {
                let known: Vec<&str> = all.iter().map(|step| step.name.as_str()).collect();
                return Err(Error::Argument {
                    argument: "--only",
                    value: name.clone(),
                    needed: format!("a part of {}", known.join(", ")),
                }
                .into());
            }
        }
        Ok(Self { folder, all, only: only.to_vec() })
    }

    fn is_wanted(&self, step: &Step) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| step.name.contains(name.as_str()))
    }

    /// Does what is not done yet. A step that fails keeps no other from being done.
    pub(super) fn run(&self) -> Result<()> {
        let wanted: Vec<&Step> = self.all.iter().filter(|step| self.is_wanted(step)).collect();
        for (number, step) in wanted.iter().enumerate() {
            check_interrupted()?;
            if self.kept(&step.name).is_some_and(|kept| kept.outcome != StepOutcome::Failed) {
                continue;
            }
            if let Some(why) = &step.impossible {
                self.keep(&FieldStep {
                    name: step.name.clone(),
                    outcome: StepOutcome::Impossible,
                    why: why.clone(),
                    elapsed_s: 0.0,
                })?;
                continue;
            }
            announce(&format!("step {} of {}: {}", number + 1, wanted.len(), step.name));
            let done = self.run_one(step)?;
            if done.outcome == StepOutcome::Failed {
                announce(&format!("{} failed, and is tried again when the test goes on: {}", done.name, done.why));
            }
            self.keep(&done)?;
        }
        Ok(())
    }

    fn run_one(&self, step: &Step) -> Result<FieldStep> {
        let result = self.result(&step.name);
        let program = std::env::current_exe().context("this program's file")?;
        let log = self.folder.join(format!("{}.log", step.name));
        // What it says last it says as it ends: into a file, which is read then.
        let mut argv: Vec<OsString> =
            vec!["/bin/sh".into(), "-c".into(), "exec \"$@\" 2>\"$0\"".into(), log.clone().into(), program.into()];
        argv.extend(step.arguments.iter().map(OsString::from));
        argv.extend([
            OsString::from("--json"),
            result.clone().into(),
            "-o".into(),
            self.folder.join(format!("{}.txt", step.name)).into(),
        ]);
        let mut command = Command::from_argv(argv, Stdio::Discard);
        // Another perftax that measures is waited for.
        command.spec.environment.push((WAIT_VARIABLE.into(), "600".into()));
        let began = Instant::now();
        let (_, mut child) = command.spawn()?;
        child.release()?;
        let exit = child.wait()?;
        let said = std::fs::read(&log).unwrap_or_default();
        check_interrupted()?;
        let (outcome, why) = match exit.ended {
            // A negative verdict is a result.
            Ended::Code(0 | 4) if result.is_file() => (StepOutcome::Done, String::new()),
            Ended::Code(3) => (StepOutcome::Impossible, first_complaint(&said)),
            Ended::Code(code) => (StepOutcome::Failed, format!("exit code {code}: {}", first_complaint(&said))),
            Ended::Signal(signal) => (StepOutcome::Failed, format!("killed by signal {signal}")),
        };
        Ok(FieldStep { name: step.name.clone(), outcome, why, elapsed_s: began.elapsed().as_secs_f64() })
    }

    fn result(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }

    fn keep(&self, step: &FieldStep) -> Result<()> {
        write_atomically(&self.folder.join(format!("{}.step", step.name)), serde_json::to_string(step)?.as_bytes())
    }

    fn kept(&self, name: &str) -> Option<FieldStep> {
        serde_json::from_str(&std::fs::read_to_string(self.folder.join(format!("{name}.step"))).ok()?).ok()
    }

    /// How each ended that was done.
    pub(super) fn done(&self) -> Vec<FieldStep> {
        self.all.iter().filter_map(|step| self.kept(&step.name)).collect()
    }

    /// What those found that are done.
    pub(super) fn found(&self) -> Result<Found> {
        let is_done = |name: &str| self.kept(name).is_some_and(|step| step.outcome == StepOutcome::Done);
        let mut calibrations = Vec::new();
        for step in self.all.iter().filter(|step| step.name.starts_with("calibrate-") && is_done(&step.name)) {
            calibrations.push(self.read(&step.name)?);
        }
        let audit = if is_done("audit") { Some(self.read("audit")?) } else { None };
        let selfcost = if is_done("selfcost") { Some(self.read("selfcost")?) } else { None };
        Ok(Found { calibrations, audit, selfcost })
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let path = self.result(name);
        let text = std::fs::read_to_string(&path).map_err(Error::file(&path))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} is not what was written there: remove {name}.step beside it", path.display()))
    }
}

/// Every step, the quick ones first.
fn all(here: &Host, folder: &Path, is_quick: bool) -> Vec<Step> {
    let words = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
    let quick = |longer: &str, shorter: &str| words(if is_quick { shorter } else { longer });
    let step = |name: &str, arguments: Vec<String>, impossible: Option<String>| Step { name: name.into(), arguments, impossible };
    let mut all = vec![step("doctor", words("doctor"), None)];
    for mechanism in Mechanism::ALL {
        let status = here.mechanism(mechanism);
        let mut arguments = words(&format!("calibrate --mechanism {mechanism} --no-save"));
        arguments.extend(quick("", "--time 60"));
        // Nothing varies there from one session to the next.
        arguments.extend(if Host::counts_instructions() { words("--spacing 0") } else { Vec::new() });
        let why = if status.why_not.is_empty() { "nothing to sample by it was found".to_owned() } else { status.why_not.clone() };
        all.push(step(&format!("calibrate-{mechanism}"), arguments, (!status.available).then_some(why)));
    }
    let mut selfcost = words("selfcost");
    selfcost.extend(quick("", "--quick"));
    all.push(step("selfcost", selfcost, None));
    let mut audit = words("audit --resume");
    audit.push(folder.join("audit.journal").display().to_string());
    audit.extend(quick("", "--quick --runs 1"));
    all.push(step("audit", audit, None));
    all
}

/// The first line that a command of ours complained in.
fn first_complaint(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let complaint = said.lines().rev().find_map(|line| line.strip_prefix("perftax: "));
    complaint.unwrap_or("it said nothing").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_complained_of_last_is_told() {
        assert_eq!(first_complaint(b"perftax: working\nperftax: cannot do it\n  remedy\n"), "cannot do it");
        assert_eq!(first_complaint(b""), "it said nothing");
    }
}
