//! Which object of the heap lay at an address, and who allocated it: from the calls of malloc and free, as probes on them report them.
//! Pure: times and addresses in, objects out.
//!
//! An allocation is two records, the call (bytes, callers) and its return (address), and they come apart: threads allocate at once, and a
//! record may be lost. A thread's return belongs to its last call; a call whose return is lost is replaced by the next. Addresses are used
//! again, so objects have lifetimes, and who asks says when. An object whose `free` was lost ends when another is allocated over it.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// An object of the heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeapObject {
    /// Its first byte's address.
    pub address: u64,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// Return addresses of the callers, innermost first.
    pub callers: Vec<u64>,
    /// When it was allocated, ns on the clock of the records.
    pub from_ns: u64,
    /// When it was freed; none while it lives.
    pub until_ns: Option<u64>,
}

impl HeapObject {
    fn holds(&self, address: u64, at_ns: u64) -> bool {
        let lives = self.from_ns <= at_ns && self.until_ns.is_none_or(|until| at_ns < until);
        lives && self.address <= address && address - self.address < self.bytes
    }

    fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }
}

/// A call of an allocator that has not returned.
#[derive(Clone, Debug)]
struct Call {
    bytes: u64,
    callers: Vec<u64>,
    /// The object that `realloc` was given: its address, and when it was allocated.
    instead_of: Option<(u64, u64)>,
}

/// What was counted, and what it rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapEvidence {
    /// Objects that were allocated.
    pub allocated: u64,
    /// Calls whose return never came.
    pub lost_returns: u64,
    /// Returns whose call never came: objects of an unknown size.
    pub lost_calls: u64,
    /// Objects that were allocated over one that lived: its free was lost.
    pub lost_frees: u64,
    /// Objects that were freed and are not remembered any more.
    pub forgotten: u64,
}

/// The heap of one process over time.
#[derive(Debug)]
pub struct Heap {
    calls: HashMap<i32, Call>,
    /// What lives, by address; no two overlap.
    live: BTreeMap<u64, HeapObject>,
    /// What was freed, the oldest first.
    freed: VecDeque<HeapObject>,
    most_freed: usize,
    evidence: HeapEvidence,
}

impl Heap {
    /// An empty one, which remembers so many objects that were freed.
    pub fn new(most_freed: usize) -> Self {
        Self {
            calls: HashMap::new(),
            live: BTreeMap::new(),
            freed: VecDeque::new(),
            most_freed,
            evidence: HeapEvidence::default(),
        }
    }

    /// A thread calls `malloc(bytes)` or the like (calloc: the product of its arguments).
    pub fn asked(&mut self, thread: i32, bytes: u64, callers: Vec<u64>) {
        self.call(thread, Call { bytes, callers, instead_of: None });
    }

    /// A thread calls `realloc(address, bytes)`.
    pub fn asked_again(&mut self, thread: i32, address: u64, bytes: u64, callers: Vec<u64>) {
        let instead_of = self.live.get(&address).map(|old| (address, old.from_ns));
        self.call(thread, Call { bytes, callers, instead_of });
    }

    fn call(&mut self, thread: i32, call: Call) {
        if self.calls.insert(thread, call).is_some() {
            self.evidence.lost_returns += 1;
        }
    }

    /// The allocator returns to a thread.
    pub fn got(&mut self, thread: i32, address: u64, at_ns: u64) {
        let Some(call) = self.calls.remove(&thread) else {
            self.evidence.lost_calls += 1;
            return;
        };
        // Where nothing could be had, realloc leaves the old object as it is.
        if address == 0 {
            return;
        }
        // By now another thread may have been given what the old one left.
        if let Some((old, _)) = call.instead_of.filter(|(old, from_ns)| self.live.get(old).is_some_and(|o| o.from_ns == *from_ns))
        {
            self.free(old, at_ns);
        }
        // An object of no bytes has an address of its own all the same.
        let object = HeapObject { address, bytes: call.bytes.max(1), callers: call.callers, from_ns: at_ns, until_ns: None };
        self.end_what_lies_in(&object, at_ns);
        self.evidence.allocated += 1;
        self.live.insert(address, object);
    }

