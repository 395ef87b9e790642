//! What each run leaves that the next does not find as the one before did: new files each time, or files that grow.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use perftax_pmu::{Error, Result};
use rustix::fs::statvfs;
use rustix::process::geteuid;

/// Entries that are looked at in a folder; of one with more, only its own are.
const MAX_ENTRIES: usize = 20_000;
/// A file that grows by more in each run is told of: what a program notes by the way is less.
const GROWN_BYTES: u64 = 64 << 10;
/// What must stay free beside what the next two runs leave.
const KEPT_FREE_BYTES: u64 = 64 << 20;
/// Files that are named.
const NAMED: usize = 3;

/// Looks at the current folder and at `$TMPDIR` before, between and after the first two runs.
#[derive(Clone, Debug)]
pub struct Leavings {
    folder: PathBuf,
    temporary: PathBuf,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Before the first run, after it, and after the second.
    looks: Vec<Listings>,
    /// What lies below the folder is not looked at: at the first look there was too much of it.
    is_shallow: bool,
    runs: u64,
    left: Option<Left>,
}

/// What each run leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// New files of the second run.
    pub new: Vec<PathBuf>,
    /// Files that have grown in both.
    pub grown: Vec<PathBuf>,
    /// Bytes of both.
    pub bytes_a_run: u64,
    /// Where they are, and how many bytes a run leaves there.
    pub folders: Vec<(PathBuf, u64)>,
    /// Runs until now.
    pub runs: u64,
}

/// Files by path, with the bytes that they take.
type Listing = BTreeMap<PathBuf, u64>;

/// None where there was too much to look at.
#[derive(Debug)]
struct Listings {
    folder: Option<Listing>,
    temporary: Option<Listing>,
}

impl Leavings {
    /// In the folder that a program runs in, and in the one for temporary files.
    pub fn of(folder: PathBuf, temporary: PathBuf) -> Self {
        Self { folder, temporary, seen: Arc::default() }
    }

    /// Before a run.
    ///
    /// # Errors
    /// [`Error::Discarded`] where what runs leave would fill the disk.
    pub fn before_run(&self) -> Result<()> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.looks.is_empty() {
            let deep = self.look(false);
            seen.is_shallow = deep.folder.is_none();
            let first = if seen.is_shallow { self.look(true) } else { deep };
            seen.looks.push(first);
        }
        let Some(left) = &seen.left else { return Ok(()) };
        for (folder, bytes_a_run) in left.folders.iter().filter(|(_, bytes)| *bytes > 0) {
            // Some file systems do not say how large they are.
            let Some(disk) = statvfs(folder).ok().filter(|found| found.f_blocks > 0) else { continue };
            let [free, all] = [disk.f_bavail, disk.f_blocks].map(|blocks| blocks.saturating_mul(disk.f_frsize));
            if free < (2 * bytes_a_run).saturating_add(KEPT_FREE_BYTES.min(all / 20)) {
                return Err(Error::Discarded {
                    why: format!(
                        "each of {} runs has left {} KiB in {}, where {} KiB are free",
                        left.runs,
                        bytes_a_run >> 10,
                        folder.display(),
                        free >> 10
                    ),
                    remedy: "have it write over its files or to /dev/null, or remove them: sh -c 'COMMAND; rm FILES'".into(),
                });
            }
        }
        Ok(())
    }

    /// After a run. What runs leave, at the one time when that is found.
    pub fn after_run(&self) -> Option<Left> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.runs += 1;
        if let Some(left) = &mut seen.left {
            left.runs += 1;
            return None;
        }
        if seen.looks.len() > 2 {
            return None;
        }
        let look = self.look(seen.is_shallow);
        seen.looks.push(look);
        let [before, first, second] = &seen.looks[..] else { return None };
        let looks = [before, first, second];
        let of = |which: fn(&Listings) -> Option<&Listing>, folder: &Path| {
            let [Some(before), Some(first), Some(second)] = looks.map(which) else { return None };
            left_by(folder, [before, first, second])
        };
        let left = of(|look| look.folder.as_ref(), &self.folder);
        let temporary = of(|look| look.temporary.as_ref(), &self.temporary);
        seen.left = merged(left, temporary).map(|left| Left { runs: seen.runs, ..left });
        seen.left.clone()
    }

    /// What runs leave, as far as that was found.
    pub fn left(&self) -> Option<Left> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).left.clone()
    }

    fn look(&self, is_shallow: bool) -> Listings {
        let user = geteuid().as_raw();
        let is_in_it = self.temporary == self.folder || (!is_shallow && self.temporary.starts_with(&self.folder));
        let temporary = if is_in_it { None } else { listing(&self.temporary, user, false) };
        Listings { folder: listing(&self.folder, user, !is_shallow), temporary }
    }
}

