//! What each thing costs that sampling takes a program's time for.

use perftax_doc::Estimate;

use crate::drive::Drive;
use crate::prediction::Cost;
use crate::setting::{Setting, Watched};
use crate::tasks::TaskCost;

/// Prices, each with its interval; none where no calibration has one.
#[derive(Clone, Debug, PartialEq)]
pub struct Tariff {
    /// Periods, finest first: good ones by the rule of the hardware.
    pub periods: Vec<u64>,
    /// What a sample costs at each of them, ns.
    pub sample_ns: Vec<Estimate>,
    /// Whether samples come by time, one a period.
    pub is_clock: bool,
    /// What every event costs by being counted, where that is apart (a trap), ns.
    pub counting_ns: Option<Estimate>,
    /// What an interrupt costs whose sample a filter drops, ns.
    pub filtered_ns: Option<Estimate>,
    /// What a context switch costs, ns.
    pub switch_ns: Option<Estimate>,
    /// What a thread or process costs that is created and ends, ns.
    pub task_ns: Option<Estimate>,
    /// What executing a program costs, ns.
    pub exec_ns: Option<Estimate>,
}

impl Tariff {
    /// The prices at these periods, finest first; none of no periods.
    pub(super) fn of_periods(cost: &Cost, setting: &Setting<'_>, periods: Vec<u64>) -> Option<Self> {
        let finest = *periods.first()?;
        let tasks = match setting.watched {
            Watched::Program { events, cpus } => TaskCost::of(&cost.terms).map(|task| (task, (events, cpus))),
            Watched::Cpus => TaskCost::of_cpus(&cost.terms).map(|task| (task, (1, 1))),
        };
        let of_tasks =
            |created, executed| tasks.as_ref().map(|(task, copies)| task.of_run_ns(created, executed, *copies, cost.drift));
        Some(Self {
            sample_ns: periods.iter().map(|period| sample_ns(cost, setting, *period)).collect(),
            periods,
            is_clock: setting.drive == Drive::Time,
            counting_ns: cost.of_record_and_event(setting.drive, finest).1,
            filtered_ns: setting.left_out.term().map(|term| match cost.terms.get(term) {
                Some(filtered_ns) => filtered_ns.widened(cost.drift),
                // It interrupts as well.
                None => cost.alpha_at_ns(finest),
            }),
            switch_ns: cost.switch_ns(setting, finest),
            task_ns: of_tasks(1, 0),
            exec_ns: of_tasks(0, 1),
        })
    }

    /// What a sample costs at a rate at most, ns.
    pub fn sample_high_ns(&self, rate: usize) -> f64 {
        self.sample_ns[rate].high.max(0.0)
    }
}

/// All that a sample of a program costs at a period, drift included, ns: α, its payload, and what the program's own caches may lose to a timer.
pub(super) fn sample_ns(cost: &Cost, setting: &Setting<'_>, period: u64) -> Estimate {
    let (alpha_ns, _) = cost.of_record_and_event(setting.drive, period);
    let own_ns = (setting.drive == Drive::Time).then(|| cost.own_ns(&cost.alpha_ns, period as f64, None)).flatten();
    let payload = setting.payload.iter().filter_map(|term| cost.terms.get(*term)).map(|term| term.widened(cost.drift));
    payload.chain(own_ns).fold(alpha_ns, |sum, more| sum.plus(&more))
}
