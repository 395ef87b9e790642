//! Publications: which files count.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::date::days_of;
use crate::error::{Error, Result};
use crate::place::{Entry, Place};
use crate::schema::{OLDEST, Table, VERSION};

/// Where they lie.
const FOLDER: &str = "publications";
/// What ids of compactions begin with, so that whoever publishes finds them among any number of others.
pub const COMPACTED: &str = "00000000";

/// A publication, as its file holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// Version of the schema that its files have.
    pub schema: u32,
    /// Of what was published, 32 hexadecimal digits.
    pub id: String,
    /// The version of perftax.
    pub perftax: String,
    /// The host's name.
    pub host: String,
    /// When, ns since 1970.
    pub published_ns: i64,
    /// Publications that it was made of: they do not count any more.
    #[serde(default)]
    pub replaces: Vec<String>,
    /// Its files.
    pub files: Vec<Listed>,
}

/// A file, as a publication lists it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Listed {
    /// Its place in the data set.
    pub path: String,
    /// Its rows.
    pub rows: u64,
    /// Its size.
    pub bytes: u64,
}

/// What a file's path says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// Its table.
    pub table: Table,
    /// The UTC day.
    pub date: &'a str,
    /// The service, as paths spell it.
    pub service: &'a str,
    /// The SHA-256 of its bytes.
    pub hash: &'a str,
}

impl Listed {
    /// What its path says; none where that is no path of a data set, so that no publication names files elsewhere.
    pub fn named(&self) -> Option<Named<'_>> {
        let mut parts = self.path.split('/');
        let table = Table::named(parts.next()?.strip_prefix("table=")?)?;
        let date = parts.next()?.strip_prefix("date=").filter(|date| days_of(date).is_some())?;
        let service = parts.next()?.strip_prefix("service=").filter(|service| !service.is_empty())?;
        let hash = parts.next()?.strip_suffix(".parquet").filter(|hash| is_hex(hash, 64))?;
        parts.next().is_none().then_some(Named { table, date, service, hash })
    }
}

/// A file's place in a data set.
pub fn path(table: Table, date: &str, service: &str, hash: &str) -> String {
    format!("table={}/date={date}/service={service}/{hash}.parquet", table.name())
}

/// A service's name as paths spell it.
pub fn spelled(service: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    service.bytes().map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

impl Publication {
    /// Where its file is.
    pub fn path_of(id: &str) -> String {
        format!("{FOLDER}/{id}.json")
    }

    /// Whether another one says the same: when it was published aside.
    pub fn is_same(&self, other: &Self) -> bool {
        let sorted = |publication: &Self| {
            let mut files = publication.files.clone();
            files.sort();
            files
        };
        (self.schema, &self.id, &self.replaces, sorted(self)) == (other.schema, &other.id, &other.replaces, sorted(other))
    }

    /// Reads one; none where there is none.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn read(place: &Place, id: &str) -> Result<Option<Self>> {
        let path = Self::path_of(id);
        let Some(bytes) = place.read(&path)? else { return Ok(None) };
        Self::parse(&path, &bytes).map(Some)
    }

    fn parse(path: &str, bytes: &[u8]) -> Result<Self> {
        let publication: Self = serde_json::from_slice(bytes).map_err(|why| Error::content(path, why))?;
        let is_own = is_hex(&publication.id, 32) && path == Self::path_of(&publication.id);
        if !is_own {
            return Err(Error::content(
                path,
                format!("its id is {:?}, needs to be its name, 32 hexadecimal digits", publication.id),
            ));
        }
        if publication.schema < OLDEST {
            return Err(Error::content(path, format!("schema is {}, needs {OLDEST} or more", publication.schema)));
        }
        Ok(publication)
    }

    /// Writes it: from then on its files count.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write(&self, place: &Place) -> Result<()> {
        let path = Self::path_of(&self.id);
        let mut text = serde_json::to_string_pretty(self).map_err(|why| Error::content(&path, why))?;
        text.push('\n');
        place.write(&path, text.as_bytes())
    }
}

/// The version alone: what is newer may have other keys.
#[derive(Deserialize)]
struct Version {
    schema: u32,
}

/// All publications of a data set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Publications {
    /// By id, whether they count or not.
    pub all: BTreeMap<String, Publication>,
    /// Those of a newer schema than is known here, by their path.
    pub newer: BTreeMap<String, u32>,
    /// Those that cannot be read, by their path, and why.
    pub unreadable: BTreeMap<String, String>,
    /// Those that others replace.
    pub replaced: BTreeSet<String>,
}

