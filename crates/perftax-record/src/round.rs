//! Records of one look at all rings, of which some are somebody else's.
//!
//! Rings are emptied one after another, so that what a process did on one CPU may come before its parent's word, from another, that there is such a process:
//! what is nobody's yet waits for one more look.

use perftax_pmu::record::{Header, RawRecord, stream};
use rustc_hash::FxHashMap;

use crate::kinds::{COMM, EXIT, FORK, MMAP2, SAMPLE};

/// Processes that are watched, with the threads that each has.
#[derive(Debug, Default)]
pub struct Members {
    threads: FxHashMap<u32, usize>,
}

impl Members {
    /// A process is one of them from now on, with so many threads that are known already.
    pub fn add(&mut self, pid: u32, threads: usize) {
        self.threads.insert(pid, threads);
    }

    /// A process is none of them.
    fn remove(&mut self, pid: u32) {
        self.threads.remove(&pid);
    }

    /// Whether a process is one of them.
    pub fn has(&self, pid: u32) -> bool {
        self.threads.contains_key(&pid)
    }

    /// A thread has begun in a process.
    pub fn born(&mut self, pid: u32) {
        if let Some(threads) = self.threads.get_mut(&pid) {
            *threads += 1;
        }
    }

    /// A thread has ended: with its last one a process is gone, and its number somebody else's to have.
    pub fn died(&mut self, pid: u32) {
        let Some(threads) = self.threads.get_mut(&pid) else { return };
        *threads = threads.saturating_sub(1);
        if *threads == 0 {
            self.threads.remove(&pid);
        }
    }
}

/// Records that wait until all rings were looked at.
#[derive(Debug, Default)]
pub struct Round {
    records: Vec<u8>,
    /// Those of the look before that were nobody's.
    undecided: Vec<u8>,
}

/// Records of a look, of which none is anybody else's.
#[derive(Debug, Default)]
pub struct Settled {
    bytes: Vec<u8>,
    /// Samples of others.
    pub of_others: u64,
    /// Numbers that were members', and are somebody else's now.
    pub strangers: Vec<u32>,
}

impl Round {
    /// Takes a record as it lies in a ring.
    pub fn push(&mut self, header: Header, body: &[u8]) {
        self.records.extend_from_slice(&header.bytes());
        self.records.extend_from_slice(body);
    }

    /// All rings were looked at: what is the members', where it is told who they are. Children of members become such. `task_at` is where a sample's body tells its process.
    pub fn settle(&mut self, members: Option<&mut Members>, task_at: Option<usize>) -> Settled {
        let Some(members) = members else {
            return Settled { bytes: std::mem::take(&mut self.records), ..Settled::default() };
        };
        let (before, now) = (std::mem::take(&mut self.undecided), std::mem::take(&mut self.records));
        let all = || records(&before).chain(records(&now));
        // A child's child may be told of first.
        loop {
            let mut is_new = false;
            for raw in all().filter(|raw| raw.header.kind == FORK) {
                let (Some(child), Some(parent)) = (word_at(raw.body, 0), word_at(raw.body, 4)) else { continue };
                if members.has(parent) && !members.has(child) {
                    members.add(child, 0);
                    is_new = true;
                }
            }
            if !is_new {
                break;
            }
        }
        let mut settled = Settled::default();
        // A number that was one of theirs is given to somebody else's child.
        for raw in all().filter(|raw| raw.header.kind == FORK) {
            let (Some(child), Some(parent)) = (word_at(raw.body, 0), word_at(raw.body, 4)) else { continue };
            if child != parent && members.has(child) && !members.has(parent) {
                members.remove(child);
                settled.strangers.push(child);
            }
        }
        let is_theirs = |raw: &RawRecord<'_>| match pid_of(raw, task_at) {
            Some(pid) => members.has(pid),
            None => true,
        };
        for raw in records(&before) {
            match is_theirs(&raw) {
                true => put(&mut settled.bytes, &raw),
                false => settled.of_others += u64::from(raw.header.kind == SAMPLE),
            }
        }
        for raw in records(&now) {
            put(if is_theirs(&raw) { &mut settled.bytes } else { &mut self.undecided }, &raw);
        }
        settled
    }
}

