//! What was stripped off a file, where it is kept apart (gdb manual, "Separate Debug Files").

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::Object;

use super::Elf;

/// Where distributions put it.
const FOLDER: &str = "/usr/lib/debug";
/// Bytes that are read together.
const PIECE: usize = 1 << 16;

/// Where a build id is kept below a folder of them: `ab/cdef…`.
pub fn by_build_id(id: &[u8]) -> Option<String> {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("{}/{}", hex.get(..2)?, hex.get(2..).filter(|rest| !rest.is_empty())?))
}

/// Where distributions put what was stripped off a build.
pub fn debug_file(build_id: &[u8]) -> Option<PathBuf> {
    below(Path::new(FOLDER), build_id)
}

fn below(folder: &Path, build_id: &[u8]) -> Option<PathBuf> {
    Some(folder.join(".build-id").join(format!("{}.debug", by_build_id(build_id)?)))
}

impl Elf {
    /// The file that what was stripped off this one is in: by its build id, else by the name that it says (`.gnu_debuglink`), beside it, in `.debug` there, and below the distributions'
    /// folder. None that is of another build: ids are compared, and of one found by its name the checksum. `path` is the file's own, by which its folder is known.
    pub fn debug(&self, path: &Path) -> Option<PathBuf> {
        self.debug_below(path, Path::new(FOLDER))
    }

    pub(crate) fn debug_below(&self, path: &Path, folder: &Path) -> Option<PathBuf> {
        let own_id = self.build_id();
        let is_its = |place: &PathBuf| Self::open(place).is_ok_and(|debug| debug.build_id() == own_id);
        if let Some(place) = own_id.as_deref().and_then(|id| below(folder, id)).filter(is_its) {
            return Some(place);
        }
        let parsed = self.parse().ok()?;
        let (name, checksum) = parsed.gnu_debuglink().ok()??;
        let (name, beside) = (Path::new(std::ffi::OsStr::from_bytes(name)), path.parent()?);
        // A name alone: what leads elsewhere is none.
        if name.components().count() != 1 || name.file_name() != Some(name.as_os_str()) {
            return None;
        }
        let further = folder.join(beside.strip_prefix("/").unwrap_or(beside)).join(name);
        let places = [beside.join(name), beside.join(".debug").join(name), further];
        places.into_iter().find(|place| place.as_path() != path && checksum_of(place) == Some(checksum))
    }
}

/// CRC-32 of a file; none where it is no file that can be read.
fn checksum_of(path: &Path) -> Option<u32> {
    // A pipe of that name would be waited for.
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let mut file = File::open(path).ok()?;
    let (mut hasher, mut piece) = (crc32fast::Hasher::new(), vec![0; PIECE]);
    loop {
        match file.read(&mut piece).ok()? {
            0 => return Some(hasher.finalize()),
            bytes => hasher.update(&piece[..bytes]),
        }
    }
}
