//! Did the prediction hold? E = (measured − expected)/expected, with an interval.
//!
//! The observations come in rounds: each holds unmonitored runs, a monitored run per period, and calibration blocks, all from
//! the same seconds. A round is what is resampled, whole, so that every interval here carries at once the variation of the
//! program, that of the unmonitored time and that of α.

use crate::alpha::{Clock, Sums, Unit, control_of, session_sums};
pub use crate::average::{AVERAGE, Average};
use crate::average::{Taken, average};
use crate::bootstrap::{REPLICATES, SEED, joint_bootstrap};
use crate::drive::Drive;
use crate::left_out::share_of;
use crate::regression::least_squares;
use perftax_doc::LeftOut;
use perftax_doc::median;
use perftax_doc::observation::{Block, Run};
use perftax_doc::tasks::Tasks;
use perftax_doc::{CONFIDENCE, Estimate};
use perftax_doc::{Cell, Control, Pollution, Totals};

/// One pass over all arms of one workload, with the calibration made within it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    /// Unmonitored (`period` 0) and monitored runs.
    pub runs: Vec<Run>,
    /// Calibration blocks measured in the same round.
    pub blocks: Vec<Block>,
}

/// Which number of samples an event-driven expectation multiplies α by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// The samples that the monitored runs delivered.
    Delivered,
    /// What the period and the event count say should have come ([`Run::expected_samples`]).
    Predicted,
}

/// Blocks that the cost of a context switch is calibrated from: [`Block::expected`] holds the number of switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchArms<'a> {
    /// Switches with nothing armed.
    pub off: &'a str,
    /// The same number of switches with the event armed, attached as in the cell.
    pub on: &'a str,
}

/// The tasks that a program creates while its events are inherited, and the blocks that what they cost is calibrated from: [`Block::expected`] holds the
/// number of tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskArms<'a> {
    /// The tasks of one run.
    pub tasks: &'a Tasks,
    /// Threads created with nothing open, and with the event inherited.
    pub created: (&'a str, &'a str),
    /// Programs executed by a process each, with nothing open, and with the event inherited.
    pub executed: (&'a str, &'a str),
}

/// Arm of the monitored runs that a program's pollution term is measured by ([`Run::arm`]).
pub const PROBE: &str = "probe";

/// Everything that says how a cell is computed, beside the observations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spec<'a> {
    /// Name of the workload, copied into the cell.
    pub workload: &'a str,
    /// The event, copied into the cell.
    pub event: &'a str,
    /// How events were attached, copied into the cell.
    pub attach: &'a str,
    /// Arm of the monitored runs ([`Run::arm`]).
    pub arm: &'a str,
    /// What drives the sampler.
    pub drive: Drive,
    /// Event-driven: which number of samples.
    pub count: Count,
    /// Unmonitored arm of the calibration blocks.
    pub off: &'a str,
    /// Monitored arm of the calibration blocks.
    pub on: &'a str,
    /// Use only calibration blocks of this period; `None`: all of the arm.
    pub calibrated_at: Option<u64>,
    /// Clock of the calibration blocks.
    pub clock: Clock,
    /// What α is per.
    pub unit: Unit,
    /// Periods of the probes, shortest first; where there are any, the program's pollution term is added to α.
    pub probes: &'a [u64],
    /// Samples that the event's filter drops once they are taken, whose interrupts are priced by the calibration arm of the term's name
    /// ([`LeftOut::term`]).
    pub left_out: LeftOut,
    /// Adds switches × cost of a switch, switches being those of the unmonitored runs.
    pub switch: Option<SwitchArms<'a>>,
    /// Adds what creating tasks costs, and takes off the samples that tasks shorter than a period do not give.
    pub tasks: Option<TaskArms<'a>>,
    /// Speaks of one CPU: all times are then the program's CPU time on it.
    pub cpu: Option<u32>,
    /// How the runs of an arm are averaged.
    pub average: Average,
}

impl<'a> Spec<'a> {
    /// A cell of a whole program with inherited events, arms `off` and `on`, and the defaults of this module.
    pub fn new(workload: &'a str, event: &'a str, drive: Drive) -> Self {
        Self {
            workload,
            event,
            attach: "inherited",
            arm: "on",
            drive,
            count: Count::Delivered,
            off: "off",
            on: "on",
            calibrated_at: None,
            clock: Clock::Wall,
            unit: Unit::Samples,
            probes: &[],
            left_out: LeftOut::Nothing,
            switch: None,
            tasks: None,
            cpu: None,
            average: AVERAGE,
        }
    }
}

