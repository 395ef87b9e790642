//! A fresh copy of a folder for each run, so that a program finds the same files each time and leaves none.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use perftax_doc::steps::Setting;
use perftax_pmu::{Error, Result};
use rustix::fs::{FlockOperation, flock, statvfs};
use rustix::process::geteuid;
use tempfile::TempDir;

use super::copying::{Copying, MAX_BYTES, Size};

/// How the folder begins that holds the copies.
pub(super) const PREFIX: &str = "perftax-scratch.";
/// A file in it that is locked for as long as somebody has use for the copies, and says since which start of the machine.
const LOCK: &str = "lock";
/// A folder that nobody has locked is left alone until then: it may be about to be.
const FRESH: Duration = Duration::from_secs(60);

/// Copies of a folder below `$TMPDIR`, one for each run. Nobody else may look into them.
#[derive(Clone, Debug)]
pub struct Scratch {
    from: PathBuf,
    place: Arc<Place>,
}

/// The folder that holds the copies; it goes with the last who knows it.
#[derive(Debug)]
struct Place {
    folder: PathBuf,
    /// Locked.
    _lock: File,
}

/// One run's copy, which is removed with this.
#[derive(Debug)]
pub struct Copy {
    folder: PathBuf,
}

impl Scratch {
    /// Of the current folder, which is copied once to see that it can be, so many times at once.
    ///
    /// # Errors
    /// [`Error::Argument`] where there is too much of it; [`Error::File`] where something of it cannot be read, or no copy can be made.
    pub fn of_current(copies: u64) -> Result<(Self, Size)> {
        let from = std::env::current_dir().map_err(Error::file("."))?;
        let temporary = std::env::temp_dir();
        let (scratch, size) = Self::of(&from, &temporary)?;
        let bytes = copies.saturating_mul(size.bytes - size.shared_bytes);
        let free =
            statvfs(&temporary).ok().filter(|disk| disk.f_blocks > 0).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        if bytes > MAX_BYTES || free.is_some_and(|free| bytes > free) {
            let free =
                free.map_or(String::new(), |free| format!(", and no more than the {} MiB that are free there", free >> 20));
            return Err(Error::Argument {
                argument: Setting::Scratch.name(),
                value: format!("{} MiB of copies at once below {}", bytes >> 20, temporary.display()),
                needed: format!("at most {} MiB{free}", MAX_BYTES >> 20),
            });
        }
        Ok((scratch, size))
    }

    fn of(from: &Path, temporary: &Path) -> Result<(Self, Size)> {
        let folder = private(PREFIX, temporary)?;
        let lock = File::create(folder.join(LOCK)).map_err(Error::file(&folder))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| Error::file(&folder)(error.into()))?;
        let place = Place { folder, _lock: lock };
        fs::write(place.folder.join(LOCK), this_start()).map_err(Error::file(&place.folder))?;
        let scratch = Self { from: from.into(), place: Arc::new(place) };
        let size = scratch.copied()?.1;
        Ok((scratch, size))
    }

    /// The folder that is copied.
    pub fn original(&self) -> &Path {
        &self.from
    }

    /// A copy for one run.
    ///
    /// # Errors
    /// As [`Self::of_current`].
    pub fn copy(&self) -> Result<Copy> {
        Ok(self.copied()?.0)
    }

    fn copied(&self) -> Result<(Copy, Size)> {
        let copy = Copy { folder: private("run.", &self.place.folder)? };
        let mut copying = Copying::of(&self.from);
        copying.folder(&self.from, &copy.directory())?;
        DirBuilder::new().mode(0o700).create(copy.temporary()).map_err(Error::file(copy.temporary()))?;
        Ok((copy, copying.size()))
    }
}

impl Copy {
    /// The copied folder: what is current for the program.
    pub fn directory(&self) -> PathBuf {
        self.folder.join("here")
    }

