//! `perftax matrix`: what counting and sampling cost, over modes × events × instances × periods × programs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::observation::ReferenceLoop;
use crate::{Control, Origin};
use crate::{Estimate, Mechanism};

/// A grid of cells, each monitored against unmonitored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Matrix {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// Who watches: `each` (a session an instance), `one` (one session for all instances), `cpus` (one session for whole CPUs).
    pub monitors: String,
    /// Whether the events of a cell are one group: all of them are on the counters together, or none.
    #[serde(default, skip_serializing_if = "crate::is_false")]
    pub one_group: bool,
    /// The CPUs, in the order in which instances are put on them.
    pub placement: MatrixPlacement,
    /// Counters of a core for events of the program's choice, where it has any: more events than these take turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<u32>,
    /// The sets of events.
    pub sets: Vec<MatrixSet>,
    /// What was said beforehand.
    pub plan: MatrixPlan,
    /// What was measured, in the order of the grid.
    pub cells: Vec<MatrixCell>,
    /// Cells that this machine has nothing for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub impossible: Vec<MatrixImpossible>,
    /// Events that were left out of the sets in all modes, the next ones taken instead: `--skip-missing`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<MatrixSkipped>,
    /// Cells for which the time did not suffice: `--resume` goes on with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmeasured: Vec<MatrixKey>,
    /// Off against off, for each program and number of instances.
    pub controls: Vec<MatrixControl>,
}

/// How the programs are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MatrixMode {
    /// Not at all: off against off, the A/A cell.
    Off,
    /// Counted, and read at the end: `perf stat`.
    Counting,
    /// Sampled by an interrupt of the counter, or whatever else the event has: `perf record`.
    Sampling,
    /// Sampled by Intel's PEBS: `perf record -e EVENT:p`.
    Pebs,
    /// Sampled with the latest branches in each sample (LBR): `perf record -b`.
    Lbr,
    /// Sampled by AMD's instruction-based sampling: `perf record -e ibs_op//`.
    Ibs,
}

impl MatrixMode {
    /// All modes that watch.
    pub const WATCHING: [Self; 5] = [Self::Counting, Self::Sampling, Self::Pebs, Self::Lbr, Self::Ibs];

    /// The name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Counting => "counting",
            Self::Sampling => "sampling",
            Self::Pebs => "pebs",
            Self::Lbr => "lbr",
            Self::Ibs => "ibs",
        }
    }

    /// Whether it has a period.
    pub fn samples(self) -> bool {
        matches!(self, Self::Sampling | Self::Pebs | Self::Lbr | Self::Ibs)
    }
}

impl fmt::Display for MatrixMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for MatrixMode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::WATCHING
            .into_iter()
            .find(|mode| mode.name() == name)
            .ok_or_else(|| format!("unknown mode '{name}': one of {}", Self::WATCHING.map(Self::name).join(", ")))
    }
}

/// Which cell of the grid. The order is that of the grid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixKey {
    /// The program.
    pub workload: String,
    /// How it is watched.
    pub mode: MatrixMode,
    /// The set of events; empty where it is not watched.
    pub set: String,
    /// Copies of the program that run at once, each on a CPU of its own as far as there are any.
    pub instances: u32,
    /// What the set's periods are divided by; 0 where there are none.
    pub divisor: u64,
    /// Events of the set, from the first on; 0 where it is not watched.
    pub events: u32,
}

impl fmt::Display for MatrixKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.workload, self.mode)?;
        if self.mode != MatrixMode::Off {
            write!(f, " {} × {}", self.events, self.set)?;
        }
        if self.divisor > 0 {
            write!(f, " ÷{}", self.divisor)?;
        }
        write!(f, ", {} at once", self.instances)
    }
}

/// The CPUs that instances run on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixPlacement {
    /// CPUs in the order in which they are taken: one of each core first, their SMT siblings last; then from the first on again.
    pub cpus: Vec<u32>,
    /// Cores that these are of.
    pub cores: u32,
    /// Simultaneous multithreading: `on`, `off`, `none`, `unknown`.
    pub smt: String,
}

/// A set of events with their periods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixSet {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Where its events and periods come from.
    pub source: String,
    /// The events, first ones first.
    pub events: Vec<MatrixSetEvent>,
}

