//! Machines as data: the `[model]` table of the files under `machines/`.

mod shipped;

use serde::{Deserialize, Serialize};

pub use shipped::{shipped, shipped_names};

pub use crate::cache::{CacheSpec, Inclusion};

use crate::cache::{Hierarchy, Policy};
use crate::unit::{Buffer, Ibs, IbsKind, Interrupt, Pebs, RecordFormat, Spe, Unit};

/// A machine to be modelled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Physical cores that share the last-level cache.
    pub cores: u32,
    /// Clock, GHz.
    pub base_ghz: f64,
    /// Micro-operations retired a cycle when nothing misses: what time without misses is computed from.
    pub uops_per_cycle: f64,
    /// Share of a miss's latency that out-of-order execution does not hide, 0 to 1.
    pub exposed_latency: f64,
    /// Latency of memory, ns.
    pub memory_latency_ns: f64,
    /// Whether the last level holds what the levels above hold.
    pub inclusion: Inclusion,
    /// First-level data cache.
    pub l1: CacheSpec,
    /// Second-level cache.
    pub l2: CacheSpec,
    /// Last-level cache, all of it.
    pub llc: CacheSpec,
    /// General counters a core.
    pub counters: u32,
    /// Ordinary counter interrupts.
    pub interrupt: InterruptSpec,
    /// PEBS, where there is one.
    #[serde(default)]
    pub pebs: Option<PebsSpec>,
    /// IBS, where there is one.
    #[serde(default)]
    pub ibs: Option<IbsSpec>,
    /// SPE, where there is one.
    #[serde(default)]
    pub spe: Option<SpeSpec>,
    /// Where each of the numbers comes from, and which are assumed.
    pub sources: Vec<String>,
}

/// What an ordinary counter interrupt costs, and how late it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterruptSpec {
    /// Interrupt, handler and return, ns.
    pub cost_ns: f64,
    /// Least skid, instructions.
    pub least_skid: u32,
    /// Most skid, instructions.
    pub most_skid: u32,
}

/// PEBS of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PebsSpec {
    /// Record format.
    pub format: RecordFormat,
    /// Counters that can sample precisely.
    pub counters: u32,
    /// One assist, ns.
    pub assist_ns: f64,
    /// Copying one record out of the buffer, ns.
    pub drain_ns: f64,
    /// The buffer that the kernel gives it, bytes.
    pub buffer_bytes: u64,
}

/// IBS of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IbsSpec {
    /// Operations of the handler counted between its re-enabling the counter and its return.
    pub handler_ops: u64,
    /// Fetches likewise.
    pub handler_fetches: u64,
    /// Share of the tags on operations that never retire.
    pub discarded: f64,
    /// Interrupt, handler and return of an operation sample, ns.
    pub op_ns: f64,
    /// The same of a fetch sample, ns.
    pub fetch_ns: f64,
}

/// SPE of an implementation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeSpec {
    /// The shortest interval, operations (PMSIDR_EL1.Interval).
    pub least_interval: u64,
    /// Writing one record, ns.
    pub record_ns: f64,
    /// Copying one record out of the buffer, ns.
    pub drain_ns: f64,
    /// The AUX area, bytes.
    pub buffer_bytes: u64,
}

/// A sampling mechanism of a modelled machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// PEBS.
    Pebs,
    /// IBS, operations.
    IbsOp,
    /// IBS, fetches.
    IbsFetch,
    /// Counter interrupts.
    Interrupt,
    /// SPE.
    Spe,
}

impl Mechanism {
    /// The name in results and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pebs => "pebs",
            Self::IbsOp => "ibs-op",
            Self::IbsFetch => "ibs-fetch",
            Self::Interrupt => "interrupt",
            Self::Spe => "spe",
        }
    }
}

/// A machine that cannot do what is asked, or whose description makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MachineError {
    /// It has no such mechanism.
    #[error("the machine has no {}", .0.name())]
    NoMechanism(Mechanism),
    /// A number that cannot be.
    #[error("{name} is {value}, needs {needed}")]
    Unsound {
        /// The number.
        name: &'static str,
        /// What it is.
        value: String,
        /// What it must be.
        needed: &'static str,
    },
}

