//! A program that is looked at: started by us up to its gate, or running already.

use std::ffi::OsString;
use std::time::Instant;

use perftax_doc::steps::Setting;
use perftax_pmu::process::{has_ended, running_threads};
use perftax_pmu::sys::{Child, ChildSpec, Ended, Exit, Stdio, TreeClock, Usage, process_cpu_ns};
use perftax_pmu::{Error, Result};

use crate::Subject;

/// signal(7).
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;

/// A program that is looked at.
pub struct Program {
    who: Who,
    /// CPU time of it, and of what it starts, since we came; none where it was gone at once.
    clock: Option<TreeClock>,
}

enum Who {
    /// Ours, at its gate or running.
    Child(Child),
    /// Somebody else's; one at least.
    Processes(Vec<Joined>),
}

struct Joined {
    pid: u32,
    began: Instant,
    /// What it had used when we came, and when it was last asked, ns.
    before_ns: u64,
    used_ns: u64,
    /// We look no more.
    is_left: bool,
}

impl Program {
    /// Starts a command up to its gate, its output untouched, with these variables of its environment; or finds a process.
    ///
    /// # Errors
    /// Where it cannot be started, or [`Error::Argument`] where it is gone.
    pub fn open(subject: &Subject, environment: Vec<(OsString, OsString)>) -> Result<Self> {
        Self::open_with(subject, environment, Stdio::Inherit, false)
    }

    /// The same, but a command that goes on where we are killed, and whose output goes there.
    ///
    /// # Errors
    /// As [`Program::open`].
    pub fn open_to_survive(subject: &Subject, output: Stdio) -> Result<Self> {
        Self::open_with(subject, Vec::new(), output, true)
    }

    fn open_with(subject: &Subject, environment: Vec<(OsString, OsString)>, output: Stdio, survives: bool) -> Result<Self> {
        match subject {
            Subject::Command(argv) => {
                let argv = argv.clone();
                let spec = ChildSpec { argv, directory: None, stdin: None, output, cpus: None, environment, survives };
                let child = Child::spawn(&spec)?;
                let clock = TreeClock::new([child.pid() as u32]);
                Ok(Self { who: Who::Child(child), clock })
            }
            Subject::Processes(pids) => {
                let join = |&pid: &u32| {
                    let used_ns = process_cpu_ns(pid).filter(|_| !has_ended(pid))?;
                    Some(Joined { pid, began: Instant::now(), before_ns: used_ns, used_ns, is_left: false })
                };
                // Of many some may have ended meanwhile.
                let joined: Vec<Joined> = pids.iter().filter_map(join).collect();
                let gone = || Self::gone(pids.first().copied().unwrap_or_default());
                let there = joined.iter().map(|joined| joined.pid);
                let clock = TreeClock::new(there).filter(|_| !joined.is_empty()).ok_or_else(gone)?;
                Ok(Self { who: Who::Processes(joined), clock: Some(clock) })
            }
        }
    }

    /// What is said of a process that is not there any more.
    pub fn gone(pid: u32) -> Error {
        Error::Argument {
            argument: Setting::Process.name(),
            value: pid.to_string(),
            needed: "the number of a process that runs".into(),
        }
    }

    /// Its process; of several the first.
    pub fn pid(&self) -> u32 {
        match &self.who {
            Who::Child(child) => child.pid() as u32,
            Who::Processes(joined) => joined.first().map_or(0, |joined| joined.pid),
        }
    }

    /// Its processes, without those that they start.
    pub fn pids(&self) -> Vec<u32> {
        match &self.who {
            Who::Child(child) => vec![child.pid() as u32],
            Who::Processes(joined) => joined.iter().map(|joined| joined.pid).collect(),
        }
    }

    /// Whether it was started by us.
    pub fn is_ours(&self) -> bool {
        matches!(self.who, Who::Child(_))
    }

    /// The child, where it is ours.
    pub fn child(&mut self) -> Option<&mut Child> {
        match &mut self.who {
            Who::Child(child) => Some(child),
            Who::Processes(_) => None,
        }
    }

    /// Its threads so far: of one at its gate there is one.
    pub fn threads(&self) -> Vec<i32> {
        match &self.who {
            Who::Child(child) => vec![child.pid()],
            Who::Processes(joined) => joined.iter().flat_map(|joined| running_threads(joined.pid)).collect(),
        }
    }

    /// Opens the gate, where there is one.
    ///
    /// # Errors
    /// Where the child cannot be told.
    pub fn release(&mut self) -> Result<()> {
        self.child().map_or(Ok(()), Child::release)
    }

    /// CPU time that it and what it has started have used since we came, ns; none where it is gone.
    pub fn cpu_ns(&mut self) -> Option<u64> {
        self.clock.as_mut()?.elapsed_ns()
    }

