//! What the runtimes of processes write about the code that they make: found while they run, read at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use perftax_pmu::process::{MappedFiles, Standing};
use perftax_symbols::generated::GeneratedCode;
use perftax_symbols::{AddressSpaces, Mapping};
use rustix::fs::OFlags;

/// Of such a file so much is read at most, bytes.
const MOST_BYTES: u64 = 256 << 20;
/// Dumps of one process that are read at most.
const MOST_DUMPS: usize = 16;
/// Processes that are kept in mind at most.
const MOST_PROCESSES: usize = 4096;
/// A file is as old as its process may look by so much: file systems' clocks are coarse, and `/proc`'s are, too. s
const CLOCKS_S: f64 = 1.0;

/// Processes, and the maps of those that write any.
#[derive(Default)]
pub(super) struct Runtimes {
    by_pid: BTreeMap<u32, Runtime>,
}

struct Runtime {
    standing: Standing,
    /// The map, opened once it was there.
    map: Option<File>,
    is_gone: bool,
}

impl Runtimes {
    /// A process is there.
    pub fn notice(&mut self, pid: u32) {
        if self.by_pid.len() < MOST_PROCESSES
            && !self.by_pid.contains_key(&pid)
            && let Some(standing) = Standing::of(pid)
        {
            self.by_pid.insert(pid, Runtime { standing, map: None, is_gone: false });
        }
    }

    /// A process is gone, and nobody asks of it any more.
    pub fn forget(&mut self, pid: u32) {
        self.by_pid.remove(&pid);
    }

    /// Opens the maps that have come since the last look: their processes may be gone later, with the file systems that they saw.
    pub fn look(&mut self) {
        for (pid, runtime) in self.by_pid.iter_mut().filter(|(_, runtime)| runtime.map.is_none() && !runtime.is_gone) {
            // It may have become another user's since.
            match Standing::of(*pid).filter(|now| now.began_s <= runtime.standing.began_s + CLOCKS_S) {
                Some(now) => runtime.standing = now,
                None => runtime.is_gone = true,
            }
            runtime.map = open(&runtime.standing, &seen_by(*pid, &runtime.standing));
        }
    }

    /// Names of the code at some addresses of a process, which lies in no file; those are left out that are not known.
    pub fn functions(
        &self,
        pid: u32,
        addresses: &BTreeSet<u64>,
        spaces: &AddressSpaces,
        files: &MappedFiles,
    ) -> BTreeMap<u64, String> {
        let mut seen = BTreeSet::new();
        let dumps = spaces.of(pid).iter().filter(|mapping| seen.insert(mapping.file_key()));
        let mut sources: Vec<GeneratedCode> = dumps.filter_map(|mapping| jitdump(pid, mapping, files)).take(MOST_DUMPS).collect();
        sources.extend(self.map(pid));
        let name = |ip: &u64| Some((*ip, sources.iter().find_map(|code| code.function(*ip))?.to_string()));
        addresses.iter().filter_map(name).collect()
    }

    fn map(&self, pid: u32) -> Option<GeneratedCode> {
        let Runtime { standing, map, .. } = self.by_pid.get(&pid)?;
        // The one that lies there now may be another: Java writes it anew when it is asked to.
        let mut file = open(standing, &seen_by(pid, standing));
        if file.is_none() && standing.shares_our_files {
            file = open(standing, &standing.perf_map());
        }
        let file = match (&file, map) {
            (Some(file), _) | (None, Some(file)) => file,
            (None, None) => return None,
        };
        // Held open it may have been read before: a file of its own has a place of its own.
        let text = read(&File::open(perftax_pmu::process::place_of(file)).ok()?)?;
        Some(GeneratedCode::of_perf_map(&text))
    }
}

/// Where a process's map lies, as it sees it.
fn seen_by(pid: u32, standing: &Standing) -> PathBuf {
    let map = standing.perf_map();
    perftax_pmu::process::file_of(pid, "root").join(map.strip_prefix("/").unwrap_or(&map))
}

/// Opens a map, where the process's user or root wrote it, and not before the process began: numbers are given out again.
fn open(standing: &Standing, path: &Path) -> Option<File> {
    // A pipe would have us wait, and a link leads anywhere.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().ok().filter(|found| is_of(standing, found)).map(|_| file)
}

fn is_of(standing: &Standing, file: &Metadata) -> bool {
    let written_s = file.mtime() as f64 + file.mtime_nsec() as f64 * 1e-9;
    file.is_file() && (file.uid() == standing.user || file.uid() == 0) && written_s + CLOCKS_S >= standing.began_s
}

/// The dump that a process maps, so that it is known to be one: `jit-PID.dump`.
fn jitdump(pid: u32, mapping: &Mapping, files: &MappedFiles) -> Option<GeneratedCode> {
    let name = mapping.path.file_name()?.to_str()?;
    let number = name.strip_prefix("jit-")?.strip_suffix(".dump")?;
    number.parse::<u32>().ok()?;
    GeneratedCode::of_jitdump(&read(&File::open(files.place(pid, mapping)?).ok()?)?)
}

fn read(file: &File) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    /// What another process of the number left behind, or another user put there, names nothing.
    #[test]
    fn a_map_is_of_the_process_and_of_its_user() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf-7.map");
        std::fs::write(&path, "10 10 a\n").unwrap();
        let file = std::fs::metadata(&path).unwrap();
        let standing = Standing { own_number: 7, user: file.uid(), began_s: file.mtime() as f64, shares_our_files: true };
        assert!(open(&standing, &path).is_some());
        assert!(open(&Standing { began_s: file.mtime() as f64 + 100.0, ..standing.clone() }, &path).is_none());
        // Root's are anybody's.
        assert_eq!(open(&Standing { user: file.uid() + 1, ..standing.clone() }, &path).is_some(), file.uid() == 0);
        assert!(open(&standing, folder.path()).is_none() && open(&standing, &folder.path().join("none")).is_none());
    }
}
