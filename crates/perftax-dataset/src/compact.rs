//! Few large files of many small ones. Each publication counts exactly once, whenever it is ended.
//!
//! The new files come first; then one publication that lists them and says what it replaces, which is the moment from which on they count; then what is
//! replaced goes: publications first, their files last.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use crate::check::{Finding, verify};
use crate::date::days_of;
use crate::digest::sha256;
use crate::error::{Error, Result};
use crate::orphans;
use crate::place::Place;
use crate::publication::{COMPACTED, Listed, Publication, Publications, path};
use crate::schema::{Table, VERSION};
use crate::table::{FileReader, FileWriter};

/// The largest file that is made.
const MAX_BYTES: u64 = 128 << 20;
/// Files that are larger stay as they are.
const LARGE_BYTES: u64 = MAX_BYTES / 2;

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// The publication that counts instead; none where there was nothing to do.
    pub id: Option<String>,
    /// Publications that it replaces.
    pub publications: u64,
    /// Their files.
    pub files_before: u64,
    /// The size of these.
    pub bytes_before: u64,
    /// Its files.
    pub files_after: u64,
    /// The size of these.
    pub bytes_after: u64,
    /// Its rows.
    pub rows: u64,
    /// What is wrong: publications with any such file stay as they are.
    pub corrupt: Vec<Finding>,
    /// Publications of a newer schema, which stay as they are: path and version.
    pub newer: Vec<(String, u32)>,
    /// Files that were removed: those that were replaced, and those older than a day that no publication lists.
    pub removed: u64,
}

/// Files of a table, a day and a service.
type Key = (Table, String, String);

/// Which files are written anew together, and which stay.
#[derive(Default)]
struct Plan<'a> {
    anew: BTreeMap<Key, Vec<(&'a Listed, u32)>>,
    kept: Vec<Listed>,
}

/// Compacts publications all of whose files are of days before one (days since 1970); without one, all. `head` has perftax's version, the host and the time.
///
/// # Errors
/// Where the place cannot be read or written.
pub fn compact(place: &Place, before: Option<i64>, head: Publication, now: SystemTime) -> Result<Compacted> {
    place.expect()?;
    let publications = Publications::read(place)?;
    let mut done = Compacted {
        newer: publications.newer.iter().map(|(path, version)| (path.clone(), *version)).collect(),
        corrupt: publications.unreadable.iter().map(|(path, why)| Finding { path: path.clone(), why: why.clone() }).collect(),
        ..Compacted::default()
    };
    let is_wanted = |publication: &&Publication| {
        publication.files.iter().all(|listed| {
            let is_before = |named: crate::publication::Named<'_>| before.is_none_or(|before| days_of(named.date) < Some(before));
            listed.named().is_none_or(is_before)
        })
    };
    let mut chosen: Vec<&Publication> = publications.counting().filter(is_wanted).collect();
    // Whatever is corrupt keeps its publication from being taken up, which changes what is to be done.
    let mut sound: BTreeSet<&str> = BTreeSet::new();
    let plan = loop {
        let plan = Plan::of(&chosen);
        let wrong = plan.wrong(place, &mut sound)?;
        if wrong.is_empty() {
            break plan;
        }
        chosen.retain(|publication| !publication.files.iter().any(|listed| wrong.iter().any(|of| of.path == listed.path)));
        done.corrupt.extend(wrong);
    };
    done.corrupt.sort();
    if !plan.anew.is_empty() {
        let publication = write(place, &plan, &chosen, head)?;
        done.publications = chosen.len() as u64;
        let before: BTreeMap<&str, u64> =
            chosen.iter().flat_map(|publication| &publication.files).map(|listed| (listed.path.as_str(), listed.bytes)).collect();
        (done.files_before, done.bytes_before) = (before.len() as u64, before.values().sum());
        done.files_after = publication.files.len() as u64;
        done.bytes_after = publication.files.iter().map(|listed| listed.bytes).sum();
        done.rows = publication.files.iter().map(|listed| listed.rows).sum();
        done.id = Some(publication.id);
    }
    done.removed = clean(place, now)?;
    Ok(done)
}