impl Left {
    /// In words: `out.31337 and 1 more (59 MiB)`.
    pub fn text(&self) -> String {
        let named = |files: &[PathBuf]| {
            let names: Vec<String> = files.iter().take(NAMED).map(|path| path.display().to_string()).collect();
            let more = files.len().saturating_sub(NAMED);
            if more > 0 { format!("{} and {more} more", names.join(", ")) } else { names.join(", ") }
        };
        let new = (!self.new.is_empty()).then(|| format!("leaves new files, such as {}", named(&self.new)));
        let grown = (!self.grown.is_empty()).then(|| format!("makes {} longer", named(&self.grown)));
        let what: Vec<String> = new.into_iter().chain(grown).collect();
        format!("{}: {} KiB a run, and {} runs so far", what.join(" and "), self.bytes_a_run.div_ceil(1024), self.runs)
    }
}

/// What was left by two runs: new files of the second where the first had left one of a like name, which is still there, and what has grown in both.
fn left_by(folder: &Path, [before, first, second]: [&Listing; 3]) -> Option<Left> {
    // One that took the place of the first one's leaves nothing.
    let is_kept = |path: &&PathBuf| !before.contains_key(*path) && second.contains_key(*path);
    let kept: BTreeSet<String> = first.keys().filter(is_kept).map(|path| shape(path)).collect();
    let of_second = second.iter().filter(|(path, _)| !first.contains_key(*path));
    let new: Vec<(&PathBuf, u64)> =
        of_second.filter(|(path, _)| kept.contains(&shape(path))).map(|(path, bytes)| (path, *bytes)).collect();
    let grown = second.iter().filter_map(|(path, bytes)| {
        let (one, two) = (first.get(path)?.checked_sub(*before.get(path)?)?, bytes.checked_sub(*first.get(path)?)?);
        (one.min(two) >= GROWN_BYTES).then_some((path, two))
    });
    // What somebody still writes to, no run does: it is over.
    let grown: Vec<(&PathBuf, u64)> = grown.filter(|(path, _)| !is_open(path)).collect();
    let bytes = |of: &[(&PathBuf, u64)]| of.iter().map(|(_, bytes)| bytes).sum::<u64>();
    let paths = |of: &[(&PathBuf, u64)]| of.iter().map(|(path, _)| (*path).clone()).collect();
    let folders = vec![(folder.to_path_buf(), bytes(&new) + bytes(&grown))];
    let left = Left { new: paths(&new), grown: paths(&grown), bytes_a_run: bytes(&new) + bytes(&grown), folders, runs: 0 };
    (!left.new.is_empty() || !left.grown.is_empty()).then_some(left)
}

/// Whether a process has a file open, as far as this one may look (proc(5)).
fn is_open(path: &Path) -> bool {
    let Ok(wanted) = fs::metadata(path) else { return false };
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
    let is_it = |open: fs::Metadata| (open.dev(), open.ino()) == (wanted.dev(), wanted.ino());
    let has_it = |process: fs::DirEntry| entries(process.path().join("fd")).any(|fd| fs::metadata(fd.path()).is_ok_and(is_it));
    let is_process = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit());
    entries("/proc".into()).filter(is_process).any(has_it)
}

fn merged(one: Option<Left>, other: Option<Left>) -> Option<Left> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Left {
            new: [one.new, other.new].concat(),
            grown: [one.grown, other.grown].concat(),
            bytes_a_run: one.bytes_a_run + other.bytes_a_run,
            folders: [one.folders, other.folders].concat(),
            runs: one.runs,
        }),
        (one, other) => one.or(other),
    }
}

/// What names have in common that a program makes up anew in each run: numbers are alike, and so is what follows the last dot, as mktemp(1) makes it.
/// Others of the same user use these folders, too.
fn shape(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if let Some((stem, end)) = name.rsplit_once(['.', '-', '_'])
        && end.len() >= 6
        && !stem.is_empty()
    {
        return format!("{stem}*{}", end.len());
    }
    let mut shape = String::new();
    for letter in name.chars() {
        if !letter.is_ascii_digit() {
            shape.push(letter);
        } else if !shape.ends_with('#') {
            shape.push('#');
        }
    }
    shape
}

