//! Where a program makes its rings: a folder of our own that it sees, too.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use perftax_pmu::process::{Standing, file_of};
use perftax_pmu::{Error, Result};
use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
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
}

impl MarksPlace {
    /// For a program that sees what we see.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn here() -> Result<Self> {
        let place = if Path::new(PLACES[0]).is_dir() { PLACES[0].into() } else { std::env::temp_dir() };
        let folder = made(&place)?;
        Ok(Self { told: folder.path().into(), folder, root: None, _place: None })
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
        let folder = made(Path::new(&format!("/proc/self/fd/{}", place.as_raw_fd())))?;
        let told = Path::new(name).join(folder.path().file_name().unwrap_or_default());
        Ok(Self { folder, told, root: Some(root), _place: Some(place) })
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

fn made(place: &Path) -> Result<TempDir> {
    tempfile::Builder::new().prefix("perftax-marks-").tempdir_in(place).map_err(Error::file(place))
}
