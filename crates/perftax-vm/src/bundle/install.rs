//! Unpacking a bundle: what its manifest names, checked byte by byte, all of it or nothing.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::rc::Rc;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::reading::{UntilInterrupted, stopped_or, summed};
use super::{LARGEST_MANIFEST, MANIFEST, Manifest, folder, installation_in};
use crate::error::{Error, Result};

/// Memory for zstd's window at most, as a power of two: what bundles are made with.
const LARGEST_WINDOW: u32 = 27;
/// What is left where the user breaks it off.
pub(super) const NOTHING: &str = "nothing was installed";

/// The SHA-256 of a file, hexadecimal.
///
/// # Errors
/// Where it cannot be read, or the user breaks it off.
pub fn sha256_of(file: &Path, interrupted: fn() -> bool) -> Result<String> {
    // Before it is opened: a pipe would wait there for somebody to write.
    if !fs::metadata(file).map_err(Error::file(file))?.is_file() {
        return Err(Error::Bundle { file: file.into(), why: "it is no regular file".into() });
    }
    let opened = File::open(file).map_err(Error::file(file))?;
    let mut reader = UntilInterrupted { reader: opened, interrupted };
    let failed = stopped_or(interrupted, NOTHING.into(), |error| Error::file(file)(error));
    Ok(summed(&mut reader, failed, |_| Ok(()))?.1)
}

/// Installs a bundle for this user, in place of what was installed before; returns what it is and where. Whoever runs an older one goes on with that.
///
/// # Errors
/// [`Error::Bundle`] where it is not what it says, or its emulator does not start here: nothing is installed then.
pub fn install(bundle: &Path, interrupted: fn() -> bool) -> Result<(Manifest, PathBuf)> {
    let to = folder();
    let parent = to.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(Error::file(parent))?;
    let made = tempfile::Builder::new().prefix("vm-new-").tempdir_in(parent).map_err(Error::file(parent))?;
    let manifest = unpack(bundle, made.path(), interrupted)?;
    starts(bundle, made.path())?;
    fs::set_permissions(made.path(), fs::Permissions::from_mode(0o755)).map_err(Error::file(made.path()))?;
    if to.exists() {
        // What was there goes with the temporary folder.
        renameat_with(CWD, made.path(), CWD, &to, RenameFlags::EXCHANGE).map_err(|error| Error::file(&to)(error.into()))?;
    } else {
        fs::rename(made.path(), &to).map_err(Error::file(&to))?;
        let _renamed = made.keep();
    }
    Ok((manifest, to))
}

/// Removes what was installed; whether there was anything.
///
/// # Errors
/// Where it cannot be removed.
pub fn remove() -> Result<bool> {
    let folder = folder();
    match fs::remove_dir_all(&folder) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::file(folder)(error)),
    }
}

fn unpack(bundle: &Path, to: &Path, interrupted: fn() -> bool) -> Result<Manifest> {
    let bad = |why: String| Error::Bundle { file: bundle.into(), why };
    // Neither truncated nor foreign bytes are a fault of the disk.
    let broken = stopped_or(interrupted, NOTHING.into(), |error| Error::Bundle {
        file: bundle.into(),
        why: format!("it cannot be unpacked: {error}; it was cut short, or is no bundle"),
    });
    let file = File::open(bundle).map_err(Error::file(bundle))?;
    let mut decoder = zstd::Decoder::new(UntilInterrupted { reader: file, interrupted }).map_err(&broken)?;
    decoder.window_log_max(LARGEST_WINDOW).map_err(&broken)?;
    // What is unpacked is at most what the manifest says, and the manifest: a few bytes of zstd's may stand for any number.
    let left = Rc::new(Cell::new(LARGEST_MANIFEST + SLACK));
    let mut archive = tar::Archive::new(Limited { reader: decoder, left: Rc::clone(&left) });
    let mut entries = archive.entries().map_err(&broken)?;
    let mut first = entries.next().ok_or_else(|| bad("it is empty".into()))?.map_err(&broken)?;
    if first.path_bytes().as_ref() != MANIFEST.as_bytes() || first.size() > LARGEST_MANIFEST {
        return Err(bad(format!("it does not begin with its {MANIFEST}")));
    }
    let mut text = Vec::new();
    first.read_to_end(&mut text).map_err(&broken)?;
    let manifest = Manifest::of(bundle, &text)?;
    let each = manifest.files.values().map(|file| file.bytes + HEADERS);
    left.set(each.fold(SLACK, u64::saturating_add));
    write_new(&to.join(MANIFEST), false, |file| file.write_all(&text).map_err(Error::file(MANIFEST)))?;
    let mut seen = BTreeSet::new();
    for entry in entries {
        let mut entry = entry.map_err(&broken)?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let Some(sum) = manifest.files.get(&path).filter(|_| entry.header().entry_type().is_file()) else {
            return Err(bad(format!("it has a file {path:?} that its {MANIFEST} does not name")));
        };
        if entry.size() != sum.bytes || !seen.insert(path.clone()) {
            return Err(bad(format!(
                "{path} has {} bytes where its {MANIFEST} says {}, or is there twice",
                entry.size(),
                sum.bytes
            )));
        }
        let target = to.join(&path);
        let parent = target.parent().unwrap_or(to);
        fs::create_dir_all(parent).map_err(Error::file(parent))?;
        let mut sha256 = String::new();
        write_new(&target, sum.executable, |file| {
            (_, sha256) = summed(&mut entry, &broken, |part| file.write_all(part).map_err(Error::file(&target)))?;
            Ok(())
        })?;
        if sha256 != sum.sha256 {
            return Err(bad(format!("{path} is not what its {MANIFEST} says: its SHA-256 differs")));
        }
    }
    // Behind the last file stand zeros, and the sum of all.
    std::io::copy(&mut archive.into_inner(), &mut std::io::sink()).map_err(&broken)?;
    match manifest.files.keys().find(|path| !seen.contains(*path)) {
        Some(path) => Err(bad(format!("{path} is missing: it was cut short"))),
        None => Ok(manifest),
    }
}

