//! CPU time of a process and of all that it starts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::clock::process_cpu_ns;
use super::descendants::children_of;

/// From one look for new processes to the next.
const LOOK: Duration = Duration::from_millis(50);

/// The CPU time of a process and of what it has started, directly or not, for as long as it runs. A process that comes and goes between two looks for new
/// ones (50 ms) is missed; where the kernel does not list children (CONFIG_PROC_CHILDREN), all of them are.
#[derive(Clone, Debug)]
pub struct TreeClock {
    root: u32,
    /// What each was last seen to have used, those that are gone included.
    used_ns: BTreeMap<u32, u64>,
    looked: Option<Instant>,
    /// What all had used when the clock was made.
    before_ns: u64,
}

impl TreeClock {
    /// A clock that begins at 0 now; none where the process is gone.
    pub fn new(root: u32) -> Option<Self> {
        let mut clock = Self { root, used_ns: BTreeMap::new(), looked: None, before_ns: 0 };
        clock.before_ns = clock.elapsed_ns()?;
        Some(clock)
    }

    /// CPU time since the clock was made, ns; none once the process itself is gone.
    pub fn elapsed_ns(&mut self) -> Option<u64> {
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
            let mut found = vec![self.root];
            while let Some(pid) = found.pop() {
                self.used_ns.entry(pid).or_default();
                found.extend(children_of(pid as i32).into_iter().map(|child| child as u32));
            }
            self.looked = Some(Instant::now());
        }
        let root = self.root;
        let mut is_there = false;
        for (pid, used_ns) in &mut self.used_ns {
            if let Some(now_ns) = process_cpu_ns(*pid) {
                // A number that was given out again is another process's.
                *used_ns = now_ns.max(*used_ns);
                is_there |= *pid == root;
            }
        }
        is_there.then(|| self.used_ns.values().sum::<u64>().saturating_sub(self.before_ns))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use std::process::Command;

    #[test]
    fn what_children_use_is_counted() {
        // The shell itself does nothing but wait.
        let script = "perl -e '$i = 0; $i++ while times < 0.3' & wait; exec sleep 1000";
        let mut shell = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let mut clock = TreeClock::new(shell.id()).unwrap();
        let began = Instant::now();
        let mut used_ns = 0;
        while used_ns < 200_000_000 {
            used_ns = clock.elapsed_ns().unwrap();
            assert!(began.elapsed() < Duration::from_secs(60), "{used_ns}");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(process_cpu_ns(shell.id()).unwrap() < 100_000_000);
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert_eq!(clock.elapsed_ns(), None);
    }
}
