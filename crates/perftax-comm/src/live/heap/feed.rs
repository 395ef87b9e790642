//! Records of probes, of all processes, to the heap of each.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::Bytes;
use perftax_pmu::Result;
use perftax_pmu::process::{file_of, mapped_file};
use perftax_pmu::record::{Record, Sample};
use perftax_pmu::sys::monotonic_raw_ns;
use perftax_symbols::{Frame, Unwinder};
use perftax_target::TimeOrder;

use super::allocator::{Does, Function, first_argument};
use super::awaited::Awaited;
use super::lines::{Lines, Placed};
use super::objects::{Call, Heap, HeapEvidence, HeapObject};
use super::probes::{AX, At, BP, Probes, SP};
use crate::live::image::Images;

/// Objects of a process that are remembered when they were freed: what touched them is told some 50 ms later, or where lines are followed 200.
const MAX_FREED: usize = 100_000;
/// Addresses of unknown code that a process's mappings are read for again.
const MAX_UNKNOWN: usize = 1000;

/// What the kernel takes from a record's time to its being there, at most, ns.
const WRITING_NS: u64 = 1_000_000;

/// What comes out of the rings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A thread of a process calls a function that allocates; where it stores the address, if it does.
    Called(u32, Call, Option<u64>),
    /// It returns.
    Returned {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
        /// Stack pointer.
        stack: u64,
        /// Which function.
        function: usize,
        /// What it returns.
        result: u64,
        /// A copy of the stack.
        copied: Vec<u8>,
    },
    /// A process frees an object.
    Freed(u32, u64),
    /// A process begins as a copy of another.
    Forked {
        /// It.
        pid: u32,
        /// The other.
        parent: u32,
    },
    /// It executes another program.
    Executed(u32),
    /// A thread of a process ends.
    Ended(u32, u32),
    /// The kernel lost records.
    Lost,
}

/// The heaps of all processes that are followed.
pub struct Heaps {
    functions: Vec<Function>,
    order: TimeOrder<Entry>,
    heaps: HashMap<u32, Arc<Heap>>,
    lines: Lines,
    unwinder: Unwinder,
    /// Callers, each chain once.
    chains: HashSet<Arc<[u64]>>,
    /// Code that no mapping was found for.
    unknown: HashSet<(u32, u64)>,
    /// Where calls that have not returned store the address, by thread and stack pointer.
    variables: HashMap<(u32, u64), u64>,
    evidence: HeapEvidence,
    lost: u64,
    hits: u64,
    is_whole: bool,
    /// Objects of a process that are waited for, and those of them that have come.
    awaited: (u32, Vec<Awaited>),
    arrived: Vec<(usize, Arc<HeapObject>)>,
}

impl Heaps {
    /// Nothing yet, of probes on these functions.
    pub fn of(functions: Vec<Function>) -> Self {
        Self {
            functions,
            order: TimeOrder::default(),
            heaps: HashMap::new(),
            lines: Lines::default(),
            unwinder: Unwinder::default(),
            chains: HashSet::new(),
            unknown: HashSet::new(),
            variables: HashMap::new(),
            evidence: HeapEvidence::default(),
            lost: 0,
            hits: 0,
            is_whole: true,
            awaited: (0, Vec::new()),
            arrived: Vec::new(),
        }
    }

    /// Objects of a process that are waited for.
    pub fn wait_for(&mut self, pid: u32, awaited: Vec<Awaited>) {
        self.awaited = (pid, awaited);
    }

    /// The places of those that have not come yet.
    pub fn waiting(&self) -> Vec<usize> {
        self.awaited.1.iter().filter(|awaited| awaited.seen < awaited.number).map(|awaited| awaited.place).collect()
    }

    /// Those that have come since they were asked for last, with the places that they are for.
    pub fn arrived(&mut self) -> Vec<(usize, Arc<HeapObject>)> {
        std::mem::take(&mut self.arrived)
    }

