//! Which object of the heap lay at an address, and who allocated it: from the calls of malloc and free, as probes on them report them.
//! Pure: times and addresses in, objects out.
//!
//! An allocation is two records, the call (bytes, callers) and its return (address), and they come apart: threads allocate at once,
//! allocators call each other (calloc malloc, a wrapper the real one), and a record may be lost. Which return belongs to which call is told by
//! the stack pointer: a call pushes an address, its return pops it. Of calls within calls the outermost counts, for it is what the program
//! asked for. A call is over when another is seen at the same height or above: its return was lost, or it was left by longjmp(3). Addresses are
//! used again, so objects have lifetimes, and who asks says when. An object whose `free` was lost ends when another is allocated over it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// What a call of a function leaves on the stack: the address that it returns to.
const RETURN_ADDRESS_BYTES: u64 = 8;

/// An object of the heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeapObject {
    /// Its first byte's address.
    pub address: u64,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// Return addresses of the callers, innermost first.
    pub callers: Arc<[u64]>,
    /// How many these callers had allocated by then, it included.
    pub number: u64,
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

/// A call of an allocator's function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which thread calls.
    pub thread: u32,
    /// Its stack pointer at the function's first instruction.
    pub stack: u64,
    /// Which function: calls of two that begin at one height are one that jumps to the other.
    pub function: usize,
    /// Bytes that it asks for.
    pub bytes: u64,
    /// Return addresses of the callers, innermost first.
    pub callers: Arc<[u64]>,
    /// The object that it replaces (realloc).
    pub instead_of: Option<u64>,
}

