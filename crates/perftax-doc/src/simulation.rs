//! `perftax sim`: what sampling would do on a modelled machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Origin;

/// A program under the software PMU. The machine of its [`Origin`] is the modelled one; nothing in it depends on when it was
/// made, so that the same command gives the same bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Simulation {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The program and its arguments.
    pub program: Vec<String>,
    /// How it ended: its exit code, or 128 + the signal.
    pub exit_code: i32,
    /// Name of the machine's description.
    pub model: String,
    /// Where its numbers come from.
    pub model_sources: Vec<String>,
    /// The first or only run.
    #[serde(flatten)]
    pub run: SimulatedRun,
    /// What was swept, where several runs were made: `period` or `buffer`.
    pub swept: Option<String>,
    /// All runs of a sweep, the first included.
    pub sweep: Vec<SimulatedRun>,
}

/// One run under one setting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedRun {
    /// The mechanism; `count` where nothing was sampled.
    pub mechanism: String,
    /// The event sampled; empty where none was.
    pub event: String,
    /// Events between samples; 0 where nothing was sampled.
    pub period: u64,
    /// Bytes of the buffer of records, where the mechanism has one.
    pub buffer_bytes: Option<u64>,
    /// What became of the records: `copies` or `discards`.
    pub handler: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Instructions retired.
    pub instructions: u64,
    /// Events of the sampled class.
    pub events: u64,
    /// Samples taken.
    pub samples: u64,
    /// Samples due and not kept.
    pub lost: u64,
    /// Interrupts taken.
    pub interrupts: u64,
    /// Events of every class that was counted.
    pub counts: BTreeMap<String, u64>,
    /// Samples by instruction, most first.
    pub by_address: Vec<AddressSamples>,
    /// Samples by thread.
    pub by_thread: Vec<ThreadSamples>,
    /// Time that sampling takes on the busiest core, by term of the model.
    pub terms_s: TermsS,
    /// Whether caches were simulated; where not, what follows of memory is 0.
    pub caches: bool,
    /// Bytes read from memory.
    pub memory_read_bytes: u64,
    /// Bytes written to memory.
    pub memory_write_bytes: u64,
    /// What the same program reads and writes without records, bytes.
    pub unsampled_memory_bytes: Option<(u64, u64)>,
    /// Misses of the last level that the program had because of the records.
    pub llc_misses_caused: Option<i64>,
    /// Misses of the last level that writing and reading records had.
    pub llc_misses_of_records: u64,
    /// Pollution of the first core as the cost model's term predicts it from the program alone, s: to be compared with
    /// `terms_s.pollution`, which the simulated caches gave.
    pub pollution_predicted_s: Option<f64>,
    /// Which size of the buffer would be best, where there is one.
    pub buffer_advice: Option<BufferAdvice>,
    /// Elapsed time without sampling, by the machine's cost model: its longest core, s.
    pub elapsed_s: f64,
    /// Elapsed time that sampling adds, a fraction of `elapsed_s`.
    pub predicted_overhead: f64,
    /// Each core that ran something.
    pub cores: Vec<SimulatedCore>,
}

/// Interrupts against pollution: what sizes of the buffer cost beside the records themselves, by the model's pollution term.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BufferAdvice {
    /// The cheapest size.
    pub best_bytes: u64,
    /// The smallest size that costs at most `tolerance` more.
    pub flat_from_bytes: u64,
    /// The largest.
    pub flat_to_bytes: u64,
    /// A share of the elapsed time.
    pub tolerance: f64,
    /// All sizes tried.
    pub curve: Vec<BufferCost>,
}

/// What one size of the buffer costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BufferCost {
    /// The size.
    pub buffer_bytes: u64,
    /// Interrupts, s.
    pub pmi_s: f64,
    /// Misses of the program, s.
    pub pollution_s: f64,
}

/// Samples of one instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AddressSamples {
    /// Its address.
    pub address: u64,
    /// The function and offset, or file and offset; empty where it lies in no file.
    pub symbol: String,
    /// Samples.
    pub samples: u64,
}

/// Samples of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadSamples {
    /// Its number, in the order of creation.
    pub thread: u32,
    /// The modelled core that it ran on.
    pub core: u32,
    /// Instructions that it retired.
    pub instructions: u64,
    /// Samples.
    pub samples: u64,
}

/// Time by term, s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TermsS {
    /// Hardware writing records.
    pub assist: f64,
    /// Interrupts.
    pub pmi: f64,
    /// Emptying the buffer.
    pub drain: f64,
    /// Misses of the program that records caused.
    pub pollution: f64,
}

impl TermsS {
    /// All of it, s.
    pub fn total(&self) -> f64 {
        self.assist + self.pmi + self.drain + self.pollution
    }
}

/// One modelled core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedCore {
    /// Its number.
    pub core: u32,
    /// Samples.
    pub samples: u64,
    /// Time of its work without sampling, s.
    pub elapsed_s: f64,
    /// Time that sampling adds, by term.
    pub terms_s: TermsS,
}
