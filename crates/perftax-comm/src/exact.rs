//! Transfers as they happen, where every access is seen.
//!
//! Each thread has a cache of its own, which never evicts (DESIGN §8: the truth that estimates are held against). A store makes every
//! other thread's copy of the line stale. The next access of such a thread fetches the line from whoever wrote it last: that is a
//! *transfer*, writer → reader, whether it loads or stores, and as much a first access by a thread that never had the line. A store by
//! a thread whose copy is still good makes the others' stale and transfers nothing.
//!
//! A transfer is *true sharing* where the access that needs it touches a byte that others wrote since the thread had the line last, and
//! *false sharing* where it does not (Torrellas, Lam and Hennessy, IEEE ToC 43(6) 1994, judged by that first access).

use rustc_hash::FxHashMap;

use crate::access::{Access, Kind, Thread};
use crate::line::{Bytes, Line};

/// One line fetched from another thread's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Who wrote it last.
    pub from: Thread,
    /// Who fetches it.
    pub to: Thread,
    /// The line.
    pub line: Line,
    /// Whether the fetching access touches bytes that others wrote.
    pub is_true: bool,
    /// Instruction of the last store.
    pub from_ip: u64,
    /// Bytes that it wrote.
    pub from_bytes: Bytes,
    /// Instruction of the fetching access.
    pub to_ip: u64,
    /// Bytes that it touches.
    pub to_bytes: Bytes,
    /// What it does.
    pub to_kind: Kind,
    /// Whether another thread fetched the line before, since it was written last: it is clean by then, in a cache that all share.
    pub is_clean: bool,
}

/// The last store to a line.
#[derive(Clone, Copy, Debug)]
struct Last {
    thread: Thread,
    ip: u64,
    bytes: Bytes,
    /// Whether another thread has fetched it since.
    is_fetched: bool,
}

/// What is known of one line.
#[derive(Clone, Debug, Default)]
struct State {
    last: Option<Last>,
    /// All that was ever written: what a thread that comes for the first time has not seen.
    written: Bytes,
    /// Threads that had the line, and what others wrote since; nothing: the copy is good.
    copies: Vec<(Thread, Bytes)>,
}

/// All lines.
#[derive(Clone, Debug, Default)]
pub struct Exact {
    lines: FxHashMap<Line, State>,
}

impl Exact {
    /// Takes one access; the transfer that it needs, if it does.
    #[inline]
    pub fn take(&mut self, access: &Access) -> Option<Transfer> {
        self.lines.entry(access.line).or_default().take(access)
    }

    /// Lines that were accessed.
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Forgets everything: what follows is told apart from what was before.
    pub fn clear(&mut self) {
        self.lines.clear();
    }
}

impl State {
    fn take(&mut self, access: &Access) -> Option<Transfer> {
        let own = self.copies.iter().position(|(thread, _)| *thread == access.thread);
        let stale = own.map_or(self.written, |own| self.copies[own].1);
        let transfer = self.last.filter(|last| !stale.is_empty() && last.thread != access.thread).map(|last| Transfer {
            from: last.thread,
            to: access.thread,
            line: access.line,
            is_true: stale.overlaps(access.bytes),
            from_ip: last.ip,
            from_bytes: last.bytes,
            to_ip: access.ip,
            to_bytes: access.bytes,
            to_kind: access.kind,
            is_clean: last.is_fetched,
        });
        if let Some(last) = self.last.as_mut().filter(|_| transfer.is_some()) {
            last.is_fetched = true;
        }
        match own {
            Some(own) => self.copies[own].1 = Bytes::default(),
            None => self.copies.push((access.thread, Bytes::default())),
        }
        if access.kind.is_store() && !access.bytes.is_empty() {
            self.written = self.written.with(access.bytes);
            self.last = Some(Last { thread: access.thread, ip: access.ip, bytes: access.bytes, is_fetched: false });
            for (_, stale) in self.copies.iter_mut().filter(|(thread, _)| *thread != access.thread) {
                *stale = stale.with(access.bytes);
            }
        }
        transfer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(thread: Thread, kind: Kind, offset: u64) -> Access {
        Access { thread, line: Line(1), bytes: Bytes::new(offset, 8), kind, ip: u64::from(thread) }
    }

    /// Transfers of a sequence, as (from, to, true).
    fn transfers(sequence: &[(Thread, Kind, u64)]) -> Vec<(Thread, Thread, bool)> {
        let mut exact = Exact::default();
        let taken = sequence.iter().filter_map(|&(thread, kind, offset)| exact.take(&access(thread, kind, offset)));
        taken.map(|t| (t.from, t.to, t.is_true)).collect()
    }

    use Kind::{Load, Store};

    #[test]
    fn readers_fetch_once_after_a_store() {
        let all = [(0, Store, 0), (1, Load, 0), (1, Load, 0), (2, Load, 0), (0, Load, 0), (0, Store, 0), (1, Load, 0)];
        assert_eq!(transfers(&all), [(0, 1, true), (0, 2, true), (0, 1, true)]);
    }

    #[test]
    fn a_store_with_a_good_copy_transfers_nothing() {
        assert_eq!(transfers(&[(0, Store, 0), (1, Load, 0), (1, Store, 0), (0, Load, 0)]), [(0, 1, true), (1, 0, true)]);
    }

    #[test]
    fn other_bytes_of_the_line_are_shared_falsely() {
        let all = [(0, Store, 0), (1, Store, 8), (0, Store, 0), (1, Store, 8), (1, Load, 0)];
        assert_eq!(transfers(&all), [(0, 1, false), (1, 0, false), (0, 1, false)]);
    }

    #[test]
    fn what_was_written_since_counts_and_not_what_was_written_last() {
        // Thread 2 fetches from 1, and needs what 0 wrote.
        let all = [(2, Load, 0), (0, Store, 0), (1, Store, 8), (2, Load, 0)];
        assert_eq!(transfers(&all), [(0, 1, false), (1, 2, true)]);
    }

    /// The first reader finds the line modified, others find it clean, until it is written again.
    #[test]
    fn readers_after_the_first_find_it_clean() {
        let mut exact = Exact::default();
        let all = [(0, Store), (1, Load), (2, Load), (3, Store), (0, Load), (1, Store)];
        let transfers = all.iter().filter_map(|&(thread, kind)| exact.take(&access(thread, kind, 0)));
        let clean: Vec<_> = transfers.map(|transfer| (transfer.to, transfer.is_clean)).collect();
        assert_eq!(clean, [(1, false), (2, true), (3, true), (0, false), (1, true)]);
    }

    #[test]
    fn nobody_fetches_what_nobody_wrote() {
        assert_eq!(transfers(&[(0, Load, 0), (1, Load, 0), (0, Load, 0)]), []);
        assert_eq!(transfers(&[(0, Store, 0), (0, Load, 8), (0, Store, 8)]), []);
    }
}
