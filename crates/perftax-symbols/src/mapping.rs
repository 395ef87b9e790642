//! Lines of /proc/PID/maps.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Which file it is, whatever lies at its path by now, or in another mount namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The device that it lies on, major and minor.
    pub device: (u32, u32),
    /// Its number there; never 0.
    pub inode: u64,
}

impl FileId {
    /// None where the number is 0: memory of no file, or nobody knows.
    pub fn new(device: (u32, u32), inode: u64) -> Option<Self> {
        (inode != 0).then_some(Self { device, inode })
    }

    /// Of a file that was looked at.
    pub fn of(file: &Metadata) -> Self {
        let device = file.dev();
        Self { device: (rustix::fs::major(device), rustix::fs::minor(device)), inode: file.ino() }
    }

    /// Whether they are one file. Devices of no disk (major 0: btrfs, overlays) are told otherwise of a mapping than of the file that was mapped: there the number
    /// alone counts.
    pub fn is(&self, other: &Self) -> bool {
        let is_of_no_disk = self.device.0 == 0 || other.device.0 == 0;
        self.inode == other.inode && (is_of_no_disk || self.device == other.device)
    }
}

/// A file by its path, and which one that is.
pub type FileKey = (PathBuf, Option<FileId>);

/// A piece of a process's addresses, and what lies there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub from: u64,
    /// One behind the last.
    pub to: u64,
    /// Whether it is code.
    pub is_code: bool,
    /// Whether the process may write there.
    pub is_writable: bool,
    /// Whether other processes that have it mapped see what is written.
    pub is_shared: bool,
    /// Where in the file it begins.
    pub file_offset: u64,
    /// The file, `[heap]`, `[stack]` and the like; empty for memory of no file.
    pub path: PathBuf,
    /// Which file that is; none where there is none, or nobody said.
    pub file_id: Option<FileId>,
}

impl Mapping {
    /// Reads a line (proc(5)): range, rights, offset, device, inode, and a path, which may hold spaces. None where it is something else.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let mut field = || std::str::from_utf8(fields.next()?).ok();
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let (from, to) = field()?.split_once('-')?;
        let (rights, offset, device, inode) = (field()?, field()?, field()?, field()?);
        let (major, minor) = device.split_once(':')?;
        let number = |text: &str| u32::from_str_radix(text, 16).ok();
        // Padded in front, and with nothing behind; a line without a path ends with a space.
        let path = fields.next().unwrap_or_default();
        let padding = path.iter().take_while(|byte| **byte == b' ').count();
        Some(Self {
            from: hex(from)?,
            to: hex(to)?,
            is_code: rights.contains('x'),
            is_writable: rights.contains('w'),
            is_shared: rights.ends_with('s'),
            file_offset: hex(offset)?,
            path: OsStr::from_bytes(&path[padding..]).into(),
            file_id: FileId::new((number(major)?, number(minor)?), inode.parse().ok()?),
        })
    }

    /// Reads all lines of `/proc/PID/maps`; what is no such line is passed over.
    pub fn parse_all(maps: &[u8]) -> Vec<Self> {
        maps.split(|byte| *byte == b'\n').filter_map(Self::parse).collect()
    }

    /// Whether an address lies in it.
    pub fn contains(&self, address: u64) -> bool {
        (self.from..self.to).contains(&address)
    }

    /// Where in the file stands what lies at an address of it.
    pub fn offset_of(&self, address: u64) -> u64 {
        address.wrapping_sub(self.from).wrapping_add(self.file_offset)
    }

    /// What tells its file from others.
    pub fn file_key(&self) -> FileKey {
        (self.path.clone(), self.file_id)
    }

    /// The file, without `[heap]`, `//anon` and the like; none where there is none.
    pub fn file(&self) -> Option<&Path> {
        const NO_FILES: [&[u8]; 5] = [b"//", b"/memfd:", b"/SYSV", b"/dev/zero", b"/anon_hugepage"];
        let path = self.path.as_os_str().as_bytes();
        let is_file = self.path.is_absolute() && !NO_FILES.iter().any(|prefix| path.starts_with(prefix));
        is_file.then_some(&self.path)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn parsed(line: &str) -> Option<Mapping> {
        Mapping::parse(line.as_bytes())
    }

    #[test]
    fn lines_of_maps_keep_the_spaces_of_paths() {
        let line = parsed("7f10-7f20 r-xp 00001000 fe:00 1234     /opt/a  program (deleted)").unwrap();
        assert_eq!((line.from, line.to, line.file_offset), (0x7f10, 0x7f20, 0x1000));
        assert_eq!((line.is_code, line.is_writable, line.is_shared), (true, false, false));
        assert_eq!(line.path, Path::new("/opt/a  program (deleted)"));
        assert_eq!(line.file_id, FileId::new((0xfe, 0), 1234));
        let line = parsed("7f12a000-7f12b000 rw-s 00001000 08:01 1234567                    /dev/shm/a b").unwrap();
        assert_eq!((line.is_code, line.is_writable, line.is_shared), (false, true, true));
        assert_eq!(line.path, Path::new("/dev/shm/a b"));
        let nothing = parsed("7f10-7f20 rw-p 00000000 00:00 0 ").unwrap();
        assert_eq!((nothing.path.as_path(), nothing.file_id), (Path::new(""), None));
        assert_eq!(
            parsed("7ffd0-7ffe0 rw-p 00000000 00:00 0                          [stack]").unwrap().path,
            Path::new("[stack]")
        );
        assert_eq!(parsed("no line of maps at all"), None);
        assert_eq!(parsed(""), None);
        let odd = Mapping::parse(b"7f10-7f20 r-xp 00001000 fe:00 1234 /opt/\xff x").unwrap();
        assert_eq!(odd.path.as_os_str().as_bytes(), b"/opt/\xff x", "a path that is no UTF-8");
    }

    #[test]
    fn a_file_is_told_by_its_number_and_its_disk() {
        let id = |major, inode| FileId::new((major, 1), inode).unwrap();
        assert!(id(8, 7).is(&id(8, 7)) && !id(8, 7).is(&id(8, 9)) && !id(8, 7).is(&id(9, 7)));
        assert!(id(0, 7).is(&id(8, 7)) && id(8, 7).is(&id(0, 7)) && !id(0, 7).is(&id(8, 9)));
        // As the kernel tells this test's own program.
        let program = std::env::current_exe().unwrap();
        let maps = Mapping::parse_all(&std::fs::read("/proc/self/maps").unwrap());
        let own = maps.iter().find(|map| map.path == program).unwrap();
        assert!(own.file_id.unwrap().is(&FileId::of(&std::fs::metadata(&program).unwrap())));
    }

    #[test]
    fn only_files_are_files() {
        let of = |path: &str| Mapping { path: path.into(), from: 0x1000, to: 0x2000, file_offset: 0x300, ..Mapping::default() };
        assert_eq!(of("/opt/a").file(), Some(Path::new("/opt/a")));
        for path in ["", "[heap]", "//anon", "relative", "/memfd:doublemapper (deleted)", "/dev/zero (deleted)"] {
            assert_eq!(of(path).file(), None, "{path}");
        }
        assert!(of("").contains(0x1000) && !of("").contains(0x2000));
        assert_eq!(of("/opt/a").offset_of(0x1010), 0x310);
    }
}
