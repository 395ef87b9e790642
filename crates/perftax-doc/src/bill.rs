//! `perftax bill`: what a recording cost.

use serde::{Deserialize, Serialize};

use crate::Origin;
use crate::{Estimate, Mechanism};

/// What one perf.data recording cost the program that was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bill {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The recording.
    pub recording: String,
    /// The command that was recorded, from the file's header.
    pub recorded_command: Vec<String>,
    /// The host and kernel that it was recorded on, from the file's header.
    pub recorded_on: String,
    /// Version of the perf that recorded, from the file's header.
    #[serde(default)]
    pub recorded_by: String,
    /// How long the recorded run took, as `span_of` says; 0 where the recording does not tell.
    pub span_s: f64,
    /// What `span_s` is.
    #[serde(default)]
    pub span_of: SpanOf,
    /// One line an event.
    pub events: Vec<BilledEvent>,
    /// Cost of all events, CPU time: what all CPUs spent on samples together. None where nothing was priced.
    pub cost_s: Option<Estimate>,
    /// How much longer the run took: of samples taken in parallel, those on the busiest CPU (or thread, where the recording
    /// does not tell CPUs) of each slice of time. None where nothing was priced.
    #[serde(default)]
    pub elapsed_cost_s: Option<Estimate>,
    /// `elapsed_cost_s` as a share of what the run would have taken without it, a fraction. None where nothing was priced or
    /// the recording does not tell how long the run took.
    pub share_of_run: Option<Estimate>,
    /// Whether it watched CPUs, whatever ran there (`perf record -a`, `-C`): there is then no one run that took longer, and `elapsed_cost_s` and `share_of_run` are
    /// none. What each CPU and each process paid stands in `by_cpu` and `by_process`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_cpus: bool,
    /// Samples by CPU.
    pub by_cpu: Vec<SampleCount>,
    /// Samples by process, where CPUs were watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_process: Vec<SampleCount>,
    /// Samples by thread.
    pub by_thread: Vec<SampleCount>,
    /// What the coming and going of tasks cost beside them; none where nothing was inherited or nothing came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<BilledTasks>,
    /// What context switches cost beside them; none where the recording does not tell how many there were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches: Option<BilledSwitches>,
}

/// Context switches, at each of which the events of a task were swapped.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BilledSwitches {
    /// How many there were.
    pub switches: u64,
    /// CPU time that swapping took; it is part of [`Bill::cost_s`]. None where it was never calibrated: the bill is then without it.
    pub cost_s: Option<Estimate>,
}

/// Tasks that inherited the events of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BilledTasks {
    /// Threads and processes created.
    pub created: u64,
    /// Programs executed, the recorded one not among them.
    pub executed: u64,
    /// Events that each inherited, one for each CPU; 0 where CPUs were watched, which were told of each.
    pub events: u32,
    /// CPU time that making and giving up their copies cost; it is part of [`Bill::cost_s`]. None where it was never calibrated: the bill is then without it.
    pub cost_s: Option<Estimate>,
}

/// One event of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BilledEvent {
    /// Its name in the recording.
    pub event: String,
    /// The mechanism that sampled it; None where its attributes and the header do not tell.
    pub mechanism: Option<Mechanism>,
    /// Fixed period, or None in frequency mode.
    pub period: Option<u64>,
    /// Samples a second asked for in frequency mode.
    #[serde(default)]
    pub frequency: Option<u64>,
    /// Samples in the recording.
    pub samples: u64,
    /// Samples lost: of the two ways in which a recording tells, the one that counts each loss once.
    pub lost: u64,
    /// Sum of LOST records: found the ring full. Where events share a ring, may name the wrong one of them.
    #[serde(default)]
    pub lost_in_ring: u64,
    /// Sum of LOST_SAMPLES records: the event's own count of the same losses (perf ≥ 6.1), or losses in hardware.
    #[serde(default)]
    pub lost_samples: u64,
    /// Samples dropped by a BPF filter on purpose, after their interrupt.
    #[serde(default)]
    pub filtered: u64,
    /// THROTTLE records.
    pub throttled: u64,
    /// time_running / time_enabled, where the recording tells; 1 where it was never multiplexed.
    pub running: Option<f64>,
    /// Interrupts whose sample a filter dropped (`cpu-clock:u` in the kernel's mode), of which nothing is recorded: from none to as many as the run has room for;
    /// their cost is in `cost_s`. None where no sample is dropped, nothing is priced, or the run's length is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<Estimate>,
    /// Samples of the idle task: they interrupted a CPU that had nothing to do, and delayed nobody.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub idle: u64,
    /// Whether its samples were put together from a trace afterwards (`perf inject --itrace`): they interrupted nobody, and are not charged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub synthesised: bool,
    /// Why what it cost is not known, whatever its samples say; none where they say all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untold: Option<Untold>,
    /// Cost of one sample used, payload and drift included, or None where no calibration fits.
    pub alpha_ns: Option<Estimate>,
    /// The calibrated event that `alpha_ns` comes from.
    #[serde(default)]
    pub calibrated_event: Option<String>,
    /// Payload terms that are part of `alpha_ns`.
    #[serde(default)]
    pub payload: Vec<String>,
    /// samples × α (lost and filtered samples cost too: they are included).
    pub cost_s: Option<Estimate>,
    /// The part of `cost_s` that made the run longer, see [`Bill::elapsed_cost_s`].
    #[serde(default)]
    pub elapsed_cost_s: Option<Estimate>,
}

impl BilledEvent {
    /// Samples that were paid for: delivered, lost and filtered.
    pub fn charged(&self) -> u64 {
        if self.synthesised {
            return 0;
        }
        self.samples.saturating_add(self.lost).saturating_add(self.filtered)
    }
}

/// Why a recording does not tell what an event cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Untold {
    /// It filled an AUX buffer (Intel PT, ARM SPE, CoreSight) and took no samples.
    AuxBuffer,
    /// Its ring was overwritten again and again (`perf record --overwrite`): what is left are the last samples.
    Overwritten,
    /// The recording was cut off, or its recorder killed, before any sample was in it.
    CutOff,
}

/// What the length of a recorded run was taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SpanOf {
    /// The recorded command, from its exec to its exit.
    Command,
    /// First to last sample: short by about one sampling gap at each end.
    Samples,
    /// Nothing in the recording tells.
    #[default]
    Unknown,
}

/// Samples by some key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampleCount {
    /// CPU number, or thread as `pid/tid comm`, or process as `pid comm`.
    pub key: String,
    /// Samples.
    pub samples: u64,
    /// Those of them that the idle task took.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub idle: u64,
    /// CPU time that the others cost whoever ran, where CPUs were watched and every event has a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_s: Option<Estimate>,
}
