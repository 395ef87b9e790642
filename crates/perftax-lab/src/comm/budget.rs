//! Watching within a budget: when the next slice may begin.
//!
//! What watching costs is known by counting: traps at the price of a trap, and the time that switching took. A slice begins as soon as all that
//! was spent, and what the next one is foreseen to spend, stay within the share of the CPU time that the program has used of its own. A turn's slice is
//! foreseen to spend what its last one did, or all of its length where it had none.

use std::collections::HashMap;

/// How long a slice is while there is a budget, ns.
pub const SLICE_NS: u64 = 5_000_000;

/// Says when to watch.
#[derive(Clone, Debug)]
pub struct Controller {
    budget: f64,
    trap_ns: f64,
    spent_ns: f64,
    last_ns: HashMap<usize, f64>,
}

impl Controller {
    /// One that keeps to a share of the program's CPU time, at a price of a trap.
    pub fn new(budget: f64, trap_ns: f64) -> Self {
        Self { budget, trap_ns, spent_ns: 0.0, last_ns: HashMap::new() }
    }

    /// Whether a turn's slice fits by now: `cpu_ns` is what the program has used, with what watching added to it.
    pub fn may_begin(&self, turn: usize, cpu_ns: u64) -> bool {
        let next_ns = self.last_ns.get(&turn).copied().unwrap_or(SLICE_NS as f64);
        self.spent_ns + next_ns <= self.budget * (cpu_ns as f64 - self.spent_ns)
    }

    /// A slice is over: so many traps came in it, and switching on and off took so long.
    pub fn ended(&mut self, turn: usize, traps: u64, switching_ns: u64) {
        let cost_ns = traps as f64 * self.trap_ns + switching_ns as f64;
        self.spent_ns += cost_ns;
        self.last_ns.insert(turn, cost_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program on one CPU that traps all the time while it is watched, or now and then; returns the share spent, and slices.
    fn run(budget: f64, share_of_slice: f64, total_ns: u64) -> (f64, u64) {
        let mut controller = Controller::new(budget, 10_000.0);
        let (mut cpu_ns, mut spent_ns, mut slices) = (0u64, 0.0, 0);
        while cpu_ns < total_ns {
            cpu_ns += SLICE_NS;
            if controller.may_begin(0, cpu_ns) {
                let traps = (SLICE_NS as f64 * share_of_slice / 10_000.0) as u64;
                controller.ended(0, traps, 50_000);
                spent_ns += traps as f64 * 10_000.0 + 50_000.0;
                slices += 1;
            }
        }
        (spent_ns / (cpu_ns as f64 - spent_ns), slices)
    }

    #[test]
    fn what_is_spent_stays_within_the_budget_and_near_it() {
        for (budget, share) in [(0.05, 0.99), (0.01, 0.5), (0.05, 0.1), (0.2, 0.9)] {
            let (spent, slices) = run(budget, share, 60_000_000_000);
            assert!(spent <= budget && spent > budget * 0.9, "{budget} {share}: {spent}");
            assert!(slices > 50, "{slices}");
        }
    }

    #[test]
    fn what_hardly_traps_is_watched_nearly_all_the_time() {
        let (spent, slices) = run(0.05, 0.01, 10_000_000_000);
        assert!(spent < 0.05 && slices > 1900, "{spent} {slices}");
    }

    #[test]
    fn a_program_that_does_nothing_is_not_watched_but_for_what_it_has_used() {
        let controller = Controller::new(0.05, 10_000.0);
        assert!(!controller.may_begin(0, 0) && !controller.may_begin(0, SLICE_NS));
        assert!(controller.may_begin(0, 21 * SLICE_NS));
    }
}