impl Settled {
    /// The records.
    pub fn records(&self) -> impl Iterator<Item = RawRecord<'_>> {
        records(&self.bytes)
    }
}

fn records(bytes: &[u8]) -> impl Iterator<Item = RawRecord<'_>> {
    stream(bytes).map_while(Result::ok)
}

fn put(into: &mut Vec<u8>, raw: &RawRecord<'_>) {
    into.extend_from_slice(&raw.header.bytes());
    into.extend_from_slice(raw.body);
}

fn word_at(body: &[u8], at: usize) -> Option<u32> {
    body.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

/// The process that a record is about; none where it is about a ring, or the event.
fn pid_of(raw: &RawRecord<'_>, task_at: Option<usize>) -> Option<u32> {
    match raw.header.kind {
        SAMPLE => word_at(raw.body, task_at?),
        FORK | COMM | EXIT | MMAP2 => word_at(raw.body, 0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::LOST;

    fn push(round: &mut Round, kind: u32, words: &[u32]) {
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        round.push(Header { kind, misc: 0, size: (Header::BYTES + body.len()) as u16 }, &body);
    }

    fn kinds_and_pids(settled: &Settled) -> Vec<(u32, Option<u32>)> {
        settled.records().map(|raw| (raw.header.kind, word_at(raw.body, 0))).collect()
    }

    #[test]
    fn children_are_theirs_in_whatever_order_rings_tell() {
        let mut members = Members::default();
        members.add(10, 1);
        let mut round = Round::default();
        push(&mut round, SAMPLE, &[12, 12]);
        push(&mut round, COMM, &[11, 11]);
        push(&mut round, FORK, &[12, 11, 12, 11]);
        push(&mut round, SAMPLE, &[77, 77]);
        push(&mut round, LOST, &[0, 0]);
        push(&mut round, FORK, &[11, 10, 11, 10]);
        let settled = round.settle(Some(&mut members), Some(0));
        let told: Vec<u32> = kinds_and_pids(&settled).into_iter().map(|(kind, _)| kind).collect();
        assert_eq!((told, settled.of_others), (vec![SAMPLE, COMM, FORK, LOST, FORK], 0));
        // Whose 77 was nobody knows yet; the parent's word comes too late for one more look only.
        push(&mut round, FORK, &[77, 12, 77, 12]);
        push(&mut round, SAMPLE, &[88, 88]);
        assert_eq!(kinds_and_pids(&round.settle(Some(&mut members), Some(0))), [(SAMPLE, Some(77)), (FORK, Some(77))]);
        let settled = round.settle(Some(&mut members), Some(0));
        assert_eq!((kinds_and_pids(&settled).len(), settled.of_others), (0, 1));
        push(&mut round, FORK, &[88, 10, 88, 10]);
        assert_eq!(kinds_and_pids(&round.settle(Some(&mut members), Some(0))).len(), 1, "its sample was dropped a look ago");
    }

    #[test]
    fn a_process_is_gone_with_its_last_thread() {
        let mut members = Members::default();
        members.add(5, 0);
        members.born(5);
        members.born(5);
        members.died(5);
        assert!(members.has(5));
        members.died(5);
        assert!(!members.has(5));
        let mut round = Round::default();
        push(&mut round, EXIT, &[5, 1, 5, 1]);
        assert_eq!(kinds_and_pids(&round.settle(Some(&mut members), Some(0))).len(), 0);
        members.add(5, 1);
        push(&mut round, FORK, &[5, 4, 5, 4]);
        assert!(
            kinds_and_pids(&round.settle(Some(&mut members), Some(0))).is_empty() && !members.has(5),
            "a stranger has its number"
        );
        let mut round = Round::default();
        push(&mut round, EXIT, &[5, 1, 5, 1]);
        assert_eq!(kinds_and_pids(&round.settle(None, Some(0))).len(), 1, "of everybody all is wanted");
    }
}
