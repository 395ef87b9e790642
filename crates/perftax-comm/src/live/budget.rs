//! Watching within a budget: when the next slice may begin.
//!
//! What watching costs is known by counting: traps at the price of a trap, which the program pays, and the CPU time of whoever watches: reading what
//! traps say, switching registers, looking. A slice begins as soon as all that was spent, and what the next one is foreseen to spend, stay within the
//! share of the CPU time that the program has used of its own. A turn's slice is foreseen to take what its last one did, of either kind; where it had
//! none, traps for all of its length, and as much of our own time again.

use std::collections::HashMap;

/// How long a slice is while there is a budget, ns.
pub const SLICE_NS: u64 = 5_000_000;

/// From one look to the next, times the budget, ns. A look was seen to take some 70 µs: of a program on one CPU looks take a thirtieth of its budget then.
const LOOK_NS: f64 = 2_000_000.0;

/// CPU time that was used since watching began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// By the program, with the traps that watching added, ns.
    pub program_ns: u64,
    /// By whoever watches, ns.
    pub own_ns: u64,
}

/// Says when to watch.
#[derive(Clone, Debug)]
pub struct Controller {
    budget: f64,
    trap_ns: f64,
    traps_ns: f64,
    last_ns: HashMap<usize, f64>,
}

impl Controller {
    /// One that keeps to a share of the program's CPU time, at a price of a trap.
    pub fn new(budget: f64, trap_ns: f64) -> Self {
        Self { budget, trap_ns, traps_ns: 0.0, last_ns: HashMap::new() }
    }

    /// How much CPU time the program must use yet until a turn's slice fits, ns; 0: it fits by now.
    pub fn missing_ns(&self, turn: usize, used: Used) -> f64 {
        let next_ns = self.last_ns.get(&turn).copied().unwrap_or(2.0 * SLICE_NS as f64);
        let of_program_ns = used.program_ns as f64 - self.traps_ns;
        ((self.traps_ns + used.own_ns as f64 + next_ns) / self.budget - of_program_ns).max(0.0)
    }

    /// How long to wait until the next look at whether a turn's slice fits, where the program may use so many CPUs, ns; 0: it fits by now. It cannot fit
    /// sooner than in the time in which all of them use what is missing; and looks that come thick take what a small budget has.
    pub fn wait_ns(&self, turn: usize, used: Used, cpus: usize) -> f64 {
        let missing_ns = self.missing_ns(turn, used);
        if missing_ns > 0.0 { (missing_ns / cpus.max(1) as f64).max(LOOK_NS / self.budget) } else { 0.0 }
    }

    /// A slice is over: so many traps came in it, and it took so much of our own time.
    pub fn ended(&mut self, turn: usize, traps: u64, own_ns: u64) {
        let traps_ns = traps as f64 * self.trap_ns;
        self.traps_ns += traps_ns;
        self.last_ns.insert(turn, traps_ns + own_ns as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAP_NS: f64 = 10_000.0;
    const SWITCHING_NS: u64 = 50_000;
    const LOOK_NS: u64 = 10_000;

    /// A program on one CPU that traps all the time while it is watched, or now and then; each trap takes so much of our own time as well. Returns
    /// the share spent, and slices.
    fn run(budget: f64, share_of_slice: f64, own_per_trap_ns: u64, total_ns: u64) -> (f64, u64) {
        let mut controller = Controller::new(budget, TRAP_NS);
        let (mut used, mut traps_ns, mut slices) = (Used::default(), 0.0, 0);
        while used.program_ns < total_ns {
            used.program_ns += SLICE_NS;
            used.own_ns += LOOK_NS;
            if controller.missing_ns(0, used) <= 0.0 {
                let traps = (SLICE_NS as f64 * share_of_slice / TRAP_NS) as u64;
                let own_ns = traps * own_per_trap_ns + SWITCHING_NS;
                controller.ended(0, traps, own_ns);
                traps_ns += traps as f64 * TRAP_NS;
                used.own_ns += own_ns;
                slices += 1;
            }
        }
        ((traps_ns + used.own_ns as f64) / (used.program_ns as f64 - traps_ns), slices)
    }

    #[test]
    fn what_is_spent_stays_within_the_budget_and_near_it() {
        for (budget, share) in [(0.05, 0.99), (0.01, 0.5), (0.05, 0.1), (0.2, 0.9)] {
            for own_per_trap_ns in [0, 5_000, 20_000] {
                let (spent, slices) = run(budget, share, own_per_trap_ns, 60_000_000_000);
                assert!(spent <= budget && spent > budget * 0.9, "{budget} {share} {own_per_trap_ns}: {spent}");
                assert!(slices > 30, "{slices}");
            }
        }
    }

    #[test]
    fn what_hardly_traps_is_watched_nearly_all_the_time() {
        let (spent, slices) = run(0.05, 0.01, 5_000, 10_000_000_000);
        assert!(spent < 0.05 && slices > 1900, "{spent} {slices}");
    }

    #[test]
    fn a_program_that_does_nothing_is_not_watched_but_for_what_it_has_used() {
        let controller = Controller::new(0.05, TRAP_NS);
        let missing_ns = |program_ns| controller.missing_ns(0, Used { program_ns, own_ns: 0 });
        assert!(missing_ns(0) > 0.0 && missing_ns(SLICE_NS) > 0.0);
        assert!(missing_ns(41 * SLICE_NS) <= 0.0);
        // By that much it falls short.
        assert!((missing_ns(0) - 40.0 * SLICE_NS as f64).abs() < 1.0);
    }

    #[test]
    fn a_turn_that_hardly_traps_does_not_keep_the_next_one_waiting() {
        let mut controller = Controller::new(0.1, TRAP_NS);
        controller.ended(0, 1, SWITCHING_NS);
        // What looking has taken meanwhile is paid for, and is no price of a trap.
        let used = Used { program_ns: 0, own_ns: 1_000_000 };
        let missing_ns = controller.missing_ns(1, used);
        assert!(missing_ns < 10.0 * (2.0 * SLICE_NS as f64 + 1_100_000.0), "{missing_ns}");
    }

    #[test]
    fn nobody_looks_before_it_can_fit_or_so_often_that_it_never_does() {
        let controller = Controller::new(0.05, TRAP_NS);
        let at = |program_ns| Used { program_ns, own_ns: 0 };
        assert_eq!(controller.wait_ns(0, at(41 * SLICE_NS), 2), 0.0);
        assert_eq!(controller.wait_ns(0, at(0), 2), 20.0 * SLICE_NS as f64);
        assert_eq!(controller.wait_ns(0, at(39 * SLICE_NS), 2), 40e6);
    }

    #[test]
    fn looking_alone_can_take_all_there_is() {
        let controller = Controller::new(0.01, TRAP_NS);
        assert!(controller.missing_ns(0, Used { program_ns: 10_000_000_000, own_ns: 200_000_000 }) > 0.0);
    }
}
