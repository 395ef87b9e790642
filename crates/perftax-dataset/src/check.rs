//! Whether what counts is there, and whole.

use std::time::SystemTime;

use bytes::Bytes;

use crate::digest::sha256;
use crate::error::Result;
use crate::orphans;
use crate::place::Place;
use crate::publication::{Listed, Publications};
use crate::table::FileReader;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file.
    pub path: String,
    /// What is wrong with it.
    pub why: String,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Publications that count.
    pub publications: u64,
    /// Publications that others replace, and whose files are still there.
    pub replaced: u64,
    /// Files that count and are whole.
    pub files: u64,
    /// Their rows.
    pub rows: u64,
    /// Their size.
    pub bytes: u64,
    /// What is wrong: files, and publications.
    pub corrupt: Vec<Finding>,
    /// Publications of a newer schema, which were left out: path and version.
    pub newer: Vec<(String, u32)>,
    /// Files that no publication lists: of publications under way, or that were interrupted or replaced.
    pub orphans: u64,
    /// Their size.
    pub orphan_bytes: u64,
    /// Those that were removed.
    pub removed: u64,
}

/// Looks at every file that counts. Where that is asked for, removes files that no publication lists, and that are older than a day.
///
/// # Errors
/// Where the place cannot be read.
pub fn check(place: &Place, removes_orphans: bool, now: SystemTime) -> Result<Checked> {
    place.expect()?;
    let publications = Publications::read(place)?;
    let mut checked = Checked {
        publications: publications.counting().count() as u64,
        newer: publications.newer.iter().map(|(path, version)| (path.clone(), *version)).collect(),
        ..Checked::default()
    };
    checked.replaced = publications.all.len() as u64 - checked.publications;
    checked.corrupt.extend(publications.unreadable.iter().map(|(path, why)| Finding { path: path.clone(), why: why.clone() }));
    for id in publications.taken_up_twice() {
        let why = "was taken up by two compactions at once: what it published may count twice";
        checked.corrupt.push(Finding { path: crate::Publication::path_of(id), why: why.into() });
    }
    let mut seen = std::collections::BTreeSet::new();
    for publication in publications.counting() {
        for listed in publication.files.iter().filter(|listed| seen.insert(listed.path.clone())) {
            match verify(place, listed, publication.schema)? {
                Ok(_) => {
                    checked.files += 1;
                    checked.rows += listed.rows;
                    checked.bytes += listed.bytes;
                }
                Err(why) => checked.corrupt.push(Finding { path: listed.path.clone(), why }),
            }
        }
    }
    checked.corrupt.sort();
    let orphans = orphans::find(place, &publications)?;
    checked.orphans = orphans.len() as u64;
    checked.orphan_bytes = orphans.iter().map(|orphan| orphan.bytes).sum();
    if removes_orphans {
        checked.removed = orphans::remove(place, &publications, &orphans, now)?;
    }
    Ok(checked)
}

/// A file's bytes, or what is wrong with it.
///
/// # Errors
/// Where the place cannot be read.
pub fn verify(place: &Place, listed: &Listed, version: u32) -> Result<Result<Bytes, String>> {
    let Some(named) = listed.named() else { return Ok(Err("is no path of a data set".into())) };
    let bytes = match place.read(&listed.path) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(Err("is missing".into())),
        Err(error) => return Ok(Err(error.to_string())),
    };
    if bytes.len() as u64 != listed.bytes {
        return Ok(Err(format!("has {} bytes, its publication says {}", bytes.len(), listed.bytes)));
    }
    if sha256(&bytes) != named.hash {
        return Ok(Err("its bytes do not hash to its name".into()));
    }
    let bytes = Bytes::from(bytes);
    let rows = FileReader::open(named.table, version, &listed.path, bytes.clone())
        .and_then(|reader| (0..reader.groups()).try_fold(0, |rows, group| Ok(rows + reader.group(group)?.len() as u64)));
    Ok(match rows {
        Ok(rows) if rows != listed.rows => Err(format!("has {rows} rows, its publication says {}", listed.rows)),
        Ok(_) => Ok(bytes),
        Err(error) => {
            let why = error.to_string();
            Err(why.strip_prefix(&format!("{}: ", listed.path)).unwrap_or(&why).into())
        }
    })
}
