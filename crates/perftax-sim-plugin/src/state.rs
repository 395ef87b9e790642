// SPDX-License-Identifier: GPL-2.0-or-later
//! What all threads share.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use iced_x86::InstructionInfoFactory;
use perftax_model::Event;
use perftax_model::cache::Hierarchy;
use perftax_model::run::{Request, SampleRow};

use crate::block::Block;
use crate::stream::filter_fits;
use crate::vcpu::Vcpu;

/// One run of one program.
pub struct State {
    /// What was asked.
    pub request: Request,
    /// The process that was started; its forks are not simulated.
    pub process: u32,
    /// All translations.
    pub blocks: Mutex<Vec<&'static Block>>,
    /// Addresses of all instructions that access memory, by number.
    pub accessing: Mutex<Vec<u64>>,
    /// Threads that have ended.
    pub ended: Mutex<Vec<Box<Vcpu>>>,
    /// Threads that were started.
    pub threads: AtomicU32,
    /// More than one thread: generated code no longer counts, callbacks do.
    pub parallel: AtomicBool,
    /// Where instructions are looked into.
    pub factory: Mutex<InstructionInfoFactory>,
    hierarchy: Mutex<Hierarchy>,
    reference: Option<Mutex<Hierarchy>>,
    rows: Option<Mutex<BufWriter<File>>>,
}

/// A lock whose data are sound whoever panicked while holding it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// As asked.
    ///
    /// # Errors
    /// Where the machine cannot do it or a file cannot be written.
    pub fn new(request: Request) -> Result<Self, String> {
        request.machine.check().map_err(|e| e.to_string())?;
        request.core(0).map_err(|e| e.to_string())?;
        let sets = request.machine.l1.sets();
        if request.caches && !filter_fits(sets) {
            return Err(format!("the first-level cache has {sets} sets, needs a multiple of 64"));
        }
        let rows = match &request.samples {
            None => None,
            Some(path) => {
                let file = File::create(path).map_err(|e| format!("cannot write {path}: {e}"))?;
                Some(Mutex::new(BufWriter::new(file)))
            }
        };
        let cores = request.cores.max(1);
        let caches = || request.machine.hierarchy(cores, request.llc, request.seed as u32);
        let hierarchy = Mutex::new(caches());
        let reference = (request.caches && request.reference).then(|| Mutex::new(caches()));
        Ok(Self {
            process: std::process::id(),
            blocks: Mutex::default(),
            accessing: Mutex::default(),
            ended: Mutex::default(),
            threads: AtomicU32::new(0),
            parallel: AtomicBool::new(false),
            factory: Mutex::new(InstructionInfoFactory::new()),
            hierarchy,
            reference,
            rows,
            request,
        })
    }

    /// The sampled class where it is told by the instructions alone.
    pub fn sampled(&self) -> Option<Event> {
        self.request.sampling.map(|sampling| sampling.event).filter(|event| !event.needs_caches())
    }

    /// Whether it matters which block follows which.
    pub fn watches_flow(&self) -> bool {
        matches!(self.sampled(), Some(Event::TakenBranches | Event::Fetches))
    }

    /// Whether there is one thread only, so that passes are counted in the blocks.
    pub fn is_alone(&self) -> bool {
        !self.parallel.load(Ordering::Relaxed)
    }

    /// The caches.
    pub fn caches(&self) -> MutexGuard<'_, Hierarchy> {
        lock(&self.hierarchy)
    }

    /// The caches that no record goes through.
    pub fn reference(&self) -> Option<MutexGuard<'_, Hierarchy>> {
        self.reference.as_ref().map(lock)
    }

    /// Address of an instruction that accesses memory.
    pub fn ip_of(&self, number: u32) -> u64 {
        lock(&self.accessing).get(number as usize).copied().unwrap_or(0)
    }

    /// Puts a sample down.
    pub fn write_row(&self, row: SampleRow) {
        if let Some(rows) = &self.rows {
            // A full disk shows at the end, when the file is flushed.
            lock(rows).write_all(&row.to_bytes()).ok();
        }
    }

    /// All samples are written.
    ///
    /// # Errors
    /// Where they could not be.
    pub fn flush_rows(&self) -> std::io::Result<()> {
        self.rows.as_ref().map_or(Ok(()), |rows| lock(rows).flush())
    }
}
