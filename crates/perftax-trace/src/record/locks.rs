//! What lies at the addresses of locks: asked while their processes are there.

use std::collections::{BTreeMap, BTreeSet};

use perftax_pmu::process::{MappedFiles, maps};
use perftax_symbols::Mapping;

use crate::names::Names;

/// From one reading of a process's mappings to the next at least, ns.
const AGAIN_NS: u64 = 200_000_000;

/// What processes had mapped when a lock of theirs was first seen.
#[derive(Default)]
pub(super) struct LockPlaces {
    known: BTreeSet<u32>,
    maps: BTreeMap<u32, (u64, Vec<Mapping>)>,
}

impl LockPlaces {
    /// Locks may have come: their places are looked up while that can be done.
    pub fn look(&mut self, names: &Names, files: &mut MappedFiles, now_ns: u64) {
        if names.locks.len() == self.known.len() {
            return;
        }
        for (number, lock) in &names.locks {
            if self.known.contains(number) {
                continue;
            }
            let (read_ns, mapped) = self.maps.entry(lock.pid).or_default();
            if !mapped.iter().any(|mapping| mapping.contains(lock.address)) {
                if now_ns < *read_ns + AGAIN_NS {
                    continue;
                }
                *read_ns = now_ns;
                // Of who is gone nobody tells any more.
                if let Ok(now) = maps(lock.pid) {
                    now.iter().filter(|mapping| mapping.is_code).for_each(|mapping| files.hold(lock.pid, mapping));
                    *mapped = now;
                }
            }
            self.known.insert(*number);
        }
    }

    /// Names them.
    pub fn name(&self, names: &mut Names, files: &MappedFiles) {
        let mut by_pid: BTreeMap<u32, perftax_symbols::naming::Names> = BTreeMap::new();
        for lock in names.locks.values_mut() {
            let Some((_, mapped)) = self.maps.get(&lock.pid) else { continue };
            let of = by_pid.entry(lock.pid).or_insert_with(|| {
                perftax_symbols::naming::Names::read_at(mapped.clone(), |mapping| files.place(lock.pid, mapping))
            });
            lock.name = Some(of.data(lock.address)).filter(|place| place.is_known()).map(|place| place.name);
        }
    }
}
