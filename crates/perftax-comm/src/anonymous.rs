//! Memory that a program mapped from no file: what pieces of it are called.
//!
//! Addresses of it differ from run to run; sizes, and how many pieces of a size came before, do not, as far as the program does the same. So a
//! simulated run and one on a machine call a piece alike, whoever chose its address.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// What became writable at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// First address.
    pub start: u64,
    /// Behind the last.
    pub end: u64,
    /// How many of this size there are up to it.
    pub number: u32,
}

/// All pieces of one process.
///
/// What was unmapped is not taken off: the kernel's records do not tell of it. Memory that is mapped where some was before is called as that was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anonymous {
    /// By address; they do not overlap.
    pieces: Vec<Piece>,
    /// How many there are of each size; who is told of the pieces needs only their numbers.
    #[serde(skip)]
    of_size: FxHashMap<u64, u32>,
    /// What brk(2) gave: first address, and behind the last.
    heap: Option<(u64, u64)>,
}

impl Anonymous {
    /// From now on the process can write to these addresses. The kernel may name neighbours with them, with which the mapping was joined: what was
    /// there already is nothing new.
    pub fn writable(&mut self, start: u64, end: u64) {
        let mut from = start;
        let mut new = Vec::new();
        let first = self.pieces.partition_point(|piece| piece.end <= start);
        for piece in self.pieces[first..].iter().take_while(|piece| piece.start < end) {
            if from < piece.start {
                new.push((from, piece.start));
            }
            from = piece.end;
        }
        if from < end {
            new.push((from, end));
        }
        for (start, end) in new {
            let number = self.of_size.entry(end - start).or_default();
            *number += 1;
            let at = self.pieces.partition_point(|piece| piece.end <= start);
            self.pieces.insert(at, Piece { start, end, number: *number });
        }
    }

    /// The memory that brk(2) gives lies there now.
    pub fn heap(&mut self, start: u64, end: u64) {
        let (first, last) = self.heap.unwrap_or((start, end));
        self.heap = Some((first.min(start), last.max(end)));
    }

    /// What an address is called: `heap+0x40`, `mmap #2 of 139264 bytes+0x40`.
    pub fn name(&self, address: u64) -> Option<String> {
        let plus = |start: u64| if address > start { format!("+{:#x}", address - start) } else { String::new() };
        if let Some((start, _)) = self.heap.filter(|(start, end)| (*start..*end).contains(&address)) {
            return Some(format!("heap{}", plus(start)));
        }
        let at = self.pieces.partition_point(|piece| piece.end <= address);
        let Piece { start, end, number } = *self.pieces.get(at).filter(|piece| piece.start <= address)?;
        Some(format!("mmap #{number} of {} bytes{}", end - start, plus(start)))
    }
}

/// Those of several processes. A child has what its parent had when it was created.
#[derive(Clone, Debug, Default)]
pub struct AnonymousOf {
    by_process: FxHashMap<u32, Anonymous>,
}

impl AnonymousOf {
    /// A process can write to these addresses.
    pub fn writable(&mut self, process: u32, start: u64, end: u64) {
        self.by_process.entry(process).or_default().writable(start, end);
    }

    /// The memory that brk(2) gives a process lies there now.
    pub fn heap(&mut self, process: u32, start: u64, end: u64) {
        self.by_process.entry(process).or_default().heap(start, end);
    }

    /// A process was created by another.
    pub fn forked(&mut self, process: u32, parent: u32) {
        if let Some(own) = self.by_process.get(&parent).filter(|_| process != parent).cloned() {
            self.by_process.insert(process, own);
        }
    }

    /// A process executes another program.
    pub fn replaced(&mut self, process: u32) {
        self.by_process.remove(&process);
    }

    /// What an address is called.
    pub fn name(&self, process: u32, address: u64) -> Option<String> {
        self.by_process.get(&process)?.name(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_told_by_size_and_number() {
        let mut all = Anonymous::default();
        all.writable(0x9000, 0xb000);
        all.writable(0x5000, 0x6000);
        // Joined with the first: the kernel names both.
        all.writable(0x7000, 0xb000);
        assert_eq!(all.name(0x9040).as_deref(), Some("mmap #1 of 8192 bytes+0x40"));
        assert_eq!(all.name(0x7000).as_deref(), Some("mmap #2 of 8192 bytes"));
        assert_eq!(all.name(0x5fff).as_deref(), Some("mmap #1 of 4096 bytes+0xfff"));
        assert_eq!((all.name(0x6000), all.name(0xb000), all.name(0x4fff)), (None, None, None));
        // What lies between two, and beyond both.
        all.writable(0x4000, 0xc000);
        let names = [0x4000, 0x6000, 0xb000].map(|address| all.name(address).unwrap_or_default());
        assert_eq!(names, ["mmap #2 of 4096 bytes", "mmap #3 of 4096 bytes", "mmap #4 of 4096 bytes"]);
        let before = all.clone();
        all.writable(0x4000, 0xc000);
        assert_eq!(all, before);
    }

    #[test]
    fn the_heap_is_one_however_it_grows() {
        let mut all = Anonymous::default();
        all.heap(0x5000, 0x6000);
        all.heap(0x5000, 0x9000);
        assert_eq!(all.name(0x5000).as_deref(), Some("heap"));
        assert_eq!(all.name(0x8fc0).as_deref(), Some("heap+0x3fc0"));
        assert_eq!(all.name(0x9000), None);
    }

    #[test]
    fn a_child_has_what_its_parent_had() {
        let mut all = AnonymousOf::default();
        all.writable(1, 0x1000, 0x2000);
        all.forked(2, 1);
        all.writable(1, 0x3000, 0x4000);
        assert_eq!(all.name(2, 0x1000).as_deref(), Some("mmap #1 of 4096 bytes"));
        assert_eq!((all.name(2, 0x3000), all.name(3, 0x1000)), (None, None));
        all.replaced(2);
        assert_eq!(all.name(2, 0x1000), None);
    }
}