/// What the interrupt handler does with the records in the buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Handler {
    /// Copies them into a ring, as perf does.
    #[default]
    Copies,
    /// Counts them and throws them away, as the ROSS'17 study's module does: the hardware's cost alone.
    Discards,
}

/// How a unit is set up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Events between samples.
    pub period: u64,
    /// Bytes of the buffer; none: the kernel's.
    pub buffer_bytes: Option<u64>,
    /// What becomes of the records.
    pub handler: Handler,
    /// Seed of everything random.
    pub seed: u64,
}

/// Costs of a unit's actions, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// The hardware writing one record.
    pub assist_ns: f64,
    /// One interrupt.
    pub interrupt_ns: f64,
    /// Copying one record.
    pub drain_ns: f64,
    /// Whether records are copied at all.
    pub handler: Handler,
}

impl Machine {
    /// Checks that the description makes sense.
    ///
    /// # Errors
    /// The first number that does not.
    pub fn check(&self) -> Result<(), MachineError> {
        let positive = [
            ("base_ghz", self.base_ghz),
            ("uops_per_cycle", self.uops_per_cycle),
            ("memory_latency_ns", self.memory_latency_ns),
            ("cores", f64::from(self.cores)),
        ];
        let unsound = |name, value: String, needed| Err(MachineError::Unsound { name, value, needed });
        for (name, value) in positive {
            if !(value > 0.0 && value.is_finite()) {
                return unsound(name, value.to_string(), "a number above 0");
            }
        }
        if !(0.0..=1.0).contains(&self.exposed_latency) {
            return unsound("exposed_latency", self.exposed_latency.to_string(), "0 to 1");
        }
        for (name, cache) in [("l1", &self.l1), ("l2", &self.l2), ("llc", &self.llc)] {
            let fits = cache.ways > 0 && cache.ways <= 64 && cache.bytes % (64 * cache.ways as u64) == 0 && cache.bytes > 0;
            if !fits {
                let value = format!("{} bytes of {} ways", cache.bytes, cache.ways);
                return unsound(name, value, "whole sets of 64-byte lines, 1 to 64 ways");
            }
            if cache.policy == Policy::TreePlru && !(cache.ways.is_power_of_two() && cache.ways <= 16) {
                return unsound(name, format!("{} ways with tree-plru", cache.ways), "2, 4, 8 or 16 ways");
            }
        }
        if self.l2.bytes < self.l1.bytes || self.llc.bytes < u64::from(self.cores) {
            return unsound("l2", self.l2.bytes.to_string(), "at least the first level's size");
        }
        Ok(())
    }

