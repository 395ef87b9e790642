//! A grid from its pilots to its last cell: in random order, until the time is out, and on from where it was broken off.

use std::time::{Duration, Instant};

use perftax_cost::matrix::{Foreseen, VARIATION_LIMIT, variation};
use perftax_doc::{Matrix, MatrixCell, MatrixKey, MatrixPilot, MatrixPlacement, MatrixPlan, Origin};
use perftax_pmu::guard::check_interrupted;
use perftax_pmu::machine::Topology;
use perftax_pmu::{Error, Result};
use serde::{Deserialize, Serialize};

use super::experiment::{Goal, measure, pilot};
use super::grid::{Cells, Grid, Planned};
use super::instances::Instances;
use crate::journal::Journal;
use crate::run::Command;

/// Unmonitored runs of each program before the grid.
const PILOT_RUNS: u32 = 3;

/// Something of a grid that is done, as a journal keeps it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Kept {
    /// The runs before the grid.
    Pilot(MatrixPilot),
    /// A cell.
    Cell(Box<MatrixCell>),
}

/// When a cell ends, and when the grid does.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Half-width of a cell's overhead that is asked for, a fraction.
    pub precision: f64,
    /// Pairs that a cell has in any case.
    pub min_pairs: u32,
    /// Pairs after which it ends in any case.
    pub max_pairs: u32,
    /// No cell begins after it.
    pub time: Duration,
    /// Of the random order.
    pub seed: u64,
}

/// What is told while it goes on.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    /// So many cells were kept, so many are left.
    Begin {
        /// Cells of the journal.
        kept: usize,
        /// Cells to measure.
        left: usize,
    },
    /// A pair more is made.
    Pair {
        /// Cells measured before.
        done: usize,
        /// Its cell.
        key: &'a MatrixKey,
        /// Pairs of that cell.
        pairs: u32,
        /// How well its overhead is known, a fraction; none where it is not yet.
        half_width: Option<f64>,
    },
}

/// Programs, where they go to, and how well they are to be known.
#[derive(Debug)]
pub struct Campaign<'a> {
    /// The programs.
    pub commands: &'a [Command],
    /// The machine's CPUs.
    pub topology: Topology,
    /// The machine's counters; none where that is not told.
    pub counters: Option<u32>,
    /// Whether a reference loop runs beside each copy.
    pub reference_loops: bool,
    /// When it ends.
    pub limits: Limits,
    /// What is done already, and is kept.
    pub journal: Option<Journal<Kept>>,
}

