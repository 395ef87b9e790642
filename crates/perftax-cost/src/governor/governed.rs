//! At which rate to go on.

use std::time::Duration;

use perftax_doc::{Estimate, Stretch};

use super::course::Course;
use super::ledger::Ledger;
use super::overdraft::Overdraft;
use super::pricing::{LEAST_LEFT, allowed};
use super::tariff::Tariff;
use super::window::Window;

/// How sampling goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// At a rate, by its place among the tariff's periods.
    Sample(usize),
    /// Not at all for now: even the coarsest rate spends more than is earned, for what comes with every event that is open.
    Rest,
}

/// CPU time whose share of the budget may be saved up for later, for each CPU that the program may use.
const BURST_OF: Duration = Duration::from_millis(100);
/// The part of a burst that is saved up at most: the rest is for what a look finds that nobody foresaw.
const SAVED: f64 = 0.8;
/// From one look to the next, times the budget, where a clock drives samples: a look costs the program some 20 µs of reading its counters, and the recorder 0.1 to 0.3
/// ms of a CPU that the program may be waiting for. Of a hundredth they are then 0.04 to 0.12 %.
const LOOK_OF_BUDGET_NS: f64 = 2.5e6;
/// The same of other events, of which a hundred times as many may come all at once.
const LOOK_AT_EVENTS_NS: f64 = 1e6;
const SHORTEST_LOOK_NS: f64 = 100e6;
const LONGEST_LOOK_NS: f64 = 1e9;
/// The same where the budget is used up within fewer.
const HURRIED_LOOK_NS: f64 = 10e6;
/// Over how long what comes besides samples is averaged: some of it is looked at every half second.
const AVERAGED_NS: f64 = 1e9;
/// Of so much of the program's time it is known how often events come, ns.
const KNOWN_FROM_NS: f64 = 5e7;
/// From here on it is known what threads and switches take, ns of elapsed time.
const KNOWN_CROWDED_NS: u64 = 100_000_000;
/// Periods are changed where so many times as many samples would fit.
const FINER_FROM: f64 = 2.0;
/// The part of a burst that must be saved up, once a rate was made coarser, before it is made finer again: every change costs something, too.
const SAVED_FOR_FINER: f64 = 0.4;

/// Holds what sampling takes of a program's CPU time within a budget.
///
/// A token bucket: the budget's share of the program's CPU time without sampling flows in, the upper ends of what was spent flow out, and it holds a burst.
#[derive(Clone, Debug)]
pub struct Governor {
    budget: f64,
    burst_ns: f64,
    balance_ns: f64,
    decision: Decision,
    ledger: Ledger,
    overdraft: Overdraft,
    course: Course,
    /// What other things than samples cost of late, and in how much of the program's time, ns.
    besides_ns: f64,
    besides_of_ns: f64,
    /// What of that comes with events that are open, and so not while sampling rests.
    with_events_ns: f64,
    /// What of that comes with events on threads alone.
    of_threads_ns: f64,
    /// Events by nanosecond of the program's time, of late: of a clock, one.
    events: f64,
    /// Of how much of the program's time that was found out, ns.
    known_of_ns: f64,
    /// For how long it was sampled, ns.
    sampled_ns: f64,
    /// What went out more than in, by nanosecond of elapsed time, in the last window that was sampled.
    drain: f64,
    /// Whether what comes with events that are open alone took more than came in, in that window.
    is_drained_by_events: bool,
    /// What it last took to open the events again, ns.
    reopening_ns: f64,
}

impl Governor {
    /// One that begins at the finest rate, with half of a burst saved.
    ///
    /// `cpus`: that the program may use at a time.
    pub fn new(tariff: Tariff, budget: f64, cpus: usize) -> Self {
        let tariff_is_clock = tariff.is_clock;
        let burst_ns = budget * BURST_OF.as_nanos() as f64 * cpus.max(1) as f64;
        Self {
            budget,
            burst_ns,
            balance_ns: burst_ns / 2.0,
            decision: Decision::Sample(0),
            ledger: Ledger::new(tariff),
            overdraft: Overdraft::new(),
            course: Course::new(),
            besides_ns: 0.0,
            besides_of_ns: 0.0,
            with_events_ns: 0.0,
            of_threads_ns: 0.0,
            events: if tariff_is_clock { 1.0 } else { 0.0 },
            known_of_ns: 0.0,
            sampled_ns: 0.0,
            drain: 0.0,
            is_drained_by_events: false,
            reopening_ns: 0.0,
        }
    }

