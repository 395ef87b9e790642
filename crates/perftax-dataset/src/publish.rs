//! Publishing: the files first, the publication last.

use std::collections::BTreeMap;

use crate::date::day;
use crate::digest::sha256;
use crate::error::Result;
use crate::place::Place;
use crate::publication::{Listed, Publication, Publications, path, spelled};
use crate::rows::Row;
use crate::schema::{Table, VERSION};
use crate::table::{Rows, encode};

/// What paths have in a service's place where rows belong to none.
const NO_SERVICE: &str = "-";

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It counts now.
    Published,
    /// It counted already, and nothing was written.
    AlreadyPublished,
    /// One of the same id that listed other files counted: this one counts instead.
    Updated,
    /// A compaction took one of the same id up, which counts as part of that.
    TakenUp,
}

/// Collects the rows of a publication, and writes them.
#[derive(Debug)]
pub struct Publisher {
    service: String,
    rows: BTreeMap<(Table, String, String), Rows>,
}

impl Publisher {
    /// Of a service; none where nothing belongs to one.
    pub fn of(service: Option<&str>) -> Self {
        let service = service.filter(|service| !service.is_empty()).map_or_else(|| NO_SERVICE.into(), spelled);
        Self { service, rows: BTreeMap::new() }
    }

    /// Adds a row.
    pub fn push<R: Row>(&mut self, row: R) {
        let service = if R::TABLE.is_of_a_service() { self.service.clone() } else { NO_SERVICE.into() };
        let key = (R::TABLE, day(row.moment_ns()), service);
        self.rows.entry(key).or_insert_with(|| Rows::of(R::TABLE)).push(row);
    }

    /// How many rows there are of each table.
    pub fn counts(&self) -> BTreeMap<Table, u64> {
        let mut counts = BTreeMap::new();
        for ((table, ..), rows) in &self.rows {
            *counts.entry(*table).or_default() += rows.len() as u64;
        }
        counts
    }

    /// Writes the files, and then the publication, of which `head` has the id, host, version and time. Returns what became of it, and the publication that
    /// counts.
    ///
    /// # Errors
    /// Where something cannot be written. Nothing of it counts then.
    pub fn publish(self, place: &Place, head: Publication) -> Result<(Outcome, Publication)> {
        self.publish_as(place, head, VERSION)
    }

    pub(crate) fn publish_as(self, place: &Place, head: Publication, version: u32) -> Result<(Outcome, Publication)> {
        let before = Publication::read(place, &head.id).ok().flatten();
        if let Some(by) = taken_up(place, &head.id)? {
            return Ok((Outcome::TakenUp, by));
        }
        let mut files = Vec::new();
        let mut contents = Vec::new();
        for ((table, date, service), rows) in &self.rows {
            let bytes = encode(rows, version)?;
            let path = path(*table, date, service, &sha256(&bytes));
            files.push(Listed { path, rows: rows.len() as u64, bytes: bytes.len() as u64 });
            contents.push(bytes);
        }
        let publication = Publication { schema: version, files, ..head };
        if let Some(before) = before.as_ref().filter(|before| before.is_same(&publication))
            && is_there(place, before)?
        {
            return Ok((Outcome::AlreadyPublished, before.clone()));
        }
        place.create()?;
        // Also those that seem to be there: they may be older than what whoever cleans up spares.
        for (listed, bytes) in publication.files.iter().zip(&contents) {
            place.write(&listed.path, bytes)?;
        }
        publication.write(place)?;
        Ok((if before.is_some() { Outcome::Updated } else { Outcome::Published }, publication))
    }
}

/// The compaction that took one of this id up, where any did. Of what is published compactions alone replace anything.
fn taken_up(place: &Place, id: &str) -> Result<Option<Publication>> {
    let compactions = Publications::compactions(place)?;
    let by = compactions.counting().find(|by| by.id != id && by.replaces.iter().any(|replaced| replaced == id));
    Ok(by.cloned())
}

fn is_there(place: &Place, publication: &Publication) -> Result<bool> {
    for listed in &publication.files {
        if place.size(&listed.path)? != Some(listed.bytes) {
            return Ok(false);
        }
    }
    Ok(true)
}
