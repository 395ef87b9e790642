//! Keeping a recording that goes on and on within a budget: on for some seconds, and off until what that cost is paid off.
//!
//! What recording costs while it is on is found by comparisons ([`crate::price_check`]). The upper end of that, of the CPU time that the program took with recording on, is what was
//! spent; recording rests while that is more than the budget's share of what the program would have taken alone. Messages are whole in windows that are long against them.

use perftax_doc::Estimate;

use crate::budget::Progress;
use crate::price_check::Step;

/// A window with recording on lasts at least so long, ns.
const ON_NS: u64 = 2_000_000_000;
/// From one look at the account to the next, ns.
const LOOK_NS: u64 = 100_000_000;

/// How a recording keeps to its budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rested {
    /// A share of the program's CPU time.
    pub budget: f64,
    /// What was spent so far, of what the program would have taken alone; none where it is not known what recording costs. The interval is of the price.
    pub spent: Option<Estimate>,
    /// The share of the program's CPU time for which recording was on; 1 where it used none.
    pub on_share: f64,
    /// Rests so far.
    pub rests: u64,
}

/// Says when to rest.
#[derive(Clone, Debug)]
pub struct Rest {
    budget: f64,
    is_on: bool,
    /// When it was last switched.
    turned: Progress,
    looked_ns: u64,
    first_ns: Option<u64>,
    /// CPU time with recording on, in windows that are over, ns.
    on_ns: u64,
    /// What a window of the least length takes, by the last one, ns of CPU time.
    least_ns: f64,
    cpu_ns: u64,
    rests: u64,
    /// The last stretches, from and to, newest last: on and off in turn.
    stretches: Vec<[Progress; 2]>,
}

impl Rest {
    /// Of a recording that is on.
    pub fn new(budget: f64) -> Self {
        Self {
            budget,
            is_on: true,
            turned: Progress::default(),
            looked_ns: 0,
            first_ns: None,
            on_ns: 0,
            least_ns: 0.0,
            cpu_ns: 0,
            rests: 0,
            stretches: Vec::new(),
        }
    }

    /// Whether the account is to be looked at by now.
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.looked_ns + LOOK_NS
    }

    /// Whether it rests.
    pub fn is_resting(&self) -> bool {
        !self.is_on
    }

    /// Looks at the account: what to do where recording costs `extra` of what the program would take without. Whoever has done it says so by [`Rest::switched`].
    pub fn next(&mut self, now: Progress, extra: Option<&Estimate>) -> Step {
        self.looked_ns = now.time_ns;
        let first_ns = *self.first_ns.get_or_insert(now.cpu_ns);
        if self.turned == Progress::default() {
            self.turned = now;
        }
        self.cpu_ns = now.cpu_ns.saturating_sub(first_ns);
        let Some(extra) = extra else { return Step::Stay };
        let of_on = share_of_on(extra.high);
        let window_ns = if self.is_on { now.cpu_ns.saturating_sub(self.turned.cpu_ns) } else { 0 };
        let spent_ns = (self.on_ns + window_ns) as f64 * of_on;
        let may_spend = |spent_ns: f64| spent_ns <= self.budget * (self.cpu_ns as f64 - spent_ns).max(0.0);
        let has_lasted = now.time_ns >= self.turned.time_ns + ON_NS;
        match self.is_on {
            true if has_lasted && !may_spend(spent_ns) => Step::Off,
            // It has what a window takes.
            false if may_spend(spent_ns + self.least_ns * of_on) => Step::On,
            _ => Step::Stay,
        }
    }

    /// It has been switched, between two moments: what that took is of neither stretch. Returns a stretch with recording on between the two with it off around it, where one has come to its end.
    pub fn switched(&mut self, from: Progress, now: Progress) -> Option<[[Progress; 2]; 3]> {
        self.stretches.push([self.turned, from]);
        if self.stretches.len() > 3 {
            self.stretches.remove(0);
        }
        if self.is_on {
            let window_ns = now.cpu_ns.saturating_sub(self.turned.cpu_ns);
            let lasted_ns = now.time_ns.saturating_sub(self.turned.time_ns).max(ON_NS);
            self.least_ns = window_ns as f64 * (ON_NS as f64 / lasted_ns as f64);
            self.on_ns += window_ns;
            self.rests += 1;
        }
        self.is_on = !self.is_on;
        self.turned = now;
        // On again: the last of them was off.
        <[[Progress; 2]; 3]>::try_from(self.stretches.as_slice()).ok().filter(|_| self.is_on)
    }

    /// How it keeps to its budget so far.
    pub fn rested(&self, extra: Option<&Estimate>) -> Rested {
        // Until the last look.
        let until_turned = self.turned.cpu_ns.saturating_sub(self.first_ns.unwrap_or(self.turned.cpu_ns));
        let on_ns = self.on_ns + if self.is_on { self.cpu_ns.saturating_sub(until_turned) } else { 0 };
        let on_share = if self.cpu_ns == 0 { 1.0 } else { on_ns as f64 / self.cpu_ns as f64 };
        let of_all = |extra: f64| {
            let cost = on_share * share_of_on(extra);
            cost / (1.0 - cost)
        };
        let spent = extra.map(|extra| Estimate::new(of_all(extra.estimate), of_all(extra.low), of_all(extra.high)));
        Rested { budget: self.budget, spent, on_share, rests: self.rests }
    }
}