    /// A window is over. Says how to go on.
    pub fn end(&mut self, window: &Window) -> Decision {
        let from_s = self.ledger.elapsed_ns as f64 * 1e-9;
        let rate = match self.decision {
            Decision::Sample(rate) if !window.is_paused => Some(rate),
            _ => None,
        };
        let spent_ns = self.ledger.enter(rate, window);
        let earned_ns = self.budget * (window.program_ns as f64 - spent_ns).max(0.0);
        self.overdraft.add(window.elapsed_ns, spent_ns, earned_ns);
        self.course.add(Stretch {
            from_s,
            elapsed_s: window.elapsed_ns as f64 * 1e-9,
            program_cpu_s: window.program_ns as f64 * 1e-9,
            spent_high_s: spent_ns * 1e-9,
            samples: window.samples,
        });
        self.balance_ns = (self.balance_ns + earned_ns - spent_ns).min(SAVED * self.burst_ns);
        if let Some(rate) = rate {
            let besides_ns = (spent_ns - window.samples as f64 * self.tariff().sample_high_ns(rate)).max(0.0);
            if window.program_ns > 0 {
                // Of the first looks all that is known counts. Of a look in which it did next to nothing next to nothing does.
                self.sampled_ns += window.elapsed_ns as f64;
                let kept = 1.0 - (window.elapsed_ns as f64 / self.sampled_ns.min(AVERAGED_NS)).min(1.0);
                self.besides_ns = kept * self.besides_ns + besides_ns;
                let with_events_ns = (besides_ns - window.turns_ns.high - window.recorder_ns.high).max(0.0);
                self.with_events_ns = kept * self.with_events_ns + with_events_ns;
                // Of those, what comes with events on threads.
                let tariff = self.tariff();
                let price = |price: Option<Estimate>| price.map_or(0.0, |price| price.high.max(0.0));
                let elsewhere_too_ns =
                    price(tariff.filtered_ns) * window.filtered as f64 + price(tariff.counting_ns) * window.counted as f64;
                // Whoever starts executes a program, or a few: that says nothing of what comes.
                let is_start = self.ledger.elapsed_ns - window.elapsed_ns < KNOWN_CROWDED_NS;
                let of_start_ns = if is_start { price(tariff.exec_ns) * window.executed as f64 } else { 0.0 };
                let of_threads_ns = (with_events_ns - elsewhere_too_ns - of_start_ns).max(0.0);
                self.of_threads_ns = kept * self.of_threads_ns + of_threads_ns;
                self.besides_of_ns = kept * self.besides_of_ns + window.program_ns as f64;
                self.learn(rate, window);
            }
            self.drain = (spent_ns - earned_ns) / window.elapsed_ns.max(1) as f64;
            let of_events_ns = spent_ns - window.turns_ns.high - window.recorder_ns.high;
            self.is_drained_by_events = of_events_ns > earned_ns;
        }
        if !window.is_paused {
            self.decision = self.decide(rate, window);
        }
        self.decision
    }

    /// Windows are about alike: what the next one takes besides samples must be there already, since samples alone take what it earns.
    fn decide(&self, rate: Option<usize>, window: &Window) -> Decision {
        let coarsest = self.tariff().periods.len() - 1;
        let Some(rate) = rate else {
            return if self.balance_ns >= (SAVED * self.burst_ns).min(2.0 * self.reopening_ns) {
                Decision::Sample(coarsest)
            } else {
                Decision::Rest
            };
        };
        let costs = |rate: usize| self.events * self.tariff().sample_high_ns(rate) / self.tariff().periods[rate] as f64;
        // Of a clock, samples take at most what is earned meanwhile.
        let beyond_ns = (self.besides() + costs(0) - allowed(self.budget)).max(0.0) * window.program_ns as f64;
        let for_finer_ns = if rate > 0 { SAVED_FOR_FINER * self.burst_ns } else { 0.0 };
        // No more is ever saved.
        if self.balance_ns >= (beyond_ns + for_finer_ns).min(0.9 * SAVED * self.burst_ns) {
            return Decision::Sample(0);
        }
        let with_events = self.with_events_ns / self.besides_of_ns.max(1.0);
        let is_too_much = with_events + costs(coarsest) > allowed(self.budget);
        // What is looked at now and then may come as much at once, and be little on average; and what the recorder takes goes on while sampling rests.
        let is_urgent = self.balance_ns < -self.burst_ns && self.is_drained_by_events;
        if rate == coarsest && self.drain > 0.0 && (is_urgent || self.balance_ns < 0.0 && is_too_much) {
            return Decision::Rest;
        }
        // As fine as what is besides leaves room for.
        let left = allowed(self.budget) - self.besides();
        let fits = (1..=coarsest).find(|rate| costs(*rate) <= left);
        Decision::Sample(fits.unwrap_or(coarsest))
    }

