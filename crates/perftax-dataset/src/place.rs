//! Where a data set lies: a folder, or an object store. What is written appears whole or not at all.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

pub use crate::entry::Entry;
use crate::error::{Error, Result};

/// What files that are being written are called first.
pub const PARTIAL: &str = ".partial-";

/// Where a data set lies.
#[derive(Debug)]
pub struct Place {
    name: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Folder(PathBuf),
    #[cfg(feature = "object-store")]
    Store(crate::remote::Remote),
}

/// What addresses of object stores begin with.
const STORES: [&str; 6] = ["s3", "gs", "az", "azure", "http", "https"];

impl Place {
    /// From a folder's path or a store's address. Nothing is read or written.
    ///
    /// # Errors
    /// Where it is an address of something else.
    pub fn open(text: &str) -> Result<Self> {
        let refused = |needed: &str| Error::Place { place: text.into(), needed: needed.into() };
        if text.is_empty() {
            return Err(refused("a folder, or the address of an object store"));
        }
        let name = text.trim_end_matches('/');
        let name = if name.is_empty() { "/" } else { name };
        let kind = match name.split_once("://") {
            None => Kind::Folder(name.into()),
            Some((scheme, _)) if !STORES.contains(&scheme) => {
                return Err(refused("a folder, or an address that begins with s3://, gs://, az://, http:// or https://"));
            }
            #[cfg(feature = "object-store")]
            Some(_) => Kind::Store(crate::remote::Remote::open(name)?),
            #[cfg(not(feature = "object-store"))]
            Some(_) => return Err(refused("a folder: this perftax was built without object stores")),
        };
        Ok(Self { name: name.into(), kind })
    }

    /// As it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder, where it is one.
    pub fn folder(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Folder(folder) => Some(folder),
            #[cfg(feature = "object-store")]
            Kind::Store(_) => None,
        }
    }

    /// Sees to it that there is a data set that can be written: a folder is made.
    ///
    /// # Errors
    /// Where it cannot be.
    pub fn create(&self) -> Result<()> {
        match &self.kind {
            Kind::Folder(folder) => std::fs::create_dir_all(folder).map_err(Error::file("make", folder.display())),
            #[cfg(feature = "object-store")]
            Kind::Store(_) => Ok(()),
        }
    }

    /// Sees to it that there is a data set: publications, whether any counts or not.
    ///
    /// # Errors
    /// Where there is none.
    pub fn expect(&self) -> Result<()> {
        let is_one = match &self.kind {
            Kind::Folder(folder) => folder.join("publications").is_dir(),
            #[cfg(feature = "object-store")]
            Kind::Store(_) => !self.list("publications")?.is_empty(),
        };
        let needed = "publications in it: nothing was published there".into();
        if is_one { Ok(()) } else { Err(Error::Place { place: self.name.clone(), needed }) }
    }

    /// All files below a folder of the data set, in order; hidden ones aside.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn list(&self, below: &str) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        match &self.kind {
            Kind::Folder(folder) => walk(folder, below, &mut |entry| {
                if !entry.path.rsplit('/').next().is_some_and(|name| name.starts_with('.')) {
                    entries.push(entry);
                }
            })?,
            #[cfg(feature = "object-store")]
            Kind::Store(store) => entries = store.list(below)?,
        }
        entries.sort();
        Ok(entries)
    }

    /// Those of them whose names begin so.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn list_beginning(&self, below: &str, name: &str) -> Result<Vec<Entry>> {
        let begins = format!("{below}/{name}");
        match &self.kind {
            Kind::Folder(_) => {
                let all = self.list(below)?;
                Ok(all.into_iter().filter(|entry| entry.path.starts_with(&begins)).collect())
            }
            #[cfg(feature = "object-store")]
            Kind::Store(store) => store.list_beginning(below, name),
        }
    }

    /// Files that were being written when whoever wrote them was ended.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn partials(&self) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        match &self.kind {
            Kind::Folder(folder) => walk(folder, "", &mut |entry| {
                if entry.path.rsplit('/').next().is_some_and(|name| name.starts_with(PARTIAL)) {
                    entries.push(entry);
                }
            })?,
            // Objects are there whole or not at all.
            #[cfg(feature = "object-store")]
            Kind::Store(_) => {}
        }
        entries.sort();
        Ok(entries)
    }

    /// A file's bytes; none where there is none.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        match &self.kind {
            Kind::Folder(folder) => match std::fs::read(folder.join(path)) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(Error::file("read", self.full(path))(error)),
            },
            #[cfg(feature = "object-store")]
            Kind::Store(store) => store.read(path),
        }
    }

    /// A file's size; none where there is none.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn size(&self, path: &str) -> Result<Option<u64>> {
        match &self.kind {
            Kind::Folder(folder) => match std::fs::metadata(folder.join(path)) {
                Ok(metadata) => Ok(Some(metadata.len())),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(Error::file("read", self.full(path))(error)),
            },
            #[cfg(feature = "object-store")]
            Kind::Store(store) => store.size(path),
        }
    }

    /// Writes a file; it is on the disk when this returns.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write(&self, path: &str, bytes: &[u8]) -> Result<()> {
        match &self.kind {
            Kind::Folder(folder) => write(&folder.join(path), bytes),
            #[cfg(feature = "object-store")]
            Kind::Store(store) => store.write(path, bytes),
        }
    }

    /// Removes a file; one that is not there is removed.
    ///
    /// # Errors
    /// Where it cannot be.
    pub fn remove(&self, path: &str) -> Result<()> {
        match &self.kind {
            Kind::Folder(folder) => match std::fs::remove_file(folder.join(path)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::file("remove", self.full(path))(error)),
                _ => Ok(()),
            },
            #[cfg(feature = "object-store")]
            Kind::Store(store) => store.remove(path),
        }
    }

    fn full(&self, path: &str) -> String {
        format!("{}/{path}", self.name)
    }
}

