//! Machines that have booted, kept on disk: the next command of the same machine's starts there.
//!
//! One is a folder of the cache with its memory (pages that were never written are holes) and the rest of its state. Its name says all that decides
//! what it is like: whatever else is asked for is another machine.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::emulator::kernel_arguments;
use crate::guest::Guest;
use crate::installation::{Installation, cache_folder};

/// How many are kept, the latest used: each is some 140 MB, and our own tests have a dozen machines.
const KEPT: usize = 16;
/// Changes with what is kept, and how.
const FORMAT: u32 = 1;
const PAGE: usize = 4096;
const MEMORY: &str = "memory";
const STATE: &str = "state";

/// Where a machine is kept, or would be.
pub struct Kept {
    folder: PathBuf,
    memory_bytes: u64,
}

impl Kept {
    /// Of a guest's machine, whose processor is as it was booted.
    pub fn of(installation: &Installation, guest: &Guest) -> Self {
        let mut hasher = DefaultHasher::new();
        (FORMAT, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
        let parts = [&installation.qemu, &installation.kernel, &installation.base];
        for file in parts.into_iter().chain(&installation.firmware).chain(&installation.libraries) {
            // A path stays where what is there was built anew.
            let found = fs::metadata(file).map(|found| (found.len(), found.mtime(), found.mtime_nsec())).ok();
            (file, found).hash(&mut hasher);
        }
        let processor = guest.processor.as_booted();
        (processor.option(), processor.count, guest.memory_mib, guest.seed, kernel_arguments(guest)).hash(&mut hasher);
        let folder = cache_folder().join("booted").join(format!("{:016x}", hasher.finish()));
        Self { folder, memory_bytes: guest.memory_bytes() }
    }

    /// Its memory and state, if it is there.
    pub fn open(&self) -> Option<(OwnedFd, OwnedFd)> {
        // The emulator opens memory to write to it, and writes to pages of its own.
        let memory = File::options().read(true).write(true).open(self.folder.join(MEMORY)).ok()?;
        let state = File::open(self.folder.join(STATE)).ok()?;
        let is_whole = memory.metadata().ok()?.len() == self.memory_bytes && state.metadata().ok()?.len() > 0;
        if !is_whole {
            return None;
        }
        // When it was used last.
        File::open(&self.folder).and_then(|folder| folder.set_modified(SystemTime::now())).ok();
        Some((memory.into(), state.into()))
    }

    /// Keeps it, whole or not at all.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn keep(&self, memory: &OwnedFd, state: &OwnedFd) -> std::io::Result<()> {
        let parent = self.folder.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent)?;
        let made = tempfile::Builder::new().prefix("new-").tempdir_in(parent)?;
        for (name, from) in [(MEMORY, memory), (STATE, state)] {
            let to = File::create_new(made.path().join(name))?;
            copy_sparse(from, &to)?;
            // A machine that goes off at once leaves no half of it under its name.
            to.sync_data()?;
        }
        // Half of one that something has cut short would stand in the way for ever.
        if self.open().is_none() {
            fs::remove_dir_all(&self.folder).ok();
        }
        // Somebody else's was there before: it is the same.
        if fs::rename(made.path(), &self.folder).is_ok() {
            let _renamed = made.keep();
        }
        forget_oldest(parent, KEPT);
        Ok(())
    }
}

/// Removes all but the machines that were used last, and what was left half made.
fn forget_oldest(parent: &Path, kept: usize) {
    const HALF_MADE_FOR_S: u64 = 3600;
    let Ok(entries) = fs::read_dir(parent) else { return };
    let mut all: Vec<(SystemTime, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            Some((fs::metadata(&path).ok()?.modified().ok()?, path))
        })
        .collect();
    all.sort();
    let is_new = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"new-"));
    let (new, whole): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, path)| is_new(path));
    let is_old = |time: &SystemTime| time.elapsed().is_ok_and(|age| age.as_secs() > HALF_MADE_FOR_S);
    let too_many = whole.len().saturating_sub(kept);
    let gone = whole.into_iter().take(too_many).chain(new.into_iter().filter(|(time, _)| is_old(time)));
    gone.for_each(|(_, path)| drop(fs::remove_dir_all(path)));
}