    /// What a nanosecond of the program's time costs besides samples, of late.
    fn besides(&self) -> f64 {
        if self.besides_of_ns > 0.0 { self.besides_ns / self.besides_of_ns } else { 0.0 }
    }

    /// How often events come, where nobody knows before.
    fn learn(&mut self, rate: usize, window: &Window) {
        if self.tariff().is_clock {
            return;
        }
        let program_ns = window.program_ns as f64;
        // Counted, or where that is not told, by samples.
        let events = (window.counted as f64).max(window.samples as f64 * self.tariff().periods[rate] as f64);
        self.known_of_ns += program_ns;
        let new = (program_ns / self.known_of_ns.min(AVERAGED_NS)).clamp(0.0, 1.0);
        self.events += new * (events / program_ns - self.events);
    }

    /// The periods that would suit what the program does better than those that there are: by events and other costs by nanosecond of its time. None while they
    /// do well, or nobody knows yet.
    pub fn unsuited(&self) -> Option<(f64, f64)> {
        let (periods, coarsest) = (&self.tariff().periods, self.tariff().periods.len() - 1);
        if self.tariff().is_clock || self.known_of_ns < KNOWN_FROM_NS {
            return None;
        }
        let costs = |rate: usize| self.events * self.tariff().sample_high_ns(rate) / periods[rate] as f64;
        let left = allowed(self.budget) - self.besides();
        // Whatever the periods, other things take it.
        if left < LEAST_LEFT * self.budget {
            return None;
        }
        (costs(0) < left / FINER_FROM || costs(coarsest) > left).then_some((self.events, self.besides()))
    }

    /// Whether what comes with events that are open on threads (switches, threads that are created) leaves samples less than half of the budget: not of its start, when a few
    /// programs executed are much.
    pub fn is_crowded_out(&self) -> bool {
        let of_threads = self.of_threads_ns / self.besides_of_ns.max(1.0);
        self.ledger.elapsed_ns >= KNOWN_CROWDED_NS && of_threads > allowed(self.budget) / 2.0
    }

    /// How many events come by nanosecond of the program's time, as far as is known.
    pub fn events(&self) -> f64 {
        self.events
    }

    /// What came besides samples comes no more.
    pub fn forget_besides(&mut self) {
        (self.besides_ns, self.besides_of_ns, self.with_events_ns, self.sampled_ns) = (0.0, 0.0, 0.0, 0.0);
        self.of_threads_ns = 0.0;
        (self.drain, self.is_drained_by_events, self.reopening_ns) = (0.0, false, 0.0);
    }

    /// There are other periods to choose from, which suit; it begins with the finest of them.
    pub fn change(&mut self, tariff: Tariff) {
        self.ledger.change(tariff);
        self.known_of_ns = 0.0;
        self.decision = Decision::Sample(0);
    }

    /// The events could not be opened again: sampling rests on, and that is tried once more later.
    pub fn rest(&mut self) {
        self.decision = Decision::Rest;
        self.balance_ns = self.balance_ns.min(0.0);
    }

    /// When the next window is to end.
    pub fn next_look(&self) -> Duration {
        let of_budget_ns = if self.tariff().is_clock { LOOK_OF_BUDGET_NS } else { LOOK_AT_EVENTS_NS };
        let usual_ns = (of_budget_ns / self.budget).clamp(SHORTEST_LOOK_NS, LONGEST_LOOK_NS);
        let lasts_ns = (self.balance_ns.max(0.0) + self.burst_ns / 2.0) / self.drain.max(f64::MIN_POSITIVE);
        if self.decision == Decision::Rest {
            return Duration::from_nanos(usual_ns as u64);
        }
        // Nothing is known yet of what comes besides samples.
        if self.ledger.elapsed_ns < SHORTEST_LOOK_NS as u64 {
            return Duration::from_nanos(HURRIED_LOOK_NS as u64);
        }
        let look_ns = if self.drain > 0.0 { usual_ns.min(lasts_ns.max(HURRIED_LOOK_NS)) } else { usual_ns };
        Duration::from_nanos(look_ns as u64)
    }