/// A user's files in a folder, and in those below it; none where there are more than can be looked at.
fn listing(folder: &Path, user: u32, is_deep: bool) -> Option<Listing> {
    let mut found = Listing::new();
    let mut folders = vec![folder.to_path_buf()];
    let mut entries = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            entries += 1;
            if entries > MAX_ENTRIES {
                return None;
            }
            let Ok(about) = entry.metadata() else { continue };
            if about.is_dir() && is_deep {
                folders.push(entry.path());
            }
            if about.uid() == user {
                // What it takes of the disk, which of a file with holes is less than its length.
                found.insert(entry.path(), if about.is_file() { about.blocks() * 512 } else { 0 });
            }
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    /// What three looks say, a run between each two.
    fn after(run: impl Fn(&Path, &Path, u32)) -> (Option<Left>, PathBuf) {
        let (folder, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(folder.path().join("log"), "").unwrap();
        let leavings = Leavings::of(folder.path().into(), temporary.path().into());
        for number in 1..=4 {
            leavings.before_run().unwrap();
            run(folder.path(), temporary.path(), number);
            assert_eq!(leavings.after_run().is_some(), number == 2 && leavings.left().is_some(), "told of once");
        }
        (leavings.left(), folder.path().into())
    }

    fn appended(path: &Path, bytes: usize) {
        let had = fs::read(path).unwrap_or_default();
        fs::write(path, [had, vec![b'x'; bytes]].concat()).unwrap();
    }

    #[test]
    fn new_names_in_each_run_are_told_of() {
        let (left, folder) = after(|folder, _, run| fs::write(folder.join(format!("out.{run}")), [0; 5000]).unwrap());
        let left = left.unwrap();
        assert_eq!((&left.new, left.grown.len(), left.runs), (&vec![folder.join("out.2")], 0, 4));
        // Whole blocks of whatever size.
        assert!((5000..70_000).contains(&left.bytes_a_run) && left.folders == [(folder, left.bytes_a_run)], "{left:?}");
        let text = left.text();
        assert!(text.contains("out.2") && text.contains("KiB a run") && text.contains("4 runs"), "{text}");
        let (left, _) = after(|_, temporary, run| fs::write(temporary.join(format!("tmp.{run}{run}{run}abc")), [0; 10]).unwrap());
        assert_eq!(left.map(|left| left.new.len()), Some(1));
    }

    #[test]
    fn files_that_grow_are() {
        let (left, folder) = after(|folder, _, _| appended(&folder.join("log"), 100_000));
        let left = left.unwrap();
        assert!(left.new.is_empty() && left.grown == [folder.join("log")] && left.bytes_a_run >= 90_000, "{left:?}");
        assert_eq!(left.folders, [(folder, left.bytes_a_run)], "that fills a disk, too");
    }

    /// Another program of the same user writes into the folder for temporary files all the while, as a compiler does.
    #[test]
    fn what_somebody_else_goes_on_writing_is_not() {
        let (folder, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (log, other) = (folder.path().join("log"), temporary.path().join("cc.s"));
        [&log, &other].iter().for_each(|path| fs::write(path, "").unwrap());
        let leavings = Leavings::of(folder.path().into(), temporary.path().into());
        let open = fs::OpenOptions::new().append(true).open(&other).unwrap();
        for _ in 0..2 {
            leavings.before_run().unwrap();
            [&log, &other].iter().for_each(|path| appended(path, 100_000));
            leavings.after_run();
        }
        assert_eq!(leavings.left().unwrap().grown, [log]);
        drop(open);
    }

    #[test]
    fn what_is_written_over_is_not() {
        let one_name = |folder: &Path, temporary: &Path, run: u32| {
            fs::write(folder.join("out"), vec![0; 1000 * run as usize]).unwrap();
            appended(&folder.join("log"), 100);
            // Somebody else's, of the same user.
            for other in [folder, temporary] {
                fs::write(other.join(["a", "bc", "def", "ghij"][run as usize - 1]), "").unwrap();
            }
        };
        assert_eq!(after(one_name).0, None);
        let one_at_a_time = |folder: &Path, _: &Path, run: u32| {
            fs::remove_file(folder.join(format!("out.{}", run - 1))).ok();
            fs::write(folder.join(format!("out.{run}")), "").unwrap();
        };
        assert_eq!(after(one_at_a_time).0, None);
    }
}
