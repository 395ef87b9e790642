//! The machine as one file: made where it was built, and installed where there is no compiler, no apt and no root.
//!
//! A bundle is a tar archive, compressed by zstd. First stands its [`Manifest`], which names every other file with its size and SHA-256. QEMU comes with all
//! of its libraries and their loader, so that it needs no glibc of the host's; the licences of everything, and where its source is, come along.

mod download;
mod install;
mod make;
mod provenance;
mod reading;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::installation::{Installation, LOADER, Sources};

pub use download::{download, is_url};
pub use install::{install, remove, sha256_of};
pub use make::make;

/// Changes with what a bundle holds, or with how a guest is spoken to.
const FORMAT: u32 = 1;
const MANIFEST: &str = "manifest.json";
/// Larger is no manifest of ours, bytes.
const LARGEST_MANIFEST: u64 = 1 << 20;
/// More is no machine of ours, bytes.
const LARGEST_BUNDLE: u64 = 2 << 30;

const QEMU: &str = "qemu/qemu-system-x86_64";
const USER_QEMU: &str = "qemu/qemu-x86_64";
const LIBRARIES: &str = "qemu/lib";
const FIRMWARE: &str = "qemu/firmware";
const GUEST: &str = "guest";

/// What a bundle holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Of the bundle.
    pub format: u32,
    /// Version of the perftax that made it, and that it is for: guest and host speak to each other.
    pub perftax: String,
    /// What processor QEMU runs on.
    pub host: String,
    /// Release of the guest's kernel.
    pub kernel: String,
    /// What it was put together from.
    pub packages: Vec<Package>,
    /// Every other file by its path.
    pub files: BTreeMap<String, FileSum>,
}

/// A file of a bundle's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSum {
    /// Its size.
    pub bytes: u64,
    /// SHA-256, hexadecimal.
    pub sha256: String,
    /// Whether it is a program.
    pub executable: bool,
}

/// A package of the distribution's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// The source package that it was built from.
    pub source: String,
    /// That one's version.
    pub source_version: String,
}

impl Manifest {
    /// Reads one, and whether this perftax can use what it describes.
    ///
    /// # Errors
    /// [`Error::Bundle`] where it is of another format, version or processor, or names a path outside of its folder.
    fn of(bundle: &Path, bytes: &[u8]) -> Result<Self> {
        let bad = |why: String| Error::Bundle { file: bundle.into(), why };
        let manifest: Self = serde_json::from_slice(bytes).map_err(|error| bad(format!("its {MANIFEST} is none: {error}")))?;
        if manifest.format != FORMAT {
            return Err(bad(format!("it is of format {}, and this perftax reads format {FORMAT}", manifest.format)));
        }
        if manifest.perftax != env!("CARGO_PKG_VERSION") {
            let ours = env!("CARGO_PKG_VERSION");
            return Err(bad(format!(
                "it is for perftax {}, and this is {ours}: take the bundle that came with {ours}",
                manifest.perftax
            )));
        }
        if manifest.host != std::env::consts::ARCH {
            return Err(bad(format!("its emulator runs on {}, and this is {}", manifest.host, std::env::consts::ARCH)));
        }
        if let Some(path) = manifest.files.keys().find(|path| !is_inside(Path::new(path))) {
            return Err(bad(format!("it has a file {path:?}, which is not below its own folder")));
        }
        let sizes = manifest.files.values().map(|file| file.bytes);
        if sizes.fold(0, u64::saturating_add) > LARGEST_BUNDLE {
            return Err(bad(format!("its files have more than {} MiB", LARGEST_BUNDLE >> 20)));
        }
        Ok(manifest)
    }
}

/// Whether a path leads nowhere but down.
fn is_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, std::path::Component::Normal(_))) && path.file_name().is_some()
}

/// Where a bundle is installed: `$XDG_DATA_HOME/perftax/vm`, or `~/.local/share/perftax/vm`; without a home a folder of the user's in /var/tmp.
pub fn folder() -> PathBuf {
    perftax_folders::data("vm")
}

/// The machine that was installed; none where none was.
///
/// # Errors
/// [`Error::Bundle`] where it is another version's.
pub fn installed() -> Result<Option<Installation>> {
    let folder = folder();
    let manifest = folder.join(MANIFEST);
    match std::fs::read(&manifest) {
        Ok(bytes) => Manifest::of(&folder, &bytes).and_then(|_| installation_in(&folder)).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file(manifest)(error)),
    }
}

/// The words that start the QEMU for one program that came with the machine that was installed, whose plugins perftax's simulation needs; none where none was.
///
/// # Errors
/// [`Error::Bundle`] where it is another version's.
pub fn user_emulator() -> Result<Option<Vec<OsString>>> {
    let program = folder().join(USER_QEMU);
    Ok(installed()?.filter(|_| program.is_file()).map(|installed| installed.words(&program)))
}

/// The parts of what was unpacked into a folder.
fn installation_in(folder: &Path) -> Result<Installation> {
    let guest = folder.join(GUEST);
    let programs = guest.join("programs");
    let names = std::fs::read_to_string(&programs).map_err(Error::file(&programs))?;
    Ok(Installation {
        qemu: folder.join(QEMU),
        kernel: guest.join("image"),
        base: guest.join("base.cpio"),
        programs: names.lines().map(String::from).collect(),
        firmware: vec![folder.join(FIRMWARE)],
        libraries: Some(folder.join(LIBRARIES)),
    })
}

impl Installation {
    /// The machine that was built of the sources at hand; else the one that was installed.
    ///
    /// # Errors
    /// [`Error::Missing`] where there is neither. A kernel of one's own is always built.
    pub fn find(kernel: Option<&Path>) -> Result<Self> {
        let built = Sources::find().and_then(|sources| sources.installation(kernel));
        match built {
            Err(error @ Error::Missing { .. }) if kernel.is_none() => installed()?.ok_or(error),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn a_manifest_of_something_else_is_refused_by_what_differs() {
        let good = Manifest {
            format: FORMAT,
            perftax: env!("CARGO_PKG_VERSION").into(),
            host: std::env::consts::ARCH.into(),
            kernel: "6.1.0".into(),
            packages: Vec::new(),
            files: BTreeMap::from([("guest/image".into(), FileSum { bytes: 3, sha256: "00".into(), executable: false })]),
        };
        let read =
            |manifest: &Manifest| Manifest::of(Path::new("b"), &serde_json::to_vec(manifest).unwrap()).map_err(|e| e.to_string());
        assert_eq!(read(&good), Ok(good.clone()));
        let with_file = |path: &str, bytes| {
            let file = FileSum { bytes, sha256: "00".into(), executable: false };
            Manifest { files: BTreeMap::from([(path.to_string(), file)]), ..good.clone() }
        };
        for (other, why) in [
            (Manifest { format: 2, ..good.clone() }, "format 2"),
            (Manifest { perftax: "9.9.9".into(), ..good.clone() }, "for perftax 9.9.9"),
            (Manifest { host: "sparc64".into(), ..good.clone() }, "runs on sparc64"),
            (with_file("/etc/passwd", 3), "/etc/passwd"),
            (with_file("guest/../../x", 3), "not below"),
            (with_file("", 3), "not below"),
            (with_file("guest/image", u64::MAX), "2048 MiB"),
        ] {
            let said = read(&other).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        assert!(Manifest::of(Path::new("b"), b"{").unwrap_err().to_string().contains("manifest.json"));
    }
}