    /// Opening the events again took the program so much at most, ns: so much, and as much again, must be saved before it is done once more.
    pub fn reopened(&mut self, cost_ns: f64) {
        self.reopening_ns = cost_ns;
        self.burst_ns = self.burst_ns.max(2.0 * cost_ns / SAVED);
    }

    /// What may be saved up, CPU seconds.
    pub fn burst_s(&self) -> f64 {
        self.burst_ns * 1e-9
    }

    /// How sampling goes on.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// What was spent so far.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The prices.
    pub fn tariff(&self) -> &Tariff {
        self.ledger.tariff()
    }

    /// By how much the upper end of what was spent went beyond the budget at most, in any second or longer, CPU seconds.
    pub fn most_overdrawn_s(&self) -> f64 {
        self.overdraft.most_ns() * 1e-9
    }

    /// How it went over time.
    pub fn course(&self) -> &[Stretch] {
        self.course.stretches()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use perftax_doc::ExpenseOn;

    use super::*;

    const SAMPLE_HIGH_NS: f64 = 24_000.0;

    fn tariff(budget: f64) -> Tariff {
        let finest = (SAMPLE_HIGH_NS * (1.0 + 1.0 / budget)) as u64 + 1;
        Tariff {
            periods: vec![finest, 4 * finest],
            is_clock: true,
            counting_ns: None,
            sample_ns: vec![Estimate::new(20_000.0, 18_000.0, SAMPLE_HIGH_NS); 2],
            filtered_ns: None,
            switch_ns: Some(Estimate::new(500.0, 200.0, 1000.0)),
            task_ns: Some(Estimate::new(8_000.0, 6_000.0, 12_000.0)),
            exec_ns: None,
        }
    }

    /// A program on one CPU: what share of the time it runs, and how many tasks it creates a second of it. The governor decides every look.
    struct World {
        governor: Governor,
        /// Samples come of what was left of periods before.
        phase_ns: f64,
        now_ns: u64,
        closed_ns: f64,
    }

    impl World {
        fn new(budget: f64) -> Self {
            Self { governor: Governor::new(tariff(budget), budget, 1), phase_ns: 0.0, now_ns: 0, closed_ns: 0.0 }
        }

        fn run(&mut self, for_ns: u64, busy: impl Fn(u64) -> f64, tasks_per_s: f64) {
            let until_ns = self.now_ns + for_ns;
            while self.now_ns < until_ns {
                let elapsed_ns = self.governor.next_look().as_nanos() as u64;
                let program_ns = elapsed_ns as f64 * busy(self.now_ns);
                let mut window = Window { elapsed_ns, program_ns: program_ns as u64, ..Window::default() };
                match self.governor.decision() {
                    Decision::Sample(rate) => {
                        let period = self.governor.tariff().periods[rate] as f64;
                        self.phase_ns += program_ns;
                        window.samples = (self.phase_ns / period) as u64;
                        self.phase_ns -= window.samples as f64 * period;
                        window.created = (tasks_per_s * program_ns * 1e-9) as u64;
                        window.turns_ns = Estimate::new(10_000.0, 0.0, 20_000.0).scaled(busy(self.now_ns).min(1.0));
                    }
                    Decision::Rest => self.closed_ns += program_ns,
                }
                let before = self.governor.decision();
                if self.governor.end(&window) != before && before == Decision::Rest {
                    self.governor.reopened(200_000.0);
                }
                self.now_ns += elapsed_ns;
            }
        }

        /// Of what was earned, the part that was spent by upper ends.
        fn used(&self, budget: f64) -> f64 {
            let ledger = self.governor.ledger();
            ledger.high_ns() / (budget * (ledger.program_ns as f64 - ledger.high_ns()))
        }
    }

    #[test]
    fn a_busy_program_is_sampled_as_much_as_the_budget_buys() {
        for budget in [0.005, 0.01, 0.05, 0.1] {
            let mut world = World::new(budget);
            world.run(20_000_000_000, |_| 1.0, 0.0);
            let used = world.used(budget);
            assert!((0.9..=1.02).contains(&used), "{budget}: {used}");
            assert!(world.governor.ledger().share().unwrap().high <= budget * 1.02);
            assert!(world.governor.most_overdrawn_s() <= world.governor.burst_s(), "{}", world.governor.most_overdrawn_s());
        }
    }

    #[test]
    fn a_load_of_a_twentieth_is_sampled_while_it_runs_and_an_idle_hour_saves_a_burst_alone() {
        let budget = 0.01;
        let mut world = World::new(budget);
        world.run(20_000_000_000, |_| 0.05, 0.0);
        let samples = world.governor.ledger().samples();
        // A second of CPU time, by the finest period.
        let finest = world.governor.tariff().periods[0] as f64;
        assert!((samples as f64) > 0.5 * 1e9 / finest, "{samples} of {}", 1e9 / finest);
        world.run(3_600_000_000_000, |_| 0.0, 0.0);
        world.run(2_000_000_000, |_| 1.0, 0.0);
        assert!(world.governor.most_overdrawn_s() <= world.governor.burst_s() * 1.01);
    }

    /// What a look costs is paid by a program that runs: one that idles nearly all the time is sampled while it does not.
    #[test]
    fn looks_at_a_program_that_idles_do_not_keep_it_from_being_sampled() {
        let budget = 0.01;
        let mut world = World::new(budget);
        world.run(60_000_000_000, |now_ns| if now_ns % 1_500_000_000 < 600_000_000 { 0.65 } else { 0.012 }, 1.0);
        assert_eq!(world.closed_ns, 0.0);
        let possible = world.governor.ledger().program_ns as f64 / world.governor.tariff().periods[0] as f64;
        let samples = world.governor.ledger().samples() as f64;
        assert!(samples > 0.7 * possible, "{samples} of {possible}");
    }

    #[test]
    fn loads_that_jump_stay_within_the_budget_at_every_scale() {
        let budget = 0.01;
        let mut world = World::new(budget);
        world.run(60_000_000_000, |now_ns| if now_ns / 2_000_000_000 % 2 == 0 { 0.05 } else { 1.0 }, 20.0);
        assert!(world.governor.most_overdrawn_s() <= world.governor.burst_s(), "{}", world.governor.most_overdrawn_s());
        assert!(world.used(budget) > 0.8, "{}", world.used(budget));
    }

    /// One program executed may cost more than a second's budget.
    #[test]
    fn a_program_that_starts_does_not_crowd_samples_out() {
        let budget = 0.01;
        let mut governor = Governor::new(Tariff { exec_ns: Some(Estimate::exact(12e6)), ..tariff(budget) }, budget, 1);
        let window = |executed| Window { elapsed_ns: 10_000_000, program_ns: 10_000_000, executed, ..Window::default() };
        let mut late = governor.clone();
        late.end(&Window { elapsed_ns: 150_000_000, program_ns: 150_000_000, executed: 1, ..Window::default() });
        assert!(!late.is_crowded_out(), "the first look comes late");
        let mut crowded = Vec::new();
        for at in 0..100 {
            governor.end(&window(u64::from(at == 2)));
            crowded.push(governor.is_crowded_out());
        }
        assert!(!crowded.contains(&true), "{crowded:?}");
        for _ in 0..30 {
            governor.end(&window(1));
        }
        assert!(governor.is_crowded_out(), "and one that goes on executing programs does");
    }

    #[test]
    fn what_tasks_take_is_left_out_of_samples() {
        // 12 µs × 400 a second: half of a hundredth.
        let budget = 0.01;
        let mut world = World::new(budget);
        world.run(60_000_000_000, |_| 1.0, 400.0);
        let used = world.used(budget);
        assert!((0.8..=1.02).contains(&used), "{used}");
        let rates = world.governor.ledger().rates();
        assert!(rates[1].program_cpu_s > 10.0, "the coarser rate had its part: {rates:?}");
        assert_eq!(world.closed_ns, 0.0);
    }

    /// Events that go over from threads to CPUs: what threads take comes no more, and what they took before keeps its price.
    #[test]
    fn where_threads_crowd_samples_out_that_is_said_and_what_they_took_stays_told() {
        let budget = 0.01;
        let mut world = World::new(budget);
        world.run(5_000_000_000, |_| 1.0, 100.0);
        assert!(!world.governor.is_crowded_out(), "an eighth of the budget");
        world.run(5_000_000_000, |_| 1.0, 600.0);
        assert!(world.governor.is_crowded_out(), "seven tenths");
        let tasks = |world: &World| {
            let expenses = world.governor.ledger().expenses();
            expenses.into_iter().find(|expense| expense.on == ExpenseOn::Tasks).unwrap()
        };
        let (before, high_ns) = (tasks(&world), world.governor.ledger().high_ns());
        world.governor.forget_besides();
        world.governor.change(Tariff { switch_ns: None, task_ns: None, ..tariff(budget) });
        assert!((world.governor.ledger().high_ns() / high_ns - 1.0).abs() < 1e-9);
        assert_eq!(tasks(&world), before);
        assert!(!world.governor.is_crowded_out());
        // What has no price here is told as such once there is any.
        world.run(1_000_000_000, |_| 1.0, 50.0);
        let after = tasks(&world);
        assert_eq!(after, before, "what has a price is told by itself");
        let expenses = world.governor.ledger().expenses();
        let unpriced = expenses.iter().find(|expense| expense.on == ExpenseOn::Tasks && expense.cost_s.is_none()).unwrap();
        assert!(unpriced.count.unwrap() > 40, "{unpriced:?}");
        assert!(world.governor.ledger().high_ns() > high_ns);
    }

    /// Events of which nobody knows before how often they come: the first periods are for far more, and change until they suit.
    #[test]
    fn periods_are_found_that_suit_events_of_any_rate() {
        let budget = 0.01;
        let pricing = crate::governor::Pricing {
            cost: crate::prediction::Cost::new(Estimate::new(2_000.0, 1_800.0, 2_400.0), 0.0),
            mechanism: perftax_doc::Mechanism::Pmi,
            payload: Vec::new(),
            left_out: perftax_doc::LeftOut::Nothing,
            watched: crate::setting::Watched::Program { events: 2, cpus: 2 },
            rule: crate::period::Rule::of(perftax_doc::Mechanism::Pmi, None),
            budget,
            shortest: None,
            rates: 2,
        };
        // Events by ns: one that changes a hundredfold on the way.
        for events in [|_: u64| 3.0, |_| 1e-4, |now_ns: u64| if now_ns < 10_000_000_000 { 0.02 } else { 2.0 }] {
            let mut governor = Governor::new(pricing.tariff().unwrap(), budget, 1);
            let (mut now_ns, mut phase, mut changes) = (0, 0.0, 0);
            while now_ns < 20_000_000_000 {
                let elapsed_ns = governor.next_look().as_nanos() as u64;
                let mut window = Window { elapsed_ns, program_ns: elapsed_ns, ..Window::default() };
                if let Decision::Sample(rate) = governor.decision() {
                    window.counted = (events(now_ns) * elapsed_ns as f64) as u64;
                    phase += window.counted as f64 / governor.tariff().periods[rate] as f64;
                    window.samples = phase as u64;
                    phase -= window.samples as f64;
                }
                governor.end(&window);
                if let Some((events, besides)) = governor.unsuited() {
                    governor.change(pricing.for_events(events, besides).unwrap());
                    changes += 1;
                }
                now_ns += elapsed_ns;
            }
            let ledger = governor.ledger();
            let used = ledger.high_ns() / (budget * (ledger.program_ns as f64 - ledger.high_ns()));
            assert!((0.8..=1.1).contains(&used) && changes <= 8, "{used} {changes} {:?}", ledger.rates());
            // What comes a hundred times as often all at once does so for a look, before anybody can know.
            assert!(governor.most_overdrawn_s() < 0.11, "{}", governor.most_overdrawn_s());
        }
    }

    #[test]
    fn where_tasks_alone_take_more_sampling_rests_and_comes_back() {
        // 12 µs × 20,000 a second: 24 %.
        let budget = 0.05;
        let mut world = World::new(budget);
        world.run(60_000_000_000, |_| 1.0, 20_000.0);
        let used = world.used(budget);
        assert!((0.5..=1.05).contains(&used), "{used}");
        assert!(world.closed_ns > 30e9 && world.closed_ns < 58e9, "{}", world.closed_ns);
        let expenses = world.governor.ledger().expenses();
        let tasks = expenses.iter().find(|expense| expense.on == ExpenseOn::Tasks).unwrap();
        assert!(tasks.cost_s.unwrap().estimate > 0.5, "{expenses:?}");
        assert!(world.governor.most_overdrawn_s() <= 0.05 * 0.2, "{}", world.governor.most_overdrawn_s());
    }
}