impl Publications {
    /// Reads all of them.
    ///
    /// # Errors
    /// Where the place cannot be read.
    pub fn read(place: &Place) -> Result<Self> {
        Self::of(place, place.list(FOLDER)?)
    }

    /// Reads those that compactions wrote.
    ///
    /// # Errors
    /// Where the place cannot be read.
    pub fn compactions(place: &Place) -> Result<Self> {
        Self::of(place, place.list_beginning(FOLDER, COMPACTED)?)
    }

    fn of(place: &Place, entries: Vec<Entry>) -> Result<Self> {
        let mut publications = Self::default();
        for entry in entries {
            if !entry.path.ends_with(".json") {
                continue;
            }
            // One that a compaction has removed meanwhile is replaced.
            let Some(bytes) = place.read(&entry.path)? else { continue };
            if let Ok(Version { schema }) = serde_json::from_slice(&bytes)
                && schema > VERSION
            {
                publications.newer.insert(entry.path, schema);
                continue;
            }
            match Publication::parse(&entry.path, &bytes) {
                Ok(publication) => drop(publications.all.insert(publication.id.clone(), publication)),
                Err(error) => {
                    let why = error.to_string();
                    let why = why.strip_prefix(&format!("{}: ", entry.path)).unwrap_or(&why).to_string();
                    publications.unreadable.insert(entry.path, why);
                }
            }
        }
        let all = publications.all.values();
        let replaced = all.flat_map(|by| by.replaces.iter().filter(|id| **id != by.id).cloned());
        publications.replaced = replaced.collect();
        Ok(publications)
    }

    /// Those that count, by id.
    pub fn counting(&self) -> impl Iterator<Item = &Publication> {
        self.all.values().filter(|publication| !self.replaced.contains(&publication.id))
    }

    /// Ids that more than one publication that counts replaces: what was published under them may count twice.
    pub fn taken_up_twice(&self) -> BTreeSet<&str> {
        let (mut once, mut twice) = (BTreeSet::new(), BTreeSet::new());
        for id in self.counting().flat_map(|publication| &publication.replaces) {
            if !once.insert(id.as_str()) {
                twice.insert(id.as_str());
            }
        }
        twice
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn publication(id: char, replaces: &[char]) -> Publication {
        let id_of = |c: &char| c.to_string().repeat(32);
        Publication {
            schema: VERSION,
            id: id_of(&id),
            perftax: "0".into(),
            host: "h".into(),
            published_ns: 1,
            replaces: replaces.iter().map(id_of).collect(),
            files: Vec::new(),
        }
    }

    #[test]
    fn what_is_replaced_does_not_count_whoever_is_still_there() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::open(folder.path().to_str().unwrap()).unwrap();
        place.create().unwrap();
        for each in [publication('a', &[]), publication('b', &[]), publication('c', &['a', 'd']), publication('e', &['d'])] {
            each.write(&place).unwrap();
        }
        let newer = r#"{"schema": 3, "something": "else"}"#;
        place.write(&Publication::path_of(&"f".repeat(32)), newer.as_bytes()).unwrap();
        place.write("publications/x.json", b"{").unwrap();
        let all = Publications::read(&place).unwrap();
        let counting: Vec<&str> = all.counting().map(|publication| &publication.id[..1]).collect();
        assert_eq!(counting, ["b", "c", "e"]);
        assert_eq!((all.newer.len(), all.unreadable.len()), (1, 1));
        assert_eq!(all.taken_up_twice().into_iter().collect::<Vec<_>>(), ["d".repeat(32)]);
    }

    #[test]
    fn no_publication_names_files_elsewhere() {
        let hash = "0".repeat(64);
        let named = |path: &str| Listed { path: path.into(), rows: 0, bytes: 0 }.named().is_some();
        assert!(named(&path(Table::Causes, "2026-11-29", &spelled("a/b ü"), &hash)));
        for wrong in [
            format!("../table=causes/date=2026-11-29/service=x/{hash}.parquet"),
            format!("table=causes/date=2026-11-29/service=x/../{hash}.parquet"),
            format!("table=causes/date=../service=x/{hash}.parquet"),
            format!("table=nothing/date=2026-11-29/service=x/{hash}.parquet"),
            format!("table=causes/date=2026-11-29/service=/{hash}.parquet"),
            "table=causes/date=2026-11-29/service=x/0.parquet".into(),
            format!("/table=causes/date=2026-11-29/service=x/{hash}.parquet"),
        ] {
            assert!(!named(&wrong), "{wrong}");
        }
        assert_eq!(spelled("a/b ü-._9"), "a%2Fb%20%C3%BC-._9");
    }
}
