//! What was seen, in order of time: threads, lines, and the transfers between threads.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{Access, Bytes, Exact, Kind, Line, Touched};

use super::plan::Plan;

/// What comes out of the rings, or happens to us.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// Registers are on, for a turn.
    Begin {
        /// Which.
        turn: usize,
    },
    /// They go off.
    End,
    /// The kernel lost records: what follows is apart from what was before.
    Lost,
    /// A thread touched a watched place.
    Access(Seen),
    /// A thread took a name; by executing a program where `is_exec`.
    Name {
        /// Its process.
        pid: u32,
        /// It.
        tid: u32,
        /// The name.
        name: String,
        /// Whether another program begins.
        is_exec: bool,
    },
    /// A thread or process was created.
    Fork {
        /// It.
        tid: u32,
        /// By whom.
        parent: u32,
    },
}

/// An access that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// CPU.
    pub cpu: u32,
    /// The next instruction.
    pub ip: u64,
    /// What it did.
    pub kind: Kind,
    /// Where.
    pub line: Line,
    /// Which bytes.
    pub bytes: Bytes,
    /// Whether processes share the place.
    pub is_shared: bool,
}

/// A time for which one turn's registers were on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Which turn.
    pub turn: usize,
    /// From.
    pub from_ns: u64,
    /// To.
    pub to_ns: u64,
}

/// A thread that touched something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadSeen {
    /// Process.
    pub process: i32,
    /// Thread id.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// Accesses by core.
    pub cores: BTreeMap<u32, u64>,
}

/// An instruction that touched a line: the address behind it, whether it wrote, and which bytes.
pub type SiteKey = (u64, bool, Bytes);

/// What was seen of a line.
#[derive(Clone, Debug, Default)]
pub struct LineSeen {
    /// Instructions, with the threads that executed them and how often.
    pub sites: BTreeMap<SiteKey, (Vec<u32>, u64)>,
    /// What each thread touched.
    pub touched: Vec<Touched>,
    /// Processes that touched it.
    pub processes: Vec<u32>,
}

/// Transfers that count alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kept {
    /// The slice in which they were seen.
    pub slice: usize,
    /// Turns that could have seen them: an index into [`Accounts::classes`].
    pub class: usize,
    /// The line.
    pub line: Line,
    /// Threads, by number.
    pub threads: (u32, u32),
    /// Cores.
    pub cores: (u32, u32),
    /// Whether it is true sharing.
    pub is_true: bool,
}

/// All that was seen.
pub struct Accounts {
    plan: Plan,
    /// Core of each CPU.
    core_of: HashMap<u32, u32>,
    /// Lines by process (0: shared by all), as of the slice that is on.
    spaces: HashMap<u32, Exact>,
    last_core: HashMap<(u32, Line), u32>,
    is_on: bool,
    since_ns: Option<u64>,
    numbers: HashMap<u32, u32>,
    names: HashMap<u32, String>,
    /// Threads of which not all registers are known to be ours.
    unwatched: HashSet<u32>,
    class_of: HashMap<(usize, usize), usize>,
    /// Processes that executed another program meanwhile.
    pub left: HashSet<u32>,
    /// Slices, in order.
    pub slices: Vec<Slice>,
    /// Threads that touched something, by number.
    pub threads: Vec<ThreadSeen>,
    /// Lines that were touched.
    pub lines: BTreeMap<Line, LineSeen>,
    /// Sets of turns that see a pair of pieces.
    pub classes: Vec<Vec<usize>>,
    /// Transfers.
    pub transfers: BTreeMap<Kept, u64>,
    /// Accesses that were counted.
    pub accesses: u64,
}

impl Accounts {
    /// CPUs that there are for the program.
    pub fn cpus(&self) -> usize {
        self.core_of.len()
    }

    /// Nothing yet.
    pub fn new(plan: Plan, core_of: HashMap<u32, u32>) -> Self {
        Self {
            plan,
            core_of,
            spaces: HashMap::new(),
            last_core: HashMap::new(),
            is_on: false,
            since_ns: None,
            numbers: HashMap::new(),
            names: HashMap::new(),
            unwatched: HashSet::new(),
            class_of: HashMap::new(),
            left: HashSet::new(),
            slices: Vec::new(),
            threads: Vec::new(),
            lines: BTreeMap::new(),
            classes: Vec::new(),
            transfers: BTreeMap::new(),
            accesses: 0,
        }
    }

    /// Watching begins: what a process executes from now on is another program.
    pub fn begin(&mut self, now_ns: u64) {
        self.since_ns = Some(now_ns);
    }

    /// Registers are aimed elsewhere from now on, in as many turns.
    pub fn aim_at(&mut self, plan: Plan) {
        self.plan = plan;
        self.class_of.clear();
    }

