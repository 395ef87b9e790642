//! How often a program's threads were switched to (`/proc/PID/task/TID/schedstat`, the third number; Documentation/scheduler/sched-stats.rst).

use std::collections::HashMap;

use perftax_doc::Estimate;
use perftax_pmu::record::Task;
use rustc_hash::{FxBuildHasher, FxHashSet};

/// Threads that are asked in one look: each takes some microseconds.
const ASKED: usize = 64;

/// Counts them from time to time.
#[derive(Debug, Default)]
pub struct Switches {
    told: HashMap<Task, u64, FxBuildHasher>,
}

impl Switches {
    /// Switches since the last look, where so many threads came and went meanwhile, and all of the machine had so many: at least what those tell that are
    /// there, at most all.
    pub fn look(&mut self, alive: &FxHashSet<Task>, came_and_went: u64, of_machine: u64) -> Estimate {
        let before = std::mem::take(&mut self.told);
        let mut seen = 0;
        for task in alive.iter().take(ASKED) {
            let Some(now) = arrivals(*task) else { continue };
            // One that was not asked before may have been there for long.
            let known = before.get(task).copied().unwrap_or(now);
            seen += now.saturating_sub(known);
            self.told.insert(*task, now);
        }
        let all_told =
            came_and_went == 0 && !self.told.is_empty() && self.told.len() == alive.len() && self.told.len() <= before.len();
        let (seen, most) = (seen as f64, of_machine as f64);
        if all_told { Estimate::exact(seen) } else { Estimate::new((seen + seen.max(most)) / 2.0, seen, seen.max(most)) }
    }
}

/// How often a thread was switched to since it began.
fn arrivals(task: Task) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{}/task/{}/schedstat", task.pid, task.tid)).ok()?;
    text.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn who_sleeps_is_switched_to() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let alive: FxHashSet<Task> = [Task { pid: std::process::id(), tid }].into_iter().collect();
        let mut switches = Switches::default();
        switches.look(&alive, 0, 1_000_000);
        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let count = switches.look(&alive, 0, 1_000_000);
        assert!(count.low >= 20.0 && count.high == count.low, "{count:?}");
        let unsure = switches.look(&alive, 3, 1_000_000);
        assert_eq!(unsure.high, 1e6);
    }
}