/// What one round says about one cell.
#[derive(Clone, Debug)]
struct Digest {
    off: Vec<Taken>,
    on: Vec<Taken>,
    /// Runs of each probe, in the order of [`Spec::probes`].
    probes: Vec<Vec<Taken>>,
    alpha: Sums,
    /// Of interrupts whose sample is dropped, and the unmonitored CPU time in user and kernel mode.
    excluded: Sums,
    modes_s: (f64, f64),
    /// Extra time of the switching blocks by switches made in them, and the samples taken meanwhile.
    switch: Beside,
    /// The same of blocks of threads, and of programs.
    created: Beside,
    executed: Beside,
}

/// Extra time of blocks that are not about samples, by what was done in them, and the samples taken meanwhile.
#[derive(Clone, Copy, Debug, Default)]
struct Beside {
    sums: Sums,
    samples: f64,
}

impl Beside {
    fn of(blocks: &[Block], (off, on): (&str, &str), clock: Clock) -> Self {
        let sums = |unit| Sums::total(&session_sums(blocks, off, on, unit, clock));
        Self { sums: sums(Unit::Expected), samples: sums(Unit::Samples).units }
    }

    fn total<'a>(all: impl Iterator<Item = &'a Self> + Clone) -> Self {
        Self { sums: Sums::total(all.clone().map(|one| &one.sums)), samples: all.map(|one| one.samples).sum() }
    }

    /// What each took, samples apart, ns; none where it was not measured.
    fn each_ns(&self, alpha_ns: f64) -> Option<f64> {
        (self.sums.units > 0.0).then(|| (self.sums.extra_ns - self.samples * alpha_ns) / self.sums.units)
    }
}

/// The cell of one period, from all usable rounds.
///
/// Expected: time-driven T0 + C0·α/(P − α), C0 being the CPU time of the unmonitored runs; event-driven T0 + N·α; plus
/// switches × their cost where asked for. α is the ratio of sums over the blocks of the (resampled) rounds: it weighs each
/// moment by its samples, as the mean elapsed time of the monitored runs does. Where probes ran, the program's own pollution term
/// (see [`Pollution`]) is added to it, and E without the term stands beside.
///
/// `None` where fewer than two rounds hold a usable unmonitored run, a usable monitored run of this period and calibration
/// blocks, or where P is not above α.
pub fn cell(spec: &Spec, period: u64, rounds: &[Round]) -> Option<Cell> {
    let digests: Vec<Digest> = rounds.iter().filter_map(|round| digest(spec, period, round)).collect();
    let statistic = |sample: &[&Digest]| evaluate(spec, period, sample);
    let [unmonitored_s, expected_s, measured_s, error, predicted_overhead, measured_overhead, without_s, error_without, extra_ns] =
        joint_bootstrap(&digests, statistic, REPLICATES, CONFIDENCE, SEED)?;
    let is_part = |run: &&Run| is_off(run) || is_on(spec, period, run) || run.arm == PROBE;
    let runs: Vec<Run> = rounds.iter().flat_map(|round| &round.runs).filter(is_part).cloned().collect();
    let pollution = Pollution { extra_ns, expected_without_s: without_s, error_without };
    let on: Vec<&Run> = runs.iter().filter(|run| run.discarded.is_none() && is_on(spec, period, run)).collect();
    let mean = |of: &dyn Fn(&Run) -> f64| on.iter().map(|run| of(run)).sum::<f64>() / on.len() as f64;
    Some(Cell {
        workload: spec.workload.into(),
        event: spec.event.into(),
        period,
        attach: spec.attach.into(),
        cpu: spec.cpu,
        unmonitored_s,
        expected_s,
        measured_s,
        error,
        covered: error.contains(0.0),
        predicted_overhead,
        measured_overhead,
        rounds: digests.len() as u32,
        samples: mean(&|run| samples_of(spec, run)),
        expected_samples: mean(&|run| run.expected_samples),
        lost: on.iter().map(|run| run.lost).sum(),
        throttled: on.iter().map(|run| run.throttled).sum(),
        pollution: (!spec.probes.is_empty()).then_some(pollution),
        runs,
    })
}