    /// A thread is called so.
    pub fn name(&mut self, tid: u32, name: String) {
        if let Some(&number) = self.numbers.get(&tid) {
            self.threads[number as usize].name.clone_from(&name);
        }
        self.names.insert(tid, name);
    }

    /// A thread is not watched, or not by all registers: what is seen of it does not count.
    pub fn is_unwatched(&mut self, tid: u32) {
        self.unwatched.insert(tid);
    }

    /// Threads that could not be watched.
    pub fn unwatched(&self) -> u64 {
        self.unwatched.len() as u64
    }

    /// Takes what is next in order of time.
    pub fn take(&mut self, time_ns: u64, entry: Entry) {
        match entry {
            Entry::Begin { turn } => {
                self.forget();
                self.is_on = true;
                self.slices.push(Slice { turn, from_ns: time_ns, to_ns: time_ns });
            }
            Entry::End => self.end(time_ns),
            Entry::Lost => self.forget(),
            Entry::Access(seen) => self.access(&seen),
            Entry::Name { pid, tid, name, is_exec } => {
                // What is executed before watching begins is what will be watched.
                if is_exec && self.since_ns.is_some_and(|since_ns| time_ns >= since_ns) {
                    self.left.insert(pid);
                }
                self.name(tid, name);
            }
            Entry::Fork { tid, parent } => {
                // Numbers of threads are used again: whoever had it is somebody else.
                self.numbers.remove(&tid);
                self.spaces.remove(&tid);
                self.left.remove(&tid);
                if let Some(name) = self.names.get(&parent).cloned() {
                    self.names.insert(tid, name);
                }
            }
        }
    }

    /// The slice that is on ends.
    pub fn end(&mut self, time_ns: u64) {
        if std::mem::take(&mut self.is_on)
            && let Some(slice) = self.slices.last_mut()
        {
            slice.to_ns = time_ns.max(slice.from_ns);
        }
    }

    /// What happened while nobody looked is not known.
    fn forget(&mut self) {
        self.spaces.values_mut().for_each(Exact::clear);
        self.last_core.clear();
    }

    fn access(&mut self, seen: &Seen) {
        if !self.is_on || self.left.contains(&seen.pid) || self.unwatched.contains(&seen.tid) {
            return;
        }
        self.accesses += 1;
        let thread = self.number(seen);
        let core = self.core_of.get(&seen.cpu).copied().unwrap_or(seen.cpu);
        *self.threads[thread as usize].cores.entry(core).or_default() += 1;
        let access = Access { thread, line: seen.line, bytes: seen.bytes, kind: seen.kind, ip: seen.ip };
        let line = self.lines.entry(seen.line).or_default();
        let (threads, times) = line.sites.entry((seen.ip, seen.kind.is_store(), seen.bytes)).or_default();
        *times += 1;
        if !threads.contains(&thread) {
            threads.push(thread);
        }
        if !line.processes.contains(&seen.pid) {
            line.processes.push(seen.pid);
        }
        Touched::add(&mut line.touched, &access);
        let space = if seen.is_shared { 0 } else { seen.pid };
        let transfer = self.spaces.entry(space).or_default().take(&access);
        if let Some(transfer) = transfer {
            let from_core = self.last_core.get(&(space, seen.line)).copied().unwrap_or(core);
            let class = self.class(seen.line, transfer.from_bytes, transfer.to_bytes);
            let (threads, cores) = ((transfer.from, transfer.to), (from_core, core));
            let slice = self.slices.len().saturating_sub(1);
            let kept = Kept { slice, class, line: seen.line, threads, cores, is_true: transfer.is_true };
            *self.transfers.entry(kept).or_default() += 1;
        }
        if seen.kind.is_store() {
            self.last_core.insert((space, seen.line), core);
        }
    }

    fn number(&mut self, seen: &Seen) -> u32 {
        *self.numbers.entry(seen.tid).or_insert_with(|| {
            let name = self.names.get(&seen.tid).cloned().unwrap_or_default();
            let (process, tid) = (seen.pid as i32, seen.tid as i32);
            self.threads.push(ThreadSeen { process, tid, name, cores: BTreeMap::new() });
            self.threads.len() as u32 - 1
        })
    }

