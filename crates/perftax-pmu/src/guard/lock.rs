//! The lock of whoever measures, and the note of what is to be restored in its file.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::interrupt::check_interrupted;

/// The variable that says how long to wait for the lock, seconds.
pub const WAIT_VARIABLE: &str = "PERFTAX_WAIT";

/// A lock file, held.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

/// What is found in a lock file.
#[derive(Debug)]
pub(super) enum LeftBehind {
    /// No note, or none that may be acted on.
    Nothing,
    /// Somebody holds the lock; the note is his.
    Held,
    /// A note that nobody acts on, and the lock.
    Noted(Lock),
}

/// From one attempt to the next.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(20);
/// Waited for in any case: so long a guardian, or the start of another command, may take to repair what a killed process has left.
pub(super) const SHORTEST_WAIT: Duration = Duration::from_millis(300);

/// So long a note of another user's is left to whoever may act on it: a guardian tries for two seconds.
const TIME_TO_RESTORE: Duration = Duration::from_secs(3);

/// How long [`WAIT_VARIABLE`] says to wait; not at all where it says nothing that can be read.
pub fn waiting_time() -> Duration {
    let seconds = std::env::var(WAIT_VARIABLE).ok().and_then(|text| text.trim().parse().ok());
    Duration::from_secs(seconds.unwrap_or(0))
}

impl Lock {
    /// Takes the lock, waiting for so long at most; none where its file can neither be made nor read. Another user's, root's for one, can be locked, too, but
    /// not written: two that measure at once disturb each other, whoever they are. `told` is called once where
    /// another process holds it and is waited for.
    ///
    /// # Errors
    /// `Busy` where another process still holds it; where SIGINT or SIGTERM came meanwhile.
    pub fn take(path: &Path, longest: Duration, told: &mut dyn FnMut()) -> Result<Option<Self>> {
        let began = Instant::now();
        let mut is_told = false;
        loop {
            let (file, is_another_s) = match (open(path, true), open_to_read(path)) {
                (Ok(file), _) => (file, false),
                (Err(_), Ok(file)) => (file, true),
                (Err(_), Err(_)) => return Ok(None),
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Somebody was killed, and whoever restores what he changed needs the lock: one who cannot do it himself lets him have it first.
                Ok(()) if is_another_s && began.elapsed() < TIME_TO_RESTORE && has_a_note(&file) => {
                    flock(&file, FlockOperation::Unlock).ok();
                    check_interrupted()?;
                    std::thread::sleep(BETWEEN_ATTEMPTS);
                    continue;
                }
                Ok(()) => return Ok(Some(Self { file, path: path.into() })),
                Err(Errno::WOULDBLOCK | Errno::INTR) => {}
                Err(error) => return Err(Error::System { call: format!("flock of {}", path.display()), source: error.into() }),
            }
            if began.elapsed() >= longest.max(SHORTEST_WAIT) {
                return Err(Error::Busy { lock: path.into(), waited_s: longest.as_secs(), remedy: remedy(path) });
            }
            if began.elapsed() >= SHORTEST_WAIT && !std::mem::replace(&mut is_told, true) {
                told();
            }
            check_interrupted()?;
            std::thread::sleep(BETWEEN_ATTEMPTS);
        }
    }

    /// What a process that was killed has left.
    pub fn left_behind(path: &Path) -> LeftBehind {
        if std::fs::metadata(path).map_or(0, |metadata| metadata.len()) == 0 {
            return LeftBehind::Nothing;
        }
        let Ok(file) = open(path, false) else { return LeftBehind::Nothing };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => LeftBehind::Noted(Self { file, path: path.into() }),
            Err(_) => LeftBehind::Held,
        }
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is to be restored; empty where nothing is, or where the note is of somebody with fewer rights, who must not tell us what to set.
    pub fn noted(&mut self) -> String {
        let owner = self.file.metadata().map(|metadata| metadata.uid());
        let mut text = String::new();
        if owner.is_ok_and(|owner| owner == 0 || owner == rustix::process::geteuid().as_raw()) {
            let read = self.file.rewind().and_then(|()| self.file.read_to_string(&mut text));
            // A note that cannot be read is none.
            read.unwrap_or(0);
        }
        text
    }

    /// Writes what is to be restored; nothing once it has been.
    pub fn note(&mut self, text: &str) {
        if rustix::process::geteuid().is_root() {
            // Else what root notes in a file that a plain user has made would not be believed. Where it fails it was root's already, or only the
            // repair after a kill is lost.
            rustix::fs::fchown(&self.file, Some(rustix::fs::Uid::ROOT), None).ok();
        }
        let noted = self.file.set_len(0).and_then(|()| self.file.rewind()).and_then(|()| self.file.write_all(text.as_bytes()));
        // Without the note only the repair after a kill is lost.
        noted.ok();
    }
}

/// No link is followed: the folder is everybody's. A file that is there already is opened without being made: in a folder with the sticky bit even
/// root may not "create" another's (fs.protected_regular).
fn open(path: &Path, may_create: bool) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    match options.open(path) {
        Err(error) if may_create && error.kind() == std::io::ErrorKind::NotFound => {
            options.create(true).truncate(false).open(path)
        }
        other => other,
    }
}

/// Another user's.
fn open_to_read(path: &Path) -> std::io::Result<File> {
    // Not waiting for somebody at a pipe's other end.
    File::options().read(true).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32).open(path)
}

fn has_a_note(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.len() > 0)
}

fn remedy(path: &Path) -> String {
    format!("wait for it; fuser {} names it", path.display())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, link) = (folder.path().join("victim"), folder.path().join("lock"));
        std::fs::write(&victim, "kept").unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        assert!(Lock::take(&link, Duration::ZERO, &mut || ()).unwrap().is_none());
        assert!(matches!(Lock::left_behind(&link), LeftBehind::Nothing));
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
    }

    #[test]
    fn whoever_holds_it_is_named_with_how_long_was_waited() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let _held = Lock::take(&path, Duration::ZERO, &mut || ()).unwrap().unwrap();
        let error = Lock::take(&path, Duration::from_secs(1), &mut || ()).unwrap_err();
        assert!(matches!(error, Error::Busy { .. }), "{error:?}");
        let message = error.to_string();
        assert!(message.contains("another perftax is measuring") && message.contains("waited 1 s"), "{message}");
    }
}
