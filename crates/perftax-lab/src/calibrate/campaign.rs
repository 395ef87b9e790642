//! A calibration from its first session to its end: sessions spread in time until the interval is narrow or the time is up.

use std::time::{Duration, Instant};

use perftax_cost::alpha::{Clock, Foresight, Sums, Unit, control_variation, rounds_needed, session_sums, session_variation};
use perftax_doc::Mechanism;
use perftax_doc::StopReason;
use perftax_doc::observation::Block;
use perftax_doc::steps::Setting;
use perftax_pmu::event::Event;
use perftax_pmu::process::tracer;
use perftax_pmu::{Error, Result};

use super::arm::{OFF, OFF_AGAIN, ON, Skipped};
use super::beside::Beside;
use super::conclude::{Conclusion, alpha_of, conclude};
use super::cross_check::CrossCheckSample;
use super::spec::{Depth, Spec, baseline, clock};
use super::worker::Worker;

/// When a calibration is good enough, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// Relative half-width of α asked for, a fraction.
    pub half_width: f64,
    /// Elapsed time that it may take. Sessions that are under way then are finished, for [`GRACE`] at most.
    pub time_limit: Duration,
    /// From the start of one session to the start of the next. Costs are correlated over fractions of a second (0.17 at 0.3 s on
    /// the recorded log); much closer sessions look more precise than they are.
    pub spacing: Duration,
    /// Rounds in a session.
    pub rounds: u32,
    /// Sessions below which no interval is believed.
    pub least_sessions: u32,
}

impl Goal {
    /// Sessions of 10 rounds, 0.75 s apart, ±5 %, at most two minutes. Where α drifts by 14 to 24 % between sessions, 3 s apart (39
    /// sessions in that time) gave ±7 %, and 1.5 s apart up to ±7 % still.
    pub const STANDARD: Self = Self {
        half_width: 0.05,
        time_limit: Duration::from_secs(118),
        spacing: Duration::from_millis(750),
        rounds: 10,
        least_sessions: 12,
    };

    /// What a plan can wait for: ±10 % within 50 s.
    pub const QUICK: Self = Self { half_width: 0.10, time_limit: Duration::from_secs(50), ..Self::STANDARD };
}

/// How far a campaign is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Sessions made.
    pub sessions: u32,
    /// Relative half-width reached, where there is an interval yet.
    pub half_width: Option<f64>,
    /// What is expected to be needed, after the pilot.
    pub foresight: Option<Foresight>,
    /// Elapsed time.
    pub elapsed: Duration,
}

/// Everything that a campaign gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The event measured.
    pub event: Event,
    /// What the blocks say.
    pub conclusion: Conclusion,
    /// The raw observations.
    pub blocks: Vec<Block>,
    /// Handler times, one a session.
    pub cross_check: Vec<CrossCheckSample>,
    /// Why it ended.
    pub stopped: StopReason,
    /// Elapsed time.
    pub elapsed_s: f64,
    /// Arms that could not be opened, each with the reason.
    pub skipped: Vec<Skipped>,
    /// What the pilot foresaw.
    pub foresight: Option<Foresight>,
}

/// A calibration under way: sessions are added one by one, by [`Campaign::run`] or in between other work.
pub struct Campaign {
    mechanism: Mechanism,
    worker: Worker,
    beside: Option<Beside>,
    goal: Goal,
    started: Instant,
    last_session: Option<Instant>,
    sessions: u32,
    blocks: Vec<Block>,
    floors_ns: Vec<f64>,
    cross_check: Vec<CrossCheckSample>,
    foresight: Option<Foresight>,
    /// Relative half-width of α so far: a bootstrap, so computed once a session.
    half_width: Option<f64>,
}

/// How much longer than its time limit a campaign may take: two sessions are made in any case, which takes a few seconds on a quiet machine.
pub const GRACE: Duration = Duration::from_secs(30);

/// Sessions after which the number needed is foreseen.
const PILOT_SESSIONS: u32 = 3;

/// Period of the first look at a time-driven sample's cost, ns: several times what it was ever seen to cost.
const FIRST_LOOK_NS: u64 = 200_003;
/// Rounds of the first look.
const FIRST_LOOK_ROUNDS: u32 = 10;

/// What a sample costs, roughly: 0 where the first look saw nothing.
fn pilot_alpha_ns(spec: &Spec, seed: u64) -> Result<f64> {
    let spec = Spec { period: Some(FIRST_LOOK_NS), depth: Depth::Alpha, planted_bias: 0.0, ..spec.clone() };
    let blocks = Worker::start(&spec, seed)?.session(FIRST_LOOK_ROUNDS)?.blocks;
    let alpha_ns = Sums::total(&session_sums(&blocks, baseline(spec.mechanism), ON, Unit::Samples, Clock::Wall)).cost_ns();
    Ok(if alpha_ns.is_finite() { alpha_ns } else { 0.0 })
}

