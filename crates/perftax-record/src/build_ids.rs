//! The build ids of files that are mapped as code.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;

use perftax_perfdata::writing::BuildId;
use perftax_pmu::process::{open_mapped, place_of};
use perftax_symbols::Mapping;
use perftax_symbols::elf::Elf;
use rustc_hash::FxHashMap;

/// Files whose ids are kept: a compiler at run time makes new ones for ever.
const FILES: usize = 10_000;
/// Of files that wait to be read so many are open at most.
const MOST_OPEN: usize = 64;

/// Those that are known. A file is opened when it is told that it was mapped, since later its process may be gone, and read and closed when there is time.
#[derive(Debug, Default)]
pub struct BuildIds {
    /// By path; none of what has none, or was not read yet.
    known: FxHashMap<Vec<u8>, Option<BuildId>>,
    opened: VecDeque<(Vec<u8>, File)>,
}

impl BuildIds {
    /// A process has mapped this.
    pub fn mapped(&mut self, pid: u32, mapping: &Mapping) {
        let path = mapping.path.as_os_str().as_bytes();
        if self.known.len() >= FILES || self.known.contains_key(path) {
            return;
        }
        if let Some(file) = open_mapped(pid, mapping) {
            self.known.insert(path.to_vec(), None);
            self.opened.push_back((path.to_vec(), file));
        }
        if self.opened.len() > MOST_OPEN {
            self.read(1);
        }
    }

    /// Reads so many of those that wait, at most: each takes some 0.1 ms.
    pub fn read(&mut self, most: usize) {
        for (path, file) in self.opened.drain(..most.min(self.opened.len())) {
            let id = read(&path, &file);
            self.known.insert(path, id);
        }
    }

    /// All, by path.
    pub fn all(&mut self) -> Vec<BuildId> {
        self.read(usize::MAX);
        let mut ids: Vec<BuildId> = self.known.values().flatten().cloned().collect();
        ids.sort_by(|a, b| a.path.cmp(&b.path));
        ids
    }
}

fn read(path: &[u8], file: &File) -> Option<BuildId> {
    let path = String::from_utf8(path.to_vec()).ok()?;
    let id = Elf::open(&place_of(file)).ok()?.build_id()?;
    Some(BuildId { path, id, is_kernel: false })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn our_own_libraries_have_ids_and_what_is_no_file_has_none() {
        let pid = std::process::id();
        let maps = perftax_pmu::process::maps(pid).unwrap();
        let libc = maps.into_iter().find(|map| map.path.to_string_lossy().contains("libc.so")).unwrap();
        let named = |path: &str| Mapping { path: path.into(), ..Mapping::default() };
        let mut ids = BuildIds::default();
        for mapping in [named("[vdso]"), named("//anon"), libc.clone(), named("/proc/version"), libc] {
            ids.mapped(pid, &mapping);
        }
        let found = ids.all();
        assert_eq!((found.len(), ids.opened.len()), (1, 0), "{found:?}");
        assert!(found[0].id.len() >= 8 && !found[0].is_kernel);
        assert_eq!(ids.all(), found, "nothing is read again");
    }

    /// A program that has ended, and whose file is gone, by the time that there is time.
    #[test]
    fn what_was_open_in_time_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let mut ids = BuildIds::default();
        for at in 0..=MOST_OPEN {
            let path = folder.path().join(format!("program{at}"));
            std::fs::copy("/bin/true", &path).unwrap();
            let file_id = Some(perftax_symbols::FileId::of(&std::fs::metadata(&path).unwrap()));
            ids.mapped(u32::MAX - 1, &Mapping { path: path.clone(), file_id, ..Mapping::default() });
            std::fs::remove_file(path).unwrap();
        }
        assert_eq!((ids.opened.len(), ids.all().len()), (MOST_OPEN, MOST_OPEN + 1));
    }
}
