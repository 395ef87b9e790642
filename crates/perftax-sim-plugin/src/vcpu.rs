// SPDX-License-Identifier: GPL-2.0-or-later
//! A thread of the program, and the modelled core that it runs on.

use std::sync::Mutex;

use perftax_model::{Core, Counts, Event, Moment, Sample};

use crate::batch::Batch;
use crate::block::Block;
use crate::samples::Samples;
use crate::state::State;
use crate::stream::Intake;

/// Threads that have ended.
pub static ENDED: Mutex<Vec<Vcpu>> = Mutex::new(Vec::new());

/// Translations that can be counted: 32 MiB of address space a thread, of which only what is used becomes memory.
pub const MAX_BLOCKS: usize = 1 << 22;

/// What the callbacks touch at every block comes first.
#[repr(C)]
pub struct Vcpu {
    /// Sampled events until the unit acts, less one: it acts where this would fall below 0.
    pub left: i64,
    /// Instructions retired; where they are the sampled class, `next_action` tells.
    pub instructions: u64,
    /// Accesses not yet handed over.
    pub batch: Box<Batch>,
    /// Passes of every block, by its number, while there were several threads.
    pub passes: Box<[u64]>,
    /// The block before, where flow matters.
    pub before: Option<&'static Block>,
    /// The repeating instruction that ran last, 0 for none.
    pub repeating: u64,
    /// What its repetitions did, while there were several threads.
    pub repeated: Counts,
    /// Conditional branches that were taken, where flow is watched.
    pub taken: u64,
    /// Lines of code fetched, where flow is watched.
    pub fetches: u64,
    /// Thread, in the order of creation.
    pub thread: u32,
    /// Core.
    pub core_number: u32,
    /// Its unit, where something samples.
    pub core: Option<Core>,
    /// Samples.
    pub samples: Samples,
    /// Number, from 1, of the sampled event that the unit acts at next.
    next_action: u64,
    intake: &'static Intake,
    skidding: Option<Skidding>,
}

/// A sample whose instruction is still to come.
struct Skidding {
    sample: Sample,
    /// Instructions from the next block's first.
    left: u64,
    /// What [`Vcpu::left`] really is.
    events_left: i64,
}

/// A value of [`Vcpu::left`] that every block takes below 0.
const AT_ONCE: i64 = i64::MIN / 2;

impl Vcpu {
    /// A new thread.
    pub fn new(state: &State, thread: u32, intake: &'static Intake) -> Self {
        intake.forget();
        let core_number = state.request.core_of(thread);
        // The description was checked when the plugin was loaded. Misses are sampled by the simulator.
        let core = state.sampled.and_then(|_| state.request.core(core_number).ok().flatten());
        let mut vcpu = Self {
            left: i64::MAX,
            instructions: 0,
            passes: vec![0; if state.is_alone() { 0 } else { MAX_BLOCKS }].into(),
            before: None,
            batch: Box::default(),
            next_action: 0,
            intake,
            repeating: 0,
            repeated: Counts::default(),
            taken: 0,
            fetches: 0,
            thread,
            core_number,
            core,
            samples: Samples::default(),
            skidding: None,
        };
        vcpu.intake.begin(vcpu.batch.room());
        let until = i64::try_from(vcpu.schedule() - 1).unwrap_or(i64::MAX);
        vcpu.left = if crate::fixed::is_on() { crate::fixed::PASSES } else { until };
        vcpu
    }

    /// Notes the event that the unit acts at next; how many there are until then.
    fn schedule(&mut self) -> u64 {
        let until = self.core.as_ref().map_or(u64::MAX, Core::until_action);
        self.next_action = self.next_action.saturating_add(until);
        until
    }

    /// Events of the sampled class happened in a block, the `n`th (from 0) at instruction `index_of(n)` of it, and the unit acts at
    /// one of them at least; or a sample waits for its instruction.
    #[cold]
    #[inline(never)]
    pub fn act(&mut self, state: &State, block: &Block, events: i64, index_of: impl Fn(i64) -> usize) {
        // Position in the block's events at which the unit acts, from 0.
        let mut at = match self.skidding.take() {
            None => self.left + events,
            Some(skidding) => {
                self.settle(state, block, 0, skidding.left, skidding.sample);
                skidding.events_left
            }
        };
        while at < events {
            let index = index_of(at);
            let moment = self.moment(state, block, index);
            let (sample, records) = self.core.as_mut().map(|core| core.advance(&moment)).unwrap_or_default();
            if state.pipeline.is_some() {
                self.batch.push_records(self.intake.filled(), records);
                self.intake.forget();
            }
            at = at.saturating_add_unsigned(self.schedule());
            if let Some(sample) = sample {
                self.settle(state, block, index, u64::from(sample.skid), sample);
            }
        }
        let left = at - events;
        self.left = match &mut self.skidding {
            None => left,
            Some(skidding) => {
                skidding.events_left = left;
                AT_ONCE
            }
        };
    }

    fn moment(&self, state: &State, block: &Block, index: usize) -> Moment {
        let instructions = match state.sampled {
            Some(Event::Instructions) => self.next_action - 1,
            _ => (self.instructions + index as u64).saturating_sub(block.instructions),
        };
        let cycle = (instructions as f64 / state.request.machine.uops_per_cycle) as u64;
        let latency_cycles = state.request.machine.l1.latency_cycles;
        Moment { instructions, ip: block.ips.get(index).copied().unwrap_or(block.start), data: None, cycle, latency_cycles }
    }

    /// A sample names the instruction `skid` after `index`, which may be in a block still to come.
    fn settle(&mut self, state: &State, block: &Block, index: usize, skid: u64, sample: Sample) {
        let at = index as u64 + skid;
        match block.ips.get(at as usize) {
            Some(&ip) => self.keep(state, &Sample { ip, skid: 0, ..sample }),
            None => {
                // Should one still skid when the next comes, that one's address is given up where it is.
                if let Some(earlier) = self.skidding.replace(Skidding { sample, left: at - block.instructions, events_left: 0 }) {
                    self.keep(state, &earlier.sample);
                }
            }
        }
    }

    fn keep(&mut self, state: &State, sample: &Sample) {
        self.samples.keep(sample, self.thread, &state.rows);
    }

    /// The batch goes to the simulator.
    pub fn hand_over(&mut self, state: &State) {
        if let Some(pipeline) = &state.pipeline {
            self.batch.thread = self.thread;
            self.batch.filled = self.intake.filled();
            self.batch.instructions = self.instructions;
            let mut fresh = pipeline.empty_batch();
            self.intake.begin(fresh.room());
            pipeline.hand_over(std::mem::replace(&mut self.batch, fresh));
        }
    }

    /// The thread has ended: whatever waits is handed over, the buffer emptied, and a sample still skidding falls where it began.
    pub fn end(&mut self, state: &State) {
        if let Some(skidding) = self.skidding.take() {
            self.keep(state, &skidding.sample);
        }
        if let Some(core) = &mut self.core {
            self.batch.push_records(self.intake.filled(), core.stop());
        }
        self.hand_over(state);
        if let Some(pipeline) = &state.pipeline {
            pipeline.end(self.thread);
        }
    }
}
