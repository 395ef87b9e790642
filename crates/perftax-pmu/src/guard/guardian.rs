//! A small process that puts a knob back where perftax is killed before it could (SIGKILL, a crash).
//!
//! It is this program once more, started under another name before the knob is changed. It waits at a pipe whose other end perftax alone has:
//! a byte says that the knob is back, the end of the pipe without one says that perftax is no more. It has no other descriptor of perftax's, and a
//! session of its own, so that ^C does not reach it and no reader of perftax's output waits for it. A program that is executed has a memory of
//! its own; a forked one would share ours, and have our pages fault once more while they are measured.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{probe_definitions, throttle};
use crate::sys::{close_output, detach_from_parent};

/// What a guardian is started as: its first argument.
const NAME: &str = "perftax-guardian";
/// This program's file, whatever has become of its path.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// The byte that says that nothing is left to be done.
const ALL_IS_WELL: &[u8] = b"+";

/// Where the kernel keeps definitions of probes.
const UPROBE_EVENTS: &str = "/sys/kernel/tracing/uprobe_events";

/// Whether this program answers to [`NAME`].
static IS_SERVED: AtomicBool = AtomicBool::new(false);

/// Those of this process.
static GUARDIANS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn guardians() -> MutexGuard<'static, BTreeSet<u32>> {
    GUARDIANS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a process is a guardian of this one.
pub(super) fn is_one(pid: i32) -> bool {
    u32::try_from(pid).is_ok_and(|pid| guardians().contains(&pid))
}

/// Does a guardian's work where this process was started as one, and says so: the program ends then. To be called before anything else by every
/// program that wants its knobs put back when it is killed; those that never call it have no guardians.
pub fn served_as_guardian() -> bool {
    let mut arguments = std::env::args_os();
    if arguments.next().as_deref() != Some(OsStr::new(NAME)) {
        IS_SERVED.store(true, Ordering::Relaxed);
        return false;
    }
    if let Some(duty) = Duty::parse(&arguments.collect::<Vec<_>>()) {
        serve(&duty);
    }
    true
}

fn serve(duty: &Duty) {
    detach_from_parent();
    // A folder that is to be unmounted must not be held.
    std::env::set_current_dir("/").ok();
    if std::io::stdout().write_all(ALL_IS_WELL).and_then(|()| std::io::stdout().flush()).is_err() {
        return;
    }
    close_output();
    // Not to the end of the pipe where a byte comes: a program at its gate may have a copy of the other end for a moment.
    if std::io::stdin().lock().read_exact(&mut [0]).is_err() {
        duty.fulfil();
    }
}

/// What is to be done where perftax was killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// The sampling limits in a directory, as the lock file notes them; where there is none, these values.
    Limits { directory: PathBuf, lock: Option<PathBuf>, rate: u64, percent: u64 },
    /// The definitions of a group in tracefs' `uprobe_events`.
    Probes { knob: PathBuf, group: String },
    /// A folder that the kernel keeps (a group of resctrl's).
    Folder(PathBuf),
}

/// The kernel refuses while events of the killed process are still open: so often, and after so long, it is asked again.
const ATTEMPTS: usize = 40;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(50);

impl Duty {
    fn arguments(&self) -> Vec<OsString> {
        match self {
            Self::Limits { directory, lock, rate, percent } => {
                let lock = lock.as_deref().map_or(OsString::new(), OsString::from);
                vec!["limits".into(), directory.into(), lock, rate.to_string().into(), percent.to_string().into()]
            }
            Self::Probes { knob, group } => vec!["probes".into(), knob.into(), group.into()],
            Self::Folder(path) => vec!["folder".into(), path.into()],
        }
    }

