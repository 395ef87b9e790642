//! What threads are called, whatever order records stand in: a child has its parent's name of the time of the fork, until it is renamed.

use std::collections::HashMap;

/// Names as COMM records give them, and forks.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// Of each thread: from when on, and what.
    named: HashMap<u32, Vec<(u64, String)>>,
    /// Of each thread that was forked while recording: its parent, and when.
    forked: HashMap<u32, (u32, u64)>,
}

/// Names of a thread that are remembered.
const MAX_NAMES: usize = 8;
/// Process numbers are reused, so that a chain of parents may be a ring: so many generations are enough.
const MAX_GENERATIONS: usize = 8;

impl Names {
    /// A thread has a name from some time on; 0 where nobody knows, or since before the recording.
    pub(super) fn name(&mut self, tid: u32, time_ns: u64, name: String) {
        let names = self.named.entry(tid).or_default();
        names.push((time_ns, name));
        if names.len() > MAX_NAMES {
            names.sort_by_key(|(from_ns, _)| *from_ns);
            // What is repeated says nothing new; of the others the latest stay.
            names.dedup_by(|later, earlier| later.1 == earlier.1);
            names.drain(..names.len().saturating_sub(MAX_NAMES));
        }
    }

    /// A thread was created by another.
    pub(super) fn fork(&mut self, tid: u32, parent: u32, time_ns: u64) {
        let forked = self.forked.entry(tid).or_insert((parent, time_ns));
        if time_ns >= forked.1 {
            *forked = (parent, time_ns);
        }
    }

    /// The last name of a thread; empty where nobody tells.
    pub(super) fn last(&self, tid: u32) -> &str {
        self.at(tid, u64::MAX, MAX_GENERATIONS)
    }

    /// The name that a thread had at a time.
    fn at(&self, tid: u32, time_ns: u64, generations: usize) -> &str {
        let forked = self.forked.get(&tid).filter(|(_, forked_ns)| *forked_ns <= time_ns);
        // What it was called before it was forked was somebody else of the same number.
        let of_then = |from_ns: u64| from_ns <= time_ns && forked.is_none_or(|(_, forked_ns)| from_ns >= *forked_ns);
        let names = self.named.get(&tid).map_or(&[][..], Vec::as_slice);
        match (names.iter().filter(|(from_ns, _)| of_then(*from_ns)).max_by_key(|(from_ns, _)| *from_ns), forked) {
            (Some((_, name)), _) => name,
            (None, Some(&(parent, forked_ns))) if generations > 0 => self.at(parent, forked_ns, generations - 1),
            _ if tid == 0 => "swapper",
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_called_as_its_parent_was_when_it_was_forked() {
        // A shell (1) forks 2, which executes cc and forks 3; the shell itself executes ls later on.
        let mut names = Names::default();
        names.name(1, 40, "ls".into());
        names.fork(3, 2, 30);
        names.name(2, 20, "cc".into());
        names.fork(2, 1, 10);
        names.fork(4, 1, 15);
        names.name(1, 0, "sh".into());
        assert_eq!([1, 2, 3, 4, 5, 0].map(|tid| names.last(tid)), ["ls", "cc", "cc", "sh", "", "swapper"]);
        // A number that is given out again.
        names.fork(2, 4, 50);
        assert_eq!((names.last(2), names.last(3)), ("sh", "cc"));
        // A ring of parents ends.
        names.fork(8, 9, 5);
        names.fork(9, 8, 5);
        assert_eq!(names.last(8), "");
    }
}
