//! What sampling came to, item by item.

use perftax_doc::{Estimate, Expense, ExpenseOn, RateUse};

use super::tariff::Tariff;
use super::window::Window;

/// All that was spent. Counts are added up first and priced then: every one of them has the same price, so what is not known of it does not average out.
#[derive(Clone, Debug)]
pub struct Ledger {
    tariff: Tariff,
    /// CPU time of the program, sampling included, ns.
    pub program_ns: u64,
    /// How long it took, ns.
    pub elapsed_ns: u64,
    of_periods: Vec<OfPeriod>,
    unsampled_ns: u64,
    counted: u64,
    filtered: u64,
    /// What came with open events at prices of before.
    before: Vec<Expense>,
    switches: Estimate,
    created: u64,
    executed: u64,
    turns_ns: Estimate,
    recorder_ns: Estimate,
}

/// Samples at a period, what each costs, and for how long of the program's time there were such.
#[derive(Clone, Copy, Debug)]
struct OfPeriod {
    period: u64,
    sample_ns: Estimate,
    samples: u64,
    program_ns: u64,
}

impl Ledger {
    pub(super) fn new(tariff: Tariff) -> Self {
        let nothing = Estimate::exact(0.0);
        Self {
            tariff,
            program_ns: 0,
            elapsed_ns: 0,
            of_periods: Vec::new(),
            unsampled_ns: 0,
            counted: 0,
            filtered: 0,
            before: Vec::new(),
            switches: nothing,
            created: 0,
            executed: 0,
            turns_ns: nothing,
            recorder_ns: nothing,
        }
    }

    /// From now on there are other periods to choose from.
    pub(super) fn change(&mut self, tariff: Tariff) {
        let prices = |tariff: &Tariff| (tariff.switch_ns, tariff.task_ns, tariff.exec_ns);
        if prices(&tariff) != prices(&self.tariff) {
            let (switches, tasks) = (self.switches_at(&self.tariff), self.tasks_at(&self.tariff));
            self.before.extend([switches, tasks].into_iter().filter(|expense| expense.count != Some(0)));
            (self.switches, self.created, self.executed) = (Estimate::exact(0.0), 0, 0);
        }
        self.tariff = tariff;
    }

    /// Enters a window at a rate, or without sampling. Returns what it cost at most, ns.
    pub(super) fn enter(&mut self, rate: Option<usize>, window: &Window) -> f64 {
        let before = self.high_ns();
        self.program_ns += window.program_ns;
        self.elapsed_ns += window.elapsed_ns;
        match rate {
            Some(rate) => {
                let of_period = self.of_rate(rate);
                of_period.samples += window.samples;
                of_period.program_ns += window.program_ns;
                self.counted += window.counted;
                self.filtered += window.filtered;
            }
            None => {
                self.unsampled_ns += window.program_ns;
                // Those that were taken before it was switched off, and came out of the rings since.
                if window.samples > 0 {
                    self.of_rate(0).samples += window.samples;
                }
            }
        }
        // Nobody tells of any while nothing is open: those that were told before it was closed may come now.
        self.created += window.created;
        self.executed += window.executed;
        self.switches = self.switches.plus_dependent(&window.switches);
        self.turns_ns = self.turns_ns.plus_dependent(&window.turns_ns);
        self.recorder_ns = self.recorder_ns.plus_dependent(&window.recorder_ns);
        self.high_ns() - before
    }

    fn of_rate(&mut self, rate: usize) -> &mut OfPeriod {
        let period = self.tariff.periods[rate];
        let at = self.of_periods.iter().position(|of| of.period == period).unwrap_or_else(|| {
            self.of_periods.push(OfPeriod { period, sample_ns: self.tariff.sample_ns[rate], samples: 0, program_ns: 0 });
            self.of_periods.len() - 1
        });
        &mut self.of_periods[at]
    }

    /// The sum of the upper ends, ns: what the budget is held against.
    pub fn high_ns(&self) -> f64 {
        self.expenses().iter().filter_map(|expense| expense.cost_s).map(|cost_s| cost_s.high.max(0.0)).sum::<f64>() * 1e9
    }

    /// Samples so far.
    pub fn samples(&self) -> u64 {
        self.of_periods.iter().map(|of| of.samples).sum()
    }

    /// Interrupts whose samples a filter dropped.
    pub fn filtered(&self) -> u64 {
        self.filtered
    }

