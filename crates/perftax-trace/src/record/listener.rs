//! Who reads the marks, and puts them on the kernel's clock; in containers threads know other numbers of themselves than the kernel's records have.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use perftax_pmu::Result;
use perftax_pmu::process::{Standing, file_of, has_ended, own_number, threads};
use perftax_pmu::sys::{Tsc, monotonic_raw_ns, process_cpu_ns, process_tree};
use perftax_target::TimeOrder;

use super::identity::Held;
use crate::clock::Anchors;
use crate::executed::{ReadBy, Reading};
use crate::mark::{Kind, Mark, Statement};
use crate::rings::{MarkFolder, MarkOwner, RingCounters};
use crate::row::Row;

/// From one look for threads that have ended to the next, ns.
const GIVE_UP_NS: u64 = 2_000_000_000;
/// Readings of both clocks of which the tightest is kept.
const ANCHOR_ATTEMPTS: u32 = 5;

pub(super) struct Listener {
    /// Folders, each with the process that is recorded; it, or one that it started, has made the rings.
    folders: Vec<(MarkFolder, u32)>,
    anchors: Anchors,
    raw: Vec<(MarkOwner, u64, Statement)>,
    /// Whoever writes rings, by the process that is recorded and as they know themselves, as we know them.
    owners: HashMap<(u32, MarkOwner), MarkOwner>,
    /// Messages that have ended, and CPU time when it was last asked for, ns, by process; and of those that are gone.
    processes: BTreeMap<u32, (u64, u64)>,
    gone: (u64, u64),
    looked_ns: u64,
}

impl Listener {
    /// Of processes and what they start, each of which make rings in a folder.
    pub fn new(folders: impl IntoIterator<Item = (PathBuf, u32)>) -> Self {
        let folders = folders.into_iter().map(|(folder, root)| (MarkFolder::new(folder), root)).collect();
        Self {
            folders,
            anchors: Anchors::default(),
            raw: Vec::new(),
            owners: HashMap::new(),
            processes: BTreeMap::new(),
            gone: (0, 0),
            looked_ns: 0,
        }
    }

    /// Takes the marks that wait. What the counter said when is asked after it, so that they lie between two anchors.
    pub fn listen(&mut self, order: &mut TimeOrder<Held>) -> Result<()> {
        let raw = &mut self.raw;
        let processes = &mut self.processes;
        let owners = &mut self.owners;
        for (folder, root) in &mut self.folders {
            folder.drain(|owner, counter, statement| {
                let owner = *owners.entry((*root, *owner)).or_insert_with(|| as_we_know(*root, *owner));
                if matches!(statement, Statement::Mark(_, Kind::End)) {
                    processes.entry(owner.pid).or_default().0 += 1;
                }
                raw.push((owner, counter, statement));
            })?;
        }
        self.anchor();
        for (MarkOwner { pid, tid }, counter, statement) in self.raw.drain(..) {
            let Some(time_ns) = self.anchors.time_ns(counter) else { continue };
            let held = match statement {
                Statement::Mark(id, kind) => Held::Mark(pid, Mark { time_ns, tid, id, kind }),
                Statement::Of(saying) => Held::Saying(time_ns, (pid, tid), saying),
                Statement::Counts(executed) => Held::Row(Row::Executed(Reading { time_ns, tid, executed, by: ReadBy::Itself })),
            };
            order.push(time_ns, held);
        }
        Ok(())
    }

    /// Gives up the rings of threads that have ended, now and then: whoever listens for hours to a program that makes ever new threads needs their memory.
    pub fn give_up(&mut self, now_ns: u64) {
        if now_ns < self.looked_ns + GIVE_UP_NS {
            return;
        }
        self.looked_ns = now_ns;
        let owners = &mut self.owners;
        for (folder, root) in &mut self.folders {
            folder.give_up(|owner| {
                let known = owners.get(&(*root, *owner));
                // Of whom nobody can tell nobody knows whether they are there.
                let has_ended = known.is_some_and(|known| {
                    known.tid & NOBODYS == 0 && !file_of(known.pid, "task").join(known.tid.to_string()).exists()
                });
                if has_ended {
                    owners.remove(&(*root, *owner));
                }
                has_ended
            });
        }
    }

