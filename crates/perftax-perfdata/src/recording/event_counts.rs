//! What a recording says of one event.

use perftax_cost::code::footprint;
use perftax_doc::{Estimate, Untold};
use rustc_hash::FxHashMap;

use super::attribute::{Attribute, read_format};
use super::carried::Carried;
use super::times::RunningTimes;

/// What was counted of one event.
#[derive(Clone, Debug, Default)]
pub struct EventCounts {
    /// Its name, as perf gave it.
    pub name: String,
    /// How it was sampled.
    pub attribute: Attribute,
    /// Its ids in the recording.
    pub ids: Vec<u64>,
    /// SAMPLE records.
    pub samples: u64,
    /// What LOST records say was lost: records that found the ring full. The kernel names the event that wrote *next*, so
    /// where events share a ring this may be another's loss.
    pub lost_in_ring: u64,
    /// What LOST_SAMPLES records say was lost: the event's own loss by its read format (perf ≥ 6.1, Linux ≥ 6.0), or
    /// samples that the hardware lost.
    pub lost_samples: u64,
    /// Samples that a BPF filter dropped on purpose, after their interrupt.
    pub filtered: u64,
    /// THROTTLE records.
    pub throttled: u64,
    /// Samples of the idle task (process 0).
    pub idle: u64,
    /// Entries of call chains in all, markers with them.
    pub chain_entries: u64,
    /// Bytes of the user's stack that were copied, in all samples that say so.
    pub stack_bytes: u64,
    /// How many samples do.
    pub with_stack: u64,
    /// Of a clock, how many samples each page of code had, by process and the page's number; the idle task has none.
    pub(super) code: FxHashMap<(u32, u64), u64>,
    /// Those of its samples that stand in AUX buffers (ARM SPE): neither time nor thread is read of them.
    pub in_aux: u64,
    /// Whether the recording ends as perf ends it, so that the event's own losses are all told.
    pub(super) is_finished: bool,
    /// Whether its samples were put together from another event's trace (`perf inject --itrace`).
    pub synthesised: bool,
    /// Why its samples do not tell what it cost.
    pub untold: Option<Untold>,
    pub(super) times: RunningTimes,
    /// Whether it is of tasks, and not of CPUs.
    pub(super) is_of_tasks: bool,
}

impl EventCounts {
    /// Samples lost. With `PERF_FORMAT_LOST` every loss in the ring is counted again in the event's own LOST_SAMPLES, so the
    /// two are not added: the event's own count is the better one, none being none, unless perf was killed before it wrote it.
    pub fn lost(&self) -> u64 {
        // What a ring lost beside is records of mappings and threads, which nobody is interrupted for.
        if self.attribute.read_format & read_format::LOST != 0 && (self.lost_samples > 0 || self.is_finished) {
            self.lost_samples
        } else {
            self.lost_in_ring.saturating_add(self.lost_samples)
        }
    }

    /// Pages of code that its samples tell the programs to go through; none where they do not.
    pub fn code_pages(&self) -> Option<Estimate> {
        let period_ns = self.attribute.clock_period_ns()?;
        let samples = self.code.iter().map(|(at, samples)| (*at, *samples));
        footprint(samples, period_ns, self.attribute.exclude_kernel).map(|code| code.pages)
    }

    /// perf adds an event `dummy` that never samples, for the records beside the samples.
    pub fn is_dummy(&self) -> bool {
        self.name.split(':').next() == Some("dummy")
    }

    /// Whether each of its events was a sample though a longer period was asked for, see [`Attribute::events_a_sample`].
    pub fn ignored_its_period(&self) -> bool {
        self.samples > 0 && self.attribute.period > self.attribute.events_a_sample()
    }

    /// What a sample carries on average; nothing is known where samples have none of it, or none that is counted.
    pub fn carried(&self) -> Carried {
        let mean = |sum: u64, samples: u64| (samples > 0).then(|| sum as f64 / samples as f64);
        Carried {
            chain_entries: mean(self.chain_entries, self.samples).filter(|entries| *entries > 0.0),
            stack_bytes: mean(self.stack_bytes, self.with_stack),
        }
    }

    /// time_running / time_enabled over all its instances, where the recording tells; what the kernel counts by itself never waits for a counter.
    pub fn running(&self) -> Option<f64> {
        let share = self.times.share(self.is_of_tasks)?;
        Some(if self.attribute.needs_no_counter() { 1.0 } else { share })
    }
}
