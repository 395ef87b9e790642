//! Rounds of runs, each with less of the caches left.

use std::time::{Duration, Instant};

use perftax_cost::bootstrap;
use perftax_cost::bootstrap::cluster_bootstrap;
use perftax_doc::Estimate;
use perftax_doc::{SensitivityRow, SensitivityRun};
use perftax_pmu::Result;

use super::means::Means;
use crate::run::{Command, Watched, run_once};

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

/// The run from which nothing is taken, and the run from which something is, of one round.
type Pair<'r> = (&'r SensitivityRun, &'r SensitivityRun);

/// The runs so far.
pub struct Experiment<'a> {
    command: &'a Command,
    means: &'a Means,
    cpu: u32,
    rng: fastrand::Rng,
    started: Instant,
    runs: Vec<SensitivityRun>,
    rounds: u32,
}

impl<'a> Experiment<'a> {
    /// Of a program that runs on one CPU.
    pub fn new(command: &'a Command, means: &'a Means, cpu: u32, seed: u64) -> Self {
        Self { command, means, cpu, rng: fastrand::Rng::with_seed(seed), started: Instant::now(), runs: Vec::new(), rounds: 0 }
    }

    /// One run at every size, in random order.
    ///
    /// # Errors
    /// Where the program fails or may not be run before.
    pub fn round(&mut self) -> Result<()> {
        let mut sizes = self.means.sizes();
        self.rng.shuffle(&mut sizes);
        let watched = Watched { cpus: vec![self.cpu], ..Watched::default() };
        for taken_bytes in sizes {
            let run = || run_once(self.command, None, &watched, "taken", self.rounds);
            let (run, beside) = self.means.beside(self.cpu, taken_bytes, run)?;
            self.runs.push(SensitivityRun {
                round: self.rounds,
                taken_bytes,
                visits: beside.visits,
                memory_bytes: beside.memory_bytes,
                cpu_s: run.user_s + run.system_s,
                elapsed_s: run.elapsed_s,
                discarded: run.discarded,
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

    /// The loss at every size, against taking nothing; `None` before there are two usable rounds.
    pub fn rows(&self) -> Option<Vec<SensitivityRow>> {
        self.means.sizes().iter().skip(1).map(|&bytes| self.row(bytes)).collect()
    }

    /// The raw observations.
    pub fn into_runs(self) -> Vec<SensitivityRun> {
        self.runs
    }

    fn row(&self, bytes: u64) -> Option<SensitivityRow> {
        let of = |round: u32, bytes: u64| {
            self.runs.iter().find(|run| run.round == round && run.taken_bytes == bytes && run.discarded.is_none())
        };
        let pairs: Vec<Pair> = (0..self.rounds).filter_map(|round| Some((of(round, 0)?, of(round, bytes)?))).collect();
        let sum = |sample: &[&Pair], value: fn(&Pair) -> f64| -> f64 { sample.iter().map(|pair| value(pair)).sum() };
        let estimate = |statistic: &dyn Fn(&[&Pair]) -> f64| -> Option<Estimate> {
            cluster_bootstrap(&pairs, statistic, bootstrap::REPLICATES, bootstrap::SEED)
        };
        Some(SensitivityRow {
            taken_bytes: bytes,
            loss: estimate(&|s| sum(s, |(_, with)| with.cpu_s) / sum(s, |(without, _)| without.cpu_s) - 1.0)?,
            loss_ns_per_visit: match self.means {
                Means::Allocation { .. } => None,
                Means::Eviction { .. } => Some(estimate(&|s| {
                    let extra = sum(s, |(without, with)| with.cpu_s - without.cpu_s);
                    1e9 * extra / sum(s, |(_, with)| with.visits as f64)
                })?),
            },
            memory_bytes: {
                let counted = pairs.iter().all(|(_, with)| with.memory_bytes.is_some());
                counted
                    .then(|| estimate(&|s| sum(s, |(_, with)| with.memory_bytes.unwrap_or(0) as f64) / s.len() as f64))
                    .flatten()
            },
            rounds: pairs.len() as u32,
        })
    }
}
