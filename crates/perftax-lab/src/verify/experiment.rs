//! The experiment: pilot, rounds, cells.

use std::time::{Duration, Instant};

use perftax_cost::drive::Drive;
use perftax_cost::period::prime_at_least;
use perftax_cost::reference_loop::adjust;
use perftax_cost::tasks::seen;
use perftax_cost::verification::{self, PROBE, Round, SwitchArms, TaskArms};
use perftax_doc::Estimate;
use perftax_doc::Fit;
use perftax_doc::observation::Block;
use perftax_doc::tasks::Tasks;
use perftax_doc::{Cell, Control, LeftOutRun, WorkloadReferenceLoop};
use perftax_pmu::Result;
use perftax_pmu::event::Event;
use perftax_pmu::guard::check_interrupted;

use super::plan::{Grid, Request, Subject};
use super::progress::{Foreseen, Step};
use crate::calibrate::{
    Buffers, Campaign, Depth, EXEC_OFF, EXEC_ON, Goal, OFF, OFF_AGAIN, ON, SWITCH_OFF, Spec, Switching, TASK_OFF, TASK_ON,
    baseline, switch_arm_at,
};
use crate::run::{Attach, Look, Monitor, Watched, look_at_tasks, run_once};

/// Everything that a verification found.
#[derive(Clone, Debug)]
pub struct Finished {
    /// One cell a subject, period (and core).
    pub cells: Vec<Cell>,
    /// Cells that could not be computed: fewer than two usable rounds, or samples as expensive as the period is long.
    pub missing: usize,
    /// Overheads and probes asked for whose period another one has already: a sample is too cheap for them.
    pub unreachable: usize,
    /// Off against off, by subject.
    pub controls: Vec<(String, Control)>,
    /// How the reference loop explains each subject's variation.
    pub fits: Vec<WorkloadReferenceLoop>,
    /// The calibration blocks of all rounds, by subject.
    pub blocks: Vec<Block>,
    /// Periods verified, shortest first.
    pub periods: Vec<u64>,
    /// Runs of the programs that were discarded; of the calibration's blocks their own tell.
    pub left_out: Vec<LeftOutRun>,
    /// How many there were, all together.
    pub made: usize,
}

/// A verification under way.
pub struct Experiment<'a> {
    request: &'a Request,
    periods: Vec<u64>,
    /// Periods of the probes, shortest first.
    probes: Vec<u64>,
    unreachable: usize,
    campaign: Campaign,
    rng: fastrand::Rng,
    subjects: Vec<State>,
    started: Instant,
    task_clock: Event,
}

struct State {
    /// The tasks that it creates; none where they inherit nothing.
    tasks: Option<Tasks>,
    rounds: Vec<Round>,
    seconds: f64,
    done: bool,
}

/// Sessions of the pilot that periods are chosen from.
const PILOT_SESSIONS: u32 = 20;
/// Rounds after which the number needed is foreseen.
const PILOT_ROUNDS: u32 = 4;
/// Calibration periods of time-driven sources: those of the most expensive cells. Cheaper ones hardly depend on α, and their own blocks
/// would be all noise. Event-driven ones are calibrated at every period: what each event pays is in them.
const CALIBRATED_PERIODS: usize = 3;