    /// Whether there is nothing to come any more.
    pub fn has_ended(&mut self) -> bool {
        match &mut self.who {
            Who::Child(child) => child.has_ended(),
            Who::Processes(joined) => {
                for joined in joined.iter_mut() {
                    joined.used_ns = process_cpu_ns(joined.pid).unwrap_or(0).max(joined.used_ns);
                }
                joined.iter().all(|joined| joined.is_left || has_ended(joined.pid))
            }
        }
    }

    /// Somebody wants an end: what is ours is told to, what is not is left alone.
    pub fn stop(&mut self) {
        match &mut self.who {
            Who::Child(child) => child.signal(SIGINT),
            Who::Processes(_) => self.leave(),
        }
    }

    /// The time is over: what is ours goes on by itself, what is not is left alone.
    pub fn leave(&mut self) {
        if let Who::Processes(joined) = &mut self.who {
            joined.iter_mut().for_each(|joined| joined.is_left = true);
        }
    }

    /// It has not ended when told to, or nothing can be taken of it any more.
    pub fn kill(&mut self) {
        match &mut self.who {
            Who::Child(child) => child.signal(SIGKILL),
            Who::Processes(_) => self.leave(),
        }
    }

    /// How it ended, and what it used. One that is not ours goes on; of it the user time is all that it was last seen to have used since we came.
    ///
    /// # Errors
    /// Where the command could not be executed.
    pub fn finish(mut self) -> Result<Exit> {
        // What it has used meanwhile.
        self.has_ended();
        match self.who {
            Who::Child(child) => child.wait(),
            Who::Processes(all) => {
                let used_ns: u64 = all.iter().map(|joined| joined.used_ns.saturating_sub(joined.before_ns)).sum();
                let usage = Usage { user_s: used_ns as f64 * 1e-9, ..Usage::default() };
                let elapsed_s = all.iter().map(|joined| joined.began.elapsed().as_secs_f64()).fold(0.0, f64::max);
                Ok(Exit { ended: Ended::Code(0), elapsed_s, usage, stopped: false })
            }
        }
    }
}

/// How often it is tried to open events on all threads of a program.
const ATTEMPTS: u32 = 20;

/// Opens something on all threads of a program, which come and go meanwhile: once more until it is on those that there are. What was opened before is given back first.
///
/// # Errors
/// Those of the last attempt.
pub fn on_all_threads<T>(threads_now: &dyn Fn() -> Vec<i32>, open: impl Fn(&[i32]) -> Result<T>) -> Result<T> {
    let mut threads = threads_now();
    let mut opened = open(&threads);
    for _ in 0..ATTEMPTS {
        let now = threads_now();
        if opened.is_ok() && now.iter().all(|tid| threads.contains(tid)) {
            break;
        }
        drop(opened);
        threads = now;
        opened = open(&threads);
    }
    opened
}

/// What a thread is called; none where it is gone.
pub fn thread_name(pid: u32, tid: i32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(name.trim_end().into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_that_has_ended_meanwhile_had_used_what_it_was_last_seen_to() {
        let mut shell = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut program = Program::open(&Subject::process(shell.id()), Vec::new()).unwrap();
        while program.cpu_ns().unwrap() < 50_000_000 {
            assert!(!program.has_ended());
        }
        assert!(!program.has_ended());
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!(program.has_ended());
        assert_eq!(program.cpu_ns(), None);
        let exit = program.finish().unwrap();
        assert!(exit.usage.user_s > 0.02, "{exit:?}");
    }

    #[test]
    fn a_process_is_left_alone_and_a_command_is_told_to_end() {
        let mut sleep = Command::new("sleep").arg("60").spawn().unwrap();
        let mut joined = Program::open(&Subject::process(sleep.id()), Vec::new()).unwrap();
        joined.kill();
        assert!(joined.has_ended());
        assert_eq!(joined.finish().unwrap().ended, Ended::Code(0));
        assert!(sleep.try_wait().unwrap().is_none(), "it still runs");
        sleep.kill().unwrap();
        sleep.wait().unwrap();
        let argv = ["sleep", "60"].map(OsString::from).to_vec();
        let mut ours = Program::open(&Subject::Command(argv), Vec::new()).unwrap();
        ours.release().unwrap();
        ours.leave();
        assert!(!ours.has_ended(), "it goes on");
        ours.kill();
        assert_eq!(ours.finish().unwrap().ended, Ended::Signal(SIGKILL));
    }

    #[test]
    fn who_is_gone_is_refused_by_its_number() {
        let mut short = Command::new("true").spawn().unwrap();
        short.wait().unwrap();
        let error = Program::open(&Subject::process(short.id()), Vec::new()).err().unwrap().to_string();
        assert!(error.contains(&short.id().to_string()) && error.contains("a process that runs"), "{error}");
    }
}
