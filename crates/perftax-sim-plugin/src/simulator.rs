// SPDX-License-Identifier: GPL-2.0-or-later
//! What happens to the accesses: they go through the simulated caches, and classes of misses are sampled there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use perftax_model::cache::{Hierarchy, Level, Traffic, address_of};
use perftax_model::pollution::{CacheProfile, Profiler};
use perftax_model::run::Request;
use perftax_model::{Core, Event, Moment};

use crate::batch::Batch;
use crate::lock::lock;
use crate::samples::{Rows, Samples};
use crate::stream::Entry;

/// The caches, and what each thread does in them.
pub struct Simulator {
    request: Request,
    /// The level at which a sampled miss is found, or beyond.
    sampled: Option<Level>,
    hierarchy: Hierarchy,
    /// The caches that no record goes through.
    reference: Option<Hierarchy>,
    /// Stack distances of the first core.
    profiler: Option<Profiler>,
    /// Addresses of all instructions that access memory, by number.
    accessing: Arc<Mutex<Vec<u64>>>,
    rows: Rows,
    threads: HashMap<u32, Thread>,
}

/// What one thread did in the caches.
#[derive(Default)]
pub struct Thread {
    /// Its unit, where a class of misses is sampled.
    pub core: Option<Core>,
    /// Samples of misses.
    pub samples: Samples,
    /// Loads that missed: first level, second, last.
    pub load_misses: [u64; 3],
    /// Sampled misses until the unit acts.
    until: u64,
}

impl Simulator {
    /// As asked.
    pub fn new(request: &Request, accessing: Arc<Mutex<Vec<u64>>>, rows: Rows) -> Self {
        let caches = || request.machine.hierarchy(request.cores.max(1), request.llc, request.seed as u32);
        let sampled = match request.sampling.map(|sampling| sampling.event) {
            Some(Event::L1Misses) => Some(Level::L2),
            Some(Event::L2Misses) => Some(Level::Llc),
            Some(Event::LlcMisses) => Some(Level::Memory),
            _ => None,
        };
        Self {
            sampled,
            hierarchy: caches(),
            reference: request.reference.then(caches),
            profiler: request.profile.then(|| Profiler::new(&request.machine, request.llc)),
            accessing,
            rows,
            threads: HashMap::new(),
            request: request.clone(),
        }
    }

    /// One batch.
    pub fn process(&mut self, batch: &Batch) {
        let core = self.request.core_of(batch.thread) as usize;
        let of = |entry: Entry| (entry.line(), entry.is_write());
        let thread = self.threads.entry(batch.thread).or_insert_with(|| {
            let core = self.sampled.and_then(|_| self.request.core(core as u32).ok().flatten());
            Thread { until: core.as_ref().map_or(u64::MAX, Core::until_action), core, ..Thread::default() }
        });
        let mut from = 0;
        let ends = batch.records.iter().map(|(position, records)| (*position as usize, Some(records)));
        for (to, records) in ends.chain([(batch.entries().len(), None)]) {
            let part = &batch.entries()[from..to];
            self.hierarchy.access_all(core, part, of, |caches, position, found| {
                let entry = part[position];
                if entry.is_write() {
                    return;
                }
                thread.load_misses[0] += 1;
                thread.load_misses[1] += u64::from(found >= Level::Llc);
                thread.load_misses[2] += u64::from(found == Level::Memory);
                if self.sampled.is_some_and(|level| found >= level) {
                    thread.until -= 1;
                    if thread.until == 0 {
                        let ip = lock(&self.accessing).get(entry.instruction() as usize).copied().unwrap_or(0);
                        let moment = moment(&self.request, batch, entry, ip);
                        thread.act(&moment, batch.thread, caches, &self.rows);
                    }
                }
            });
            if let Some(records) = records {
                records.go_through(&mut self.hierarchy);
            }
            from = to;
        }
        if let Some(profiler) = self.profiler.as_mut().filter(|_| core == 0) {
            batch.entries().iter().for_each(|entry| profiler.access(entry.line()));
        }
        if let Some(reference) = &mut self.reference {
            reference.access_all(core, batch.entries(), of, |_, _, _| ());
        }
    }

    /// A thread has ended: what is left in its buffer is read.
    pub fn end(&mut self, thread: u32) {
        if let Some(thread) = self.threads.get_mut(&thread)
            && let Some(core) = &mut thread.core
        {
            core.stop().go_through(&mut self.hierarchy);
        }
    }

    /// What went through a core's caches, with and without records.
    pub fn traffic(&self, core: u32) -> (Traffic, Option<Traffic>) {
        let of = |caches: &Hierarchy| *caches.traffic(core as usize);
        (of(&self.hierarchy), self.reference.as_ref().map(of))
    }

    /// How the first core's threads use the caches by themselves.
    pub fn profile(&self) -> Option<CacheProfile> {
        self.profiler.as_ref().map(|profiler| profiler.profile().clone())
    }

    /// What a thread did in the caches.
    pub fn thread(&self, thread: u32) -> Option<&Thread> {
        self.threads.get(&thread)
    }
}

fn moment(request: &Request, batch: &Batch, entry: Entry, ip: u64) -> Moment {
    Moment {
        instructions: batch.instructions,
        ip,
        data: Some(address_of(entry.line())),
        cycle: (batch.instructions as f64 / request.machine.uops_per_cycle) as u64,
        latency_cycles: request.machine.memory_latency_cycles(),
    }
}

impl Thread {
    #[cold]
    fn act(&mut self, moment: &Moment, thread: u32, caches: &mut Hierarchy, rows: &Rows) {
        let Some(core) = &mut self.core else { return };
        let (sample, records) = core.advance(moment);
        records.go_through(caches);
        self.until = core.until_action();
        if let Some(sample) = sample {
            // The instructions that follow are not known here: the address is the event's own, whatever the skid.
            self.samples.keep(&sample, thread, rows);
        }
    }
}
