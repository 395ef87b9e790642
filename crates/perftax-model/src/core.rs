//! A core: its unit, what that costs, and where the samples fall.

use serde::{Deserialize, Serialize};

use crate::Terms;
use crate::cache::Hierarchy;
use crate::machine::{Costs, Handler, ring_base};
use crate::unit::{Action, Span, Unit};

/// What is true when an event happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Instructions retired on the core before this one.
    pub instructions: u64,
    /// Address of the instruction.
    pub ip: u64,
    /// Address of its data, where known.
    pub data: Option<u64>,
    /// Cycle, as far as known.
    pub cycle: u64,
    /// Cycles that the operation takes.
    pub latency_cycles: u64,
}

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Core.
    pub core: u32,
    /// Instructions retired on the core before.
    pub instructions: u64,
    /// Address of the instruction; the event's own, or one `skid` instructions later.
    pub ip: u64,
    /// Instructions that the address is still to be moved on by whoever knows the instructions that follow.
    pub skid: u32,
    /// Address of the data, where known.
    pub data: Option<u64>,
}

/// Bytes of the ring that a handler copies records into: what `perf record` maps for each CPU by default
/// (perf_event_mlock_kb, 512 KiB).
pub const RING_BYTES: u64 = 512 << 10;

/// What an action of a unit does to memory: a value, so that it can wait until the accesses before it have been simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "records pollute the caches only when they are put through them"]
pub struct Records {
    core: u32,
    written: Option<Span>,
    copied: Option<Span>,
    /// Bytes that were copied into the ring before: it is written round and round.
    ring_at: u64,
}

impl Records {
    /// Whether memory is touched at all.
    pub fn is_nothing(&self) -> bool {
        self.written.is_none() && self.copied.is_none()
    }

    /// Goes through the caches of its core.
    pub fn go_through(&self, caches: &mut Hierarchy) {
        let core = self.core as usize;
        if let Some(span) = self.written {
            caches.access_records(core, span, true);
        }
        let Some(span) = self.copied else { return };
        caches.access_records(core, span, false);
        let (base, mut left, mut written) = (ring_base(self.core), span.bytes, self.ring_at);
        while left > 0 {
            let at = written % RING_BYTES;
            let bytes = left.min(RING_BYTES - at);
            caches.access_records(core, Span { address: base + at, bytes }, true);
            written += bytes;
            left -= bytes;
        }
    }
}

/// One modelled core.
#[derive(Clone, Debug)]
pub struct Core {
    number: u32,
    unit: Unit,
    costs: Costs,
    copied_bytes: u64,
    /// Time spent so far; pollution is not in it, since nobody on the machine sees it.
    pub terms: Terms,
    /// Samples kept.
    pub samples: u64,
    /// Samples that were due and could not be kept.
    pub lost: u64,
    /// Interrupts.
    pub interrupts: u64,
}

impl Core {
    /// With a unit from [`crate::machine::Machine::unit`].
    pub fn new(number: u32, (unit, costs): (Unit, Costs)) -> Self {
        Self { number, unit, costs, copied_bytes: 0, terms: Terms::default(), samples: 0, lost: 0, interrupts: 0 }
    }

    /// The unit.
    pub fn unit(&self) -> &Unit {
        &self.unit
    }

    /// Time that interrupts take for so many samples, s.
    pub fn interrupts_s(&self, samples: u64) -> f64 {
        let records = match &self.unit {
            Unit::Pebs(pebs) => pebs.buffer.threshold(),
            Unit::Spe(spe) => spe.buffer.threshold(),
            Unit::Off | Unit::Ibs(_) | Unit::Interrupt(_) => 1,
        };
        (samples / records) as f64 * self.costs.interrupt_ns * 1e-9
    }

    /// See [`Unit::until_action`].
    pub fn until_action(&self) -> u64 {
        self.unit.until_action()
    }

    /// See [`Unit::pass`].
    pub fn pass(&mut self, events: u64) {
        self.unit.pass(events);
    }

    /// The event at which the unit acts: the sample, where it is kept, and what that does to memory.
    pub fn act(&mut self, moment: &Moment) -> (Option<Sample>, Records) {
        let action = self.unit.act(moment.cycle, moment.latency_cycles);
        let records = self.pay(&action);
        self.lost += u64::from(action.lost);
        let sample = action.sampled.then(|| {
            self.samples += 1;
            Sample {
                core: self.number,
                instructions: moment.instructions,
                ip: moment.ip,
                skid: action.skid,
                data: moment.data.filter(|_| action.skid == 0),
            }
        });
        (sample, records)
    }

    /// Events up to and including the next at which the unit acts; see [`Self::act`].
    pub fn advance(&mut self, moment: &Moment) -> (Option<Sample>, Records) {
        self.unit.pass(self.unit.until_action() - 1);
        self.act(moment)
    }

    /// Without caches: events of which the unit is told how many there were, the `n`th happening at the instruction that `locate` says.
    pub fn run(&mut self, events: u64, mut locate: impl FnMut(u64) -> Moment, mut sink: impl FnMut(Sample)) {
        let mut done = 0;
        while self.until_action() <= events - done {
            done += self.until_action();
            if let (Some(sample), _) = self.advance(&locate(done - 1)) {
                sink(sample);
            }
        }
        self.unit.pass(events - done);
    }

    /// Sampling ends: what is left in the buffer is read.
    pub fn stop(&mut self) -> Records {
        let drained = self.unit.stop();
        self.pay(&Action { drained, ..Action::default() })
    }

    fn pay(&mut self, action: &Action) -> Records {
        const S_PER_NS: f64 = 1e-9;
        self.terms.assist += if action.written.is_some() { self.costs.assist_ns * S_PER_NS } else { 0.0 };
        if action.interrupted {
            self.interrupts += 1;
            self.terms.pmi += self.costs.interrupt_ns * S_PER_NS;
        }
        let copied = action.drained.filter(|_| self.costs.handler == Handler::Copies);
        let ring_at = self.copied_bytes;
        if let Some(drained) = copied {
            self.terms.drain += drained.records as f64 * self.costs.drain_ns * S_PER_NS;
            self.copied_bytes += drained.span.bytes;
        }
        Records { core: self.number, written: action.written, copied: copied.map(|drained| drained.span), ring_at }
    }
}