    /// A thread calls `free(address)`. What was allocated before anybody looked is not known, and that is no loss.
    pub fn free(&mut self, address: u64, at_ns: u64) {
        if let Some(object) = self.live.remove(&address) {
            self.bury(object, at_ns);
        }
    }

    fn end_what_lies_in(&mut self, new: &HeapObject, at_ns: u64) {
        let before = self.live.range(..new.end()).rev();
        let covered: Vec<u64> = before.take_while(|(_, old)| old.end() > new.address).map(|(&address, _)| address).collect();
        for address in covered {
            let is_moving = self.calls.values().any(|call| call.instead_of.is_some_and(|(old, _)| old == address));
            self.evidence.lost_frees += u64::from(!is_moving);
            self.free(address, at_ns);
        }
    }

    fn bury(&mut self, object: HeapObject, at_ns: u64) {
        self.freed.push_back(HeapObject { until_ns: Some(at_ns), ..object });
        if self.freed.len() > self.most_freed {
            self.freed.pop_front();
            self.evidence.forgotten += 1;
        }
    }

    /// The object that held an address at a time; none where there was none, or where it is not known.
    pub fn at(&self, address: u64, at_ns: u64) -> Option<&HeapObject> {
        let live = self.live.range(..=address).next_back().map(|(_, object)| object);
        let freed = || self.freed.iter().rev().find(|object| object.holds(address, at_ns));
        live.filter(|object| object.holds(address, at_ns)).or_else(freed)
    }

    /// The objects that lay in so many bytes at a time, such as a cache line, by address.
    pub fn lying_in(&self, address: u64, bytes: u64, at_ns: u64) -> Vec<&HeapObject> {
        let end = address.saturating_add(bytes);
        let live = self.live.range(..end).rev().map(|(_, object)| object).take_while(|object| object.end() > address);
        let live_then = live.filter(|object| object.from_ns <= at_ns);
        let freed = self.freed.iter().filter(|object| object.address < end && object.end() > address);
        let lived_then = freed.filter(|object| object.holds(object.address, at_ns));
        let mut found: Vec<&HeapObject> = live_then.chain(lived_then).collect();
        found.sort_by_key(|object| object.address);
        found
    }