    /// A folder of its own for what is temporary.
    pub fn temporary(&self) -> PathBuf {
        self.folder.join("tmp")
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

/// A new folder of ours alone.
fn private(prefix: &str, within: &Path) -> Result<PathBuf> {
    let mut builder = tempfile::Builder::new();
    let made = builder.prefix(prefix).permissions(Permissions::from_mode(0o700)).tempdir_in(within);
    made.map(TempDir::keep).map_err(Error::file(within))
}

/// What tells this start of the machine from others: a lock of another machine, on a shared disk, says nothing here.
fn this_start() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Removes a folder of ours, also where folders in it may not be written to; the lock goes last. Where the program has left something mounted in it, all
/// stays as it is: what is mounted is somebody's.
fn remove(folder: &Path) {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if name.is_empty() || mounts.contains(&name) {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name() != LOCK && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let inner = entry.path();
            if fs::remove_dir_all(&inner).is_err() {
                open_up(&inner);
                // What is left the next one tries again.
                fs::remove_dir_all(&inner).ok();
            }
        }
    }
    fs::remove_dir_all(folder).ok();
}

/// Folders that may not be written to.
fn open_up(folder: &Path) {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::DIRECTORY;
    let Ok(open) = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(folder).or_else(|_| {
        // One that may not be read either.
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
        OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(folder)
    }) else {
        return;
    };
    open.set_permissions(Permissions::from_mode(0o700)).ok();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Removes copies of ours whose owner was killed.
pub fn sweep() {
    sweep_in(&std::env::temp_dir());
}

fn sweep_in(temporary: &Path) {
    let user = geteuid().as_raw();
    for entry in fs::read_dir(temporary).into_iter().flatten().flatten() {
        let path = entry.path();
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // Not followed, should it be a link. What others could have put there is not ours to remove.
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        let is_ours = found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0;
        let age = found.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        if is_ours && age.is_some_and(|age| age > FRESH) && is_abandoned(&path.join(LOCK)) {
            remove(&path);
        }
    }
}

fn is_abandoned(lock: &Path) -> bool {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    match OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(lock) {
        Ok(mut open) => {
            let mut since = String::new();
            open.read_to_string(&mut since).is_ok()
                && (since.is_empty() || since == this_start())
                && flock(&open, FlockOperation::NonBlockingLockExclusive).is_ok()
        }
        // It goes last.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_copy_is_like_its_original_and_goes() {
        let (original, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| original.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        fs::write(at("sub/kept"), "kept").unwrap();
        fs::write(at("run"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(at("run"), Permissions::from_mode(0o755)).unwrap();
        symlink("sub/kept", at("link")).unwrap();
        symlink("../run", at("sub/up")).unwrap();
        symlink("../../elsewhere", at("sub/out")).unwrap();
        fs::write(at("other"), "").unwrap();
        fs::set_permissions(at("other"), Permissions::from_mode(0o6755)).unwrap();
        File::open(at("sub/kept")).unwrap().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000)).unwrap();
        fs::set_permissions(at("sub"), Permissions::from_mode(0o555)).unwrap();

        let (scratch, size) = Scratch::of(original.path(), temporary.path()).unwrap();
        assert_eq!((size.files, size.bytes), (7, 14));
        let copy = scratch.copy().unwrap();
        let here = copy.directory();
        assert_eq!(fs::read_to_string(here.join("link")).unwrap(), "kept");
        let to = |name: &str| fs::read_link(here.join(name)).unwrap();
        assert_eq!((to("sub/up"), to("sub/out")), ("../run".into(), at("sub").join("../../elsewhere")));
        let of = |name: &str| fs::metadata(here.join(name)).unwrap();
        assert_eq!((of("run").mode() & 0o777, of("sub").mode() & 0o777), (0o755, 0o555));
        assert_eq!(of("sub/kept").mtime(), 1_000_000);
        assert_eq!(of("other").mode() & 0o7777, 0o755, "nobody becomes another by a copy");
        let place = fs::metadata(copy.folder.parent().unwrap()).unwrap();
        assert_eq!(place.mode() & 0o777, 0o700);
        // A program's own: the original does not change, and the next one does not see it.
        fs::write(here.join("run"), "another").unwrap();
        fs::write(here.join("out.1"), "left").unwrap();
        let other = scratch.copy().unwrap();
        assert_eq!(fs::read_to_string(other.directory().join("run")).unwrap(), "#!/bin/sh\n");
        assert!(!other.directory().join("out.1").exists() && other.temporary().is_dir());
        assert_eq!(fs::read_to_string(at("run")).unwrap(), "#!/bin/sh\n");
        drop(copy);
        assert!(!here.exists() && other.directory().exists());
        drop((other, scratch));
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
        fs::set_permissions(at("sub"), Permissions::from_mode(0o755)).unwrap();
    }

    /// A folder for temporary files may lie in what is copied, as where that is current.
    #[test]
    fn copies_are_not_copied() {
        let temporary = tempfile::tempdir().unwrap();
        fs::write(temporary.path().join("file"), "of the user").unwrap();
        let (scratch, _) = Scratch::of(temporary.path(), temporary.path()).unwrap();
        let copy = scratch.copy().unwrap();
        let names: Vec<_> = fs::read_dir(copy.directory()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["file"]);
    }

    #[test]
    fn what_was_left_by_one_that_was_killed_goes_with_the_next() {
        let (original, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (alive, _) = Scratch::of(original.path(), temporary.path()).unwrap();
        let left = temporary.path().join(format!("{PREFIX}left"));
        fs::create_dir_all(left.join("run.1/here")).unwrap();
        fs::set_permissions(&left, Permissions::from_mode(0o700)).unwrap();
        fs::write(left.join(LOCK), "").unwrap();
        let of_hours_ago = SystemTime::now() - Duration::from_secs(7200);
        for folder in [left.as_path(), alive.place.folder.as_path()] {
            File::open(folder).unwrap().set_modified(of_hours_ago).unwrap();
        }
        // Somebody's who only calls it so, and a link to what is ours.
        let (open, elsewhere) = (temporary.path().join(format!("{PREFIX}open")), tempfile::tempdir().unwrap());
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
        File::open(&open).unwrap().set_modified(of_hours_ago).unwrap();
        fs::write(elsewhere.path().join(LOCK), "").unwrap();
        symlink(elsewhere.path(), temporary.path().join(format!("{PREFIX}link"))).unwrap();
        sweep_in(temporary.path());
        assert!(!left.exists(), "unlocked and old");
        assert!(alive.copy().is_ok(), "locked");
        assert!(open.exists() && elsewhere.path().join(LOCK).exists());
    }
}