impl<'a> Experiment<'a> {
    /// Measures α in a short pilot, and chooses the periods.
    pub fn start(request: &'a Request, task_clock: Event, dummy: &Event) -> Result<Self> {
        let spec = |periods: Vec<u64>, switching: Switching| Spec {
            buffers: Buffers::default(),
            event: Some(request.event.clone()),
            mechanism: request.mechanism(),
            cpu: request.cpu,
            depth: Depth::At { periods, switching },
            period: None,
            payload: request.payload,
            planted_bias: 0.0,
        };
        let goal = Goal { rounds: 10, spacing: Duration::from_millis(500), ..Goal::QUICK };
        let (periods, probes, unreachable) = match &request.grid {
            Grid::Periods(periods) => (distinct(periods.clone()), Vec::new(), 0),
            Grid::Overheads(overheads) => {
                let mut pilot = Campaign::start(&spec(Vec::new(), Switching::default()), goal, request.seed)?;
                for _ in 0..PILOT_SESSIONS {
                    pilot.session()?;
                }
                let alpha_ns = pilot.finish(perftax_doc::StopReason::TimeLimit)?.conclusion.alpha_ns.estimate;
                let costing = |shares: &[f64]| distinct(shares.iter().map(|share| period_costing(*share, alpha_ns)).collect());
                let (periods, mut probes) = (costing(overheads), costing(&request.probes));
                probes.sort_unstable();
                probes.retain(|probe| !periods.contains(probe));
                let unreachable = overheads.len() + request.probes.len() - periods.len() - probes.len();
                (periods, probes, unreachable)
            }
        };
        let mut attachments: Vec<Attach> = Vec::new();
        for subject in request.subjects.iter().filter(|subject| subject.switching) {
            if !attachments.contains(&subject.attach) {
                attachments.push(subject.attach);
            }
        }
        let switching = Switching { attachments, periods: periods.clone() };
        let campaign = Campaign::start(&spec(calibrated(&periods, request.drive()), switching), goal, request.seed)?;
        let state = |subject: &Subject| {
            // A clock is looked at in any case.
            let events = if request.drive() == Drive::Time { &[][..] } else { std::slice::from_ref(&request.event) };
            let look = Look { cpus: &subject.cpus, task_clock: &task_clock, dummy, events, code: None };
            let inherits = subject.attach == Attach::Inherited && !subject.per_core;
            let tasks = inherits.then(|| look_at_tasks(&subject.command, &look)).transpose()?;
            let tasks = tasks.map(|seen| seen.tasks).filter(|tasks| tasks.created() > 0 || tasks.execs > 1);
            Ok(State { tasks, rounds: Vec::new(), seconds: 0.0, done: false })
        };
        let subjects = request.subjects.iter().map(state).collect::<Result<_>>()?;
        let rng = fastrand::Rng::with_seed(request.seed);
        Ok(Self { request, periods, probes, unreachable, campaign, rng, subjects, started: Instant::now(), task_clock })
    }

    /// Runs in a round.
    pub fn runs(&self) -> usize {
        2 + self.periods.len() + self.probes.len()
    }

    /// The periods, in the order of the grid.
    pub fn periods(&self) -> &[u64] {
        &self.periods
    }

    /// Makes rounds, one subject after the other, until every cell is narrow enough or the limits are reached. `each` is told
    /// after every round and may break off with an error.
    pub fn run(&mut self, mut each: impl FnMut(&Step) -> Result<()>) -> Result<()> {
        while self.subjects.iter().any(|s| !s.done) && self.started.elapsed() < self.request.time_limit {
            for index in 0..self.subjects.len() {
                if self.subjects[index].done || self.started.elapsed() >= self.request.time_limit {
                    continue;
                }
                let before = Instant::now();
                let round = self.round(index)?;
                let state = &mut self.subjects[index];
                state.rounds.push(round);
                state.seconds += before.elapsed().as_secs_f64();
                let rounds = state.rounds.len() as u32;
                let widest = self.widest(index);
                let enough = widest.is_some_and(|w| w <= self.request.half_width) && rounds >= self.request.least_rounds;
                self.subjects[index].done = enough || rounds >= self.request.most_rounds;
                each(&Step {
                    subject: self.request.subjects[index].command.name.clone(),
                    rounds,
                    widest,
                    elapsed: self.started.elapsed(),
                    foreseen: (rounds == PILOT_ROUNDS).then(|| self.foresee(index)).flatten(),
                })?;
            }
        }
        Ok(())
    }

    /// The cells and controls.
    pub fn finish(self) -> Finished {
        let mut cells = Vec::new();
        let mut controls = Vec::new();
        let mut fits = Vec::new();
        let mut missing = 0;
        for (index, subject) in self.request.subjects.iter().enumerate() {
            let of_subject = self.cells(index);
            missing += self.cells_wanted(index) - of_subject.len();
            cells.extend(of_subject);
            let (rounds, fit) = self.adjusted(index);
            fits.extend(fit.map(|fit| WorkloadReferenceLoop { workload: subject.command.name.clone(), fit }));
            if let Some(control) = verification::control(&rounds, self.request.subjects.len()) {
                controls.push((subject.command.name.clone(), control));
            }
        }
        let blocks = self.campaign.blocks().to_vec();
        let mut periods = self.periods;
        periods.sort_unstable();
        let of_subject = |(subject, state): (&Subject, &State)| -> Vec<LeftOutRun> {
            let runs = state.rounds.iter().flat_map(|round| &round.runs);
            let left_out = runs.filter_map(|run| {
                let workload = subject.command.name.clone();
                let why = run.discarded.clone()?;
                Some(LeftOutRun { workload, round: run.round, arm: run.arm.clone(), period: run.period, why })
            });
            left_out.collect()
        };
        let left_out = self.request.subjects.iter().zip(&self.subjects).flat_map(of_subject).collect();
        let made = self.subjects.iter().flat_map(|subject| &subject.rounds).map(|round| round.runs.len()).sum();
        Finished { cells, missing, unreachable: self.unreachable, controls, fits, blocks, periods, left_out, made }
    }