impl Campaign {
    /// Opens everything.
    ///
    /// # Errors
    /// Where the kernel refuses; where somebody traces us, whose prices they would be.
    pub fn start(spec: &Spec, goal: Goal, seed: u64) -> Result<Self> {
        if let Some((pid, name)) = tracer() {
            return Err(Error::Unsupported {
                what: "measure what sampling costs".into(),
                why: format!(
                    "process {pid} ({name}) traces perftax: each of its system calls, and each program executed, takes many times as long"
                ),
                remedy: "run it without strace, gdb and the like; what is measured then serves under them, too".into(),
            });
        }
        // Where the period is given, a look decides nothing.
        let spec = &if spec.mechanism.is_time_driven() && spec.period.is_none() {
            spec.raised_for(pilot_alpha_ns(spec, seed)?)
        } else {
            spec.clone()
        };
        let worker = Worker::start(spec, seed)?;
        let beside = spec.wants_more_than_samples().then(|| Beside::new(spec, worker.event().clone(), seed));
        Ok(Self {
            mechanism: spec.mechanism,
            worker,
            beside,
            goal,
            started: Instant::now(),
            last_session: None,
            sessions: 0,
            blocks: Vec::new(),
            floors_ns: Vec::new(),
            cross_check: Vec::new(),
            foresight: None,
            half_width: None,
        })
    }

    /// The event measured.
    pub fn event(&self) -> &Event {
        self.worker.event()
    }

    /// The raw observations so far.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// One more session, at once. Returns its blocks' range.
    ///
    /// # Errors
    /// What the session meets; where it takes more than a minute.
    pub fn session(&mut self) -> Result<&[Block]> {
        self.session_until(None)
    }

    fn session_until(&mut self, until: Option<Instant>) -> Result<&[Block]> {
        self.last_session = Some(Instant::now());
        let before = self.blocks.len();
        let rounds = self.goal.rounds;
        let mut result = match until {
            Some(until) => self.worker.session_until(rounds, until)?,
            None => self.worker.session(rounds)?,
        };
        if let Some(beside) = &mut self.beside {
            result.blocks.extend(beside.session(self.sessions, self.goal.rounds)?);
        }
        self.sessions += 1;
        self.blocks.append(&mut result.blocks);
        self.floors_ns.extend(result.floor_ns);
        self.cross_check.extend(result.cross_check);
        let alpha_ns = alpha_of(&self.blocks, self.mechanism);
        self.half_width = alpha_ns.map(|alpha| alpha.relative_half_width());
        if self.sessions == PILOT_SESSIONS {
            self.foresight = self.foresee();
        }
        Ok(&self.blocks[before..])
    }

    /// Whether enough time has passed since the last session for another one to count as independent.
    pub fn is_due(&self) -> bool {
        self.last_session.is_none_or(|at| at.elapsed() >= self.goal.spacing)
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress {
            sessions: self.sessions,
            half_width: self.half_width,
            foresight: self.foresight,
            elapsed: self.started.elapsed(),
        }
    }

    /// Whether it may end, and why.
    pub fn is_done(&self) -> Option<StopReason> {
        let narrow = self.sessions >= self.goal.least_sessions
            && self.half_width.is_some_and(|half_width| half_width <= self.goal.half_width);
        if narrow {
            return Some(StopReason::Precision);
        }
        (self.started.elapsed() + self.goal.spacing >= self.goal.time_limit && self.sessions >= 2)
            .then_some(StopReason::TimeLimit)
    }

    /// Adds sessions until it is done. `each` is told after every session and may break off with an error.
    pub fn run(&mut self, mut each: impl FnMut(&Progress) -> Result<()>) -> Result<StopReason> {
        let until = self.started + self.goal.time_limit + GRACE;
        loop {
            self.session_until(Some(until))?;
            each(&self.progress())?;
            if let Some(reason) = self.is_done() {
                return Ok(reason);
            }
            while !self.is_due() {
                std::thread::sleep(Duration::from_millis(50));
                each(&self.progress())?;
            }
        }
    }

    /// Ends it.
    ///
    /// # Errors
    /// Where no two sessions had usable blocks: everything was discarded, or nothing was sampled.
    pub fn finish(self, stopped: StopReason) -> Result<Outcome> {
        let conclusion = conclude(&self.blocks, self.mechanism, &self.floors_ns).ok_or_else(|| self.nothing_usable())?;
        Ok(Outcome {
            event: self.worker.event().clone(),
            conclusion,
            cross_check: self.cross_check,
            stopped,
            elapsed_s: self.started.elapsed().as_secs_f64(),
            skipped: [self.worker.skipped(), self.beside.as_ref().map_or(&[], Beside::skipped)].concat(),
            foresight: self.foresight,
            blocks: self.blocks,
        })
    }

    fn foresee(&self) -> Option<Foresight> {
        let sums: Vec<Sums> = session_sums(&self.blocks, baseline(self.mechanism), ON, Unit::Samples, clock(self.mechanism));
        let control = control_variation(&self.blocks, OFF, OFF_AGAIN, Clock::Wall)?;
        rounds_needed(session_variation(&sums)?, control, self.goal.half_width)
    }

    fn nothing_usable(&self) -> perftax_pmu::Error {
        let reasons: Vec<&str> = self.blocks.iter().filter_map(|b| b.discarded.as_deref()).collect();
        let samples: u64 = self.blocks.iter().map(|b| b.samples).sum();
        let why = match reasons.first() {
            Some(reason) => format!("{} of {} blocks are discarded ({reason}, …)", reasons.len(), self.blocks.len()),
            None if samples == 0 => "no sample came at all".into(),
            None => "fewer than two sessions were made".into(),
        };
        perftax_pmu::Error::Discarded { why, remedy: format!("quieten the machine, or give it more time with {}", Setting::Time) }
    }
}
