//! CPU time of a process and of all that it starts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::clock::process_cpu_ns;
use super::descendants::process_trees;

/// From one look for new processes to the next, at least.
const LOOK: Duration = Duration::from_millis(50);
/// A look takes at most one part in so many of the time: of thousands of threads each is asked for its children.
const SPARING: u32 = 50;

/// The CPU time of a process and of what it has started, directly or not, for as long as it runs. A process that comes and goes between two looks for new
/// ones (50 ms) is missed; where the kernel does not list children (CONFIG_PROC_CHILDREN), all of them are.
#[derive(Clone, Debug)]
pub struct TreeClock {
    roots: Vec<u32>,
    /// What each that is there was last seen to have used.
    used_ns: BTreeMap<u32, u64>,
    /// What those had used that are gone.
    gone_ns: u64,
    /// When the next look is due.
    next_look: Option<Instant>,
    /// What all had used when the clock was made.
    before_ns: u64,
}

impl TreeClock {
    /// A clock that begins at 0 now, of some processes; none where they are gone.
    pub fn new(roots: impl IntoIterator<Item = u32>) -> Option<Self> {
        let roots = roots.into_iter().collect();
        let mut clock = Self { roots, used_ns: BTreeMap::new(), gone_ns: 0, next_look: None, before_ns: 0 };
        clock.before_ns = clock.elapsed_ns()?;
        Some(clock)
    }

    /// CPU time since the clock was made, ns; none once the processes themselves are gone.
    pub fn elapsed_ns(&mut self) -> Option<u64> {
        let began = Instant::now();
        if self.next_look.is_none_or(|due| began >= due) {
            self.look();
            self.next_look = Some(Instant::now() + LOOK.max(began.elapsed() * SPARING));
        }
        for used_ns in self.used_ns.iter_mut() {
            if let Some(now_ns) = process_cpu_ns(*used_ns.0) {
                *used_ns.1 = now_ns.max(*used_ns.1);
            }
        }
        let all_ns = self.gone_ns + self.used_ns.values().sum::<u64>();
        let is_there = self.roots.iter().any(|root| process_cpu_ns(*root).is_some());
        is_there.then(|| all_ns.saturating_sub(self.before_ns))
    }

    /// Finds who is there. Who is not any more keeps what it had: its number may be another's soon.
    fn look(&mut self) {
        let there = process_trees(self.roots.iter().copied(), &BTreeSet::new())
            .into_iter()
            .map(|pid| (pid, self.used_ns.remove(&pid).unwrap_or_default()))
            .collect();
        self.gone_ns += self.used_ns.values().sum::<u64>();
        self.used_ns = there;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use crate::sys::kill_with_descendants;
    use std::process::Command;

    #[test]
    fn what_children_use_is_counted() {
        // The shell itself does nothing but wait.
        let mut shell = Command::new("sh").args(["-c", "perl -e 'alarm 100; 1 while 1' & wait"]).spawn().unwrap();
        let mut clock = TreeClock::new([shell.id()]).unwrap();
        let began = Instant::now();
        let mut used_ns = 0;
        while used_ns < 200_000_000 {
            let now_ns = clock.elapsed_ns().unwrap();
            assert!(now_ns >= used_ns && began.elapsed() < Duration::from_secs(90), "{now_ns} after {used_ns}");
            used_ns = now_ns;
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(process_cpu_ns(shell.id()).unwrap() < 100_000_000);
        kill_with_descendants(shell.id() as i32, &|_| false);
        shell.wait().unwrap();
        assert_eq!(clock.elapsed_ns(), None);
    }
}