/// An event of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixSetEvent {
    /// In perf's syntax, or its name where its code differs from one generation of processors to the next.
    pub event: String,
    /// What this machine counts it by, where its code differs by generation; none where this one does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Its period before it is divided: events, or nanoseconds for clocks.
    pub period: u64,
    /// Its form for PEBS, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precise: Option<String>,
    /// Its form for instruction-based sampling, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ibs: Option<String>,
}

/// What was said before anything was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixPlan {
    /// Half-width asked for of each overhead, a fraction of the unmonitored time (0.02: two percentage points).
    pub precision: f64,
    /// Variation from run to run above which a cell is excluded, a fraction (0.1 in the CERN study).
    pub variation_limit: f64,
    /// Pairs that are made in any case.
    pub least_pairs: u32,
    /// Pairs after which a cell ends in any case.
    pub most_pairs: u32,
    /// Time after which no further cell is begun, s.
    pub time_limit_s: f64,
    /// Cells, the A/A ones included.
    pub cells: u32,
    /// The time that reaching the precision in all cells was foreseen to take, s.
    pub foreseen_s: f64,
    /// The half-width that the time limit was foreseen to allow, a fraction; the precision itself where there is time enough.
    pub foreseen_half_width: f64,
    /// The runs that this was foreseen from.
    pub pilots: Vec<MatrixPilot>,
}

/// Unmonitored runs of one program, before the grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixPilot {
    /// The program.
    pub workload: String,
    /// Its command line.
    pub command: Vec<String>,
    /// How many at once.
    pub instances: u32,
    /// Mean elapsed time of an instance, each run, s.
    pub elapsed_s: Vec<f64>,
}

/// One cell, measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixCell {
    /// Which.
    #[serde(flatten)]
    pub key: MatrixKey,
    /// Pairs of an unmonitored and a monitored run that count.
    pub pairs: u32,
    /// Pairs that do not, because the hypervisor took too much of one of their runs.
    #[serde(rename = "spoiled")]
    pub discarded: u32,
    /// Elapsed time of an unmonitored instance; none where fewer than two pairs count.
    pub unmonitored_s: Option<Estimate>,
    /// Elapsed time of a monitored one.
    pub monitored_s: Option<Estimate>,
    /// (monitored − unmonitored)/unmonitored, a fraction.
    pub overhead: Option<Estimate>,
    /// Whether the interval of the overhead became as narrow as was asked for.
    pub reached: bool,
    /// Variation from run to run (coefficient of variation), the larger one of the two arms, a fraction; none where fewer than two pairs count.
    pub variation: Option<f64>,
    /// Why the cell is excluded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded: Option<String>,
    /// The events and what became of them.
    pub watched: Vec<MatrixEvent>,
    /// Samples that the events counted and their periods call for, all monitored runs that count.
    pub expected_samples: f64,
    /// Samples delivered, all these runs.
    pub samples: u64,
    /// Samples that the kernel had no room for, all these runs.
    pub lost: u64,
    /// Times that the kernel throttled an event, all these runs.
    pub throttled: u64,
    /// Bytes of records, mean of these runs.
    pub record_bytes: f64,
    /// CPU time of our own that draining them took, mean of these runs, s.
    pub reader_s: f64,
    /// The observations.
    pub observations: Vec<MatrixPair>,
}

/// An event of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixEvent {
    /// As it was opened.
    pub event: String,
    /// How it takes its samples, or would.
    pub mechanism: Mechanism,
    /// Its period; none where it only counts.
    pub period: Option<u64>,
    /// What it counted, mean of the monitored runs, all instances.
    pub counted: f64,
    /// Share of the time for which it counted: less than 1 where it took turns with others.
    pub running: f64,
}

/// An unmonitored and a monitored run, one right after the other, in random order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixPair {
    /// Nobody watches.
    pub off: MatrixRun,
    /// Somebody does; nobody in the A/A cell.
    pub on: MatrixRun,
}

impl MatrixPair {
    /// Whether it counts: neither run was discarded.
    pub fn counts(&self) -> bool {
        self.off.discarded.is_none() && self.on.discarded.is_none()
    }
}