    /// The unit and what its actions cost. Each core has its own buffer.
    ///
    /// # Errors
    /// Where the machine lacks the mechanism or the period is below what it can do.
    pub fn unit(&self, setup: &Setup, core: u32) -> Result<(Unit, Costs), MachineError> {
        let seed = setup.seed ^ (u64::from(core) << 32);
        let no = || MachineError::NoMechanism(setup.mechanism);
        let base = record_base(core);
        let interrupt_ns = self.interrupt.cost_ns;
        Ok(match setup.mechanism {
            Mechanism::Pebs => {
                let spec = self.pebs.ok_or_else(no)?;
                let bytes = spec.format.bytes();
                let buffer = Buffer::new(base, setup.buffer_bytes.unwrap_or(spec.buffer_bytes), bytes, u64::MAX);
                let costs = Costs { assist_ns: spec.assist_ns, interrupt_ns, drain_ns: spec.drain_ns, handler: setup.handler };
                (Unit::Pebs(Pebs::new(setup.period, buffer)), costs)
            }
            Mechanism::IbsOp => {
                let spec = self.ibs.ok_or_else(no)?;
                let ibs = Ibs::new(IbsKind::Op, setup.period, spec.handler_ops, spec.discarded, seed);
                (Unit::Ibs(ibs), Costs { interrupt_ns: spec.op_ns, ..Costs::default() })
            }
            Mechanism::IbsFetch => {
                let spec = self.ibs.ok_or_else(no)?;
                let ibs = Ibs::new(IbsKind::Fetch, setup.period, spec.handler_fetches, 0.0, seed);
                (Unit::Ibs(ibs), Costs { interrupt_ns: spec.fetch_ns, ..Costs::default() })
            }
            Mechanism::Interrupt => {
                let skid = (self.interrupt.least_skid, self.interrupt.most_skid);
                (Unit::Interrupt(Interrupt::new(setup.period, skid, seed)), Costs { interrupt_ns, ..Costs::default() })
            }
            Mechanism::Spe => {
                let spec = self.spe.ok_or_else(no)?;
                if setup.period < spec.least_interval {
                    let value = setup.period.to_string();
                    return Err(MachineError::Unsound { name: "period", value, needed: "the machine's least_interval" });
                }
                let bytes = setup.buffer_bytes.unwrap_or(spec.buffer_bytes);
                let buffer = Buffer::new(base, bytes, Spe::RECORD_BYTES, u64::MAX);
                let costs = Costs { assist_ns: spec.record_ns, interrupt_ns, drain_ns: spec.drain_ns, handler: setup.handler };
                (Unit::Spe(Spe::new(setup.period, true, buffer, seed)), costs)
            }
        })
    }

    /// The caches of so many cores, the last level shared out by `share`: 1 gives each core its part of the machine's, as when
    /// all its cores are busy.
    pub fn hierarchy(&self, cores: u32, llc: LlcShare, seed: u32) -> Hierarchy {
        Hierarchy::new(&[self.l1, self.l2, self.llc], self.llc_bytes(cores, llc), self.inclusion, cores as usize, seed)
    }

    /// Bytes of the last level that so many cores have: whole sets.
    pub fn llc_bytes(&self, cores: u32, llc: LlcShare) -> u64 {
        let set_bytes = crate::cache::LINE_BYTES * self.llc.ways as u64;
        let bytes = match llc {
            LlcShare::Whole => self.llc.bytes,
            LlcShare::PerCore => self.llc.bytes * u64::from(cores.min(self.cores)) / u64::from(self.cores),
        };
        (bytes / set_bytes).max(1) * set_bytes
    }

    /// Latency of memory, cycles.
    pub fn memory_latency_cycles(&self) -> u64 {
        (self.memory_latency_ns * self.base_ghz).round() as u64
    }

    /// Time that so many micro-operations and misses take, s: operations at the sustained rate, and what is not hidden of each
    /// level's latency.
    pub fn time_s(&self, uops: u64, traffic: &crate::cache::Traffic) -> f64 {
        let l2 = traffic.l1_misses.saturating_sub(traffic.l2_misses) as f64 * self.l2.latency_cycles as f64;
        let llc = traffic.l2_misses.saturating_sub(traffic.llc_misses) as f64 * self.llc.latency_cycles as f64;
        let memory = traffic.llc_misses as f64 * (self.llc.latency_cycles as f64 + self.memory_latency_ns * self.base_ghz);
        let cycles = uops as f64 / self.uops_per_cycle + self.exposed_latency * (l2 + llc + memory);
        cycles / (self.base_ghz * 1e9)
    }
}

/// How much of the last-level cache the modelled cores have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LlcShare {
    /// All of it: the other cores are idle.
    Whole,
    /// The part of each core: the others are busy likewise.
    PerCore,
}

/// Addresses of what the machine itself writes for a core: 256 MiB apart, in an address space of its own.
fn own_base(core: u32) -> u64 {
    const APART: u64 = 256 << 20;
    // A page further each, so that buffers do not all begin in the same set.
    u64::from(core % 120) * (APART + 4096)
}

/// Address of a core's record buffer.
fn record_base(core: u32) -> u64 {
    own_base(core)
}

/// Address of the ring that a core's handler copies into: far enough behind the largest buffer.
pub(crate) fn ring_base(core: u32) -> u64 {
    own_base(core) + (192 << 20)
}