    /// Takes what has come; what is from before a time is looked up where lines were touched.
    ///
    /// # Errors
    /// Where a ring holds what is no record.
    pub fn look(&mut self, probes: &mut Probes, images: &mut Images, until_ns: u64) -> Result<()> {
        // All that was written before has come when all rings have been read.
        let complete_ns = monotonic_raw_ns().saturating_sub(WRITING_NS);
        probes.drain(|record, at| self.take(&record, at, images))?;
        self.is_whole = probes.is_whole;
        self.account_until(if until_ns == u64::MAX { until_ns } else { complete_ns });
        self.settle(until_ns);
        Ok(())
    }

    /// All has come: what was lost is known.
    pub fn end(&mut self, probes: &Probes) {
        self.lost = self.lost.max(probes.lost());
    }

    fn take(&mut self, record: &Record<'_>, at: Option<At>, images: &mut Images) {
        match record {
            Record::Sample(sample) => {
                self.hits += 1;
                if let (Some(time_ns), Some(entry)) = (sample.time_ns, at.and_then(|at| self.entry(sample, at, images))) {
                    self.order.push(time_ns, entry);
                }
            }
            Record::Lost(lost) => self.lose(lost.lost, lost.sample_id.time_ns),
            Record::LostSamples(lost) => self.lose(lost.lost, lost.sample_id.time_ns),
            Record::Fork(fork) if fork.task.pid != fork.parent.pid => {
                images.forked(fork.task.pid, fork.parent.pid, fork.time_ns);
                self.order.push(fork.time_ns, Entry::Forked { pid: fork.task.pid, parent: fork.parent.pid });
            }
            Record::Exit(exit) => self.order.push(exit.time_ns, Entry::Ended(exit.task.pid, exit.task.tid)),
            Record::Comm(comm) if comm.by_exec => {
                images.read(comm.task.pid);
                self.order.push(comm.sample_id.time_ns.unwrap_or(0), Entry::Executed(comm.task.pid));
            }
            _ => {}
        }
    }

    fn lose(&mut self, records: u64, time_ns: Option<u64>) {
        self.lost += records;
        self.order.push(time_ns.unwrap_or(0), Entry::Lost);
    }

    fn entry(&mut self, sample: &Sample<'_>, at: At, images: &mut Images) -> Option<Entry> {
        let (task, registers) = (sample.task?, sample.user_registers?);
        let register = |number: u32| registers.get(number);
        let stack = register(SP)?;
        let copied = sample.user_stack.map(|stack| stack.valid).unwrap_or_default();
        match at {
            At::Return(function) => {
                let (result, copied) = (register(AX)?, copied.to_vec());
                Some(Entry::Returned { pid: task.pid, tid: task.tid, stack, function, result, copied })
            }
            At::Call(number) => {
                let first = first_argument(register)?;
                let does = self.functions.get(number)?.does;
                let (bytes, instead_of, variable) = match does {
                    Does::Free => return (first != 0).then_some(Entry::Freed(task.pid, first)),
                    Does::Allocate(bytes) => (bytes, None, None),
                    Does::Again(bytes) => (bytes, Some(first).filter(|first| *first != 0), None),
                    Does::Store(bytes) => (bytes, None, Some(first)),
                };
                // What is more than there can be is not allocated.
                let bytes = bytes.value(register).unwrap_or(u64::MAX);
                let frame = Frame { stack, base: register(BP).unwrap_or(0) };
                let callers = self.callers(task.pid, frame, copied, images);
                Some(Entry::Called(
                    task.pid,
                    Call { thread: task.tid, stack, function: number, bytes, callers, instead_of },
                    variable,
                ))
            }
        }
    }

    fn callers(&mut self, pid: u32, frame: Frame, stack: &[u8], images: &mut Images) -> Arc<[u64]> {
        let caller = stack.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let is_known = |images: &Images| images.maps(pid).iter().any(|map| map.contains(caller));
        if !is_known(images) && self.unknown.len() < MAX_UNKNOWN && self.unknown.insert((pid, caller)) {
            // A library was loaded meanwhile.
            images.read(pid);
        }
        let callers = self.unwinder.callers(pid, images.maps(pid), frame, stack, |map| mapped_file(pid, map));
        match self.chains.get(callers.as_slice()) {
            Some(known) => Arc::clone(known),
            None => {
                let chain: Arc<[u64]> = callers.into();
                self.chains.insert(Arc::clone(&chain));
                chain
            }
        }
    }