    fn round(&mut self, index: usize) -> Result<Round> {
        let subject = &self.request.subjects[index];
        let number = self.subjects[index].rounds.len() as u32;
        let mut arms: Vec<(&str, u64)> = vec![(OFF, 0), (OFF_AGAIN, 0)];
        arms.extend(self.periods.iter().map(|&period| (ON, period)));
        arms.extend(self.probes.iter().map(|&period| (PROBE, period)));
        self.rng.shuffle(&mut arms);
        let watched = Watched {
            cpus: subject.cpus.clone(),
            counting: if subject.per_core { vec![self.task_clock.clone()] } else { Vec::new() },
            reference_loops: self.request.reference_loops,
            planted_bias: self.request.planted_bias,
            steal_taken_off: None,
        };
        let mut round = Round::default();
        for (at, (arm, period)) in arms.iter().enumerate() {
            check_interrupted()?;
            // The calibration is spread over the round: what the machine does between two runs is what it does around them.
            if at % 3 == 0 {
                round.blocks.extend_from_slice(self.campaign.session()?);
            }
            let plain = || Monitor::new(self.request.event.clone(), *period).with_ring(self.request.ring_pages);
            let (drive, event) = (self.request.drive(), self.request.event.name.as_str());
            // At no cost of a sample: what each costs makes a few more.
            let rate = drive.samples(1.0, (*period).max(1), 0.0).unwrap_or(f64::INFINITY);
            let tasks = self.subjects[index].tasks.as_ref();
            let seen = tasks.map_or(Estimate::exact(1.0), |tasks| seen(tasks, drive, event, rate));
            let monitor =
                (*period > 0).then(|| Monitor { attach: subject.attach, payload: self.request.payload, seen, ..plain() });
            round.runs.push(run_once(&subject.command, monitor.as_ref(), &watched, arm, number)?);
        }
        Ok(round)
    }

    fn cells(&self, index: usize) -> Vec<Cell> {
        let subject = &self.request.subjects[index];
        let rounds = &self.with_all_blocks(self.adjusted(index).0);
        let mut cells = Vec::new();
        for &period in &self.periods {
            let calibrated = nearest(&calibrated(&self.periods, self.request.drive()), period);
            let arm = format!("{ON}@{calibrated}");
            let switch_arm = switch_arm_at(subject.attach, period);
            let spec = verification::Spec {
                attach: subject.attach.name(),
                on: &arm,
                probes: &self.probes,
                left_out: self.request.event.left_out(),
                off: baseline(self.request.mechanism()),
                tasks: self.subjects[index].tasks.as_ref().map(|tasks| TaskArms {
                    tasks,
                    created: (TASK_OFF, TASK_ON),
                    executed: (EXEC_OFF, EXEC_ON),
                }),
                switch: subject.switching.then_some(SwitchArms { off: SWITCH_OFF, on: &switch_arm }),
                ..verification::Spec::new(&subject.command.name, &self.request.event.name, self.request.drive())
            };
            if subject.per_core {
                for (position, &cpu) in subject.cpus.iter().enumerate() {
                    let spec = verification::Spec { cpu: Some(position as u32), ..spec };
                    cells.extend(verification::cell(&spec, period, rounds).map(|cell| Cell { cpu: Some(cpu), ..cell }));
                }
            } else {
                cells.extend(verification::cell(&spec, period, rounds));
            }
        }
        cells
    }