/// A call that has not returned.
#[derive(Clone, Debug)]
struct Pending {
    call: Call,
    /// When what it replaces was allocated; none where nothing is known there.
    replaces_since: Option<u64>,
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

impl HeapEvidence {
    /// Adds what was counted from one time to another.
    pub fn add_since(&mut self, before: Self, now: Self) {
        self.allocated += now.allocated - before.allocated;
        self.lost_returns += now.lost_returns - before.lost_returns;
        self.lost_calls += now.lost_calls - before.lost_calls;
        self.lost_frees += now.lost_frees - before.lost_frees;
        self.forgotten += now.forgotten - before.forgotten;
    }
}

/// The heap of one process over time.
#[derive(Clone, Debug)]
pub struct Heap {
    /// Calls of each thread, the outermost first.
    calls: HashMap<u32, Vec<Pending>>,
    /// What lives, by address; no two overlap.
    live: BTreeMap<u64, Arc<HeapObject>>,
    /// What was freed, the oldest first.
    freed: VecDeque<Arc<HeapObject>>,
    most_freed: usize,
    /// Objects that were allocated by the same callers.
    numbers: HashMap<Arc<[u64]>, u64>,
    /// When records were lost last.
    lost_ns: Option<u64>,
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
            numbers: HashMap::new(),
            lost_ns: None,
            evidence: HeapEvidence::default(),
        }
    }

    /// A thread calls a function that allocates.
    pub fn called(&mut self, call: Call) {
        let calls = self.calls.entry(call.thread).or_default();
        // Stacks grow downwards: what was called further down is over, and so is the same function at the same height.
        let is_over =
            |before: &Call| before.stack < call.stack || (before.stack == call.stack && before.function == call.function);
        while calls.last().is_some_and(|before| is_over(&before.call)) {
            calls.pop();
            self.evidence.lost_returns += 1;
        }
        let replaces_since = call.instead_of.and_then(|address| self.live.get(&address)).map(|old| old.from_ns);
        calls.push(Pending { call, replaces_since });
    }

    /// A function that allocates returns to a thread, whose stack pointer is then `stack`. The object that the program has got by it.
    pub fn returned(&mut self, thread: u32, stack: u64, function: usize, address: u64, at_ns: u64) -> Option<Arc<HeapObject>> {
        let called_at = stack.wrapping_sub(RETURN_ADDRESS_BYTES);
        let calls = self.calls.entry(thread).or_default();
        while calls.last().is_some_and(|pending| pending.call.stack < called_at) {
            calls.pop();
            self.evidence.lost_returns += 1;
        }
        let is_its = |pending: &&Pending| pending.call.stack == called_at && pending.call.function == function;
        let Some(pending) = calls.last().filter(is_its).cloned() else {
            self.evidence.lost_calls += 1;
            return None;
        };
        calls.pop();
        // Where nothing could be had, realloc leaves the old object as it is. One that asks for nothing may have freed it.
        if !calls.is_empty() || (address == 0 && pending.call.bytes > 0) {
            return None;
        }
        self.allocated(pending, address, at_ns)
    }

    fn allocated(&mut self, pending: Pending, address: u64, at_ns: u64) -> Option<Arc<HeapObject>> {
        let Pending { call, replaces_since } = pending;
        // By now another thread may have been given what the old one left.
        let is_still = |old: &u64| self.live.get(old).is_some_and(|object| Some(object.from_ns) == replaces_since);
        if let Some(old) = call.instead_of.filter(is_still) {
            self.free(old, at_ns);
        }
        if address == 0 {
            return None;
        }
        let number = self.numbers.entry(Arc::clone(&call.callers)).or_default();
        *number += 1;
        let number = *number;
        // An object of no bytes has an address of its own all the same.
        let (bytes, callers) = (call.bytes.max(1), call.callers);
        let object = HeapObject { address, bytes, callers, number, from_ns: at_ns, until_ns: None };
        self.end_what_lies_in(&object, at_ns);
        self.evidence.allocated += 1;
        let object = Arc::new(object);
        self.live.insert(address, Arc::clone(&object));
        Some(object)
    }

    /// A thread calls `free(address)`. What was allocated before anybody looked is not known, and that is no loss.
    pub fn free(&mut self, address: u64, at_ns: u64) {
        if let Some(object) = self.live.remove(&address) {
            self.bury(object, at_ns);
        }
    }

    /// A thread has ended: its number may be another's soon.
    pub fn ended(&mut self, thread: u32) {
        self.calls.remove(&thread);
    }

    /// Records were lost by then: whoever is in a call is not heard of again, and an object that lives may have been freed.
    pub fn lost(&mut self, at_ns: u64) {
        self.calls.clear();
        self.lost_ns = Some(at_ns);
    }

    /// Whether no record was lost between an object's allocation and a time, so that it was certainly there.
    pub fn is_sure_of(&self, object: &HeapObject, at_ns: u64) -> bool {
        self.lost_ns.is_none_or(|lost_ns| lost_ns < object.from_ns || at_ns < lost_ns)
    }

    fn end_what_lies_in(&mut self, new: &HeapObject, at_ns: u64) {
        let before = self.live.range(..new.end()).rev();
        let covered: Vec<u64> = before.take_while(|(_, old)| old.end() > new.address).map(|(&address, _)| address).collect();
        for address in covered {
            let is_moving = self.calls.values().flatten().any(|pending| pending.call.instead_of == Some(address));
            self.evidence.lost_frees += u64::from(!is_moving);
            self.free(address, at_ns);
        }
    }

    fn bury(&mut self, mut object: Arc<HeapObject>, at_ns: u64) {
        Arc::make_mut(&mut object).until_ns = Some(at_ns);
        self.freed.push_back(object);
        if self.freed.len() > self.most_freed {
            self.freed.pop_front();
            self.evidence.forgotten += 1;
        }
    }

    /// The objects that lay in so many bytes at a time, such as a cache line, by address.
    pub fn lying_in(&self, address: u64, bytes: u64, at_ns: u64) -> Vec<&Arc<HeapObject>> {
        let end = address.saturating_add(bytes);
        let live = self.live.range(..end).rev().map(|(_, object)| object).take_while(|object| object.end() > address);
        let live_then = live.filter(|object| object.from_ns <= at_ns);
        // Those that were freed by then stand before those that were not.
        let late = self.freed.partition_point(|object| object.until_ns.is_some_and(|until_ns| until_ns <= at_ns));
        let freed = self.freed.range(late..).filter(|object| object.address < end && object.end() > address);
        let lived_then = freed.filter(|object| object.holds(object.address, at_ns));
        let mut found: Vec<&Arc<HeapObject>> = live_then.chain(lived_then).collect();
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

    /// Functions, as the probes number them.
    const MALLOC: usize = 0;
    const CALLOC: usize = 1;
    const REALLOC: usize = 2;
    /// A stack pointer.
    const TOP: u64 = 0x7ffd_0000;

    /// A call of malloc, at some height.
    fn call(thread: u32, bytes: u64, caller: u64) -> Call {
        let callers = [caller].into();
        Call { thread, stack: TOP, function: MALLOC, bytes, callers, instead_of: None }
    }

    fn again(thread: u32, address: u64, bytes: u64, caller: u64) -> Call {
        Call { function: REALLOC, instead_of: Some(address), ..call(thread, bytes, caller) }
    }

    fn got(heap: &mut Heap, thread: u32, address: u64, at_ns: u64) {
        heap.returned(thread, TOP + 8, MALLOC, address, at_ns);
    }

    fn got_again(heap: &mut Heap, thread: u32, address: u64, at_ns: u64) {
        heap.returned(thread, TOP + 8, REALLOC, address, at_ns);
    }

    fn allocate(heap: &mut Heap, thread: u32, address: u64, bytes: u64, at_ns: u64) {
        heap.called(call(thread, bytes, at_ns));
        got(heap, thread, address, at_ns);
    }

    fn at(heap: &Heap, address: u64, at_ns: u64) -> Option<HeapObject> {
        heap.lying_in(address, 1, at_ns).first().map(|object| (***object).clone())
    }

    fn callers(heap: &Heap, address: u64, at_ns: u64) -> Option<Vec<u64>> {
        at(heap, address, at_ns).map(|object| object.callers.to_vec())
    }

    fn starts(found: &[&Arc<HeapObject>]) -> Vec<u64> {
        found.iter().map(|object| object.address).collect()
    }

    #[test]
    fn an_address_that_is_used_again_is_of_who_had_it_then() {
        let mut heap = Heap::new(10);
        allocate(&mut heap, 1, 0x1000, 64, 10);
        heap.free(0x1000, 20);
        allocate(&mut heap, 2, 0x1010, 32, 30);
        assert_eq!(callers(&heap, 0x1018, 5), None);
        assert_eq!(callers(&heap, 0x1018, 10), Some(vec![10]));
        assert_eq!(callers(&heap, 0x1018, 20), None, "freed, and not allocated again");
        assert_eq!(callers(&heap, 0x1018, 30), Some(vec![30]));
        assert_eq!(at(&heap, 0x1030, 30), None, "behind its end");
        assert_eq!(at(&heap, 0x1000, 15).unwrap().until_ns, Some(20));
    }

    #[test]
    fn threads_that_allocate_at_once_get_their_own() {
        let mut heap = Heap::new(10);
        heap.called(call(1, 16, 1));
        heap.called(call(2, 32, 2));
        got(&mut heap, 1, 0x1000, 5);
        got(&mut heap, 2, 0x2000, 6);
        assert_eq!((at(&heap, 0x1008, 9).unwrap().bytes, at(&heap, 0x2008, 9).unwrap().bytes), (16, 32));
        assert_eq!(heap.evidence(), HeapEvidence { allocated: 2, ..HeapEvidence::default() });
    }

    #[test]
    fn objects_of_the_same_callers_are_numbered() {
        let mut heap = Heap::new(10);
        for (number, caller) in [7, 7, 8, 7].into_iter().enumerate() {
            heap.called(call(1, 16, caller));
            got(&mut heap, 1, 0x1000 + 32 * number as u64, 1);
        }
        let numbers: Vec<u64> = heap.lying_in(0x1000, 128, 2).iter().map(|object| object.number).collect();
        assert_eq!(numbers, [1, 2, 1, 3]);
    }

    #[test]
    fn of_calls_within_calls_the_outermost_counts() {
        let mut heap = Heap::new(10);
        // calloc calls malloc, further down.
        heap.called(Call { function: CALLOC, ..call(1, 96, 7) });
        heap.called(Call { stack: TOP - 64, ..call(1, 112, 8) });
        heap.returned(1, TOP - 56, MALLOC, 0x1000, 2);
        assert_eq!(at(&heap, 0x1000, 2), None, "not yet");
        heap.returned(1, TOP + 8, CALLOC, 0x1010, 3);
        let object = at(&heap, 0x1010, 3).unwrap();
        assert_eq!((object.bytes, object.callers.to_vec(), object.number), (96, vec![7], 1));
        // realloc(NULL, 24) jumps to malloc: two calls at one height, of which the inner returns first.
        heap.called(again(1, 0, 24, 9));
        heap.called(call(1, 24, 10));
        got(&mut heap, 1, 0x2000, 4);
        got_again(&mut heap, 1, 0x2000, 5);
        assert_eq!(callers(&heap, 0x2000, 5), Some(vec![9]));
        assert_eq!(heap.evidence(), HeapEvidence { allocated: 2, ..HeapEvidence::default() });
    }

    #[test]
    fn what_is_over_is_not_waited_for() {
        let mut heap = Heap::new(10);
        heap.called(Call { stack: TOP - 256, ..call(1, 16, 7) });
        // Its return was lost; this one begins above it.
        heap.called(call(1, 32, 8));
        got(&mut heap, 1, 0x1000, 2);
        assert_eq!(callers(&heap, 0x1000, 2), Some(vec![8]));
        heap.called(Call { function: CALLOC, ..call(1, 16, 9) });
        heap.lost(3);
        heap.called(Call { stack: TOP - 256, ..call(1, 32, 10) });
        heap.returned(1, TOP - 248, MALLOC, 0x2000, 4);
        assert_eq!(callers(&heap, 0x2000, 4), Some(vec![10]), "the call above it may be over");
        let sure = |address: u64, at_ns| heap.is_sure_of(&at(&heap, address, at_ns).unwrap(), at_ns);
        assert_eq!((sure(0x1000, 2), sure(0x1000, 5), sure(0x2000, 5)), (true, false, true));
    }

    #[test]
    fn an_object_that_grows_ends_where_it_was() {
        let mut heap = Heap::new(10);
        allocate(&mut heap, 1, 0x1000, 16, 1);
        heap.called(again(1, 0x1000, 64, 7));
        got_again(&mut heap, 1, 0x3000, 2);
        assert_eq!(at(&heap, 0x1000, 3), None);
        assert_eq!((at(&heap, 0x3020, 3).unwrap().bytes, callers(&heap, 0x3020, 3)), (64, Some(vec![7])));
        heap.called(again(1, 0x3000, 1 << 60, 8));
        got_again(&mut heap, 1, 0, 4);
        assert!(at(&heap, 0x3020, 5).is_some(), "where nothing could be had, it stays");
        heap.called(again(1, 0x3000, 128, 9));
        got_again(&mut heap, 1, 0x3000, 6);
        assert_eq!((at(&heap, 0x3000, 6).unwrap().bytes, at(&heap, 0x3000, 5).unwrap().bytes), (128, 64), "in its place");
        heap.called(again(1, 0x3000, 0, 9));
        got_again(&mut heap, 1, 0, 7);
        assert_eq!(at(&heap, 0x3000, 7), None, "realloc to nothing frees");
        assert_eq!(heap.evidence().lost_frees, 0);
    }

    #[test]
    fn what_realloc_left_may_be_another_s_before_it_returns() {
        let mut heap = Heap::new(10);
        allocate(&mut heap, 1, 0x1000, 16, 1);
        heap.called(again(1, 0x1000, 64, 7));
        allocate(&mut heap, 2, 0x1000, 16, 2);
        got_again(&mut heap, 1, 0x3000, 3);
        assert_eq!(callers(&heap, 0x1000, 4), Some(vec![2]), "the other thread's stays");
        assert_eq!(callers(&heap, 0x3000, 4), Some(vec![7]));
        assert_eq!(heap.evidence(), HeapEvidence { allocated: 3, ..HeapEvidence::default() });
    }

    #[test]
    fn what_is_lost_is_counted() {
        let mut heap = Heap::new(1);
        got(&mut heap, 1, 0x9000, 1);
        heap.called(call(1, 16, 0));
        heap.called(call(1, 24, 0));
        got(&mut heap, 1, 0x1000, 2);
        assert_eq!(at(&heap, 0x1000, 2).unwrap().bytes, 24);
        allocate(&mut heap, 1, 0x1010, 16, 3);
        assert_eq!(at(&heap, 0x1000, 4), None, "its free was lost, and another lies over its end");
        allocate(&mut heap, 1, 0x1008, 4, 4);
        heap.free(0x1010, 5);
        heap.free(0xdead, 6);
        let counted = HeapEvidence { allocated: 3, lost_returns: 1, lost_calls: 1, lost_frees: 1, forgotten: 1 };
        assert_eq!(heap.evidence(), counted);
        assert_eq!(at(&heap, 0x1000, 2), None, "forgotten");
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
        let child = heap.clone();
        heap.free(0x0ff0, 7);
        assert_eq!((starts(&heap.lying_in(0x1000, 32, 8)), starts(&child.lying_in(0x1000, 32, 8))), (vec![], vec![0xff0]));
    }
}