/// Of the CPU time with recording on, what there would not have been without.
fn share_of_on(extra: f64) -> f64 {
    extra.max(0.0) / (1.0 + extra.max(0.0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    /// A program that works for `busy` of the time; `extra` is known from the tenth second on. Returns what was spent in truth, as a share, and the shortest window, ns.
    fn run(extra: f64, busy: f64, budget: f64, seconds: u64) -> (Rest, f64, u64) {
        let mut rest = Rest::new(budget);
        let known = Estimate::new(extra, 0.9 * extra, 1.1 * extra);
        let (mut now, mut spent_ns, mut on_since, mut shortest_ns) = (Progress::default(), 0.0, 0, u64::MAX);
        let mut compared = 0;
        while now.time_ns < seconds * 1_000_000_000 {
            now.time_ns += 10_000_000;
            let work_ns = 10_000_000.0 * busy;
            now.cpu_ns += work_ns as u64;
            spent_ns += if rest.is_resting() { 0.0 } else { work_ns * share_of_on(extra) };
            if !rest.is_due(now.time_ns) {
                continue;
            }
            match rest.next(now, (now.time_ns > 10_000_000_000).then_some(&known)) {
                Step::Stay => continue,
                Step::Off => shortest_ns = shortest_ns.min(now.time_ns - on_since),
                Step::On => on_since = now.time_ns,
            }
            compared += usize::from(rest.switched(now, now).is_some());
        }
        assert!(compared as u64 + 2 >= rest.rests, "{compared} of {}", rest.rests);
        (rest, spent_ns / (now.cpu_ns as f64 - spent_ns), shortest_ns)
    }

    #[test]
    fn what_it_costs_is_within_the_budget_and_windows_are_long() {
        for (extra, busy) in [(0.5, 1.0), (2.0, 0.3), (0.1, 0.05)] {
            let (rest, spent, shortest_ns) = run(extra, busy, 0.05, 3600);
            let rested = rest.rested(Some(&Estimate::new(extra, 0.9 * extra, 1.1 * extra)));
            // The upper end of the price is what is paid.
            assert!(spent <= 0.05 && spent > 0.8 * 0.05, "{extra}: {spent} {rested:?}");
            assert!((rested.spent.unwrap().estimate - spent).abs() < 0.002, "{spent} {rested:?}");
            assert!(rested.rests > 10 && shortest_ns >= ON_NS, "{shortest_ns} {rested:?}");
        }
    }

    #[test]
    fn what_costs_less_never_rests_and_what_is_not_known_is_not_said() {
        let (rest, spent, _) = run(0.03, 1.0, 0.05, 600);
        assert_eq!((rest.rests, rest.is_resting()), (0, false));
        assert!(spent < 0.05);
        let rested = rest.rested(None);
        assert_eq!((rested.spent, rested.on_share), (None, 1.0));
    }
}