    /// Accounts for what has come from before a time.
    fn account_until(&mut self, until_ns: u64) {
        let mut order = std::mem::take(&mut self.order);
        order.before(until_ns).for_each(|(time_ns, entry)| self.account(time_ns, entry));
        self.order = order;
    }

    /// Looks up what lay where lines were touched before a time.
    fn settle(&mut self, until_ns: u64) {
        let heaps = &self.heaps;
        self.lines.settle(until_ns, |pid| heaps.get(&pid).map(AsRef::as_ref));
    }

    fn account(&mut self, at_ns: u64, entry: Entry) {
        match entry {
            Entry::Called(pid, call, variable) => {
                if let Some(variable) = variable {
                    self.variables.insert((call.thread, call.stack), variable);
                }
                self.change(pid, |heap| heap.called(call));
            }
            Entry::Returned { pid, tid, stack, function, result, copied } => {
                let address = match self.functions.get(function).map(|function| function.does) {
                    Some(Does::Store(_)) => {
                        let variable = self.variables.remove(&(tid, stack.wrapping_sub(8)));
                        // 0: it has stored one.
                        variable.filter(|_| result as i32 == 0).and_then(|at| stored(pid, at, stack, &copied)).unwrap_or(0)
                    }
                    _ => result,
                };
                let object = self.change(pid, |heap| heap.returned(tid, stack, function, address, at_ns));
                if let Some(object) = object.filter(|_| pid == self.awaited.0) {
                    let all = self.awaited.1.iter_mut();
                    let met = all.filter_map(|awaited| awaited.is(&object).then(|| (awaited.place, Arc::clone(&object))));
                    self.arrived.extend(met);
                }
            }
            Entry::Freed(pid, address) => self.change(pid, |heap| heap.free(address, at_ns)),
            Entry::Forked { pid, parent } => {
                let heap = self.heaps.get(&parent).cloned();
                self.heaps.insert(pid, heap.unwrap_or_else(|| Arc::new(Heap::new(MAX_FREED))));
            }
            Entry::Executed(pid) => {
                self.unwinder.forget(pid);
                self.heaps.insert(pid, Arc::new(Heap::new(MAX_FREED)));
            }
            Entry::Ended(pid, tid) => {
                if self.heaps.contains_key(&pid) {
                    self.change(pid, |heap| heap.ended(tid));
                }
            }
            Entry::Lost => self.heaps.values_mut().for_each(|heap| Arc::make_mut(heap).lost(at_ns)),
        }
    }

    /// What a child inherits is its parent's until one of them changes it.
    fn change<T>(&mut self, pid: u32, change: impl FnOnce(&mut Heap) -> T) -> T {
        let heap = Arc::make_mut(self.heaps.entry(pid).or_insert_with(|| Arc::new(Heap::new(MAX_FREED))));
        let before = heap.evidence();
        let outcome = change(heap);
        self.evidence.add_since(before, heap.evidence());
        outcome
    }

    /// Some bytes of a line were touched.
    pub fn touched(&mut self, pid: u32, line: u64, bytes: Bytes, at_ns: u64) {
        self.lines.touched(pid, line, bytes, at_ns);
    }

    /// What lay in a line when it was touched, by address; nothing where that is not known.
    pub fn objects(&self, pid: u32, line: u64) -> Vec<Placed> {
        self.lines.objects(pid, line)
    }

    /// What was counted, of all processes.
    pub fn evidence(&self) -> HeapEvidence {
        self.evidence
    }

    /// Records that were lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Hits of probes.
    pub fn hits(&self) -> u64 {
        self.hits + self.lost
    }

    /// Whether the kernel leaves each thread its own events, so that none is missed where threads end.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }
}

