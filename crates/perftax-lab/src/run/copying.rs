//! Copying a folder: files with their modes and times, links that lead where they led, blocks shared where the file system can.

use std::fs::{self, DirBuilder, File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown, lchown, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use perftax_doc::steps::Setting;
use perftax_pmu::guard::check_interrupted;
use perftax_pmu::{Error, Result};
use rustix::fs::{CWD, FileType, Mode, ioctl_ficlone, mknodat};
use rustix::process::geteuid;

use super::scratch::PREFIX;

/// Most that is copied for each run where the file system cannot share it.
pub(super) const MAX_BYTES: u64 = 1 << 30;
/// Most files, shared or not: each takes a few system calls.
const MAX_FILES: u64 = 100_000;
/// Copied from one look at the stop flag to the next.
const PIECE_BYTES: usize = 1 << 20;

/// How much there is to copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Files, folders and links.
    pub files: u64,
    /// Bytes of files.
    pub bytes: u64,
    /// Bytes of them that copies share with the original (copy on write).
    pub shared_bytes: u64,
}

/// A copy that is being made.
pub(super) struct Copying<'a> {
    /// The folder that is copied.
    from: &'a Path,
    is_root: bool,
    size: Size,
}

/// Nothing where something is gone again that was there a moment ago: it was somebody's for a moment.
fn unless_gone<T>(path: &Path, outcome: io::Result<T>) -> Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file(path)(error)),
    }
}

impl<'a> Copying<'a> {
    /// From this folder; nothing of it yet.
    pub(super) fn of(from: &'a Path) -> Self {
        Self { from, is_root: geteuid().is_root(), size: Size::default() }
    }

    /// How much was copied.
    pub(super) fn size(&self) -> Size {
        self.size
    }

    /// Copies a folder, and all that is in it.
    pub(super) fn folder(&mut self, from: &Path, to: &Path) -> Result<()> {
        let Some(found) = unless_gone(from, fs::metadata(from))? else { return Ok(()) };
        let Some(entries) = unless_gone(from, fs::read_dir(from))? else { return Ok(()) };
        DirBuilder::new().mode(0o700).create(to).map_err(Error::file(to))?;
        for entry in entries {
            let path = entry.map_err(Error::file(from))?.path();
            self.entry(&path, &to.join(path.file_name().unwrap_or_default()))?;
        }
        let made = File::open(to).map_err(Error::file(to))?;
        self.finish(&made, &found).map_err(Error::file(to))
    }

    /// Whose it is, what may be done with it, and its times, by which `make` goes. What would make a program another user's is left out.
    fn finish(&self, made: &File, found: &Metadata) -> io::Result<()> {
        if self.is_root {
            fchown(made, Some(found.uid()), Some(found.gid()))?;
        }
        made.set_permissions(Permissions::from_mode(found.mode() & 0o1777))?;
        let at = |time: io::Result<SystemTime>| time.unwrap_or(SystemTime::UNIX_EPOCH);
        made.set_times(FileTimes::new().set_modified(at(found.modified())).set_accessed(at(found.accessed())))
    }

    fn entry(&mut self, from: &Path, to: &Path) -> Result<()> {
        check_interrupted()?;
        let Some(found) = unless_gone(from, fs::symlink_metadata(from))? else { return Ok(()) };
        let kind = found.file_type();
        // Copies, ours and others', where the folder for them lies in what is copied.
        if kind.is_dir() && from.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX)) {
            return Ok(());
        }
        self.size.files += 1;
        self.check()?;
        if kind.is_dir() {
            return self.folder(from, to);
        }
        if kind.is_symlink() {
            let Some(target) = unless_gone(from, fs::read_link(from))? else { return Ok(()) };
            symlink(self.link(from, &target), to).map_err(Error::file(to))?;
            if self.is_root {
                // Whose a link is hardly matters.
                lchown(to, Some(found.uid()), Some(found.gid())).ok();
            }
            return Ok(());
        }
        if kind.is_fifo() {
            let made = mknodat(CWD, to, FileType::Fifo, Mode::from_raw_mode(found.mode() & 0o777), 0);
            return made.map_err(|error| Error::file(to)(error.into()));
        }
        // Whoever listens on a socket listens on the original; a device needs no copy to be opened.
        if kind.is_file() { self.file(from, to) } else { Ok(()) }
    }

    /// Where a link in the copy leads: to the copy of what it leads to, or to the original where that lies outside.
    fn link(&self, from: &Path, target: &Path) -> PathBuf {
        let within = from.parent().unwrap_or(self.from);
        let mut depth = within.strip_prefix(self.from).map_or(0, |below| below.components().count()) as i64;
        let leaves = |component: Component| {
            depth += match component {
                Component::ParentDir => -1,
                Component::Normal(_) => 1,
                _ => 0,
            };
            depth < 0
        };
        if target.is_relative() && target.components().any(leaves) { within.join(target) } else { target.into() }
    }

    fn file(&mut self, from: &Path, to: &Path) -> Result<()> {
        // Something else may be there by now: a link is not followed, a pipe not waited for.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let opened = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(from);
        let Some(mut reading) = unless_gone(from, opened)? else { return Ok(()) };
        let found = reading.metadata().map_err(Error::file(from))?;
        if !found.is_file() {
            return Ok(());
        }
        let writing = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
        let mut writing = writing.map_err(Error::file(to))?;
        self.size.bytes += found.len();
        if ioctl_ficlone(&writing, &reading).is_ok() {
            self.size.shared_bytes += found.len();
        } else {
            self.check()?;
            self.contents(&mut reading, &mut writing, found.len()).map_err(Error::file(to))??;
        }
        self.finish(&writing, &found).map_err(Error::file(to))
    }

    /// As much as there was when it was opened: a file that grows meanwhile has no end.
    fn contents(&self, reading: &mut File, writing: &mut File, bytes: u64) -> io::Result<Result<()>> {
        let mut reading = reading.take(bytes);
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            if let Err(error) = check_interrupted() {
                return Ok(Err(error));
            }
            match reading.read(&mut piece)? {
                0 => return Ok(Ok(())),
                read => writing.write_all(&piece[..read])?,
            }
        }
    }

    fn check(&self) -> Result<()> {
        let unshared = self.size.bytes - self.size.shared_bytes;
        let (value, advice) = if unshared > MAX_BYTES {
            (
                format!("more than {} MiB of files", MAX_BYTES >> 20),
                " (or TMPDIR on the same file system, where that can share blocks)",
            )
        } else if self.size.files > MAX_FILES {
            (format!("more than {MAX_FILES} files"), "")
        } else {
            return Ok(());
        };
        Err(Error::Argument {
            argument: Setting::Scratch.name(),
            value: format!("of a folder with {value}"),
            needed: format!(
                "one with less in it, as it is copied for each run: change to a folder that holds what the program needs{advice}"
            ),
        })
    }
}
