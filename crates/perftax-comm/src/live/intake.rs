//! From records to what happened, in order of time.

use std::collections::HashSet;

use crate::{Bytes, Kind, lines_of};
use perftax_doc::CommEvidence;
use perftax_pmu::record::{Mmap, Record, RegisterAbi, Sample};
use perftax_target::TimeOrder;

use super::accounts::{Entry, Seen};
use super::image::Images;
use super::plan::{Piece, Plan};

/// General registers, flags and the instruction pointer: what a sample carries of each (`Payload::with_user_registers`).
const REGISTERS: usize = 24;

/// What the kernel writes where a mapping has no file (kernel/events/core.c, `perf_event_mmap_event`).
const NO_FILE: &[u8] = b"//anon";
/// What it writes of what brk(2) gives.
const HEAP: &[u8] = b"[heap]";

/// A trap as it was sampled: two of one thread with the same of all but the place are one instruction's.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Trap {
    tid: u32,
    ip: u64,
    registers: [u64; REGISTERS],
}

/// The last trap of a ring, which may go on: an instruction that touches two watched pieces traps for each, one record after the other.
struct Pending {
    trap: Trap,
    time_ns: u64,
    seen: Seen,
    pieces: Vec<Piece>,
}

/// What has come, and waits to be put in order.
pub struct Intake {
    /// Pieces, and whether processes share each.
    pieces: Vec<(Piece, bool)>,
    pending: Vec<Option<Pending>>,
    /// Where code stands.
    pub images: Images,
    /// Entries.
    pub order: TimeOrder<Entry>,
    /// What it rests on.
    pub evidence: CommEvidence,
    /// What trapped before was seen by some of the registers alone: they are aimed one after the other, thread by thread.
    from_ns: u64,
    /// What trapped later is not needed: so many stores trapped on one CPU before, or so many traps came of it at all.
    until_ns: u64,
    /// How many those stores are, and how many trapped on each CPU since registers were aimed.
    wanted: u64,
    stores_of_ring: Vec<u64>,
    /// How many those traps are, and how many came of each CPU since.
    most: u64,
    traps_of_ring: Vec<u64>,
    /// Traps that told something since registers were aimed: stores, and loads of threads that had not touched the line since the last one.
    telling: u64,
    /// Threads that have touched it since.
    fresh: HashSet<u32>,
    /// Whose traps count; none: all, for nobody else's come.
    ours: Option<HashSet<u32>>,
}

impl Intake {
    /// For a plan's pieces (and whether each is shared), and so many rings.
    pub fn new(plan: &Plan, is_shared: impl Fn(Piece) -> bool, rings: usize) -> Self {
        Self {
            pieces: plan.pieces.iter().map(|piece| (*piece, is_shared(*piece))).collect(),
            pending: (0..rings).map(|_| None).collect(),
            images: Images::default(),
            order: TimeOrder::default(),
            evidence: CommEvidence::default(),
            from_ns: 0,
            until_ns: u64::MAX,
            wanted: u64::MAX,
            stores_of_ring: vec![0; rings],
            most: u64::MAX,
            traps_of_ring: vec![0; rings],
            telling: 0,
            fresh: HashSet::new(),
            ours: None,
        }
    }

    /// From now on registers watch a plan's pieces (whether each is shared). What trapped before has been taken.
    pub fn aim_at(&mut self, plan: &Plan, is_shared: impl Fn(Piece) -> bool) {
        self.pieces = plan.pieces.iter().map(|piece| (*piece, is_shared(*piece))).collect();
    }

    /// Traps of a process, and of those that it creates, count, and no others.
    pub fn only(&mut self, pid: u32) {
        self.ours = Some(HashSet::from([pid]));
    }

    /// What traps before all registers are aimed ([`Self::aimed`]) is counted, and tells nothing.
    pub fn wait_for_aim(&mut self) {
        self.from_ns = u64::MAX;
    }

    /// All registers of all threads have been aimed, and so many stores are to be seen, or so many traps: what comes after them is counted, and
    /// not looked at, for a place that all threads write to, or read, traps faster than we can tell what it was.
    pub fn aimed(&mut self, from_ns: u64, wanted: u64, most: u64) {
        self.from_ns = from_ns;
        self.until_ns = u64::MAX;
        self.wanted = wanted;
        self.stores_of_ring.fill(0);
        self.most = most;
        self.traps_of_ring.fill(0);
        self.telling = 0;
        self.fresh.clear();
    }

    /// When all that was wanted had come, of one CPU at least; what came later may have been left out. Never: the latest time.
    pub fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// Traps that told something since registers were aimed. A thread that reads a line again and again tells nothing more; seen in the order
    /// of rings, which will do to say how long a line has been silent.
    pub fn telling(&self) -> u64 {
        self.telling
    }

    /// Whether all stores that are wanted have come.
    pub fn has_enough(&self) -> bool {
        self.stores_of_ring.iter().sum::<u64>() >= self.wanted
    }