/// A pointer that was stored in a variable: as the copy of the stack has it, or the process by now.
fn stored(pid: u32, variable: u64, stack: u64, copied: &[u8]) -> Option<u64> {
    let on_stack = variable.checked_sub(stack).and_then(|at| copied.get(usize::try_from(at).ok()?..)?.first_chunk());
    let word = on_stack.copied().or_else(|| {
        let mut word = [0; 8];
        File::open(file_of(pid, "mem")).ok()?.read_exact_at(&mut word, variable).ok()?;
        Some(word)
    });
    word.map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::heap::allocator;

    fn function(name: &str, does: Does) -> Function {
        Function { name: name.into(), does, path: "/lib/libc.so.6".into(), offset: 0 }
    }

    fn heaps() -> Heaps {
        let bytes = allocator::Bytes::Argument;
        Heaps::of(vec![
            function("malloc", Does::Allocate(bytes(0))),
            function("posix_memalign", Does::Store(bytes(2))),
            function("free", Does::Free),
        ])
    }

    fn called(pid: u32, tid: u32, function: usize, bytes: u64, caller: u64) -> Entry {
        let call = Call { thread: tid, stack: 0x7000, function, bytes, callers: [caller].into(), instead_of: None };
        Entry::Called(pid, call, (function == 1).then_some(0x7010))
    }

    fn returned(pid: u32, tid: u32, function: usize, result: u64, copied: &[u64]) -> Entry {
        let copied = copied.iter().flat_map(|word| word.to_le_bytes()).collect();
        Entry::Returned { pid, tid, stack: 0x7008, function, result, copied }
    }

    fn feed(heaps: &mut Heaps, entries: Vec<(u64, Entry)>) {
        entries.into_iter().for_each(|(time_ns, entry)| heaps.order.push(time_ns, entry));
    }

    fn settle(heaps: &mut Heaps, until_ns: u64) {
        heaps.account_until(until_ns);
        heaps.settle(until_ns);
    }

    /// Callers, bytes, offset, number and times of what lay in a line.
    fn found(heaps: &Heaps, pid: u32, line: u64) -> Vec<(u64, u64, i64, u64, u64)> {
        let of = |placed: &Placed| (placed.callers[0], placed.bytes, placed.offset, placed.number, placed.times);
        heaps.objects(pid, line).iter().map(of).collect()
    }

    #[test]
    fn records_of_several_cpus_are_put_in_order() {
        let mut heaps = heaps();
        // The return stands in another CPU's ring, which is read first.
        feed(&mut heaps, vec![(20, returned(1, 1, 0, 0x1020, &[])), (10, called(1, 1, 0, 96, 7))]);
        heaps.touched(1, 0x1000, Bytes::new(0, 64), 30);
        heaps.touched(1, 0x1040, Bytes::new(0, 64), 30);
        heaps.touched(1, 0x1080, Bytes::new(0, 64), 30);
        settle(&mut heaps, 25);
        assert_eq!(found(&heaps, 1, 0x1000), [], "not yet");
        settle(&mut heaps, 40);
        assert_eq!(found(&heaps, 1, 0x1000), [(7, 96, -0x20, 1, 1)]);
        assert_eq!(found(&heaps, 1, 0x1040), [(7, 96, 0x20, 1, 1)]);
        assert_eq!(found(&heaps, 1, 0x1080), [], "behind its end");
        assert_eq!((heaps.evidence().allocated, heaps.lost()), (1, 0));
    }

    #[test]
    fn what_is_stored_in_a_variable_is_read_from_the_stack() {
        let mut heaps = heaps();
        feed(&mut heaps, vec![(10, called(1, 1, 1, 64, 7)), (20, returned(1, 1, 1, 0, &[5, 0x2000]))]);
        feed(&mut heaps, vec![(30, called(1, 1, 1, 64, 8)), (40, returned(1, 1, 1, 12, &[5, 0x3000]))]);
        heaps.touched(1, 0x2000, Bytes::new(0, 64), 50);
        heaps.touched(1, 0x3000, Bytes::new(0, 64), 50);
        settle(&mut heaps, 60);
        assert_eq!((found(&heaps, 1, 0x2000), found(&heaps, 1, 0x3000)), (vec![(7, 64, 0, 1, 1)], vec![]), "12: ENOMEM");
    }

    #[test]
    fn a_child_has_a_heap_of_its_own_from_the_fork_on() {
        let mut heaps = heaps();
        feed(
            &mut heaps,
            vec![(10, called(1, 1, 0, 64, 7)), (20, returned(1, 1, 0, 0x1000, &[])), (30, Entry::Forked { pid: 2, parent: 1 })],
        );
        feed(&mut heaps, vec![(40, Entry::Freed(2, 0x1000)), (50, called(2, 2, 0, 32, 8)), (60, returned(2, 2, 0, 0x1000, &[]))]);
        feed(&mut heaps, vec![(70, Entry::Forked { pid: 3, parent: 1 }), (80, Entry::Executed(3))]);
        (1..=3).for_each(|pid| heaps.touched(pid, 0x1000, Bytes::new(0, 64), 90));
        settle(&mut heaps, 100);
        assert_eq!(found(&heaps, 1, 0x1000), [(7, 64, 0, 1, 1)]);
        assert_eq!(found(&heaps, 2, 0x1000), [(8, 32, 0, 1, 1)]);
        assert_eq!(found(&heaps, 3, 0x1000), [], "another program");
        assert_eq!(heaps.evidence().allocated, 2, "what was copied was not allocated again");
    }

    #[test]
    fn objects_that_take_each_other_s_place_are_one_entry() {
        let mut heaps = heaps();
        for round in 0..5 {
            let at = 100 * round;
            feed(&mut heaps, vec![(at, called(1, 1, 0, 64, 7)), (at + 10, returned(1, 1, 0, 0x1000, &[]))]);
            feed(&mut heaps, vec![(at + 50, Entry::Freed(1, 0x1000))]);
            heaps.touched(1, 0x1000, Bytes::new(0, 64), at + 20);
            settle(&mut heaps, at + 90);
        }
        assert_eq!(found(&heaps, 1, 0x1000), [(7, 64, 0, 1, 5)]);
    }

    #[test]
    fn what_the_allocator_does_to_it_in_the_end_does_not_count() {
        let mut heaps = heaps();
        feed(
            &mut heaps,
            vec![(0, called(1, 1, 0, 64, 7)), (10, returned(1, 1, 0, 0x1000, &[])), (1_000_000, Entry::Freed(1, 0x1000))],
        );
        // All is looked up at once, as at the end of a short program.
        for touch in [100_000, 300_000, 500_000, 1_000_100] {
            heaps.touched(1, 0x1000, Bytes::new(0, 8), touch);
        }
        settle(&mut heaps, u64::MAX);
        assert_eq!(found(&heaps, 1, 0x1000), [(7, 64, 0, 1, 1)]);
    }

    #[test]
    fn what_lived_when_records_were_lost_is_not_sure() {
        let mut heaps = heaps();
        feed(&mut heaps, vec![(10, called(1, 1, 0, 64, 7)), (20, returned(1, 1, 0, 0x1000, &[]))]);
        heaps.lose(5, Some(30));
        feed(&mut heaps, vec![(40, called(1, 1, 0, 64, 8)), (50, returned(1, 1, 0, 0x2000, &[]))]);
        heaps.touched(1, 0x1000, Bytes::new(0, 64), 60);
        heaps.touched(1, 0x2000, Bytes::new(0, 64), 60);
        settle(&mut heaps, 70);
        let sure = |line| heaps.objects(1, line)[0].is_sure;
        assert_eq!((sure(0x1000), sure(0x2000), heaps.lost(), heaps.hits()), (false, true, 5, 5));
    }

    #[test]
    fn what_is_waited_for_is_told_when_it_comes() {
        let mut heaps = heaps();
        heaps.wait_for(1, vec![Awaited { place: 3, code: vec![(6, 7)], number: 2, seen: 0 }]);
        for (pid, address) in [(2, 0x1000), (1, 0x2000), (1, 0x3000), (1, 0x4000)] {
            assert_eq!(heaps.waiting().is_empty(), address > 0x3000);
            feed(&mut heaps, vec![(address, called(pid, pid, 0, 64, 7)), (address + 1, returned(pid, pid, 0, address, &[]))]);
            heaps.account_until(address + 2);
        }
        let arrived: Vec<_> = heaps.arrived().iter().map(|(place, object)| (*place, object.address)).collect();
        assert_eq!((arrived, heaps.arrived().len()), (vec![(3, 0x3000)], 0));
    }
}
