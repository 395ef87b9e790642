//! Rounds of runs, each beside an evictor of another size.

use std::time::{Duration, Instant};

use perftax_cost::bootstrap::cluster_bootstrap;
use perftax_cost::document::{EvictedRun, SensitivityRow};
use perftax_cost::{Estimate, bootstrap};
use perftax_pmu::Result;

use super::evictor::Evictor;
use crate::run::{Command, Watched, run_once};

/// Sizes of the evictor, bytes: none, first level, second level, and beyond.
pub const SIZES: [usize; 6] = [0, 32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];

/// When it is known well enough.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// Half-width of the loss at every size, a share of the CPU time.
    pub half_width: f64,
    /// Rounds at least.
    pub least_rounds: u32,
    /// Ends after this.
    pub time_limit: Duration,
}

/// The run beside somebody who only wakes up, and the run beside the evictor, of one round.
type Pair<'r> = (&'r EvictedRun, &'r EvictedRun);

/// The runs so far.
pub struct Experiment<'a> {
    command: &'a Command,
    cpu: u32,
    rng: fastrand::Rng,
    started: Instant,
    runs: Vec<EvictedRun>,
    rounds: u32,
}

impl<'a> Experiment<'a> {
    /// Of a program that runs on one CPU.
    pub fn new(command: &'a Command, cpu: u32, seed: u64) -> Self {
        Self { command, cpu, rng: fastrand::Rng::with_seed(seed), started: Instant::now(), runs: Vec::new(), rounds: 0 }
    }

    /// One run at every size, in random order.
    ///
    /// # Errors
    /// Where the program fails or may not be run before.
    pub fn round(&mut self) -> Result<()> {
        let mut sizes = SIZES;
        self.rng.shuffle(&mut sizes);
        let watched = Watched { cpus: vec![self.cpu], ..Watched::default() };
        for bytes in sizes {
            let evictor = Evictor::start(self.cpu, bytes)?;
            let run = run_once(self.command, None, &watched, "evicted", self.rounds);
            let visits = evictor.finish()?;
            let run = run?;
            self.runs.push(EvictedRun {
                round: self.rounds,
                evictor_bytes: bytes as u64,
                visits,
                cpu_s: run.user_s + run.system_s,
                elapsed_s: run.elapsed_s,
                spoiled: run.spoiled,
            });
        }
        self.rounds += 1;
        Ok(())
    }

    /// Rounds made.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Whether it may end.
    pub fn is_done(&self, goal: &Goal) -> bool {
        let narrow = || self.rows().is_some_and(|rows| rows.iter().all(|row| row.loss.half_width() <= goal.half_width));
        let spent = self.started.elapsed();
        // Another round takes as long as those before, about.
        let next = spent + spent / self.rounds.max(1);
        next > goal.time_limit || self.rounds >= goal.least_rounds && narrow()
    }

    /// The loss at every size, against waking up alone; `None` before there are two usable rounds.
    pub fn rows(&self) -> Option<Vec<SensitivityRow>> {
        SIZES.iter().skip(1).map(|&bytes| self.row(bytes as u64)).collect()
    }

    /// The raw observations.
    pub fn into_runs(self) -> Vec<EvictedRun> {
        self.runs
    }

    fn row(&self, bytes: u64) -> Option<SensitivityRow> {
        let of = |round: u32, bytes: u64| {
            self.runs.iter().find(|run| run.round == round && run.evictor_bytes == bytes && run.spoiled.is_none())
        };
        let pairs: Vec<Pair> = (0..self.rounds).filter_map(|round| Some((of(round, 0)?, of(round, bytes)?))).collect();
        let sum = |sample: &[&Pair], value: fn(&Pair) -> f64| -> f64 { sample.iter().map(|pair| value(pair)).sum() };
        let estimate = |statistic: &dyn Fn(&[&Pair]) -> f64| -> Option<Estimate> {
            cluster_bootstrap(&pairs, statistic, bootstrap::REPLICATES, bootstrap::SEED)
        };
        Some(SensitivityRow {
            evictor_bytes: bytes,
            loss: estimate(&|s| sum(s, |(_, with)| with.cpu_s) / sum(s, |(without, _)| without.cpu_s) - 1.0)?,
            loss_ns_per_visit: estimate(&|s| {
                let extra = sum(s, |(without, with)| with.cpu_s - without.cpu_s);
                1e9 * extra / sum(s, |(_, with)| with.visits as f64)
            })?,
            rounds: pairs.len() as u32,
        })
    }
}