/// Every file below a folder.
fn walk(root: &Path, below: &str, each: &mut dyn FnMut(Entry)) -> Result<()> {
    let folder = if below.is_empty() { root.to_path_buf() } else { root.join(below) };
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::file("read", folder.display())(error)),
    };
    for entry in entries {
        let entry = entry.map_err(Error::file("read", folder.display()))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        // One that went meanwhile is not there.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            walk(root, &path, each)?;
        } else if metadata.is_file() {
            each(Entry { path, bytes: metadata.len(), written: metadata.modified().ok() });
        }
    }
    Ok(())
}

/// Writes under another name beside its place, and renames.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = || Error::file("write", path.display());
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(Error::file("make", folder.display()))?;
    // With the rights that any new file has: tempfile's own would be the user's alone.
    let open = |partial: &Path| File::options().write(true).create_new(true).open(partial);
    let mut partial = tempfile::Builder::new().prefix(PARTIAL).make_in(folder, open).map_err(failed())?;
    partial.as_file_mut().write_all(bytes).map_err(failed())?;
    partial.as_file().sync_all().map_err(failed())?;
    partial.persist(path).map_err(|error| failed()(error.error))?;
    // The name, too.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn files_are_written_whole_and_listed() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::open(&format!("{}/new/", folder.path().display())).unwrap();
        assert!(place.expect().is_err());
        place.create().unwrap();
        place.write("publications/b.json", b"1").unwrap();
        place.write("publications/a.json", b"22").unwrap();
        place.write("publications/a.json", b"333").unwrap();
        std::fs::write(folder.path().join("new/publications/.partial-x"), b"").unwrap();
        place.expect().unwrap();
        let listed: Vec<(String, u64)> =
            place.list("publications").unwrap().into_iter().map(|entry| (entry.path, entry.bytes)).collect();
        assert_eq!(listed, [("publications/a.json".to_string(), 3), ("publications/b.json".to_string(), 1)]);
        assert_eq!(place.partials().unwrap().len(), 1);
        assert_eq!((place.read("publications/c.json").unwrap(), place.size("x").unwrap()), (None, None));
        place.remove("publications/a.json").unwrap();
        place.remove("publications/a.json").unwrap();
        assert_eq!(place.list("").unwrap().len(), 1);
    }

    #[test]
    fn addresses_of_something_else_are_refused() {
        for wrong in ["", "ftp://host/x", "S3://x"] {
            let error = Place::open(wrong).unwrap_err().to_string();
            assert!(error.contains("needs a folder"), "{error}");
        }
    }
}
