//! What is to be verified.

use std::time::Duration;

use perftax_cost::drive::Drive;
use perftax_doc::Mechanism;
use perftax_pmu::event::Event;
use perftax_pmu::sampler::Payload;

use crate::run::{Attach, Command};

/// Periods of the monitored arms.
#[derive(Clone, Debug, PartialEq)]
pub enum Grid {
    /// Chosen so that they cost about these overheads (fractions), most expensive first.
    Overheads(Vec<f64>),
    /// Given.
    Periods(Vec<u64>),
}

/// One program in one manner of attaching.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The program.
    pub command: Command,
    /// How events are attached to it.
    pub attach: Attach,
    /// Whether cells are per core: for programs that keep several cores busy.
    pub per_core: bool,
    /// CPUs that it runs on.
    pub cpus: Vec<u32>,
    /// Whether the cost of context switches is added to what is expected.
    pub switching: bool,
}

/// A verification to be made.
#[derive(Clone, Debug)]
pub struct Request {
    /// The event.
    pub event: Event,
    /// Programs.
    pub subjects: Vec<Subject>,
    /// Periods.
    pub grid: Grid,
    /// Half-width of E asked for, a fraction of the elapsed time.
    pub half_width: f64,
    /// Rounds that are made in any case.
    pub least_rounds: u32,
    /// Rounds after which it ends in any case.
    pub most_rounds: u32,
    /// Elapsed time after which it ends in any case.
    pub time_limit: Duration,
    /// CPU that the calibration is pinned to.
    pub cpu: u32,
    /// Seed of the random order.
    pub seed: u64,
    /// Whether reference loops run beside the programs.
    pub reference_loops: bool,
    /// Overheads of the probes (fractions) that measure each program's pollution term, with [`Grid::Overheads`] only; none: α alone.
    pub probes: Vec<f64>,
    /// What samples carry.
    pub payload: Payload,
    /// Pages of each ring of the monitored runs, a power of two; none: the usual number.
    pub ring_pages: Option<usize>,
    /// Planted relative slow-down of the second unmonitored arm.
    pub planted_bias: f64,
}

impl Request {
    /// The mechanism of the event.
    pub fn mechanism(&self) -> Mechanism {
        self.event.mechanism
    }

    /// What drives its samples.
    pub fn drive(&self) -> Drive {
        Drive::of(self.event.mechanism, false)
    }
}