/// Headers and padding of one file in the archive at most, bytes: a long name has two more blocks and what it fills.
const HEADERS: u64 = 4096;
/// And of what stands behind the last.
const SLACK: u64 = 1 << 20;

/// Ends with an error where there is more than was to be.
struct Limited<R> {
    reader: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.left.get()).unwrap_or(usize::MAX));
        if most == 0 && !buffer.is_empty() {
            return Err(std::io::Error::other(format!("it holds more than its {MANIFEST} says")));
        }
        let read = self.reader.read(&mut buffer[..most])?;
        self.left.set(self.left.get() - read as u64);
        Ok(read)
    }
}

/// A new file, filled and closed.
fn write_new(path: &Path, executable: bool, fill: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    let mode = if executable { 0o755 } else { 0o644 };
    let mut file = File::options().write(true).create_new(true).mode(mode).open(path).map_err(Error::file(path))?;
    fill(&mut file)?;
    // Whatever the user's mask: the emulator may become nobody before it reads.
    file.set_permissions(fs::Permissions::from_mode(mode)).map_err(Error::file(path))
}

/// Whether the emulator of a bundle can be started here.
fn starts(bundle: &Path, folder: &Path) -> Result<()> {
    let installation = installation_in(folder)?;
    let output =
        installation.emulator().arg("--version").stdin(Stdio::null()).output().map_err(Error::file(&installation.qemu))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next().unwrap_or("it says nothing").to_string();
    Err(Error::Bundle { file: bundle.into(), why: format!("its emulator does not start here ({}): {said}", output.status) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use std::collections::BTreeMap;

    use super::super::make::of_texts;
    use super::super::{FORMAT, FileSum};
    use super::*;

    fn manifest_of(files: &[(&str, &[u8])]) -> Manifest {
        let sum = |bytes: &[u8]| FileSum {
            bytes: bytes.len() as u64,
            sha256: summed(&mut &*bytes, |error| Error::file("a test")(error), |_| Ok(())).unwrap().1,
            executable: bytes.starts_with(b"#!"),
        };
        Manifest {
            format: FORMAT,
            perftax: env!("CARGO_PKG_VERSION").into(),
            host: std::env::consts::ARCH.into(),
            kernel: "6.1.0".into(),
            packages: Vec::new(),
            files: files.iter().map(|(path, bytes)| ((*path).to_string(), sum(bytes))).collect::<BTreeMap<_, _>>(),
        }
    }

    const FILES: [(&str, &[u8]); 2] =
        [("guest/programs", b"perf\nsh\n"), ("qemu/lib/ld-linux-x86-64.so.2", b"#!/bin/sh\nexit 0\n")];

    #[test]
    fn what_was_packed_is_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        let (bundle, to) = (folder.path().join("b.tar.zst"), folder.path().join("to"));
        fs::create_dir(&to).unwrap();
        of_texts(&manifest_of(&FILES), &FILES, &bundle).unwrap();
        let manifest = unpack(&bundle, &to, || false).unwrap();
        assert_eq!(manifest, manifest_of(&FILES));
        for (path, bytes) in FILES {
            assert_eq!(fs::read(to.join(path)).unwrap(), bytes);
        }
        assert_eq!(fs::metadata(to.join(FILES[1].0)).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(installation_in(&to).unwrap().programs.len(), 2);
        starts(&bundle, &to).unwrap();
        let again = folder.path().join("again");
        of_texts(&manifest_of(&FILES), &FILES, &again).unwrap();
        assert_eq!(fs::read(&bundle).unwrap(), fs::read(&again).unwrap(), "the same bytes twice");
        assert_eq!(sha256_of(&bundle, || false).unwrap(), sha256_of(&again, || false).unwrap());
    }

    #[test]
    fn what_differs_from_its_manifest_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let bundle = folder.path().join("b.tar.zst");
        let refused = |manifest: &Manifest, files: &[(&str, &[u8])]| {
            // `of_texts` wants a sum for each file that it packs, which the manifest that is read need not name.
            of_texts(manifest, files, &bundle).unwrap();
            let to = tempfile::tempdir().unwrap();
            unpack(&bundle, to.path(), || false).unwrap_err().to_string()
        };
        let mut other = manifest_of(&FILES);
        other.files.get_mut("guest/programs").unwrap().sha256 = "00".repeat(32);
        assert!(refused(&other, &FILES).contains("guest/programs is not what"));
        assert!(refused(&manifest_of(&FILES), &FILES[..1]).contains("is missing: it was cut short"));

        of_texts(&manifest_of(&FILES), &FILES, &bundle).unwrap();
        let whole = fs::read(&bundle).unwrap();
        for cut in [0, 1, 10, whole.len() / 2, whole.len() - 1] {
            fs::write(&bundle, &whole[..cut]).unwrap();
            let to = tempfile::tempdir().unwrap();
            assert!(unpack(&bundle, to.path(), || false).is_err(), "{cut} bytes of {}", whole.len());
        }
        fs::write(&bundle, b"PK\x03\x04 something else").unwrap();
        let to = tempfile::tempdir().unwrap();
        assert!(unpack(&bundle, to.path(), || false).unwrap_err().to_string().contains("no bundle"));
        assert!(unpack(Path::new("/no/such/file"), to.path(), || false).unwrap_err().to_string().contains("/no/such/file"));
        let stopped = unpack(&bundle, to.path(), || true).unwrap_err();
        assert!(matches!(stopped, Error::Stopped { .. }), "{stopped:?}");
        assert_eq!(stopped.to_string(), "interrupted: nothing was installed");
    }

    #[test]
    fn a_bundle_that_unfolds_beyond_its_manifest_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let bundle = folder.path().join("b");
        let pack = |manifest: &Manifest, name: &[u8]| {
            let mut archive = tar::Builder::new(zstd::Encoder::new(File::create(&bundle).unwrap(), 3).unwrap());
            let text = serde_json::to_vec(manifest).unwrap();
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            archive.append_data(&mut header, MANIFEST, text.as_slice()).unwrap();
            // A name of so many bytes, which whoever reads it keeps in memory.
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::GNULongName);
            header.set_size(name.len() as u64);
            header.set_cksum();
            archive.append(&header, name).unwrap();
            archive.into_inner().unwrap().finish().unwrap();
            let to = tempfile::tempdir().unwrap();
            unpack(&bundle, to.path(), || false).unwrap_err().to_string()
        };
        let said = pack(&manifest_of(&FILES), &vec![b'x'; 64 << 20]);
        assert!(said.contains("more than its manifest.json says"), "{said}");
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(sha256_of(&pipe, || false).unwrap_err().to_string().contains("no regular file"));
    }

    #[test]
    fn an_emulator_that_does_not_start_is_not_installed() {
        let folder = tempfile::tempdir().unwrap();
        let files = [FILES[0], ("qemu/lib/ld-linux-x86-64.so.2", b"#!/bin/sh\necho too old >&2\nexit 1\n".as_slice())];
        let bundle = folder.path().join("b");
        of_texts(&manifest_of(&files), &files, &bundle).unwrap();
        unpack(&bundle, folder.path(), || false).unwrap();
        assert!(starts(&bundle, folder.path()).unwrap_err().to_string().contains("too old"));
    }
}
