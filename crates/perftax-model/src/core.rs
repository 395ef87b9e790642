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

/// The ring that a handler copies records into: mapped by the reader, written round and round.
#[derive(Clone, Copy, Debug)]
struct Ring {
    base: u64,
    written: u64,
}

/// Bytes of the ring: what `perf record` maps for each CPU by default (perf_event_mlock_kb, 512 KiB).
const RING_BYTES: u64 = 512 << 10;

impl Ring {
    fn copy(&mut self, mut bytes: u64, mut write: impl FnMut(Span)) {
        while bytes > 0 {
            let at = self.written % RING_BYTES;
            let now = bytes.min(RING_BYTES - at);
            write(Span { address: self.base + at, bytes: now });
            self.written += now;
            bytes -= now;
        }
    }
}

/// One modelled core.
#[derive(Clone, Debug)]
pub struct Core {
    number: u32,
    unit: Unit,
    costs: Costs,
    ring: Ring,
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
        let ring = Ring { base: ring_base(number), written: 0 };
        Self { number, unit, costs, ring, terms: Terms::default(), samples: 0, lost: 0, interrupts: 0 }
    }

    /// The unit.
    pub fn unit(&self) -> &Unit {
        &self.unit
    }

    /// See [`Unit::until_action`].
    pub fn until_action(&self) -> u64 {
        self.unit.until_action()
    }

    /// See [`Unit::pass`].
    pub fn pass(&mut self, events: u64) {
        self.unit.pass(events);
    }

    /// The event at which the unit acts. Records go through the caches, where there are some.
    pub fn act(&mut self, moment: &Moment, caches: Option<&mut Hierarchy>) -> Option<Sample> {
        let action = self.unit.act(moment.cycle, moment.latency_cycles);
        self.pay(&action, caches);
        self.lost += u64::from(action.lost);
        action.sampled.then(|| {
            self.samples += 1;
            Sample {
                core: self.number,
                instructions: moment.instructions,
                ip: moment.ip,
                skid: action.skid,
                data: moment.data.filter(|_| action.skid == 0),
            }
        })
    }

    /// Events of which the unit is told how many there were, the `n`th happening at the instruction that `locate` says.
    pub fn run(&mut self, events: u64, mut locate: impl FnMut(u64) -> Moment, mut sink: impl FnMut(Sample)) {
        let mut done = 0;
        while self.until_action() <= events - done {
            let until = self.until_action();
            self.unit.pass(until - 1);
            done += until;
            if let Some(sample) = self.act(&locate(done - 1), None) {
                sink(sample);
            }
        }
        self.unit.pass(events - done);
    }

    /// Sampling ends: what is left in the buffer is read.
    pub fn stop(&mut self, caches: Option<&mut Hierarchy>) {
        let drained = self.unit.stop();
        self.pay(&Action { drained, ..Action::default() }, caches);
    }

    fn pay(&mut self, action: &Action, caches: Option<&mut Hierarchy>) {
        const S_PER_NS: f64 = 1e-9;
        let core = self.number as usize;
        self.terms.assist += if action.written.is_some() { self.costs.assist_ns * S_PER_NS } else { 0.0 };
        if action.interrupted {
            self.interrupts += 1;
            self.terms.pmi += self.costs.interrupt_ns * S_PER_NS;
        }
        let copied = action.drained.filter(|_| self.costs.handler == Handler::Copies);
        if let Some(drained) = copied {
            self.terms.drain += drained.records as f64 * self.costs.drain_ns * S_PER_NS;
        }
        let Some(caches) = caches else { return };
        if let Some(span) = action.written {
            caches.access_records(core, span, true);
        }
        if let Some(drained) = copied {
            caches.access_records(core, drained.span, false);
            self.ring.copy(drained.span.bytes, |span| caches.access_records(core, span, true));
        }
    }
}
