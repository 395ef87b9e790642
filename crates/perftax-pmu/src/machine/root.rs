//! The seam to the file system: everything that is read about a machine is read below these folders.

use std::path::{Path, PathBuf};

/// Where the kernel's virtual file systems stand. Tests point it at trees that they made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// `/sys`.
    pub sys: PathBuf,
    /// `/proc`.
    pub proc: PathBuf,
    /// `/dev`.
    pub dev: PathBuf,
    /// `/boot`.
    pub boot: PathBuf,
}

impl Root {
    /// The machine that this process runs on.
    pub fn here() -> Self {
        Self::at(Path::new("/"))
    }

    /// A tree with `sys`, `proc`, `dev` and `boot` below one folder.
    pub fn at(folder: &Path) -> Self {
        Self { sys: folder.join("sys"), proc: folder.join("proc"), dev: folder.join("dev"), boot: folder.join("boot") }
    }

    /// A file below `/sys`, trimmed; `None` where it is missing or not readable.
    pub fn sys(&self, path: &str) -> Option<String> {
        read(&self.sys.join(path))
    }

    /// A file below `/proc`, trimmed; `None` where it is missing or not readable.
    pub fn proc(&self, path: &str) -> Option<String> {
        read(&self.proc.join(path))
    }

    /// A kernel setting below `/proc/sys`, by its dotted name: `kernel.nmi_watchdog`.
    pub fn sysctl(&self, name: &str) -> Option<String> {
        self.proc(&format!("sys/{}", name.replace('.', "/")))
    }

    /// The names in a folder below `/sys`, sorted; none where the folder is missing.
    pub fn sys_names(&self, path: &str) -> Vec<String> {
        names(&self.sys.join(path))
    }
}

/// A file's text with trailing white space (and device-tree NULs) cut off.
pub(super) fn read(path: &Path) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_string())
}

/// The names in a folder, sorted; none where it is missing.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<_> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