/// One run of all instances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixRun {
    /// Elapsed time of each instance, from its start to its end, s.
    pub elapsed_s: Vec<f64>,
    /// The same without the reference loop's time and at the mean speed of the machine over all runs of the cell; empty where no reference loop ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adjusted_s: Vec<f64>,
    /// The reference loop on each instance's CPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "yardsticks")]
    pub reference_loops: Vec<ReferenceLoop>,
    /// What the hypervisor took of the instances' CPUs, s.
    pub steal_s: f64,
    /// Samples delivered.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub samples: u64,
    /// Samples lost.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub lost: u64,
    /// Why the run must not be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "spoiled")]
    pub discarded: Option<String>,
}

/// Cells that cannot be had, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixImpossible {
    /// How the programs would be watched.
    pub mode: MatrixMode,
    /// By which set.
    pub set: String,
    /// By how many events of it.
    pub events: u32,
    /// With which periods; 0 where that does not matter.
    pub divisor: u64,
    /// How many cells of the grid that are.
    pub cells: u32,
    /// Why not.
    pub why: String,
}

/// An event that was left out of a set, because a mode cannot have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixSkipped {
    /// The mode.
    pub mode: MatrixMode,
    /// The set.
    pub set: String,
    /// Which event, and why it cannot be had.
    pub why: String,
}

/// The A/A control of one program and number of instances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixControl {
    /// The program.
    pub workload: String,
    /// How many at once.
    pub instances: u32,
    /// The control, at 99 % over all of them together.
    #[serde(flatten)]
    pub control: Control,
}

/// Share of the time below which an event is said to have taken turns. What lies above is the time between switching on one event
/// and the next.
pub const MULTIPLEXED_BELOW: f64 = 0.95;

impl Matrix {
    /// Cells that are excluded.
    pub fn excluded(&self) -> impl Iterator<Item = (&MatrixCell, &str)> {
        self.cells.iter().filter_map(|cell| Some((cell, cell.excluded.as_deref()?)))
    }

    /// Cells whose overhead may be read.
    pub fn accepted(&self) -> impl Iterator<Item = (&MatrixCell, &Estimate)> {
        self.cells.iter().filter(|cell| cell.excluded.is_none()).filter_map(|cell| Some((cell, cell.overhead.as_ref()?)))
    }
}

impl MatrixCell {
    /// The smallest share of the time for which one of its events counted; 1 where it has none.
    pub fn running(&self) -> f64 {
        self.watched.iter().map(|event| event.running).fold(1.0, f64::min)
    }

    /// Whether its events took turns.
    pub fn is_multiplexed(&self) -> bool {
        self.running() < MULTIPLEXED_BELOW
    }

    /// Bytes of records a second of one instance's time; none where nothing was sampled.
    pub fn bytes_per_s(&self) -> Option<f64> {
        let monitored_s = self.monitored_s.as_ref()?.estimate;
        (self.key.mode.samples() && monitored_s > 0.0)
            .then(|| self.record_bytes / monitored_s / f64::from(self.key.instances.max(1)))
    }

    /// Bytes of records a sample; none without samples.
    pub fn bytes_per_sample(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.record_bytes * f64::from(self.pairs) / self.samples as f64)
    }
}

/// Where events begin to take turns: the last cell without and the first one with, all else alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jump<'a> {
    /// With the most events that had a counter each.
    pub before: &'a MatrixCell,
    /// With the fewest events that took turns.
    pub after: &'a MatrixCell,
}

impl Matrix {
    /// Every place in the grid where events begin to take turns, excluded cells left out.
    pub fn jumps(&self) -> Vec<Jump<'_>> {
        let alike = |a: &MatrixKey, b: &MatrixKey| MatrixKey { events: 0, ..a.clone() } == MatrixKey { events: 0, ..b.clone() };
        let cells: Vec<&MatrixCell> = self.accepted().map(|(cell, _)| cell).collect();
        let firsts = cells.iter().filter(|cell| cell.is_multiplexed());
        let firsts = firsts.filter(|cell| {
            !cells
                .iter()
                .any(|other| other.is_multiplexed() && alike(&other.key, &cell.key) && other.key.events < cell.key.events)
        });
        let before = |after: &&MatrixCell| {
            let fewer = cells.iter().filter(|cell| alike(&cell.key, &after.key) && cell.key.events < after.key.events);
            fewer.max_by_key(|cell| cell.key.events).copied()
        };
        firsts.filter_map(|after| Some(Jump { before: before(after)?, after })).collect()
    }
}
