//! An archive of files as the kernel unpacks it into its first file system (cpio, "newc": Documentation/driver-api/early-userspace).

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_777;

/// Files at absolute paths, later ones over earlier ones. The same files give the same bytes: times and owners are left out.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<PathBuf>,
    files: BTreeSet<PathBuf>,
    inode: u32,
}

impl Archive {
    /// Adds a file of these bytes.
    pub fn add(&mut self, path: &Path, bytes: &[u8], executable: bool) {
        self.add_folders(path.parent());
        self.entry(path, FILE | if executable { 0o755 } else { 0o644 }, bytes);
        self.files.insert(path.to_path_buf());
    }

    /// Adds a file of the host's at a path, once.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn copy(&mut self, from: &Path, to: &Path) -> Result<()> {
        if self.files.contains(to) {
            return Ok(());
        }
        let bytes = fs::read(from).map_err(Error::file(from))?;
        let mode = fs::metadata(from).map_err(Error::file(from))?.permissions().mode();
        self.add(to, &bytes, mode & 0o111 != 0);
        Ok(())
    }

    /// Adds a folder of the host's and all in it; links stay links.
    ///
    /// # Errors
    /// Where something cannot be read, or is neither file, folder nor link.
    pub fn copy_folder(&mut self, from: &Path, to: &Path) -> Result<()> {
        self.add_folders(Some(to));
        let entries = fs::read_dir(from).map_err(Error::file(from))?;
        let mut entries = entries.collect::<std::io::Result<Vec<_>>>().map_err(Error::file(from))?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let (path, to) = (entry.path(), to.join(entry.file_name()));
            let kind = entry.file_type().map_err(Error::file(&path))?;
            if kind.is_dir() {
                self.copy_folder(&path, &to)?;
            } else if kind.is_symlink() {
                let target = fs::read_link(&path).map_err(Error::file(&path))?;
                self.entry(&to, LINK, target.as_os_str().as_encoded_bytes());
            } else if kind.is_file() {
                self.copy(&path, &to)?;
            } else {
                let source = std::io::Error::other("it is neither a file, a folder nor a link");
                return Err(Error::File { path, source });
            }
        }
        Ok(())
    }

    /// Whether a file is in it.
    pub fn has(&self, path: &Path) -> bool {
        self.files.contains(path)
    }

    /// How many bytes it has, without its trailer.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The archive, with its trailer.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry(Path::new("/TRAILER!!!"), 0, &[]);
        self.bytes
    }

    fn add_folders(&mut self, folder: Option<&Path>) {
        let Some(folder) = folder else { return };
        if folder.components().all(|part| part == Component::RootDir) || self.folders.contains(folder) {
            return;
        }
        self.add_folders(folder.parent());
        self.entry(folder, DIRECTORY, &[]);
        self.folders.insert(folder.to_path_buf());
    }

    fn entry(&mut self, path: &Path, mode: u32, bytes: &[u8]) {
        let name = path.strip_prefix("/").unwrap_or(path).as_os_str().as_encoded_bytes();
        let inode = if mode == 0 { 0 } else { self.inode + 1 };
        self.inode += 1;
        // Inode, mode, owner, group, links, time, size, device twice major and minor, length of the name, checksum.
        let fields = [inode, mode, 0, 0, 1, 0, bytes.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(bytes);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use std::process::{Command, Stdio};

    /// Debian's cpio reads what we write.
    #[test]
    fn cpio_unpacks_it() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::create_dir_all(source.join("deep")).unwrap();
        fs::write(source.join("deep/odd"), "odd").unwrap();
        std::os::unix::fs::symlink("deep/odd", source.join("link")).unwrap();
        let mut archive = Archive::default();
        archive.add(Path::new("/run/command"), b"exec ls\n", true);
        archive.copy_folder(&source, Path::new("/share")).unwrap();
        archive.copy(&source.join("deep/odd"), Path::new("/run/command")).unwrap();
        assert!(archive.has(Path::new("/share/deep/odd")));
        let mut child = Command::new("cpio")
            .args(["-i", "-d", "--quiet", "--no-absolute-filenames"])
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), &archive.finish()).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(fs::read(folder.path().join("run/command")).unwrap(), b"exec ls\n");
        assert_eq!(fs::read(folder.path().join("share/link")).unwrap(), b"odd");
        assert_eq!(fs::metadata(folder.path().join("run/command")).unwrap().permissions().mode() & 0o777, 0o755);
    }
}
