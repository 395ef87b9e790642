//! Where a program makes its rings: a folder of our own that it sees, too. One that a perftax has left behind which was killed is removed by the next one.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use perftax_pmu::process::{Standing, file_of};
use perftax_pmu::{Error, Result};
use rustix::fs::{FlockOperation, Mode, OFlags, ResolveFlags, flock, open, openat2};
use tempfile::TempDir;

/// Where folders for rings are made: in memory, where there is any; marks must not wait for a disk.
const PLACES: [&str; 2] = ["/dev/shm", "/tmp"];

/// A folder for rings; gone with this.
pub(super) struct MarksPlace {
    // Dropped in this order: it is removed by way of the place.
    folder: TempDir,
    /// As the program calls it.
    pub told: PathBuf,
    /// The file systems of the program, where they are others than ours; held, they stay when it ends.
    pub root: Option<OwnedFd>,
    _place: Option<OwnedFd>,
    /// Held as long as somebody listens there.
    _listens: File,
}

/// What folders for rings begin with; the file in them that whoever listens has locked.
const PREFIX: &str = "perftax-marks-";
const LISTENS: &str = "listens";

impl MarksPlace {
    /// For a program that sees what we see.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn here() -> Result<Self> {
        let place = if Path::new(PLACES[0]).is_dir() { PLACES[0].into() } else { std::env::temp_dir() };
        let (folder, listens) = made(&place)?;
        Ok(Self { told: folder.path().into(), folder, root: None, _place: None, _listens: listens })
    }

    /// For a process, which may see other file systems.
    ///
    /// # Errors
    /// Where it cannot be made there.
    pub fn seen_by(pid: u32) -> Result<Self> {
        if Standing::of(pid).is_none_or(|standing| standing.shares_our_files) {
            return Self::here();
        }
        let path = file_of(pid, "root");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(&path, flags, Mode::empty()).map_err(|error| Error::file(&path)(error.into()))?;
        // What links there leads to is there, too.
        let find = |name: &str| openat2(&root, name.trim_start_matches('/'), flags, Mode::empty(), ResolveFlags::IN_ROOT);
        let (name, place) = match find(PLACES[0]) {
            Ok(place) => (PLACES[0], place),
            Err(_) => (PLACES[1], find(PLACES[1]).map_err(|error| Error::file(&path.join("tmp"))(error.into()))?),
        };
        let (folder, listens) = made(Path::new(&format!("/proc/self/fd/{}", place.as_raw_fd())))?;
        let told = Path::new(name).join(folder.path().file_name().unwrap_or_default());
        Ok(Self { folder, told, root: Some(root), _place: Some(place), _listens: listens })
    }

    /// Where we find it.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Has threads that make rings there count what they execute (`PERFTAX_COUNTERS_WANTED`).
    ///
    /// # Errors
    /// Where it cannot be said.
    pub fn want_counters(&self) -> Result<()> {
        let path = self.path().join("counters");
        std::fs::write(&path, []).map_err(Error::file(&path))
    }

    /// Whether something lies at a path of the program's.
    pub fn has(&self, path: &str) -> bool {
        match &self.root {
            None => Path::new(path).exists(),
            Some(root) => {
                openat2(root, path.trim_start_matches('/'), OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT)
                    .is_ok()
            }
        }
    }
}

/// A new folder, and the file in it that says that somebody listens.
fn made(place: &Path) -> Result<(TempDir, File)> {
    remove_left(place);
    let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place).map_err(Error::file(place))?;
    // It has its name only once it is locked.
    let (unnamed, path) = (folder.path().join(".listens"), folder.path().join(LISTENS));
    let listens = File::create(&unnamed).map_err(Error::file(&unnamed))?;
    flock(&listens, FlockOperation::NonBlockingLockExclusive).map_err(|error| Error::file(&unnamed)(error.into()))?;
    std::fs::rename(&unnamed, &path).map_err(Error::file(&path))?;
    Ok((folder, listens))
}

/// Removes folders of ours where nobody listens any more. Nothing hangs on it: what cannot be removed stays.
fn remove_left(place: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let is_one = entry.file_name().to_string_lossy().starts_with(PREFIX) && entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_one {
            continue;
        }
        // The folder may have been given to the program's user; the file is whose perftax was.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(listens) = open(entry.path().join(LISTENS), flags, Mode::empty()).map(File::from) else { continue };
        let is_ours = listens.metadata().is_ok_and(|file| file.is_file() && file.uid() == own);
        if is_ours && flock(&listens, FlockOperation::NonBlockingLockExclusive).is_ok() {
            std::fs::remove_dir_all(entry.path()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn what_was_left_behind_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let (folder, listens) = made(place.path()).unwrap();
        let path = folder.keep();
        std::fs::write(path.join("1.2.3.marks"), [0]).unwrap();
        let other = place.path().join(PREFIX.to_string() + "being-made");
        std::fs::create_dir(&other).unwrap();
        let strange = place.path().join("strange");
        std::fs::create_dir(&strange).unwrap();
        std::fs::write(strange.join(LISTENS), []).unwrap();
        let (second, _listens) = made(place.path()).unwrap();
        assert!(path.exists(), "somebody listens");
        // As the kernel does it for one that is killed.
        drop(listens);
        let (third, _listens_too) = made(place.path()).unwrap();
        assert!(!path.exists() && second.path().exists() && third.path().exists() && other.exists() && strange.exists());
    }
}