    /// Marks that found no room, all rings.
    pub fn dropped(&self) -> u64 {
        self.folders.iter().map(|(folder, _)| folder.dropped()).sum()
    }

    /// Rings found so far.
    pub fn rings(&self) -> usize {
        self.folders.iter().map(|(folder, _)| folder.rings()).sum()
    }

    /// How many of them come with what their threads have executed.
    pub fn counters(&self) -> BTreeMap<RingCounters, usize> {
        let mut all = BTreeMap::new();
        let each = self.folders.iter().flat_map(|(folder, _)| folder.counters());
        each.for_each(|(counters, n)| *all.entry(counters).or_default() += n);
        all
    }

    /// Why some of them are not read.
    pub fn broken(&self) -> impl Iterator<Item = &str> {
        self.folders.iter().flat_map(|(folder, _)| folder.broken())
    }

    /// Messages that have ended, and CPU time of the processes that mark them, and of those that are to be there in any case, ns.
    pub fn progress(&mut self, pids: &[u32]) -> (u64, u64) {
        for pid in pids {
            self.processes.entry(*pid).or_default();
        }
        // One that is gone takes no more, and its number may be another's soon.
        let gone = &mut self.gone;
        self.processes.retain(|pid, (messages, cpu_ns)| {
            if has_ended(*pid) && !pids.contains(pid) {
                *gone = (gone.0 + *messages, gone.1 + *cpu_ns);
                return false;
            }
            *cpu_ns = process_cpu_ns(*pid).unwrap_or(*cpu_ns).max(*cpu_ns);
            true
        });
        self.processes.values().fold(self.gone, |all, one| (all.0 + one.0, all.1 + one.1))
    }

    pub fn anchor(&mut self) {
        self.anchors.take(ANCHOR_ATTEMPTS, || {
            let before = monotonic_raw_ns();
            let counter = Tsc::now();
            (counter, before, monotonic_raw_ns())
        });
    }
}

/// Numbers beyond those that the kernel gives out (`PID_MAX_LIMIT`): of threads that nobody can tell any more.
const NOBODYS: u32 = 1 << 30;

/// A thread as we know it: in a PID namespace of its own it knows another number of itself. One that is gone already is as it says in ours, and nobody in another.
fn as_we_know(root: u32, owner: MarkOwner) -> MarkOwner {
    let is_ours =
        |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok() == std::fs::read_link("/proc/self/ns/pid").ok();
    // Most often it is in our namespace, and its process, or that one's parent, is the one that is recorded.
    if descends_from(owner.pid, root) && own_number(owner.pid, owner.pid) == Some(owner.pid) {
        return owner;
    }
    let process = process_tree(root).into_iter().find(|pid| own_number(*pid, *pid) == Some(owner.pid));
    let of = |pid: u32| {
        let mut own = threads(pid).into_iter().map(|tid| tid as u32);
        own.find(|tid| own_number(pid, *tid) == Some(owner.tid)).map(|tid| MarkOwner { pid, tid })
    };
    match process {
        Some(pid) => of(pid).unwrap_or(MarkOwner { pid, tid: NOBODYS | owner.tid }),
        None if is_ours(root) => owner,
        None => MarkOwner { pid: owner.pid, tid: NOBODYS | owner.tid },
    }
}

/// Whether a process is another one, or was started by it, directly or not.
fn descends_from(pid: u32, root: u32) -> bool {
    let parent = |pid: &u32| Standing::parent(*pid);
    std::iter::successors(Some(pid), parent).take(MAX_GENERATIONS).any(|pid| pid == root)
}

/// Generations that are asked at most.
const MAX_GENERATIONS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_our_namespace_everybody_is_who_they_say() {
        let pid = std::process::id();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let owner = MarkOwner { pid, tid: rustix::thread::gettid().as_raw_nonzero().get() as u32 };
                assert_eq!(as_we_know(pid, owner), owner);
            });
        });
        let gone = MarkOwner { pid: u32::MAX - 1, tid: 7 };
        assert_eq!(as_we_know(pid, gone), gone);
        assert!(descends_from(pid, pid) && descends_from(pid, 1) && !descends_from(1, pid));
    }
}
