//! What addresses of watched processes are called.

use std::collections::HashMap;

use perftax_doc::CommObject;
use perftax_pmu::process::mapped_file;
use perftax_symbols::naming::Names;

use super::heap::{Heaps, named};
use super::image::Images;
use super::place::Place;
use crate::LINE_BYTES;
use crate::document::Naming;

/// Names in all processes, as they were mapped when they were last looked at.
pub struct ProcessNames<'a> {
    images: &'a Images,
    heaps: Option<&'a Heaps>,
    /// What the user has named.
    places: &'a [Place],
    names: HashMap<u32, Names>,
}

impl<'a> ProcessNames<'a> {
    /// Of what processes had mapped, and what lay on their heaps where that was asked for.
    pub fn new(images: &'a Images, heaps: Option<&'a Heaps>, places: &'a [Place]) -> Self {
        Self { images, heaps, places, names: HashMap::new() }
    }

    /// Those of one process.
    pub fn in_process(&mut self, pid: u32) -> InProcess<'_, 'a> {
        InProcess { all: self, pid }
    }
}

/// Names in one process: data by what the user called it, or by what lies there.
pub struct InProcess<'n, 'a> {
    all: &'n mut ProcessNames<'a>,
    pid: u32,
}

impl InProcess<'_, '_> {
    fn names(&mut self) -> &mut Names {
        let (images, pid) = (self.all.images, self.pid);
        self.all.names.entry(pid).or_insert_with(|| Names::read_at(images.maps(pid).to_vec(), |map| mapped_file(pid, map)))
    }
}

impl Naming for InProcess<'_, '_> {
    fn data(&mut self, address: u64) -> String {
        let found = self.names().lying_in(address, LINE_BYTES - address % LINE_BYTES);
        if found.object.is_some() {
            return found.name;
        }
        match self.all.places.iter().find(|place| place.holds(address)) {
            Some(place) if place.address == address => place.name.clone(),
            Some(place) => format!("{} ({:#x} in)", place.name, address - place.address),
            None if found.is_known() => found.name,
            None => self.all.images.anonymous(self.pid, address).unwrap_or(found.name),
        }
    }

    fn objects(&mut self, line: u64) -> Vec<CommObject> {
        let placed = self.all.heaps.map(|heaps| heaps.objects(self.pid, line)).unwrap_or_default();
        named(&placed, |ip| self.code(ip))
    }

    fn code(&mut self, ip: u64) -> (String, Option<String>) {
        let found = self.names().code(ip);
        (found.function, found.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_called_as_the_user_did_or_by_what_lies_there() {
        let pid = u32::MAX;
        let mut images = Images::default();
        images.writable(pid, 0x20000, 0x21000, 0);
        let places = [Place { address: 0x1010, bytes: 16, name: "pair".into(), is_shared: false }];
        let mut names = ProcessNames::new(&images, None, &places);
        let mut names = names.in_process(pid);
        assert_eq!([0x1010, 0x1018, 0x3000].map(|address| names.data(address)), ["pair", "pair (0x8 in)", "0x3000"]);
        assert_eq!(names.data(0x20000), "mmap #1 of 4096 bytes");
        assert_eq!((names.code(0x10), names.objects(0x1000)), (("0x10".into(), None), Vec::new()));
    }
}