    /// Takes a record of a ring.
    pub fn take(&mut self, ring: usize, record: &Record<'_>) {
        match record {
            Record::Sample(sample) => self.trap(ring, sample),
            Record::Lost(lost) => self.lost(lost.lost, lost.sample_id.time_ns),
            Record::LostSamples(lost) => self.lost(lost.lost, lost.sample_id.time_ns),
            Record::Throttle(_) => self.evidence.throttled += 1,
            Record::Comm(comm) => {
                let name = String::from_utf8_lossy(comm.name).into_owned();
                let (pid, tid, is_exec) = (comm.task.pid, comm.task.tid, comm.by_exec);
                if is_exec {
                    self.images.replaced(pid, comm.sample_id.time_ns.unwrap_or(0));
                }
                self.order.push(comm.sample_id.time_ns.unwrap_or(0), Entry::Name { pid, tid, name, is_exec });
            }
            Record::Fork(fork) => {
                self.images.forked(fork.task.pid, fork.parent.pid, fork.time_ns);
                // Of the program's own tasks alone the kernel tells what they create.
                if let Some(ours) = &mut self.ours {
                    ours.insert(fork.task.pid);
                }
                self.order.push(fork.time_ns, Entry::Fork { tid: fork.task.tid, parent: fork.parent.tid });
            }
            Record::Mmap2(mmap) => {
                let Mmap { task, address, length, path, sample_id, .. } = mmap.mapping;
                let (end, time_ns) = (address.saturating_add(length), sample_id.time_ns.unwrap_or(0));
                if path == NO_FILE && mmap.protection & libc::PROT_WRITE as u32 != 0 {
                    self.images.writable(task.pid, address, end, time_ns);
                } else if path == HEAP {
                    self.images.heap(task.pid, address, end, time_ns);
                }
            }
            _ => {}
        }
    }

    /// All that has come so far has been taken.
    pub fn settle(&mut self) {
        for pending in self.pending.iter_mut().filter_map(Option::take) {
            self.order.push(pending.time_ns, Entry::Access(pending.seen));
        }
    }

    fn lost(&mut self, records: u64, time_ns: Option<u64>) {
        self.evidence.lost_traps += records;
        self.order.push(time_ns.unwrap_or(0), Entry::Lost);
    }

    fn trap(&mut self, ring: usize, sample: &Sample<'_>) {
        let (Some(task), Some(time_ns), Some(ip), Some(address)) = (sample.task, sample.time_ns, sample.ip, sample.address)
        else {
            return;
        };
        let Some(&(piece, is_shared)) = self.pieces.iter().find(|(piece, _)| piece.address == address) else { return };
        self.evidence.traps += 1;
        let is_needed = (self.from_ns..=self.until_ns).contains(&time_ns);
        self.traps_of_ring[ring] += 1;
        if self.traps_of_ring[ring] >= self.most {
            self.until_ns = self.until_ns.min(time_ns);
        }
        if !is_needed || self.ours.as_ref().is_some_and(|ours| !ours.contains(&task.pid)) {
            return;
        }
        let mut registers = [0; REGISTERS];
        let dump = sample.user_registers;
        for (number, value) in dump.iter().flat_map(|dump| dump.iter()) {
            if let Some(register) = registers.get_mut(number as usize) {
                *register = value;
            }
        }
        let trap = Trap { tid: task.tid, ip, registers };
        if let Some(pending) = self.pending[ring].as_mut()
            && pending.trap == trap
            && !pending.pieces.contains(&piece)
            && pending.seen.line == piece.line()
        {
            // Registers are the same, so the access is: what it touches besides is known by this piece alone where they do not tell.
            pending.seen.bytes = pending.seen.bytes.with(piece.bytes_of_line());
            pending.pieces.push(piece);
            return;
        }
        if let Some(before) = self.pending[ring].take() {
            self.order.push(before.time_ns, Entry::Access(before.seen));
        }
        let has_registers = dump.is_some_and(|dump| dump.abi != RegisterAbi::None);
        let bits = if dump.is_some_and(|dump| dump.abi == RegisterAbi::Bits32) { 32 } else { 64 };
        let value = |number: u32| registers.get(number as usize).copied().filter(|_| has_registers);
        let touch = self.images.candidates(task.pid, ip, bits).touch(piece.address, piece.bytes, value);
        self.evidence.undecoded += u64::from(touch.is_none());
        // The bytes of the line that are touched: as registers say, or else those that are watched.
        let exact = touch.and_then(|touch| {
            let mut lines = lines_of(touch.address?, touch.bytes);
            lines.find(|(line, _)| *line == piece.line()).map(|(_, bytes)| bytes)
        });
        let bytes: Bytes = exact.unwrap_or(piece.bytes_of_line());
        // One that cannot be told is taken to read: it may fetch a line, and makes none stale.
        let kind = if touch.is_some_and(|touch| touch.is_store) { Kind::Store } else { Kind::Load };
        self.stores_of_ring[ring] += u64::from(kind.is_store());
        if kind.is_store() {
            self.fresh.clear();
        }
        self.telling += u64::from(self.fresh.insert(task.tid));
        if self.stores_of_ring[ring] >= self.wanted {
            self.until_ns = self.until_ns.min(time_ns);
        }
        let cpu = sample.cpu.unwrap_or(0);
        let at = touch.map_or(ip.saturating_sub(1), |touch| touch.ip);
        let seen = Seen { pid: task.pid, tid: task.tid, cpu, ip: at, kind, line: piece.line(), bytes, is_shared };
        self.pending[ring] = Some(Pending { trap, time_ns, seen, pieces: vec![piece] });
    }
}
