//! Listening to a program that runs already: its `perftax_tag_state` is found by name, and told where to make rings.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, chown};
use std::path::{Path, PathBuf};

use perftax_pmu::process::{file_of, mapped_file, maps};
use perftax_pmu::{Error, Result};
use perftax_symbols::Mapping;
use perftax_symbols::elf::Elf;

use super::marks_place::MarksPlace;

/// `perftax_tag_state`: nobody listens.
const NOBODY: u32 = 1;
/// The lowest number of a listener who came later.
const FIRST_LATER: u32 = 3;
/// `PERFTAX_TAG_PATH`, bytes with the NUL.
const PATH_BYTES: usize = 256;

/// Where a module of the program keeps what a mark looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Site {
    state: u64,
    folder: u64,
}

/// A program that listens to us; told to stop when dropped.
pub(super) struct Attached {
    memory: File,
    path: PathBuf,
    sites: Vec<Site>,
    number: u32,
    /// Whether the program has been told of us: else there is nothing to take back.
    is_told: bool,
}

impl Attached {
    /// Has a process make rings in a folder.
    ///
    /// # Errors
    /// Where it is gone, belongs to somebody else, has no marks, or is listened to by another.
    pub fn attach(pid: u32, marks: &MarksPlace) -> Result<Self> {
        let path = file_of(pid, "mem");
        let (sites, unread) = sites(pid)?;
        let unsupported = |why: String, remedy: &str| Error::Unsupported {
            what: format!("listen to the marks of process {pid}"),
            why,
            remedy: remedy.into(),
        };
        if sites.is_empty() && !unread.is_empty() {
            let files: Vec<String> = unread.iter().map(|file| file.display().to_string()).collect();
            let why = format!("of what it has mapped, another lies by now at the path, or nothing: {}", files.join(", "));
            return Err(unsupported(why, "as root what was deleted can be read, too; else start it again, then perftax"));
        }
        if sites.is_empty() {
            let why = "none of its files has the symbol perftax_tag_state".into();
            return Err(unsupported(
                why,
                "build it with perftax_tag.h and keep its symbols (no strip), or start it under trace record",
            ));
        }
        give(marks.path(), pid)?;
        let memory = OpenOptions::new().read(true).write(true).open(&path).map_err(Error::file(&path))?;
        let number = FIRST_LATER + std::process::id() % (1 << 30);
        let mut attached = Self { memory, path, sites, number, is_told: false };
        for site in &attached.sites {
            let mut state = [0; 4];
            attached.memory.read_exact_at(&mut state, site.state).map_err(Error::file(&attached.path))?;
            let mut other = [0; PATH_BYTES];
            attached.memory.read_exact_at(&mut other, site.folder).map_err(Error::file(&attached.path))?;
            let other = String::from_utf8_lossy(other.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
            if u32::from_ne_bytes(state) > NOBODY && marks.has(&other) {
                let why = format!("another perftax listens to it already, in {other}");
                return Err(unsupported(why, "wait for it to end; where it was killed, remove that folder"));
            }
        }
        let mut text = marks.told.as_os_str().as_encoded_bytes().to_vec();
        if text.len() >= PATH_BYTES {
            let needed = format!("a path shorter than {PATH_BYTES} bytes");
            return Err(Error::Argument { argument: "the folder for marks", value: marks.told.display().to_string(), needed });
        }
        text.resize(PATH_BYTES, 0);
        // The folder first: whoever sees the state looks there.
        attached.sites.iter().try_for_each(|site| attached.write(&text, site.folder))?;
        attached.is_told = true;
        attached.tell(attached.number)?;
        Ok(attached)
    }

    fn tell(&self, state: u32) -> Result<()> {
        self.sites.iter().try_for_each(|site| self.write(&state.to_ne_bytes(), site.state))
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.memory.write_all_at(bytes, at).map_err(Error::file(&self.path))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // A process that is gone has nobody to tell, and one that listens to another by now is not ours.
        for site in self.sites.iter().filter(|_| self.is_told) {
            let mut state = [0; 4];
            let is_ours = self.memory.read_exact_at(&mut state, site.state).is_ok() && u32::from_ne_bytes(state) == self.number;
            if is_ours {
                self.write(&NOBODY.to_ne_bytes(), site.state).ok();
            }
        }
    }
}

/// Lets the process's user write into a folder of ours.
fn give(folder: &Path, pid: u32) -> Result<()> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let owner = std::fs::metadata(&process).map_err(Error::file(&process))?;
    let own = std::fs::metadata(folder).map_err(Error::file(folder))?;
    if owner.uid() == own.uid() {
        return Ok(());
    }
    chown(folder, Some(owner.uid()), Some(owner.gid())).map_err(Error::file(folder))
}

/// Where its modules keep them, and the files that could not be asked.
fn sites(pid: u32) -> Result<(Vec<Site>, BTreeSet<PathBuf>)> {
    let (mut sites, mut unread): (Vec<Site>, BTreeSet<PathBuf>) = Default::default();
    let maps = maps(pid)?;
    // A file's first mapping holds its header.
    for map in maps.iter().filter(|map| map.file_offset == 0 && map.path.is_absolute()) {
        // The very file, and no other of that name: what it says is written to.
        let Some(file) = mapped_file(pid, map) else {
            // What is mapped as data may be gone; of code it matters.
            if map.file().is_some() && maps.iter().any(|other| other.is_code && other.path == map.path) {
                unread.insert(map.path.clone());
            }
            continue;
        };
        let Ok(elf) = Elf::open(&file) else { continue };
        let bias = elf.segments().bias_of_first(map.from);
        let find = |name: &str| elf.address_of(name).map(|address| bias.wrapping_add(address));
        if let (Some(state), Some(folder)) = (find("perftax_tag_state"), find("perftax_tag_folder")) {
            let site = Site { state, folder };
            // A file may be mapped to be read, too: what a program runs with is writable there, its own or behind its data.
            let is_variable = |at: u64, bytes: u64| {
                let holds = |other: &&Mapping| other.from <= at && at + bytes <= other.to;
                maps.iter()
                    .find(holds)
                    .is_some_and(|other| other.is_writable && (other.path == map.path || other.path.as_os_str().is_empty()))
            };
            let is_there = is_variable(site.state, 4) && is_variable(site.folder, PATH_BYTES as u64);
            if is_there && !sites.contains(&site) {
                sites.push(site);
            }
        }
    }
    Ok((sites, unread))
}