/// How many more rounds bring the half-width of E down to `target` (a fraction, such as 0.02); 0 where it is there already.
pub fn more_rounds(cell: &Cell, target: f64) -> u32 {
    let ratio = cell.error.half_width() / target;
    if ratio <= 1.0 {
        return 0;
    }
    let needed = (f64::from(cell.rounds) * ratio * ratio).ceil().min(f64::from(u32::MAX));
    (needed as u32).saturating_sub(cell.rounds).max(1)
}

/// The A/A control of a workload: the round's runs of arm `off2` against those of `off`. `judged_together`: how many workloads are
/// refused or not in the same verification; together their controls have the confidence of one.
pub fn control(rounds: &[Round], judged_together: usize) -> Option<Control> {
    let arm = |round: &Round, arm: &str| {
        let times = round
            .runs
            .iter()
            .filter(|r| r.discarded.is_none() && r.period == 0 && r.arm == arm)
            .map(|r| r.adjusted_s.unwrap_or(r.elapsed_s));
        mean_of(times)
    };
    let pairs: Vec<(f64, f64)> = rounds.iter().filter_map(|r| Some((arm(r, "off")?, arm(r, "off2")?))).collect();
    control_of(&pairs, judged_together)
}

/// Median |E|, coverage, and the regression of measured on predicted *extra* time through all cells.
///
/// The regression is weighted by 1/half-width² of the measured error in seconds (half-width of E × expected time): cells differ
/// in run time and noise. It is an ordinary one, x being taken as exact: the predicted extra time errs by α's few per cent,
/// which is common to all cells and moves the slope as a whole, and only the rest would flatten it. The workloads' cells share
/// their unmonitored runs, so the interval of the slope is somewhat narrow.
pub fn summarise(cells: &[Cell]) -> Totals {
    totals(cells.iter().map(|cell| (cell, cell.expected_s, cell.error)))
}

/// The same for α alone, without the pollution term. `None` where a cell has no such term.
pub fn summarise_without_pollution(cells: &[Cell]) -> Option<Totals> {
    let without = |cell| -> Option<(&Cell, Estimate, Estimate)> {
        let cell: &Cell = cell;
        cell.pollution.map(|p| (cell, p.expected_without_s, p.error_without))
    };
    let cells = cells.iter().map(without).collect::<Option<Vec<_>>>()?;
    (!cells.is_empty()).then(|| totals(cells.into_iter()))
}

/// Cells with an expected time and its error.
fn totals<'a>(cells: impl Iterator<Item = (&'a Cell, Estimate, Estimate)> + Clone) -> Totals {
    let mut errors: Vec<f64> = cells.clone().map(|(_, _, error)| error.estimate.abs()).collect();
    let covered = cells.clone().filter(|(_, _, error)| error.contains(0.0)).count();
    let points: Vec<(f64, f64, f64)> = cells
        .map(|(cell, expected_s, error)| {
            let predicted = expected_s.estimate - cell.unmonitored_s.estimate;
            let measured = cell.measured_s.estimate - cell.unmonitored_s.estimate;
            let half_width = error.half_width() * expected_s.estimate;
            (predicted, measured, 1.0 / (half_width * half_width))
        })
        .collect();
    Totals {
        coverage: covered as f64 / errors.len() as f64,
        median_abs_error: median(&mut errors),
        regression: least_squares(&points),
    }
}

fn is_off(run: &Run) -> bool {
    run.period == 0
}

fn is_on(spec: &Spec, period: u64, run: &Run) -> bool {
    run.period == period && run.arm == spec.arm
}

/// Elapsed time of a run, or its CPU time on the cell's CPU.
fn time_of(spec: &Spec, run: &Run) -> f64 {
    match spec.cpu {
        None => run.adjusted_s.unwrap_or(run.elapsed_s),
        Some(cpu) => run.cpu_s_per_cpu.get(cpu as usize).copied().unwrap_or(0.0),
    }
}

/// Elapsed time less the reference loop's.
fn without_reference_loop(run: &Run) -> f64 {
    run.elapsed_s - run.reference_loops.iter().map(|y| y.cpu_s).sum::<f64>()
}

fn samples_of(spec: &Spec, run: &Run) -> f64 {
    match spec.cpu {
        None => run.samples as f64,
        Some(cpu) => run.samples_per_cpu.get(cpu as usize).copied().unwrap_or(0) as f64,
    }
}

