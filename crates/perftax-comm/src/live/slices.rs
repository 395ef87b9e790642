//! Slices of time for which registers are on: one turn's each, at once after each other, or as a budget allows.

use std::time::Duration;

use super::budget::{Controller, SLICE_NS, Used};

/// Length of a slice where places take turns and there is no budget, ns.
const TURN_NS: u64 = 20_000_000;
/// A slice is at least so many times as long as switching to it takes.
const MIN_TIMES_SWITCHING: u64 = 10;

/// Which turn's slice is on, or next.
pub struct Slices {
    budget: Option<Controller>,
    turn: usize,
    /// Since when registers are on, ns; none: they are off.
    on_ns: Option<u64>,
    length_ns: u64,
    /// CPU time of ours before the slice that is on, ns.
    own_before_ns: u64,
    /// Traps before it.
    traps_before: u64,
}

impl Slices {
    /// Within a budget, where there is one.
    pub fn new(budget: Option<Controller>) -> Self {
        let length_ns = if budget.is_some() { SLICE_NS } else { TURN_NS };
        Self { budget, turn: 0, on_ns: None, length_ns, own_before_ns: 0, traps_before: 0 }
    }

    /// Whether so many turns need one slice alone, that never ends.
    pub fn are_one(&self, turns: usize) -> bool {
        self.budget.is_none() && turns <= 1
    }

    /// Whether each one follows the last one at once.
    pub fn are_back_to_back(&self) -> bool {
        self.budget.is_none()
    }

    /// Whether registers are on.
    pub fn is_on(&self) -> bool {
        self.on_ns.is_some()
    }

    /// The turn that is on, or next.
    pub fn turn(&self) -> usize {
        self.turn
    }

    /// The first turn is next.
    pub fn restart(&mut self) {
        self.turn = 0;
    }

    /// Another of so many turns is next.
    pub fn advance(&mut self, turns: usize) {
        self.turn = (self.turn + 1) % turns.max(1);
    }

    /// Registers are on, which took so much CPU time; before that there were so many traps, and so much CPU time of ours, ns.
    pub fn begin(&mut self, now_ns: u64, switching_ns: u64, traps: u64, own_ns: u64) {
        self.length_ns = self.length_ns.max(MIN_TIMES_SWITCHING * switching_ns);
        (self.on_ns, self.traps_before, self.own_before_ns) = (Some(now_ns), traps, own_ns);
    }

    /// The slice is over. Says whether one was on.
    pub fn end(&mut self) -> bool {
        self.on_ns.take().is_some()
    }

    /// What the last one has cost, by traps and CPU time of ours since watching began.
    pub fn account(&mut self, traps: u64, own_ns: u64) {
        if let Some(budget) = &mut self.budget {
            budget.ended(self.turn, traps - self.traps_before, own_ns - self.own_before_ns);
        }
    }

    /// Whether the slice that is on has had its time.
    pub fn is_over(&self, now_ns: u64) -> bool {
        self.on_ns.is_some_and(|on_ns| now_ns >= on_ns + self.length_ns)
    }

    /// How much of the slice that is on is left; none where none is.
    pub fn left(&self, now_ns: u64) -> Option<Duration> {
        self.on_ns.map(|on_ns| Duration::from_nanos((on_ns + self.length_ns).saturating_sub(now_ns)))
    }

    /// Whether the next one can be paid for.
    pub fn is_affordable(&self, used: Used) -> bool {
        self.budget.as_ref().is_none_or(|budget| budget.missing_ns(self.turn, used) <= 0.0)
    }

    /// How long to wait at least until the next one can be paid for, where the program may use so many CPUs; `used` is asked for only where that
    /// hangs on it.
    pub fn until_affordable(&self, used: impl FnOnce() -> Used, cpus: usize) -> Duration {
        let budget = self.budget.as_ref().filter(|_| self.on_ns.is_none());
        let wait_ns = budget.map_or(0.0, |budget| budget.wait_ns(self.turn, used(), cpus));
        Duration::from_nanos(wait_ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_follow_each_other_where_there_is_no_budget() {
        let mut slices = Slices::new(None);
        assert!(slices.are_one(1) && !slices.are_one(2) && slices.are_back_to_back() && !slices.end());
        slices.begin(1000, 5_000_000, 0, 0);
        assert!(slices.is_on() && !slices.is_over(1000 + 49_999_999) && slices.is_over(1000 + 50_000_000), "ten times 5 ms");
        assert_eq!(slices.left(1000), Some(Duration::from_millis(50)));
        assert!(slices.end() && !slices.is_on() && slices.left(2000).is_none());
        let turns = [(); 3].map(|()| {
            let turn = slices.turn();
            slices.advance(2);
            turn
        });
        assert_eq!(turns, [0, 1, 0]);
    }

    #[test]
    fn what_a_slice_has_cost_says_when_the_next_one_begins() {
        let mut slices = Slices::new(Some(Controller::new(0.1, 10_000.0)));
        slices.begin(0, 0, 5, 1_000_000);
        let used = |program_ns| Used { program_ns, own_ns: 2_000_000 };
        assert_eq!(slices.until_affordable(|| used(0), 1), Duration::ZERO, "it is on");
        assert!(slices.end() && !slices.are_one(1));
        slices.account(105, 2_000_000);
        // 100 traps at 10 µs, and the next slice is foreseen to take them and 1 ms of ours again: 5 ms, a tenth of what the program has used itself.
        assert!(!slices.is_affordable(used(50_000_000)) && slices.is_affordable(used(51_000_000)));
        assert!(slices.until_affordable(|| used(41_000_000), 1) >= Duration::from_millis(10));
    }
}