impl Campaign<'_> {
    fn instances(&self, workload: &str, copies: u32) -> Result<Instances> {
        let command = self.commands.iter().find(|command| command.name == workload);
        let command = command.ok_or_else(|| Error::Argument {
            argument: "program",
            value: workload.into(),
            needed: "one of this grid's".into(),
        })?;
        Ok(Instances::placed(command, copies, &self.topology.order(), self.reference_loops))
    }

    fn keep(&mut self, kept: Kept) -> Result<()> {
        self.journal.as_mut().map_or(Ok(()), |journal| journal.add(kept))
    }

    fn kept(&self) -> &[Kept] {
        self.journal.as_ref().map_or(&[], Journal::entries)
    }

    /// Runs before the grid, as far as they are not kept.
    ///
    /// # Errors
    /// Where a program fails, or on a signal.
    pub fn pilots(&mut self, grid: &Grid) -> Result<Vec<MatrixPilot>> {
        let mut pilots = Vec::new();
        for (workload, &copies) in grid.workloads.iter().flat_map(|name| grid.instances.iter().map(move |n| (name, n))) {
            let kept = self.kept().iter().find_map(|kept| match kept {
                Kept::Pilot(pilot) => Some(pilot).filter(|pilot| is_of(pilot, workload, copies)),
                Kept::Cell(_) => None,
            });
            if let Some(kept) = kept {
                pilots.push(kept.clone());
                continue;
            }
            let pilot = pilot(&self.instances(workload, copies)?, PILOT_RUNS)?;
            self.keep(Kept::Pilot(pilot.clone()))?;
            pilots.push(pilot);
        }
        Ok(pilots)
    }

    /// The document with its plan, and nothing measured yet.
    pub fn planned(&self, origin: Origin, grid: &Grid, cells: &Cells, pilots: Vec<MatrixPilot>) -> Matrix {
        let Limits { precision, min_pairs, max_pairs, time, .. } = self.limits;
        let of = |planned: &Planned| {
            let pilot = pilot_of(&pilots, &planned.key)?;
            let runs = pilot.elapsed_s.len().max(1) as f64;
            Some((pilot.elapsed_s.iter().sum::<f64>() / runs, variation(&pilot.elapsed_s)))
        };
        let runs: Vec<(f64, f64)> = cells.planned.iter().filter_map(of).collect();
        let foreseen = Foreseen::of(&runs, precision, (min_pairs, max_pairs), time.as_secs_f64());
        Matrix {
            origin,
            monitors: grid.monitors.name().into(),
            one_group: grid.one_group,
            placement: MatrixPlacement {
                cpus: self.topology.order(),
                cores: self.topology.cores.len() as u32,
                smt: self.topology.smt.name().into(),
            },
            counters: self.counters,
            sets: grid.sets.iter().map(|set| set.described(grid.generation)).collect(),
            plan: MatrixPlan {
                precision,
                variation_limit: VARIATION_LIMIT,
                least_pairs: min_pairs,
                most_pairs: max_pairs,
                time_limit_s: time.as_secs_f64(),
                cells: cells.planned.len() as u32,
                foreseen_s: foreseen.time_s,
                foreseen_half_width: foreseen.half_width,
                pilots,
            },
            cells: Vec::new(),
            impossible: cells.impossible.clone(),
            skipped: cells.skipped.clone(),
            unmeasured: Vec::new(),
            controls: Vec::new(),
        }
    }

    /// Measures the cells that are not kept, in random order, until the time is out.
    ///
    /// # Errors
    /// Where what is done cannot be kept, or on a signal.
    pub fn measure(&mut self, document: &mut Matrix, cells: Cells, mut told: impl FnMut(Told<'_>)) -> Result<()> {
        let mut rng = fastrand::Rng::with_seed(self.limits.seed);
        let mut left = cells.planned;
        rng.shuffle(&mut left);
        let of_cell = |kept: &Kept| match kept {
            Kept::Cell(cell) => Some(cell.as_ref().clone()),
            Kept::Pilot(_) => None,
        };
        document.cells = self.kept().iter().filter_map(of_cell).collect();
        left.retain(|planned| !document.cells.iter().any(|cell| cell.key == planned.key));
        told(Told::Begin { kept: document.cells.len(), left: left.len() });
        let started = Instant::now();
        let many = left.len();
        for (done, planned) in left.into_iter().enumerate() {
            check_interrupted()?;
            let remaining = self.limits.time.saturating_sub(started.elapsed());
            if remaining.is_zero() {
                document.unmeasured.push(planned.key);
                continue;
            }
            // What a cell leaves of its share, the others have.
            let until = Instant::now() + remaining / (many - done) as u32;
            let key = &planned.key;
            let pilot = pilot_of(&document.plan.pilots, key);
            let pilot_s = pilot.map_or(0.0, |pilot| pilot.elapsed_s.iter().copied().fold(0.0, f64::max));
            let Limits { precision, min_pairs, max_pairs, .. } = self.limits;
            let goal = Goal { precision, least_pairs: min_pairs, most_pairs: max_pairs, until };
            let instances = self.instances(&key.workload, key.instances)?;
            let cell = measure(&planned, &instances, pilot_s, &goal, &mut rng, |pairs, half_width| {
                told(Told::Pair { done, key, pairs, half_width });
            })?;
            self.keep(Kept::Cell(Box::new(cell.clone())))?;
            document.cells.push(cell);
        }
        document.cells.sort_by(|a, b| a.key.cmp(&b.key));
        document.unmeasured.sort();
        Ok(())
    }
}

fn is_of(pilot: &MatrixPilot, workload: &str, copies: u32) -> bool {
    pilot.workload == workload && pilot.instances == copies
}