    /// The rounds with the calibration blocks of all subjects' rounds of the same number. Subjects take turns round by round, so
    /// these are from the same minutes; α is the machine's, and with eight times the blocks its own noise hardly counts.
    fn with_all_blocks(&self, mut rounds: Vec<Round>) -> Vec<Round> {
        for (number, round) in rounds.iter_mut().enumerate() {
            let of_number = self.subjects.iter().filter_map(|subject| subject.rounds.get(number));
            round.blocks = of_number.flat_map(|round| round.blocks.iter().cloned()).collect();
        }
        rounds
    }

    /// The rounds with the machine's own variation taken out.
    fn adjusted(&self, index: usize) -> (Vec<Round>, Option<Fit>) {
        let mut rounds = self.subjects[index].rounds.clone();
        let fit = if self.request.reference_loops { adjust(&mut rounds) } else { None };
        (rounds, fit)
    }

    /// Half-width of the widest cell; none while a cell cannot be computed yet.
    fn widest(&self, index: usize) -> Option<f64> {
        let cells = self.cells(index);
        let complete = cells.len() == self.cells_wanted(index);
        complete.then(|| cells.iter().map(|c| c.error.half_width()).fold(0.0, f64::max))
    }

    fn cells_wanted(&self, index: usize) -> usize {
        let subject = &self.request.subjects[index];
        self.periods.len() * if subject.per_core { subject.cpus.len() } else { 1 }
    }

    fn foresee(&self, index: usize) -> Option<Foreseen> {
        let state = &self.subjects[index];
        let more = self.cells(index).iter().map(|c| verification::more_rounds(c, self.request.half_width)).max()?;
        let made = state.rounds.len() as u32;
        let rounds = (made + more).clamp(self.request.least_rounds, self.request.most_rounds);
        let per_round = state.seconds / f64::from(made);
        let detects = verification::control(&self.adjusted(index).0, self.request.subjects.len())
            .map_or(f64::NAN, |c| c.detects * (f64::from(made) / f64::from(rounds)).sqrt());
        Some(Foreseen { rounds, duration: Duration::from_secs_f64(per_round * f64::from(rounds)), detects })
    }
}

/// The time-driven period at which sampling costs a share: P = α·(1 + 1/share), a prime.
fn period_costing(share: f64, alpha_ns: f64) -> u64 {
    let period = (alpha_ns * (1.0 + 1.0 / share)).max(10_000.0);
    prime_at_least(period as u64).unwrap_or(period as u64)
}

/// Without repetitions, in the same order: where a sample is cheap, several overheads need the shortest period there is.
fn distinct(periods: Vec<u64>) -> Vec<u64> {
    let mut kept = Vec::new();
    for period in periods {
        if !kept.contains(&period) {
            kept.push(period);
        }
    }
    kept
}

/// The periods that α is measured at, shortest first.
fn calibrated(periods: &[u64], drive: Drive) -> Vec<u64> {
    let mut calibrated = periods.to_vec();
    calibrated.sort_unstable();
    if drive == Drive::Time {
        calibrated.truncate(CALIBRATED_PERIODS);
    }
    calibrated
}

/// The calibrated period that serves a cell: its own if it is among them, else the longest.
fn nearest(calibrated: &[u64], period: u64) -> u64 {
    if calibrated.contains(&period) { period } else { calibrated.last().copied().unwrap_or(period) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_cost_what_they_should() {
        // T = T0 + C0·α/(P − α): at P = 3α that is half of C0.
        for (share, alpha_ns) in [(0.5, 4000.0), (0.02, 4000.0), (0.1, 17_000.0)] {
            let period = period_costing(share, alpha_ns) as f64;
            let cost = alpha_ns / (period - alpha_ns);
            assert!((cost / share - 1.0).abs() < 0.01, "{share} {alpha_ns}: {cost}");
        }
        // The kernel takes no cpu-clock period below 10 µs.
        assert!(period_costing(0.5, 2000.0) >= 10_000);
    }

    #[test]
    fn cheap_cells_use_the_longest_calibrated_period() {
        let periods = [300, 12, 24, 44, 84];
        let clock = calibrated(&periods, Drive::Time);
        assert_eq!((nearest(&clock, 24), nearest(&clock, 300)), (24, 44));
        let events = calibrated(&periods, Drive::Event { record_after_overflow: false });
        assert_eq!(nearest(&events, 300), 300);
    }
}
