//! The kernel's resctrl: which ways of the last-level cache a group of tasks may fill (Intel CAT, AMD L3 allocation), and what it
//! moves to and from memory (MBM). Files as in Documentation/arch/x86/resctrl.rst.

use std::fs;
use std::path::{Path, PathBuf};

use perftax_doc::steps::Setting;

use crate::error::{Error, Result};
use crate::guard::guardian::{Duty, Guardian};

/// Where it is mounted.
pub const ROOT: &str = "/sys/fs/resctrl";

/// A mounted resctrl that can allocate the last-level cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resctrl {
    root: PathBuf,
    /// Ways of the last-level cache that masks can name.
    pub ways: u32,
    /// The fewest that a group may be left.
    pub least_ways: u32,
    /// Cache domains.
    domains: Vec<u32>,
}

impl Resctrl {
    /// The one mounted at a place; `None` where there is none, or none that allocates the last level.
    ///
    /// # Errors
    /// Where its files do not read as documented.
    pub fn find(root: &Path) -> Result<Option<Self>> {
        let info = root.join("info/L3");
        if !info.join("cbm_mask").is_file() {
            return Ok(None);
        }
        let mask = read(&info.join("cbm_mask"))?;
        let ways = u64::from_str_radix(mask.trim_start_matches("0x"), 16)
            .map_err(|_| malformed(&info.join("cbm_mask"), &mask))?
            .count_ones();
        let least = read(&info.join("min_cbm_bits"))?;
        let least_ways = least.parse().map_err(|_| malformed(&info.join("min_cbm_bits"), &least))?;
        let schemata = read(&root.join("schemata"))?;
        let line = schemata.lines().find_map(|line| line.trim().strip_prefix("L3:"));
        let domain = |part: &str| part.split_once('=').and_then(|(id, _)| id.trim().parse().ok());
        let domains: Option<Vec<u32>> = line.map(|line| line.split(';').map(domain).collect()).unwrap_or_default();
        match domains {
            Some(domains) if !domains.is_empty() && ways > 0 => Ok(Some(Self { root: root.into(), ways, least_ways, domains })),
            _ => Err(malformed(&root.join("schemata"), &schemata)),
        }
    }

    /// A group of our own, removed when it is dropped; its tasks go back to the root group.
    ///
    /// # Errors
    /// Without root, or where all groups are taken.
    pub fn group(&self, name: &str) -> Result<Group> {
        let folder = self.root.join(name);
        match fs::create_dir(&folder) {
            Ok(()) => {
                let guardian = Guardian::start(&Duty::Folder(folder.clone()));
                Ok(Group { of: self.clone(), folder, guardian })
            }
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Err(Error::Permission {
                what: "allocate cache".into(),
                knob: format!("{} belongs to", self.root.display()),
                value: "root".into(),
                needed: "you".into(),
                command: format!("run as root, or choose {} eviction", Setting::Method),
            }),
            Err(error) => Err(Error::file(&folder)(error)),
        }
    }
}

/// A group of tasks.
#[derive(Debug)]
pub struct Group {
    of: Resctrl,
    folder: PathBuf,
    /// Removes it where this process is killed.
    guardian: Option<Guardian>,
}

impl Group {
    /// Leaves it the lowest so many ways of every domain.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn leave(&self, ways: u32) -> Result<()> {
        let mask = (1u64 << ways.clamp(self.of.least_ways.max(1), self.of.ways)) - 1;
        let parts: Vec<String> = self.of.domains.iter().map(|domain| format!("{domain}={mask:x}")).collect();
        write(&self.folder.join("schemata"), &format!("L3:{}\n", parts.join(";")))
    }

    /// Puts the calling thread into it: what it starts from now on is born there.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn enter(&self) -> Result<Inside<'_>> {
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        write(&self.folder.join("tasks"), &format!("{tid}\n"))?;
        Ok(Inside { group: self, tid })
    }

    /// Bytes that its tasks have moved to and from memory so far, where the machine counts them (MBM).
    pub fn memory_bytes(&self) -> Option<u64> {
        let domains = fs::read_dir(self.folder.join("mon_data")).ok()?;
        let of =
            |domain: fs::DirEntry| fs::read_to_string(domain.path().join("mbm_total_bytes")).ok()?.trim().parse::<u64>().ok();
        domains.map(|domain| of(domain.ok()?)).sum()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel moves what is left in it to the root group.
        fs::remove_dir(&self.folder).ok();
        if let Some(guardian) = self.guardian.take() {
            guardian.dismiss();
        }
    }
}

