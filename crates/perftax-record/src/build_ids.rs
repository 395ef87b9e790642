//! The build ids of files that are mapped as code.

use std::path::PathBuf;

use perftax_perfdata::writing::BuildId;
use perftax_pmu::process::MappedFiles;
use perftax_symbols::Mapping;
use perftax_symbols::elf::Elf;
use rustc_hash::FxHashMap;

/// Those that are known; each file is read once.
#[derive(Debug, Default)]
pub struct BuildIds {
    known: FxHashMap<Vec<u8>, Option<BuildId>>,
}

impl BuildIds {
    /// The ids of these files, each with a process that has it mapped; of files that are none, or have none, nothing.
    pub fn of<'a>(&mut self, files: impl Iterator<Item = (&'a [u8], &'a (u32, Mapping))>, held: &MappedFiles) -> Vec<BuildId> {
        let mut ids: Vec<BuildId> = files
            .filter_map(|(path, (pid, mapping))| match self.known.get(path) {
                Some(known) => known.clone(),
                None => {
                    let read = read(path, held.place(*pid, mapping));
                    self.known.insert(path.to_vec(), read.clone());
                    read
                }
            })
            .collect();
        ids.sort_by(|a, b| a.path.cmp(&b.path));
        ids
    }
}

fn read(path: &[u8], place: Option<PathBuf>) -> Option<BuildId> {
    let path = String::from_utf8(path.to_vec()).ok()?;
    let id = Elf::open(&place?).ok()?.build_id()?;
    Some(BuildId { path, id, is_kernel: false })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn our_own_libraries_have_ids_and_what_is_no_file_has_none() {
        let pid = std::process::id();
        let libc = perftax_pmu::process::maps(pid)
            .unwrap()
            .into_iter()
            .find(|map| map.path.to_string_lossy().contains("libc.so"))
            .unwrap();
        let path = libc.path.to_str().unwrap().as_bytes();
        let mut ids = BuildIds::default();
        let named = |path: &str| (pid, Mapping { path: path.into(), ..Mapping::default() });
        let (vdso, anonymous, version) = (named("[vdso]"), named("//anon"), named("/proc/version"));
        let library = (pid, libc.clone());
        let files = [(&b"[vdso]"[..], &vdso), (b"//anon", &anonymous), (path, &library), (b"/proc/version", &version)];
        let found = ids.of(files.into_iter(), &MappedFiles::default());
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].id.len() >= 8 && !found[0].is_kernel);
        assert_eq!(ids.of(files.into_iter(), &MappedFiles::default()), found, "nothing is read again");
    }
}