fn mean_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0_u32), |(sum, n), v| (sum + v, n + 1));
    (n > 0).then(|| sum / f64::from(n))
}

fn digest(spec: &Spec, period: u64, round: &Round) -> Option<Digest> {
    let usable = || round.runs.iter().filter(|run| run.discarded.is_none());
    let off: Vec<Taken> = usable()
        .filter(|run| is_off(run))
        .map(|run| Taken {
            time_s: time_of(spec, run),
            // At the speed that the elapsed time was brought to.
            quantity: match (spec.cpu, run.adjusted_s) {
                (Some(_), _) => time_of(spec, run),
                (None, None) => run.user_s + run.system_s,
                (None, Some(adjusted)) => (run.user_s + run.system_s) * adjusted / without_reference_loop(run),
            },
            switches: (run.voluntary_switches + run.involuntary_switches) as f64,
        })
        .collect();
    let monitored = |wanted: &dyn Fn(&Run) -> bool| -> Vec<Taken> {
        let quantity = |run: &Run| match spec.count {
            Count::Delivered => samples_of(spec, run),
            Count::Predicted => run.expected_samples,
        };
        let taken = |run: &Run| Taken { time_s: time_of(spec, run), quantity: quantity(run), switches: 0.0 };
        usable().filter(|run| wanted(run)).map(taken).collect()
    };
    let on = monitored(&|run| is_on(spec, period, run));
    let probes: Vec<_> = spec.probes.iter().map(|&at| monitored(&|run| run.arm == PROBE && run.period == at)).collect();
    if off.is_empty() || on.is_empty() {
        return None;
    }
    let of_period: Vec<Block>;
    let blocks = match spec.calibrated_at {
        None => &round.blocks,
        Some(at) => {
            of_period = round.blocks.iter().filter(|b| b.arm != spec.on || b.period == at).cloned().collect();
            &of_period
        }
    };
    let alpha = Sums::total(&session_sums(blocks, spec.off, spec.on, spec.unit, spec.clock));
    let beside = |arms, clock| Beside::of(&round.blocks, arms, clock);
    let switch = spec.switch.map_or_else(Beside::default, |arms| beside((arms.off, arms.on), spec.clock));
    // Of CPU time: tasks run wherever there is room, and whatever else runs comes between.
    let [created, executed] = match spec.tasks {
        None => [Beside::default(); 2],
        Some(arms) => [arms.created, arms.executed].map(|arms| beside(arms, Clock::Cpu)),
    };
    let excluded = spec.left_out.term().map_or_else(Sums::default, |arm| {
        Sums::total(&session_sums(&round.blocks, spec.left_out.baseline(spec.off), arm, Unit::Expected, spec.clock))
    });
    let unmonitored = || usable().filter(|run| is_off(run));
    let modes_s = (unmonitored().map(|run| run.user_s).sum(), unmonitored().map(|run| run.system_s).sum());
    Some(Digest { off, on, probes, alpha, excluded, modes_s, switch, created, executed })
}