/// Copies a file; holes stay holes, and so do pages of zeros.
pub fn copy_sparse(from: &impl AsFd, to: &impl AsFd) -> std::io::Result<()> {
    let (from, to) = (File::from(from.as_fd().try_clone_to_owned()?), File::from(to.as_fd().try_clone_to_owned()?));
    let bytes = from.metadata()?.len();
    to.set_len(bytes)?;
    let mut buffer = vec![0; 256 * PAGE];
    let mut at = 0;
    while at < bytes {
        // Both move the place in the file, which nobody else reads from.
        let begin = match seek(&from, SeekFrom::Data(at)) {
            Ok(begin) => begin,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = seek(&from, SeekFrom::Hole(begin))?;
        at = begin;
        while at < end {
            let count = buffer.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
            from.read_exact_at(&mut buffer[..count], at)?;
            for (page, bytes) in (at..).step_by(PAGE).zip(buffer[..count].chunks(PAGE)) {
                if bytes.iter().any(|byte| *byte != 0) {
                    to.write_all_at(bytes, page)?;
                }
            }
            at += count as u64;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use std::time::Duration;

    #[test]
    fn copies_are_the_same_and_as_sparse() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            File::options().read(true).write(true).create(true).truncate(true).open(folder.path().join(name)).unwrap()
        };
        let (from, to) = (file("from"), file("to"));
        from.set_len(8 << 20).unwrap();
        from.write_all_at(&[7; 5000], 3 * PAGE as u64 - 100).unwrap();
        from.write_all_at(&[0; 3 << 20], 2 << 20).unwrap();
        from.write_all_at(b"last", (8 << 20) - 4).unwrap();
        copy_sparse(&from, &to).unwrap();
        assert_eq!(fs::read(folder.path().join("from")).unwrap(), fs::read(folder.path().join("to")).unwrap());
        assert!(to.metadata().unwrap().blocks() * 512 < 100_000, "{}", to.metadata().unwrap().blocks());
    }

    #[test]
    fn the_latest_used_are_kept() {
        let parent = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        for (name, age_s) in [("a", 400), ("b", 300), ("c", 200), ("new-half", 100), ("new-old", 9000)] {
            let folder = parent.path().join(name);
            fs::create_dir(&folder).unwrap();
            File::open(&folder).unwrap().set_modified(now - Duration::from_secs(age_s)).unwrap();
        }
        forget_oldest(parent.path(), 2);
        let mut left: Vec<_> =
            fs::read_dir(parent.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["b", "c", "new-half"]);
    }

    #[test]
    fn one_is_kept_whole_and_whatever_else_is_asked_for_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept { folder: folder.path().join("booted/1"), memory_bytes: 8192 };
        assert!(kept.open().is_none());
        let part = |bytes: &[u8]| {
            let memory = crate::emulator::memory("test", bytes.len() as u64).unwrap();
            File::from(memory.try_clone().unwrap()).write_all_at(bytes, 0).unwrap();
            memory
        };
        kept.keep(&part(&[1; 8192]), &part(b"state")).unwrap();
        // Once more is no error, and leaves nothing behind.
        kept.keep(&part(&[2; 8192]), &part(b"other")).unwrap();
        let (memory, state) = kept.open().unwrap();
        let read = |fd: OwnedFd| std::io::read_to_string(File::from(fd)).unwrap().into_bytes();
        assert_eq!((read(memory), read(state)), (vec![1; 8192], b"state".to_vec()));
        assert_eq!(fs::read_dir(folder.path().join("booted")).unwrap().count(), 1);
        let cut = Kept { memory_bytes: 4096, ..kept };
        assert!(cut.open().is_none(), "one that was cut short is none");
        cut.keep(&part(&[3; 4096]), &part(b"anew")).unwrap();
        assert!(cut.open().is_some(), "and does not stand in the way");

        let installation = Installation {
            qemu: "/bin/true".into(),
            kernel: "/bin/sh".into(),
            base: "/bin/false".into(),
            ..Installation::default()
        };
        let usual = Guest::new(vec!["true".into()]);
        let of = |guest: &Guest| Kept::of(&installation, guest).folder;
        let later = crate::Processor { assist_ns: 9, skid: 3, ..usual.processor };
        assert_eq!(
            of(&Guest { processor: later, share: Some("/tmp".into()), ..usual.clone() }),
            of(&usual),
            "told with the command"
        );
        for other in [
            Guest { seed: 2, ..usual.clone() },
            Guest { append: "nopti".into(), ..usual.clone() },
            Guest { memory_mib: 512, ..usual.clone() },
            Guest { processor: crate::Processor { caches: true, ..usual.processor }, ..usual.clone() },
        ] {
            assert_ne!(of(&other), of(&usual), "{other:?}");
        }
        let other = Installation { kernel: "/bin/true".into(), ..installation.clone() };
        assert_ne!(Kept::of(&other, &usual).folder, of(&usual));
    }
}