fn pilot_of<'a>(pilots: &'a [MatrixPilot], key: &MatrixKey) -> Option<&'a MatrixPilot> {
    pilots.iter().find(|pilot| is_of(pilot, &key.workload, key.instances))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use perftax_doc::{MatrixMode, SCHEMA};
    use perftax_pmu::machine::Root;
    use perftax_pmu::sys::Stdio;

    use super::*;
    use crate::matrix::Monitors;

    const LIMITS: Limits = Limits { precision: 0.5, min_pairs: 2, max_pairs: 2, time: Duration::from_secs(600), seed: 1 };

    fn origin() -> Origin {
        Origin {
            schema: SCHEMA,
            kind: "matrix".into(),
            perftax: String::new(),
            machine: perftax_doc::MachineId::default(),
            kernel: String::new(),
            taken_at_s: 0.0,
            command: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn grid(names: &[&str]) -> (Grid, Cells) {
        let grid = Grid {
            workloads: names.iter().map(|name| (*name).into()).collect(),
            modes: Vec::new(),
            sets: Vec::new(),
            events: Vec::new(),
            instances: vec![1],
            divisors: Vec::new(),
            monitors: Monitors::Each,
            one_group: false,
            skip_missing: false,
            ring_pages: 1,
            generation: None,
        };
        let key = |workload: &String| MatrixKey {
            workload: workload.clone(),
            mode: MatrixMode::Off,
            set: String::new(),
            instances: 1,
            divisor: 0,
            events: 0,
        };
        let planned = grid.workloads.iter().map(|workload| Planned { key: key(workload), watch: None }).collect();
        (grid, Cells { planned, ..Cells::default() })
    }

    fn command(name: &str, script: &str) -> Command {
        let mut command = Command::from_argv(["sh", "-c", script].map(Into::into).to_vec(), Stdio::Discard);
        command.name = name.into();
        command
    }

    fn campaign<'a>(commands: &'a [Command], limits: Limits, journal: Option<Journal<Kept>>) -> Campaign<'a> {
        let topology = Topology::read(&Root::here(), &perftax_pmu::guard::allowed_cpus().unwrap());
        Campaign { commands, topology, counters: None, reference_loops: false, limits, journal }
    }

    fn measured(campaign: &mut Campaign<'_>, names: &[&str]) -> (Matrix, (usize, usize)) {
        let (grid, cells) = grid(names);
        let pilots = campaign.pilots(&grid).unwrap();
        let mut document = campaign.planned(origin(), &grid, &cells, pilots);
        let mut begun = (0, 0);
        let told = |told: Told<'_>| {
            if let Told::Begin { kept, left } = told {
                begun = (kept, left);
            }
        };
        campaign.measure(&mut document, cells, told).unwrap();
        (document, begun)
    }

    #[test]
    fn what_is_kept_is_not_run_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let open = || Some(Journal::open(&path, "a grid").unwrap());
        let (first, begun) = measured(&mut campaign(&[command("one", "true")], LIMITS, open()), &["one"]);
        assert_eq!((begun, first.cells.len(), first.cells[0].observations.len()), ((0, 1), 1, 2));
        // It would fail now; the other one is new.
        let commands = [command("one", "exit 1"), command("two", "true")];
        let (both, begun) = measured(&mut campaign(&commands, LIMITS, open()), &["one", "two"]);
        assert_eq!(begun, (1, 1));
        let names: Vec<&str> = both.cells.iter().map(|cell| cell.key.workload.as_str()).collect();
        assert_eq!((names, both.plan.pilots.len()), (vec!["one", "two"], 2));
        assert_eq!(both.cells[0].observations.len(), first.cells[0].observations.len());
    }

    #[test]
    fn without_time_cells_are_told_as_unmeasured() {
        let limits = Limits { time: Duration::ZERO, ..LIMITS };
        let (document, _) = measured(&mut campaign(&[command("one", "true")], limits, None), &["one"]);
        assert_eq!((document.cells.len(), document.unmeasured.len()), (0, 1));
    }
}