/// Unmonitored, expected, measured time, E, predicted and measured overhead of a sample of rounds; expected time and E without
/// the pollution term, and that term, ns a sample.
fn evaluate(spec: &Spec, period: u64, sample: &[&Digest]) -> [f64; 9] {
    let alpha_ns = Sums::total(sample.iter().map(|d| &d.alpha)).cost_ns();
    let off = average(spec.average, sample.iter().flat_map(|d| d.off.iter().copied()).collect());
    let on = average(spec.average, sample.iter().flat_map(|d| d.on.iter().copied()).collect());
    // Tasks shorter than a period are not sampled.
    let seen = |rate: f64| spec.tasks.map_or(1.0, |arms| arms.tasks.cpu_s.share_in_whole_periods(rate));
    let sampling_s = |cost_ns: f64| match spec.drive {
        Drive::Time => {
            let rate = spec.drive.rate(period, cost_ns);
            off.quantity * seen(rate) * rate * cost_ns * 1e-9
        }
        Drive::Event { .. } => on.quantity * cost_ns * 1e-9,
    };
    let each_ns = |of: fn(&Digest) -> &Beside| Beside::total(sample.iter().map(|d| of(d))).each_ns(alpha_ns);
    let switching_s = spec.switch.map_or(0.0, |_| off.switches * each_ns(|d| &d.switch).unwrap_or(f64::NAN) * 1e-9);
    let tasks_s = spec.tasks.map_or(0.0, |TaskArms { tasks, .. }| {
        let Some(created_ns) = each_ns(|d| &d.created) else { return 0.0 };
        // Each program of those blocks was a process before; the first one of a run is executed before anything is slowed.
        let executed_ns = each_ns(|d| &d.executed).map_or(0.0, |each_ns| each_ns - created_ns);
        (tasks.created() as f64 * created_ns + tasks.execs.saturating_sub(1) as f64 * executed_ns) * 1e-9
    });
    let beside_s = switching_s + tasks_s;
    let probed: Vec<(u64, f64)> = spec
        .probes
        .iter()
        .enumerate()
        .filter_map(|(i, &at)| {
            let runs: Vec<Taken> = sample.iter().flat_map(|d| d.probes[i].iter().copied()).collect();
            if runs.is_empty() {
                return None;
            }
            let probe = average(spec.average, runs);
            let extra_s = probe.time_s - off.time_s - beside_s;
            let quantity = match spec.drive {
                Drive::Time => off.quantity * seen(spec.drive.rate(at, alpha_ns)),
                Drive::Event { .. } => probe.quantity,
            };
            // Of what is not sampled nothing is learned.
            (quantity > 0.0).then(|| (at, spec.drive.cost_ns(at, extra_s / quantity)))
        })
        .collect();
    let polluted_ns = between_probes(&probed, period).unwrap_or(alpha_ns);
    let (unmonitored, measured) = (off.time_s, on.time_s);
    // What the filter drops costs less; a probe has measured both together already.
    let (user_s, system_s) = sample.iter().fold((0.0, 0.0), |(user, system), d| (user + d.modes_s.0, system + d.modes_s.1));
    let dropped = share_of(spec.left_out, user_s, system_s).estimate;
    let excluded = Sums::total(sample.iter().map(|d| &d.excluded));
    let excluded_ns = if excluded.units > 0.0 { excluded.cost_ns() } else { alpha_ns };
    let split_s = (1.0 - dropped) * sampling_s(alpha_ns) + dropped * sampling_s(excluded_ns);
    let without = unmonitored + split_s + beside_s;
    let expected = unmonitored + if probed.is_empty() { split_s } else { sampling_s(polluted_ns) } + beside_s;
    [
        unmonitored,
        expected,
        measured,
        (measured - expected) / expected,
        (expected - unmonitored) / unmonitored,
        (measured - unmonitored) / unmonitored,
        without,
        (measured - without) / without,
        polluted_ns - alpha_ns,
    ]
}

/// A program's own cost of a sample, from its probes (shortest period first): linear in the period, for what it has to lose is what
/// it has rebuilt since the last sample; continued below the shortest probe, constant above the longest, where all is rebuilt.
/// `None` without probes.
fn between_probes(probes: &[(u64, f64)], period: u64) -> Option<f64> {
    let (&(shortest, expensive), &(longest, rare)) = (probes.first()?, probes.last()?);
    if period >= longest || shortest == longest {
        return Some(rare);
    }
    let i = probes.partition_point(|(at, _)| *at <= period).clamp(1, probes.len() - 1);
    let ((from, low), (to, high)) = (probes[i - 1], probes[i]);
    let cost_ns = low + (high - low) * (period as f64 - from as f64) / (to - from) as f64;
    Some(if period < shortest { cost_ns.max(expensive / 2.0) } else { cost_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_lie_on_a_line_between_probes() {
        let probes = [(100, 10.0), (300, 20.0), (500, 22.0)];
        assert_eq!(between_probes(&probes, 200), Some(15.0));
        assert_eq!(between_probes(&probes, 100), Some(10.0));
        assert_eq!(between_probes(&probes, 80), Some(9.0));
        assert_eq!(between_probes(&probes, 400), Some(21.0));
        assert_eq!(between_probes(&probes, 9999), Some(22.0));
        assert_eq!(between_probes(&probes[..1], 7), Some(10.0));
        assert_eq!(between_probes(&[(100, 1.0), (110, 50.0)], 50), Some(0.5), "a steep line is no reason for a negative cost");
        assert_eq!(between_probes(&[], 7), None);
    }
}