/// The calling thread is in a group until this is dropped.
#[derive(Debug)]
pub struct Inside<'a> {
    group: &'a Group,
    tid: i32,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        write(&self.group.of.root.join("tasks"), &format!("{}\n", self.tid)).ok();
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map(|text| text.trim().to_string()).map_err(Error::file(path))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(Error::file(path))
}

fn malformed(path: &Path, text: &str) -> Error {
    Error::Malformed { what: path.display().to_string(), offset: 0, why: format!("it reads '{}'", text.trim()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    /// The files of a machine with two sockets, 11 ways each, as the kernel's documentation shows them.
    fn machine(root: &Path) {
        let files = [
            ("info/L3/cbm_mask", "7ff\n"),
            ("info/L3/min_cbm_bits", "2\n"),
            ("schemata", "    MB:0=100;1=100\n    L3:0=7ff;1=7ff\n"),
            ("tasks", ""),
        ];
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn a_group_is_left_what_was_asked() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Resctrl::find(folder.path()).unwrap(), None);
        machine(folder.path());
        let resctrl = Resctrl::find(folder.path()).unwrap().unwrap();
        assert_eq!((resctrl.ways, resctrl.least_ways), (11, 2));
        let group = resctrl.group("perftax").unwrap();
        let schemata = || fs::read_to_string(folder.path().join("perftax/schemata")).unwrap();
        group.leave(4).unwrap();
        assert_eq!(schemata(), "L3:0=f;1=f\n");
        group.leave(0).unwrap();
        assert_eq!(schemata(), "L3:0=3;1=3\n", "never fewer than the hardware allows");
        group.leave(99).unwrap();
        assert_eq!(schemata(), "L3:0=7ff;1=7ff\n");
    }

    #[test]
    fn the_thread_goes_in_and_out() {
        let folder = tempfile::tempdir().unwrap();
        machine(folder.path());
        let group = Resctrl::find(folder.path()).unwrap().unwrap().group("perftax").unwrap();
        let inside = group.enter().unwrap();
        let ours = format!("{}\n", rustix::thread::gettid().as_raw_nonzero());
        assert_eq!(fs::read_to_string(folder.path().join("perftax/tasks")).unwrap(), ours);
        assert_eq!(fs::read_to_string(folder.path().join("tasks")).unwrap(), "");
        drop(inside);
        assert_eq!(fs::read_to_string(folder.path().join("tasks")).unwrap(), ours);
    }

    #[test]
    fn traffic_is_that_of_all_domains() {
        let folder = tempfile::tempdir().unwrap();
        machine(folder.path());
        let group = Resctrl::find(folder.path()).unwrap().unwrap().group("perftax").unwrap();
        assert_eq!(group.memory_bytes(), None);
        for (domain, text) in [("mon_L3_00", "4096\n"), ("mon_L3_01", "100\n")] {
            let at = folder.path().join("perftax/mon_data").join(domain);
            fs::create_dir_all(&at).unwrap();
            fs::write(at.join("mbm_total_bytes"), text).unwrap();
        }
        assert_eq!(group.memory_bytes(), Some(4196));
        fs::write(folder.path().join("perftax/mon_data/mon_L3_01/mbm_total_bytes"), "Unavailable\n").unwrap();
        assert_eq!(group.memory_bytes(), None, "half of it is not all of it");
    }

    #[test]
    fn strange_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        machine(folder.path());
        fs::write(folder.path().join("schemata"), "MB:0=100\n").unwrap();
        let error = Resctrl::find(folder.path()).unwrap_err().to_string();
        assert!(error.contains("schemata") && error.contains("MB:0=100"), "{error}");
    }
}
