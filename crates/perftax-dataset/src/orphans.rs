//! Files that no publication lists.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use crate::error::Result;
use crate::place::{Entry, Place};
use crate::publication::{Listed, Publications};

/// What is younger may be of a publication under way.
const SPARED: Duration = Duration::from_secs(24 * 60 * 60);

/// Finds them: files of tables that no publication lists which counts, and what was left under a temporary name. Other files are nobody's business.
pub fn find(place: &Place, publications: &Publications) -> Result<Vec<Entry>> {
    let counted: BTreeSet<&str> =
        publications.counting().flat_map(|publication| &publication.files).map(|listed| listed.path.as_str()).collect();
    let is_ours = |entry: &Entry| Listed { path: entry.path.clone(), rows: 0, bytes: 0 }.named().is_some();
    let all = place.list("")?.into_iter();
    let mut orphans: Vec<Entry> = all.filter(|entry| is_ours(entry) && !counted.contains(entry.path.as_str())).collect();
    orphans.extend(place.partials()?);
    Ok(orphans)
}

/// Removes those that are old. Nothing where a publication cannot be read: what that lists is not known. Returns how many.
pub fn remove(place: &Place, publications: &Publications, orphans: &[Entry], now: SystemTime) -> Result<u64> {
    if !publications.newer.is_empty() || !publications.unreadable.is_empty() {
        return Ok(0);
    }
    let is_old = |entry: &&Entry| entry.written.is_some_and(|written| now.duration_since(written).is_ok_and(|age| age > SPARED));
    let mut removed = 0;
    for orphan in orphans.iter().filter(is_old) {
        place.remove(&orphan.path)?;
        removed += 1;
    }
    Ok(removed)
}
