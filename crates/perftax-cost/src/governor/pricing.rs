//! From what a machine's profile says to the prices of sampling one program.

use perftax_doc::{LeftOut, Mechanism};

use super::tariff::Tariff;
use crate::drive::{Drive, PERIOD_MIN_IN_COSTS};
use crate::period::Rule;
use crate::prediction::Cost;
use crate::setting::{Setting, Watched};

/// The next coarser rate has so many times the period: samples of both are worth about the same to an estimate, and what is left of the budget for other
/// things is then three quarters of it.
const COARSER: u64 = 4;

/// What prices follow from: the same for every choice of periods.
#[derive(Clone, Debug)]
pub struct Pricing {
    /// What sampling costs on the machine.
    pub cost: Cost,
    /// How it samples.
    pub mechanism: Mechanism,
    /// Payload of samples, by the names of its terms.
    pub payload: Vec<String>,
    /// Samples that a filter drops.
    pub left_out: LeftOut,
    /// Who is watched.
    pub watched: Watched,
    /// What the hardware demands of periods.
    pub rule: Rule,
    /// The share of the program's CPU time that sampling may take, a fraction.
    pub budget: f64,
    /// The shortest period that is wanted, where anybody said.
    pub shortest: Option<u64>,
    /// Periods to choose from: each is an event more.
    pub rates: u32,
}

impl Pricing {
    /// The prices to begin with. Of a clock it is known how often samples come: its finest period is the one at which samples alone cost the budget of CPU
    /// time, by the upper end of their price. Of other events it is not, so that as many are taken for granted as there can be, or as many as the shortest
    /// period that is wanted was chosen for.
    ///
    /// None where the hardware allows no period so long.
    pub fn tariff(&self) -> Option<Tariff> {
        if self.drive() == Drive::Time {
            return self.for_events(1.0, 0.0);
        }
        match self.shortest {
            None => self.for_events(self.most_events_per_ns(), 0.0),
            Some(asked) => self.of_finest(asked),
        }
    }

    /// The prices where so many events come by nanosecond of the program's time, and other things cost so much of it: the finest period is the one at which
    /// all together costs the budget.
    pub fn for_events(&self, events_per_ns: f64, besides: f64) -> Option<Tariff> {
        // The price depends on the period a little: caches have longer to fill. Each step is nearer.
        let shortest = self.shortest.unwrap_or(1).max(1);
        let mut period = self.rule.at_least(shortest)?;
        for _ in 0..8 {
            let high_ns = self.sample_high_ns(period);
            let share = (allowed(self.budget) - besides).max(self.budget * LEAST_LEFT);
            let wanted = (high_ns * events_per_ns / share).max(if self.drive() == Drive::Time {
                high_ns * PERIOD_MIN_IN_COSTS
            } else {
                1.0
            });
            if !wanted.is_finite() {
                return None;
            }
            period = self.rule.at_least((wanted.ceil() as u64).max(shortest))?;
        }
        self.of_finest(period)
    }

    /// The prices from a finest period on.
    pub fn of_finest(&self, finest: u64) -> Option<Tariff> {
        let rates = 0..self.rates.max(1);
        let periods: Vec<u64> = rates.map_while(|rate| self.rule.at_least(finest.checked_mul(COARSER.pow(rate))?)).collect();
        Tariff::of_periods(&self.cost, &self.setting(), periods)
    }

    /// Whether time drives it.
    pub fn drive(&self) -> Drive {
        Drive::of(self.mechanism, false)
    }

    fn sample_high_ns(&self, period: u64) -> f64 {
        super::tariff::sample_ns(&self.cost, &self.setting(), period).high.max(0.0)
    }

    fn setting(&self) -> Setting<'_> {
        let mut setting = Setting::new(self.mechanism, "", 0.0);
        setting.payload = self.payload.iter().map(String::as_str).collect();
        (setting.left_out, setting.watched) = (self.left_out, self.watched);
        setting
    }

    /// More than come, by nanosecond: instructions of a wide core at its fastest clock, faults and system calls that do nothing else.
    fn most_events_per_ns(&self) -> f64 {
        match self.mechanism {
            Mechanism::Pebs
            | Mechanism::PebsDirect
            | Mechanism::Pmi
            | Mechanism::IbsOp
            | Mechanism::IbsFetch
            | Mechanism::Spe => 20.0,
            Mechanism::CpuClock => 1.0,
            Mechanism::Software | Mechanism::Breakpoint | Mechanism::Tracepoint | Mechanism::Uprobe => 0.01,
        }
    }
}

/// The part of a budget that is left to samples whatever else costs: no other periods help beyond.
pub(super) const LEAST_LEFT: f64 = 0.1;

/// The part of all of a program's time that may be spent: of what it takes without sampling it is the budget.
pub(super) fn allowed(budget: f64) -> f64 {
    budget / (1.0 + budget)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use perftax_doc::Estimate;

    use super::*;
    use crate::tasks::TASK_TERM;

    fn pricing(mechanism: Mechanism, budget: f64) -> Pricing {
        Pricing {
            cost: Cost::new(Estimate::new(20_000.0, 18_000.0, 24_000.0), 0.0),
            mechanism,
            payload: Vec::new(),
            left_out: LeftOut::Nothing,
            watched: Watched::Program { events: 2, cpus: 2 },
            rule: Rule::of(mechanism, None),
            budget,
            shortest: None,
            rates: 2,
        }
    }

    #[test]
    fn at_the_finest_rate_samples_alone_cost_the_budget() {
        for budget in [0.001, 0.01, 0.1, 0.5] {
            let tariff = pricing(Mechanism::CpuClock, budget).tariff().unwrap();
            let (period, high_ns) = (tariff.periods[0] as f64, tariff.sample_high_ns(0));
            let share = high_ns / (period - high_ns);
            assert!(share <= budget && share > 0.99 * budget, "{budget}: {period} {share}");
            assert!((tariff.periods[1] as f64 / period - 4.0).abs() < 0.01, "{:?}", tariff.periods);
        }
        // Not finer than was asked for.
        let asked = Pricing { shortest: Some(5_000_000), ..pricing(Mechanism::CpuClock, 0.1) };
        assert!((5_000_000..5_001_000).contains(&asked.tariff().unwrap().periods[0]));
    }

    #[test]
    fn events_of_which_nothing_is_known_begin_coarse_and_those_that_are_known_fit() {
        let pricing = pricing(Mechanism::Pmi, 0.01);
        assert!(pricing.tariff().unwrap().periods[0] > 10_000_000);
        let tariff = pricing.for_events(3.0, 0.0).unwrap();
        let share = tariff.sample_high_ns(0) * 3.0 / tariff.periods[0] as f64;
        assert!((share * 1.01 - 0.01).abs() < 1e-5, "{share}");
        let beside = pricing.for_events(3.0, 0.005).unwrap();
        assert!((beside.periods[0] as f64 / tariff.periods[0] as f64 - 2.0).abs() < 0.05, "half of it is spent otherwise");
    }

    #[test]
    fn what_is_not_calibrated_has_no_price() {
        let mut pricing = pricing(Mechanism::CpuClock, 0.01);
        let tariff = pricing.tariff().unwrap();
        assert_eq!((tariff.switch_ns, tariff.task_ns, tariff.exec_ns, tariff.filtered_ns), (None, None, None, None));
        pricing.watched = Watched::Program { events: 1, cpus: 1 };
        pricing.cost.terms.insert(TASK_TERM.into(), Estimate::new(5000.0, 4000.0, 6000.0));
        assert!((pricing.tariff().unwrap().task_ns.unwrap().estimate - 5000.0).abs() < 1.0);
    }
}
