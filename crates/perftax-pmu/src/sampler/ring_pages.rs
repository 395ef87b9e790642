//! How large the rings may be that this process maps.

use super::probe::NEVER;
use crate::error::Result;
use crate::event::{Catalog, Event, parse};
use crate::machine::{Privilege, Root};
use crate::sampler::Sampling;
use crate::sys::{CounterPage, OpenEvent, Target};

/// The least that a ring is worth mapping with, pages.
const MIN_PAGES: usize = 8;

/// Pages of each of so many rings: those wanted (a power of two), or the half as often as it takes to be allowed them all at once, found by trying. The kernel lets
/// everybody lock `kernel.perf_event_mlock_kb` for each CPU, all of a user's processes together, and then what `ulimit -l` says.
pub fn ring_pages_within_rights(wanted: usize, rings: usize) -> usize {
    let privilege = Privilege::read(&Root::here());
    // Not bound at all (kernel/events/core.c, perf_mmap: perf_is_paranoid, CAP_IPC_LOCK).
    if privilege.ipc_lock || privilege.paranoid.is_some_and(|level| level < 0) {
        return wanted;
    }
    // Counts nothing, anywhere, for everybody. Without it there is nothing to map, and the error is whoever's who opens an event.
    let dummy = parse("dummy:u", &Catalog::of_this_machine()).ok().and_then(|mut events| events.pop());
    let Some(dummy) = dummy else { return wanted };
    let mut pages = wanted;
    while pages > MIN_PAGES && map_rings(&dummy, pages, rings).is_err() {
        pages /= 2;
    }
    pages
}

/// Maps rings of a size, all at once, on events of this thread that are never switched on.
///
/// # Errors
/// Where the event cannot be opened, or its rings not be mapped.
pub(super) fn map_rings(event: &Event, pages: usize, rings: usize) -> Result<()> {
    let one = |_| {
        let sampling = Sampling { period: Some(NEVER), ..Sampling::COUNTING };
        CounterPage::map_ring(&OpenEvent::open(event, &sampling, Target::ThisThread, None)?, pages)
    };
    (0..rings).map(one).collect::<Result<Vec<_>>>().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_is_given_or_halved() {
        let pages = ring_pages_within_rights(64, 1);
        assert!(pages == 64 || (MIN_PAGES..64).contains(&pages) && pages.is_power_of_two(), "{pages}");
    }
}
