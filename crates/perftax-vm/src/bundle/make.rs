//! Putting a bundle together from what was built here.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use perftax_doc::steps::Operation;
use tempfile::NamedTempFile;

use super::provenance::Provenance;
use super::reading::{UntilInterrupted, stopped_or, summed};
use super::{FIRMWARE, FORMAT, FileSum, GUEST, LIBRARIES, LOADER, MANIFEST, Manifest, QEMU, USER_QEMU};
use crate::closure::libraries;
use crate::error::{Error, Result};
use crate::installation::Sources;

/// What QEMU reads when it starts a kernel, of its firmware: the last where a kernel cannot be started by its PVH note.
const FIRMWARE_FILES: [&str; 4] = ["bios-256k.bin", "kvmvapic.bin", "pvh.bin", "linuxboot_dma.bin"];
/// Of zstd's: a minute and a half, a third smaller than its usual one.
const LEVEL: i32 = 19;
/// How far back repetitions are looked for, as a power of two: libraries of the guest are those of QEMU.
const WINDOW: u32 = 27;

/// What a file of the bundle is made from.
enum Content {
    File(PathBuf),
    Text(Vec<u8>),
}

/// Writes the machine that was built of these sources into one file; the same machine gives the same bytes.
///
/// # Errors
/// [`Error::Missing`] where it is not built, or nothing tells which packages it is made of; where the file cannot be written.
pub fn make(sources: &Sources, to: &Path, interrupted: fn() -> bool) -> Result<Manifest> {
    let built = sources.installation(None)?;
    let user = sources.user_emulator()?;
    let mut files: BTreeMap<String, Content> = BTreeMap::new();
    let mut add = |path: String, from: &Path| drop(files.insert(path, Content::File(from.into())));
    // What is this system's own, and so of a package.
    let mut installed = Vec::new();
    for (path, program) in [(QEMU, &built.qemu), (USER_QEMU, &user)] {
        add(path.into(), program);
        for library in libraries(program)? {
            add(format!("{LIBRARIES}/{}", name_of(&library)), &library);
            installed.push(library);
        }
    }
    for name in FIRMWARE_FILES {
        let mut places = built.firmware.iter().map(|folder| folder.join(name));
        let found = places.find(|file| file.is_file()).ok_or_else(|| Error::Missing {
            what: format!("QEMU's firmware {name}"),
            why: format!("it is in none of {:?}", built.firmware),
            remedy: "apt-get install seabios qemu-system-data".into(),
        })?;
        add(format!("{FIRMWARE}/{name}"), &found);
        installed.push(found);
    }
    for name in ["image", "base.cpio", "programs", "kernel"] {
        add(format!("{GUEST}/{name}"), &built.kernel.with_file_name(name));
    }
    for (path, from) in sources.texts()? {
        add(format!("source/{}", path.display()), &from);
    }
    let provenance = Provenance::of(sources, &built, installed)?;
    let packages = provenance.packages();
    for (path, text) in provenance.texts() {
        files.insert(path, Content::Text(text));
    }
    if !files.contains_key(&format!("{LIBRARIES}/{LOADER}")) {
        let why = format!("{} does not name {LOADER} as its loader", built.qemu.display());
        return Err(Error::Missing {
            what: "the loader of QEMU's libraries".into(),
            why,
            remedy: Operation::RebuildMachine.to_string(),
        });
    }
    let kernel = built.kernel.with_file_name("kernel");
    let manifest = Manifest {
        format: FORMAT,
        perftax: env!("CARGO_PKG_VERSION").into(),
        host: std::env::consts::ARCH.into(),
        kernel: fs::read_to_string(&kernel).map_err(Error::file(&kernel))?.trim().into(),
        packages,
        files: files.iter().map(|(path, from)| Ok((path.clone(), from.sum(path)?))).collect::<Result<_>>()?,
    };
    write(&manifest, &files, to, interrupted)?;
    Ok(manifest)
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl Content {
    fn open(&self) -> Result<Box<dyn Read + '_>> {
        match self {
            Self::File(path) => Ok(Box::new(File::open(path).map_err(Error::file(path))?)),
            Self::Text(text) => Ok(Box::new(text.as_slice())),
        }
    }

    fn sum(&self, path: &str) -> Result<FileSum> {
        let (bytes, sha256) = summed(&mut self.open()?, |error| Error::file(path)(error), |_| Ok(()))?;
        let executable = match self {
            Self::File(path) => fs::metadata(path).map_err(Error::file(path))?.permissions().mode() & 0o111 != 0,
            Self::Text(_) => false,
        };
        Ok(FileSum { bytes, sha256, executable })
    }
}

/// Under another name until it is whole.
fn write(manifest: &Manifest, files: &BTreeMap<String, Content>, to: &Path, interrupted: fn() -> bool) -> Result<()> {
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = NamedTempFile::new_in(parent).map_err(Error::file(to))?;
    let failed = |error: std::io::Error| Error::file(to)(error);
    let stopped = stopped_or(interrupted, format!("{} was not written", to.display()), failed);
    let mut encoder = zstd::Encoder::new(file, LEVEL).map_err(failed)?;
    encoder
        .window_log(WINDOW)
        .and_then(|()| encoder.long_distance_matching(true))
        .and_then(|()| encoder.include_checksum(true))
        .map_err(failed)?;
    let mut archive = tar::Builder::new(encoder);
    let mut text = serde_json::to_vec_pretty(manifest).map_err(|error| failed(error.into()))?;
    text.push(b'\n');
    append(&mut archive, MANIFEST, text.len() as u64, false, &mut text.as_slice()).map_err(failed)?;
    for (path, from) in files {
        let sum = &manifest.files[path];
        let mut reader = UntilInterrupted { reader: from.open()?, interrupted };
        append(&mut archive, path, sum.bytes, sum.executable, &mut reader).map_err(&stopped)?;
    }
    let mut file = archive.into_inner().and_then(zstd::Encoder::finish).map_err(failed)?;
    file.flush().map_err(failed)?;
    file.as_file().set_permissions(fs::Permissions::from_mode(0o644)).map_err(failed)?;
    file.persist(to).map_err(|error| failed(error.error))?;
    Ok(())
}

/// With nothing of who made it when.
fn append(
    archive: &mut tar::Builder<impl Write>,
    path: &str,
    bytes: u64,
    executable: bool,
    from: &mut dyn Read,
) -> std::io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes);
    header.set_mode(if executable { 0o755 } else { 0o644 });
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    archive.append_data(&mut header, path, from)
}

/// A bundle of these files, for tests.
#[cfg(test)]
pub(super) fn of_texts(manifest: &Manifest, files: &[(&str, &[u8])], to: &Path) -> Result<()> {
    let files = files.iter().map(|(path, text)| ((*path).to_string(), Content::Text(text.to_vec()))).collect();
    write(manifest, &files, to, || false)
}