    /// What was counted, and what was lost.
    pub fn evidence(&self) -> HeapEvidence {
        self.evidence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocate(heap: &mut Heap, thread: i32, address: u64, bytes: u64, at_ns: u64) {
        heap.asked(thread, bytes, vec![at_ns]);
        heap.got(thread, address, at_ns);
    }

    fn starts(found: &[&HeapObject]) -> Vec<u64> {
        found.iter().map(|object| object.address).collect()
    }

    #[test]
    fn an_address_that_is_used_again_is_of_who_had_it_then() {
        let mut heap = Heap::new(10);
        allocate(&mut heap, 1, 0x1000, 64, 10);
        heap.free(0x1000, 20);
        allocate(&mut heap, 2, 0x1010, 32, 30);
        let callers = |at_ns| heap.at(0x1018, at_ns).map(|object| object.callers.clone());
        assert_eq!(callers(5), None);
        assert_eq!(callers(10), Some(vec![10]));
        assert_eq!(callers(20), None, "freed, and not allocated again");
        assert_eq!(callers(30), Some(vec![30]));
        assert_eq!(heap.at(0x1030, 30), None, "behind its end");
        assert_eq!(heap.at(0x1000, 15).unwrap().until_ns, Some(20));
    }

    #[test]
    fn threads_that_allocate_at_once_get_their_own() {
        let mut heap = Heap::new(10);
        heap.asked(1, 16, vec![1]);
        heap.asked(2, 32, vec![2]);
        heap.got(1, 0x1000, 5);
        heap.got(2, 0x2000, 6);
        assert_eq!((heap.at(0x1008, 9).unwrap().bytes, heap.at(0x2008, 9).unwrap().bytes), (16, 32));
        assert_eq!(heap.evidence(), HeapEvidence { allocated: 2, ..HeapEvidence::default() });
    }

    #[test]
    fn an_object_that_grows_ends_where_it_was() {
        let mut heap = Heap::new(10);
        allocate(&mut heap, 1, 0x1000, 16, 1);
        heap.asked_again(1, 0x1000, 64, vec![7]);
        heap.got(1, 0x3000, 2);
        assert_eq!(heap.at(0x1000, 3), None);
        assert_eq!((heap.at(0x3020, 3).unwrap().bytes, heap.at(0x3020, 3).unwrap().callers.clone()), (64, vec![7]));
        heap.asked_again(1, 0x3000, 1 << 60, vec![8]);
        heap.got(1, 0, 4);
        assert!(heap.at(0x3020, 5).is_some(), "where nothing could be had, it stays");
        heap.asked_again(1, 0x3000, 128, vec![9]);
        heap.got(1, 0x3000, 6);
        assert_eq!((heap.at(0x3000, 6).unwrap().bytes, heap.at(0x3000, 5).unwrap().bytes), (128, 64), "in its place");
        assert_eq!(heap.evidence().lost_frees, 0);
    }

    #[test]
    fn what_realloc_left_may_be_another_s_before_it_returns() {
        let mut heap = Heap::new(10);
        allocate(&mut heap, 1, 0x1000, 16, 1);
        heap.asked_again(1, 0x1000, 64, vec![7]);
        allocate(&mut heap, 2, 0x1000, 16, 2);
        heap.got(1, 0x3000, 3);
        assert_eq!(heap.at(0x1000, 4).unwrap().callers, [2], "the other thread's stays");
        assert_eq!(heap.at(0x3000, 4).unwrap().callers, [7]);
        assert_eq!(heap.evidence(), HeapEvidence { allocated: 3, ..HeapEvidence::default() });
    }

    #[test]
    fn what_is_lost_is_counted() {
        let mut heap = Heap::new(1);
        heap.got(1, 0x9000, 1);
        heap.asked(1, 16, Vec::new());
        heap.asked(1, 24, Vec::new());
        heap.got(1, 0x1000, 2);
        assert_eq!(heap.at(0x1000, 2).unwrap().bytes, 24);
        allocate(&mut heap, 1, 0x1010, 16, 3);
        assert_eq!(heap.at(0x1000, 4), None, "its free was lost, and another lies over its end");
        allocate(&mut heap, 1, 0x1008, 4, 4);
        heap.free(0x1010, 5);
        heap.free(0xdead, 6);
        let counted = HeapEvidence { allocated: 3, lost_returns: 1, lost_calls: 1, lost_frees: 1, forgotten: 1 };
        assert_eq!(heap.evidence(), counted);
        assert_eq!(heap.at(0x1000, 2), None, "forgotten");
    }

    #[test]
    fn a_line_holds_what_lay_in_it_then() {
        let mut heap = Heap::new(10);
        allocate(&mut heap, 1, 0x0ff0, 32, 1);
        allocate(&mut heap, 1, 0x1010, 16, 2);
        allocate(&mut heap, 1, 0x1020, 16, 3);
        allocate(&mut heap, 1, 0x1040, 16, 4);
        heap.free(0x1010, 5);
        assert_eq!(starts(&heap.lying_in(0x1000, 64, 4)), [0xff0, 0x1010, 0x1020]);
        assert_eq!(starts(&heap.lying_in(0x1000, 64, 6)), [0xff0, 0x1020]);
        assert_eq!(starts(&heap.lying_in(0x1000, 64, 1)), [0xff0]);
    }
}
