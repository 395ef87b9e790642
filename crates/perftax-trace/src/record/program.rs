//! The program that is recorded: started by us, or running already.

use std::path::{Path, PathBuf};
use std::time::Instant;

use perftax_pmu::process::{has_ended, running_threads};
use perftax_pmu::sys::{Child, ChildSpec, Ended, Exit, Stdio, Usage, process_cpu_ns};
use perftax_pmu::{Error, Result};

use super::attach::Attached;
use super::{CAPACITY_VARIABLE, FOLDER_VARIABLE, Recording, Subject};
use crate::tag::Tag;

/// signal(7).
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;

/// A program under recording.
pub(super) enum Program {
    /// Ours, at its gate or running.
    Child(Child),
    /// Somebody else's, and how it is listened to.
    Process { pid: u32, began: Instant, cpu_ns: u64, marks: Option<Attached>, is_left: bool },
}

impl Program {
    /// Starts it up to its gate, or finds it.
    pub fn open(recording: &Recording, marks: &Path) -> Result<Self> {
        match &recording.subject {
            Subject::Command(argv) => {
                let environment = match recording.tag {
                    Tag::Marks => vec![
                        (FOLDER_VARIABLE.into(), marks.into()),
                        (CAPACITY_VARIABLE.into(), recording.ring_marks.to_string().into()),
                    ],
                    // Nobody listens.
                    _ => Vec::new(),
                };
                let argv = argv.clone();
                let spec = ChildSpec { argv, directory: None, stdin: None, output: Stdio::Inherit, cpus: None, environment };
                Ok(Self::Child(Child::spawn(&spec)?))
            }
            Subject::Process(pid) => {
                let cpu_ns = process_cpu_ns(*pid).filter(|_| !has_ended(*pid)).ok_or_else(|| Error::Argument {
                    argument: "-p",
                    value: pid.to_string(),
                    needed: "the number of a process that runs".into(),
                })?;
                Ok(Self::Process { pid: *pid, began: Instant::now(), cpu_ns, marks: None, is_left: false })
            }
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        match self {
            Self::Child(child) => child.pid() as u32,
            Self::Process { pid, .. } => *pid,
        }
    }

    /// Its threads so far.
    pub fn threads(&self) -> Vec<i32> {
        match self {
            Self::Child(child) => vec![child.pid()],
            Self::Process { pid, .. } => running_threads(*pid),
        }
    }

    /// Lets it run, or has it write marks.
    pub fn release(&mut self, recording: &Recording, folder: &Path) -> Result<()> {
        match self {
            Self::Child(child) => child.release(),
            Self::Process { pid, marks, .. } => {
                if recording.tag == Tag::Marks {
                    give(folder, *pid)?;
                    *marks = Some(Attached::attach(*pid, folder)?);
                }
                Ok(())
            }
        }
    }

    /// Whether there is nothing to come any more.
    pub fn has_ended(&self) -> bool {
        match self {
            Self::Child(child) => child.has_ended(),
            Self::Process { is_left: true, .. } => true,
            Self::Process { pid, .. } => has_ended(*pid),
        }
    }

    /// Somebody wants the recording to end: what is ours ends, what is not is left alone.
    pub fn stop(&mut self) {
        match self {
            Self::Child(child) => child.signal(SIGINT),
            Self::Process { marks, is_left, .. } => {
                *marks = None;
                *is_left = true;
            }
        }
    }

    /// It has not ended when told to, or nothing can be kept of it any more.
    pub fn kill(&mut self) {
        match self {
            Self::Child(child) => child.signal(SIGKILL),
            Self::Process { .. } => self.stop(),
        }
    }

    /// How it ended; one that is not ours goes on.
    pub fn finish(self) -> Result<Exit> {
        match self {
            Self::Child(child) => child.wait(),
            Self::Process { pid, began, cpu_ns, .. } => {
                let used_ns = process_cpu_ns(pid).unwrap_or(cpu_ns).saturating_sub(cpu_ns);
                let usage = Usage { user_s: used_ns as f64 * 1e-9, ..Usage::default() };
                Ok(Exit { ended: Ended::Code(0), elapsed_s: began.elapsed().as_secs_f64(), usage, stopped: false })
            }
        }
    }
}

/// Lets the process's user write into a folder of ours.
fn give(folder: &Path, pid: u32) -> Result<()> {
    use std::os::unix::fs::{MetadataExt, chown};
    let process = PathBuf::from(format!("/proc/{pid}"));
    let owner = std::fs::metadata(&process).map_err(Error::file(&process))?;
    let own = std::fs::metadata(folder).map_err(Error::file(folder))?;
    if owner.uid() == own.uid() {
        return Ok(());
    }
    chown(folder, Some(owner.uid()), Some(owner.gid())).map_err(Error::file(folder))
}
