//! Whose samples are kept, where a clock samples whatever runs.

use perftax_pmu::process::Standing;
use perftax_pmu::sys::process_tree;
use rustc_hash::FxHashSet;

/// Strangers that are remembered.
const MAX_OTHERS: usize = 1 << 16;
/// Parents of parents that are asked for.
const MAX_PARENTS: usize = 16;

/// A process and what it has started since it is recorded.
pub(super) struct Family {
    ours: FxHashSet<u32>,
    /// What is known not to be, among it what it had started before.
    others: FxHashSet<u32>,
}

impl Family {
    /// Of a process.
    pub fn of(root: u32) -> Self {
        let others = process_tree(root).into_iter().filter(|pid| *pid != root);
        Self { ours: FxHashSet::from_iter([root]), others: others.collect() }
    }

    /// The kernel says who has created a process.
    pub fn born(&mut self, pid: u32, parent: u32) {
        if self.ours.contains(&parent) && !self.ours.contains(&pid) {
            self.others.remove(&pid);
            self.ours.insert(pid);
        }
    }

    /// Whether a process is one of them. Of one that was born while nothing was recorded its parents say so.
    pub fn has(&mut self, pid: u32) -> bool {
        if self.ours.contains(&pid) {
            return true;
        }
        if self.others.contains(&pid) {
            return false;
        }
        let is_ours = self.comes_from_us(pid);
        if is_ours {
            self.ours.insert(pid);
        } else {
            if self.others.len() >= MAX_OTHERS {
                self.others.clear();
            }
            self.others.insert(pid);
        }
        is_ours
    }

    fn comes_from_us(&self, pid: u32) -> bool {
        let parents = std::iter::successors(Some(pid), |pid| Standing::parent(*pid)).take(MAX_PARENTS).skip(1);
        parents.take_while(|pid| !self.others.contains(pid)).any(|pid| self.ours.contains(&pid))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use std::process::Command;

    use super::*;

    #[test]
    fn what_a_process_starts_later_is_of_it() {
        let mut earlier = Command::new("sleep").arg("60").spawn().unwrap();
        let mut family = Family::of(std::process::id());
        let mut later =
            Command::new("sh").args(["-c", "sleep 60 & echo; wait"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Read::read_exact(&mut later.stdout.take().unwrap(), &mut [0]).unwrap();
        let grandchild = process_tree(later.id()).into_iter().find(|pid| *pid != later.id()).unwrap();
        assert!(family.has(std::process::id()) && family.has(grandchild) && family.has(later.id()));
        assert!(!family.has(earlier.id()) && !family.has(1) && !family.has(u32::MAX));
        // Its number is another one's by now.
        family.born(earlier.id(), later.id());
        family.born(1, 2);
        assert!(family.has(earlier.id()) && !family.has(1));
        perftax_pmu::sys::kill_with_descendants(later.id() as i32, &|_| false);
        earlier.kill().unwrap();
        earlier.wait().unwrap();
        later.wait().unwrap();
    }
}