    fn parse(arguments: &[OsString]) -> Option<Self> {
        let words: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
        let [kind, rest @ ..] = words.as_slice() else { return None };
        match (kind.to_str()?, rest) {
            ("limits", [directory, lock, rate, percent]) => Some(Self::Limits {
                directory: directory.into(),
                lock: Some(PathBuf::from(lock)).filter(|lock| !lock.as_os_str().is_empty()),
                rate: rate.to_str()?.parse().ok()?,
                percent: percent.to_str()?.parse().ok()?,
            }),
            ("probes", [knob, group]) => Some(Self::Probes { knob: knob.into(), group: group.to_str()?.into() }),
            ("folder", [path]) => Some(Self::Folder(path.into())),
            _ => None,
        }
    }

    fn fulfil(&self) {
        match self {
            // The killed process may not have let go of the lock yet. Whoever else has taken it has read the note, and restores what it says.
            Self::Limits { directory, lock: Some(lock), .. } => repeat(|| throttle::repair(directory, lock)),
            Self::Limits { directory, lock: None, rate, percent } => throttle::restore(directory, *rate, *percent),
            Self::Probes { knob, group } => repeat(|| probe_definitions::remove_group(knob, group)),
            Self::Folder(path) => repeat(|| std::fs::remove_dir(path).is_ok() || !path.exists()),
        }
    }
}

fn repeat(mut is_done: impl FnMut() -> bool) {
    for _ in 0..ATTEMPTS {
        if is_done() {
            return;
        }
        std::thread::sleep(BETWEEN_ATTEMPTS);
    }
}

/// A guardian on duty. Dropped, it does its duty, unless it was dismissed before.
#[derive(Debug)]
pub(crate) struct Guardian {
    process: Child,
}

impl Guardian {
    /// Starts one, and returns when it is on duty. None where this program is none (a test of a library), or it cannot be started: then the
    /// next start of perftax repairs what a killed one leaves.
    pub(crate) fn start(duty: &Duty) -> Option<Self> {
        if !IS_SERVED.load(Ordering::Relaxed) {
            return None;
        }
        let mut command = Command::new(THIS_PROGRAM);
        command.arg0(NAME).args(duty.arguments()).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().ok()?;
        guardians().insert(process.id());
        let mut ready = [0];
        let is_ready = process.stdout.take().is_some_and(|mut stdout| stdout.read_exact(&mut ready).is_ok());
        let guardian = Self { process };
        // One that is not ready has ended: dropping it reaps it.
        is_ready.then_some(guardian)
    }

    /// The knob is back: it ends without having done anything.
    pub(crate) fn dismiss(mut self) {
        if let Some(stdin) = &mut self.process.stdin {
            // One that was killed cannot be told, and need not.
            stdin.write_all(ALL_IS_WELL).ok();
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.process.stdin = None;
        self.process.wait().ok();
        guardians().remove(&self.process.id());
    }
}

/// Puts back what a perftax that was killed has left, its guardian too: the sampling limits by the note in the lock file, unless somebody
/// measures now, and probes. Cheap where there is nothing: one file is looked at, and for root a second one.
pub fn repair() {
    throttle::repair(Path::new(throttle::DIRECTORY), Path::new(throttle::LOCK));
    probe_definitions::remove_left_behind(Path::new(UPROBE_EVENTS));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duties_survive_the_command_line() {
        let limits = |lock: Option<&str>| Duty::Limits {
            directory: "/proc/sys/kernel".into(),
            lock: lock.map(PathBuf::from),
            rate: 100_000,
            percent: 25,
        };
        let probes = Duty::Probes { knob: "/sys/kernel/tracing/uprobe_events".into(), group: "perftax_12".into() };
        for duty in [limits(Some("/run/lock/x y")), limits(None), probes, Duty::Folder("/sys/fs/resctrl/perftax-7".into())] {
            assert_eq!(Duty::parse(&duty.arguments()), Some(duty));
        }
        assert_eq!(Duty::parse(&["limits".into(), "/".into()]), None);
    }

    #[test]
    fn a_program_that_never_answers_to_the_name_has_no_guardian() {
        assert!(Guardian::start(&Duty::Folder("/nowhere".into())).is_none());
    }
}