    /// The turns that see two accesses of a line at once.
    fn class(&mut self, line: Line, from: Bytes, to: Bytes) -> usize {
        let piece = |bytes| self.plan.piece_of(line, bytes).unwrap_or(0);
        let pair = (piece(from), piece(to));
        let (plan, classes) = (&self.plan, &mut self.classes);
        *self.class_of.entry(pair).or_insert_with(|| {
            let turns = plan.turns_of(pair.0, pair.1);
            classes.iter().position(|known| *known == turns).unwrap_or_else(|| {
                classes.push(turns);
                classes.len() - 1
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::Place;
    use super::*;

    fn accounts(places: &[(u64, u64)], registers: usize) -> Accounts {
        let places: Vec<Place> =
            places.iter().map(|&(address, bytes)| Place { address, bytes, name: String::new(), is_shared: false }).collect();
        Accounts::new(Plan::of(&places, registers), HashMap::from([(0, 0), (1, 0), (2, 2)]))
    }

    fn seen(pid: u32, tid: u32, cpu: u32, kind: Kind, offset: u64) -> Entry {
        let bytes = Bytes::new(offset, 8);
        Entry::Access(Seen { pid, tid, cpu, ip: 0x400 + u64::from(tid), kind, line: Line(64), bytes, is_shared: false })
    }

    fn transfers(accounts: &Accounts) -> Vec<((u32, u32), bool, u64)> {
        accounts.transfers.iter().map(|(kept, count)| (kept.threads, kept.is_true, *count)).collect()
    }

    #[test]
    fn threads_are_numbered_as_they_are_met_and_named() {
        let mut all = accounts(&[(0x1000, 16)], 4);
        all.name(7, "parent".into());
        for (time_ns, entry) in [
            Entry::Begin { turn: 0 },
            Entry::Fork { tid: 9, parent: 7 },
            seen(7, 9, 2, Kind::Store, 0),
            seen(7, 7, 0, Kind::Store, 8),
            Entry::Name { pid: 7, tid: 9, name: "worker".into(), is_exec: false },
            seen(7, 9, 2, Kind::Store, 0),
            Entry::End,
        ]
        .into_iter()
        .enumerate()
        {
            all.take(time_ns as u64, entry);
        }
        let names: Vec<&str> = all.threads.iter().map(|thread| thread.name.as_str()).collect();
        assert_eq!((names, all.threads[0].tid), (vec!["worker", "parent"], 9));
        assert_eq!(transfers(&all), [((0, 1), false, 1), ((1, 0), false, 1)]);
        assert_eq!(all.slices, [Slice { turn: 0, from_ns: 0, to_ns: 6 }]);
        let cores: Vec<(u32, u32)> = all.transfers.keys().map(|kept| kept.cores).collect();
        assert_eq!(cores, [(2, 0), (0, 2)]);
        let line = &all.lines[&Line(64)];
        assert_eq!((line.sites.len(), line.touched.len()), (2, 2));
    }

    #[test]
    fn nothing_is_carried_from_one_slice_to_the_next_or_over_a_loss() {
        for between in [vec![Entry::End, Entry::Begin { turn: 0 }], vec![Entry::Lost]] {
            let mut all = accounts(&[(0x1000, 16)], 4);
            let entries =
                [vec![Entry::Begin { turn: 0 }, seen(7, 7, 0, Kind::Store, 0)], between, vec![seen(7, 8, 0, Kind::Load, 0)]];
            entries.concat().into_iter().for_each(|entry| all.take(0, entry));
            assert!(all.transfers.is_empty() && all.accesses == 2);
        }
    }

    #[test]
    fn a_forked_child_has_a_copy_of_its_own_and_another_program_is_not_meant() {
        let mut all = accounts(&[(0x1000, 16)], 4);
        all.begin(0);
        all.take(0, Entry::Begin { turn: 0 });
        all.take(1, seen(7, 7, 0, Kind::Store, 0));
        all.take(2, seen(8, 8, 2, Kind::Load, 0));
        assert!(all.transfers.is_empty(), "another process's memory");
        all.take(3, Entry::Name { pid: 7, tid: 7, name: "other".into(), is_exec: true });
        all.take(4, seen(7, 7, 0, Kind::Store, 0));
        all.is_unwatched(20);
        all.take(5, seen(8, 20, 0, Kind::Store, 0));
        assert_eq!((all.accesses, all.left.len(), all.unwatched()), (2, 1, 1));
    }

    #[test]
    fn pieces_that_take_turns_are_told_apart_by_the_turns_that_see_them() {
        let mut all = accounts(&[(0x1000, 64)], 4);
        all.take(0, Entry::Begin { turn: 0 });
        all.take(1, seen(7, 7, 0, Kind::Store, 0));
        all.take(2, seen(7, 8, 0, Kind::Store, 16));
        all.take(3, seen(7, 7, 0, Kind::Store, 0));
        all.take(4, seen(7, 8, 0, Kind::Load, 0));
        // The first two words are in three turns with the third, or one; either by themselves in three.
        let classes: Vec<usize> = all.transfers.keys().map(|kept| all.classes[kept.class].len()).collect();
        assert_eq!(classes, [1, 1, 3], "{:?}", all.transfers);
    }
}
