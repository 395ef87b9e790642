//! `perftax sim stat`, `perftax vm stat`: a program's events where everything is fixed, and how they differ from a baseline.

use serde::{Deserialize, Serialize};

use crate::Origin;

/// What a program did, counted. A baseline is such a document, kept. Nothing in it depends on when it was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stat {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The program and its arguments.
    pub program: Vec<String>,
    /// How it ended: its exit code, or 128 + the signal.
    pub exit_code: i32,
    /// What counts depend on beside the program and its input, as it was.
    pub fixed: StatFixed,
    /// How often it ran.
    pub runs: u32,
    /// Events, in the order in which they were asked for.
    pub counts: Vec<StatCount>,
    /// Instructions of user mode by function, most first, as `perftax sim` counts them; none where that was not done.
    pub functions: Option<Vec<StatFunction>>,
    /// The program's file, and the libraries that it had.
    pub files: Vec<StatFile>,
    /// What became of the comparison, where one was asked for.
    pub comparison: Option<StatComparison>,
    /// The file that it was written to as a baseline, where it was.
    pub written_to: Option<String>,
}

/// What counts depend on beside the program and its input: of two results with other ones no comparison is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatFixed {
    /// What executed the program: `sim` (qemu-user, user mode alone) or `vm` (a machine with a kernel).
    pub kind: String,
    /// The emulator.
    pub emulator: String,
    /// The processor that the program saw.
    pub processor: String,
    /// Processors.
    pub processors: u32,
    /// Release of the kernel that the program saw.
    pub kernel: String,
    /// Seed of everything random.
    pub seed: u64,
    /// The environment, as NAME=VALUE.
    pub environment: Vec<String>,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatCount {
    /// Its name, as asked for.
    pub event: String,
    /// How often it happened in the first run; none where it was not counted.
    pub count: Option<f64>,
    /// What it is counted in, where it is no number of events: `msec`.
    pub unit: String,
    /// The least of all runs.
    pub least: Option<f64>,
    /// The most of all runs.
    pub most: Option<f64>,
    /// Share of the time in which the counter ran, a fraction: below 1 the count is scaled.
    pub running: f64,
    /// How long the counter was on, ns of the machine's time; none where no time passes.
    pub enabled_ns: Option<u64>,
}

/// One function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatFunction {
    /// Its name; empty for all code of a file that belongs to no function which is known.
    pub function: String,
    /// The name of its file, without a folder.
    pub file: String,
    /// Instructions in the first run.
    pub instructions: u64,
    /// The least of all runs.
    pub least: u64,
    /// The most of all runs.
    pub most: u64,
}

/// A file whose code was executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatFile {
    /// Its name, without a folder.
    pub name: String,
    /// SHA-256 of its bytes, hexadecimal.
    pub sha256: String,
    /// Its build id, hexadecimal, where it has one.
    pub build_id: Option<String>,
}

/// How counts differ from a baseline's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatComparison {
    /// The baseline's file.
    pub baseline: String,
    /// By how much a count may differ, as a fraction of the baseline's: 0 is not at all.
    pub tolerance: f64,
    /// Whether every event is within the tolerance, in every run.
    pub holds: bool,
    /// The program's file is the baseline's, to the byte.
    pub is_same_program: bool,
    /// Libraries that are not the baseline's, by name.
    pub other_libraries: Vec<String>,
    /// Each event that both have.
    pub counts: Vec<StatDifference>,
    /// Functions whose instructions differ, by how much, most first; none where either has no functions.
    pub functions: Option<Vec<StatFunctionDifference>>,
}

/// An event before and now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatDifference {
    /// Its name.
    pub event: String,
    /// The baseline's count.
    pub before: f64,
    /// What was counted now: of several runs the one that differs most.
    pub now: f64,
    /// Whether every run's is within the tolerance.
    pub holds: bool,
}

/// A function's instructions before and now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatFunctionDifference {
    /// Its name.
    pub function: String,
    /// The name of its file.
    pub file: String,
    /// Instructions in the baseline; 0: it was not executed.
    pub before: u64,
    /// Instructions now; 0: it was not executed.
    pub now: u64,
    /// It differs from run to run by itself, then or now: the difference need not be the change's.
    pub varies: bool,
}

impl StatFunctionDifference {
    /// Instructions more, or fewer.
    pub fn change(&self) -> i64 {
        self.now as i64 - self.before as i64
    }
}