impl<'a> Plan<'a> {
    fn of(chosen: &[&'a Publication]) -> Self {
        let mut groups: BTreeMap<Key, BTreeMap<&str, (&Listed, u32)>> = BTreeMap::new();
        let mut plan = Self::default();
        for publication in chosen {
            for listed in &publication.files {
                // One that is no path of a data set is found to be wrong.
                let key = listed.named().map(|named| (named.table, named.date.to_string(), named.service.to_string()));
                let key = key.unwrap_or((Table::Messages, String::new(), String::new()));
                groups.entry(key).or_default().insert(&listed.path, (listed, publication.schema));
            }
        }
        for (key, files) in groups {
            let is_small = |(listed, version): &(&Listed, u32)| listed.bytes < LARGE_BYTES || *version < VERSION;
            let (small, large): (Vec<_>, Vec<_>) = files.into_values().partition(is_small);
            plan.kept.extend(large.into_iter().map(|(listed, _)| listed.clone()));
            let is_worth_it =
                small.len() > 1 || small.iter().any(|(listed, version)| *version < VERSION || listed.named().is_none());
            if is_worth_it {
                plan.anew.insert(key, small);
            } else {
                plan.kept.extend(small.into_iter().map(|(listed, _)| listed.clone()));
            }
        }
        plan
    }

    /// What is wrong with files: those that are to be written anew are read, of the others the size is looked at.
    fn wrong(&self, place: &Place, sound: &mut BTreeSet<&'a str>) -> Result<Vec<Finding>> {
        let mut wrong = Vec::new();
        for (listed, version) in self.anew.values().flatten() {
            if sound.contains(listed.path.as_str()) {
                continue;
            }
            match verify(place, listed, *version)? {
                Ok(_) => drop(sound.insert(&listed.path)),
                Err(why) => wrong.push(Finding { path: listed.path.clone(), why }),
            }
        }
        for listed in &self.kept {
            let size = place.size(&listed.path)?;
            if size != Some(listed.bytes) {
                let why = size.map_or_else(
                    || "is missing".into(),
                    |size| format!("has {size} bytes, its publication says {}", listed.bytes),
                );
                wrong.push(Finding { path: listed.path.clone(), why });
            }
        }
        Ok(wrong)
    }
}

/// Writes the files, and then the publication.
fn write(place: &Place, plan: &Plan<'_>, chosen: &[&Publication], head: Publication) -> Result<Publication> {
    let mut files = plan.kept.clone();
    for (key, parts) in &plan.anew {
        files.extend(merge(place, key, parts)?);
    }
    files.sort();
    let mut replaces: BTreeSet<String> = chosen.iter().map(|publication| publication.id.clone()).collect();
    // What they took up stays taken up when they are gone.
    replaces.extend(chosen.iter().flat_map(|publication| publication.replaces.iter().cloned()));
    let replaces: Vec<String> = replaces.into_iter().collect();
    let named = files.iter().map(|listed| listed.path.as_str()).chain(replaces.iter().map(String::as_str));
    let hash = sha256(named.collect::<Vec<_>>().join("\n").as_bytes());
    let id = format!("{COMPACTED}{}", &hash[..32 - COMPACTED.len()]);
    let publication = Publication { schema: VERSION, id, replaces, files, ..head };
    publication.write(place)?;
    Ok(publication)
}

/// Files of a table, a day and a service as few.
fn merge(place: &Place, (table, date, service): &Key, parts: &[(&Listed, u32)]) -> Result<Vec<Listed>> {
    let mut merged = Vec::new();
    let mut left = parts.iter().peekable();
    while left.peek().is_some() {
        let mut writer = FileWriter::new(*table, VERSION, table.name(), Vec::new())?;
        let mut bytes = 0;
        while let Some((listed, version)) = left.next_if(|(listed, _)| bytes == 0 || bytes + listed.bytes <= MAX_BYTES) {
            bytes += listed.bytes;
            let read = verify(place, listed, *version)?.map_err(|why| Error::content(&listed.path, why))?;
            let reader = FileReader::open(*table, *version, &listed.path, read)?;
            for group in 0..reader.groups() {
                writer.add(&reader.group(group)?)?;
            }
        }
        let (rows, bytes) = writer.finish()?;
        let path = path(*table, date, service, &sha256(&bytes));
        place.write(&path, &bytes)?;
        merged.push(Listed { path, rows, bytes: bytes.len() as u64 });
    }
    Ok(merged)
}

/// Removes what is replaced, also by a compaction that was ended before it did so: publications, then their files. And what nobody lists, when it is old.
fn clean(place: &Place, now: SystemTime) -> Result<u64> {
    let publications = Publications::read(place)?;
    let gone = || publications.all.values().filter(|publication| publications.replaced.contains(&publication.id));
    for publication in gone() {
        place.remove(&Publication::path_of(&publication.id))?;
    }
    let counted: BTreeSet<&str> =
        publications.counting().flat_map(|publication| &publication.files).map(|listed| listed.path.as_str()).collect();
    let replaced: BTreeSet<&str> = gone()
        .flat_map(|publication| &publication.files)
        .filter(|listed| listed.named().is_some())
        .map(|listed| listed.path.as_str())
        .collect();
    // What cannot be read may list the same files.
    let is_known = publications.newer.is_empty() && publications.unreadable.is_empty();
    let mut removed = 0;
    for path in replaced.difference(&counted).filter(|_| is_known) {
        place.remove(path)?;
        removed += 1;
    }
    let orphans = orphans::find(place, &publications)?;
    Ok(removed + orphans::remove(place, &publications, &orphans, now)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use crate::check::check;
    use crate::rows::{CauseRow, Text};
    use crate::{Publisher, schema};

    const MINUTE_NS: i64 = 1_795_910_400_000_000_000;

    fn head(id: u8, schema: u32) -> Publication {
        let id = format!("{id:032x}");
        let (perftax, host) = ("0".into(), "a".into());
        Publication { schema, id, perftax, host, published_ns: MINUTE_NS, replaces: Vec::new(), files: Vec::new() }
    }

    fn publish(place: &Place, id: u8, version: u32, rows: i64) {
        let mut publisher = Publisher::of(Some("app"));
        for at in 0..rows {
            publisher.push(CauseRow {
                host: "a".into(),
                recording: format!("{id:032x}").into(),
                minute_ns: MINUTE_NS,
                message: None,
                cause: "on CPU".into(),
                detail: Some("none of version 1".into()),
                ns: at,
                messages: 1,
                revision: Some(Text::from("r1")),
            });
        }
        publisher.publish_as(place, head(id, version), version).unwrap();
    }

    #[test]
    fn one_version_back_is_read_checked_and_compacted_into_this_one() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::open(folder.path().to_str().unwrap()).unwrap();
        publish(&place, 1, schema::OLDEST, 5);
        publish(&place, 2, VERSION, 7);
        let now = SystemTime::now();
        let before = check(&place, false, now).unwrap();
        assert_eq!((before.publications, before.rows, before.corrupt, before.newer), (2, 12, vec![], vec![]));

        let compacted = compact(&place, None, head(0, VERSION), now).unwrap();
        assert_eq!((compacted.publications, compacted.rows, compacted.files_after), (2, 12, 1));
        let after = check(&place, false, now).unwrap();
        assert_eq!((after.publications, after.rows, after.corrupt, after.newer), (1, 12, vec![], vec![]));

        let publications = Publications::read(&place).unwrap();
        let one = publications.counting().next().unwrap();
        assert_eq!(one.schema, VERSION);
        let bytes = verify(&place, &one.files[0], VERSION).unwrap().unwrap();
        let rows = FileReader::open(Table::Causes, VERSION, "x", bytes).unwrap().group(0).unwrap();
        let known = rows.texts("detail").unwrap().iter().filter(|detail| detail.is_some()).count();
        assert_eq!((rows.len(), known), (12, 7), "what version 1 does not know is NULL");
    }

    #[test]
    fn what_is_newer_is_left_out_named_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::open(folder.path().to_str().unwrap()).unwrap();
        publish(&place, 1, VERSION, 5);
        publish(&place, 2, VERSION, 7);
        let newer = Publication::path_of(&format!("{:032x}", 2));
        let file = folder.path().join(&newer);
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.replace(&format!("\"schema\": {VERSION}"), &format!("\"schema\": {}", VERSION + 1));
        std::fs::write(&file, &text).unwrap();
        let now = SystemTime::now();
        let checked = check(&place, false, now).unwrap();
        assert_eq!((checked.publications, checked.rows), (1, 5), "{text}");
        assert_eq!(checked.newer, [(newer.clone(), VERSION + 1)]);
        let compacted = compact(&place, None, head(0, VERSION), now).unwrap();
        assert_eq!(compacted.newer, [(newer, VERSION + 1)]);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
}