    /// What was spent, item by item; what nothing happened of is left out.
    pub fn expenses(&self) -> Vec<Expense> {
        // The same price by and large: what is not known of it is so at every rate.
        let samples_s = self.of_periods.iter().map(|of| of.sample_ns.scaled(of.samples as f64 * 1e-9));
        let samples_s = samples_s.reduce(|sum, more| sum.plus_dependent(&more)).unwrap_or(Estimate::exact(0.0));
        let mut expenses = vec![Expense { on: ExpenseOn::Samples, count: Some(self.samples()), cost_s: Some(samples_s) }];
        let mut add = |on, count: Option<u64>, cost_s: Option<Estimate>| {
            if count != Some(0) && cost_s.is_none_or(|cost_s| cost_s.high > 0.0) {
                expenses.push(Expense { on, count, cost_s });
            }
        };
        if let Some(counting_ns) = self.tariff.counting_ns {
            add(ExpenseOn::Counting, Some(self.counted), Some(counting_ns.scaled(self.counted as f64 * 1e-9)));
        }
        let filtered_s = priced(self.tariff.filtered_ns, self.filtered as f64);
        add(ExpenseOn::Filtered, Some(self.filtered), filtered_s);
        for now in [self.switches_at(&self.tariff), self.tasks_at(&self.tariff)] {
            let before = self.before.iter().filter(|before| before.on == now.on);
            // What has no price is told beside what has one.
            let mut all = vec![now];
            for earlier in before {
                match all.iter_mut().find_map(|expense| Some((and(expense, earlier)?, expense))) {
                    Some((sum, expense)) => *expense = sum,
                    None => all.insert(0, *earlier),
                }
            }
            all.into_iter().for_each(|expense| add(expense.on, expense.count, expense.cost_s));
        }
        add(ExpenseOn::Turns, None, Some(self.turns_ns.scaled(1e-9)));
        add(ExpenseOn::Recorder, None, Some(self.recorder_ns.scaled(1e-9)));
        expenses
    }

    fn switches_at(&self, tariff: &Tariff) -> Expense {
        let cost_s = tariff.switch_ns.map(|price| times(&price, &self.switches).scaled(1e-9));
        Expense { on: ExpenseOn::Switches, count: Some(self.switches.high.round() as u64), cost_s }
    }

    fn tasks_at(&self, tariff: &Tariff) -> Expense {
        let costs = (priced(tariff.task_ns, self.created as f64), priced(tariff.exec_ns, self.executed as f64));
        let cost_s = match costs {
            (Some(created_s), Some(executed_s)) => Some(created_s.plus_dependent(&executed_s)),
            (created_s, executed_s) => created_s.or(executed_s),
        };
        Expense { on: ExpenseOn::Tasks, count: Some(self.created + self.executed), cost_s }
    }

    /// All of it, CPU seconds. Prices of different things err apart.
    pub fn spent_s(&self) -> Estimate {
        let costs = self.expenses().into_iter().filter_map(|expense| expense.cost_s);
        costs.reduce(|sum, more| sum.plus(&more)).unwrap_or(Estimate::exact(0.0))
    }

    /// The same as a share of the CPU time that the program would have used without; none where it used nothing.
    pub fn share(&self) -> Option<Estimate> {
        let program_s = self.program_ns as f64 * 1e-9;
        share_without(&self.spent_s(), program_s)
    }

    /// What samples alone took, and what comes with them, as a share of the time without, while they were on: what a pause of them saves.
    pub fn share_of_samples(&self) -> Option<Estimate> {
        let on_s = self.of_periods.iter().map(|of| of.program_ns).sum::<u64>() as f64 * 1e-9;
        let comes_with_them = |on: &ExpenseOn| matches!(on, ExpenseOn::Samples | ExpenseOn::Filtered | ExpenseOn::Counting);
        let costs =
            self.expenses().into_iter().filter(|expense| comes_with_them(&expense.on)).filter_map(|expense| expense.cost_s);
        let all_s = costs.reduce(|sum, more| sum.plus(&more))?;
        share_without(&all_s, on_s)
    }

    /// The rates there were, finest first, and what went without.
    pub fn rates(&self) -> Vec<RateUse> {
        let rate = |period, program_ns: u64, samples| RateUse { period, program_cpu_s: program_ns as f64 * 1e-9, samples };
        let mut rates: Vec<RateUse> = self.of_periods.iter().map(|of| rate(Some(of.period), of.program_ns, of.samples)).collect();
        rates.sort_by_key(|rate| rate.period);
        rates.extend((self.unsampled_ns > 0).then(|| rate(None, self.unsampled_ns, 0)));
        rates
    }

    pub(super) fn tariff(&self) -> &Tariff {
        &self.tariff
    }
}

/// A part of some time as a share of the rest; none where it may be all of it.
fn share_without(part_s: &Estimate, all_s: f64) -> Option<Estimate> {
    let of = |part_s: f64| part_s / (all_s - part_s);
    (all_s > part_s.high).then(|| Estimate::new(of(part_s.estimate), of(part_s.low), of(part_s.high)))
}

/// The same twice, in one; of what did not happen the price may be unknown. None where one has a price and the other has none.
fn and(one: &Expense, more: &Expense) -> Option<Expense> {
    let cost_s = match (one.cost_s, more.cost_s) {
        (Some(one_s), Some(more_s)) => Some(one_s.plus_dependent(&more_s)),
        (None, None) => None,
        (one_s, None) if more.count == Some(0) => one_s,
        (None, more_s) if one.count == Some(0) => more_s,
        _ => return None,
    };
    Some(Expense { on: one.on, count: one.count.zip(more.count).map(|(one, more)| one + more), cost_s })
}

fn priced(price: Option<Estimate>, count: f64) -> Option<Estimate> {
    price.map(|price| price.scaled(count * 1e-9))
}

/// A price and how often, neither known exactly; each end is of both.
fn times(price: &Estimate, count: &Estimate) -> Estimate {
    let estimate = price.estimate * count.estimate;
    Estimate::new(estimate, (price.low * count.low).min(estimate), (price.high * count.high).max(estimate))
}
