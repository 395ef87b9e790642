// SPDX-License-Identifier: GPL-2.0-or-later
//! What all threads share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use iced_x86::InstructionInfoFactory;
use perftax_model::Event;
use perftax_model::run::Request;

use crate::block::{Block, Repeat};
use crate::pipeline::Pipeline;
use crate::samples::Rows;
use crate::simulator::Simulator;
use crate::stream::filter_fits;

/// One run of one program.
pub struct State {
    /// What was asked.
    pub request: Request,
    /// The sampled class where it is told by the instructions alone.
    pub sampled: Option<Event>,
    /// All translations.
    pub blocks: Mutex<Vec<&'static Block>>,
    /// Repeating instructions, by the address behind each.
    pub repeats: Mutex<HashMap<u64, &'static Repeat>>,
    /// Addresses of all instructions that access memory, by number.
    pub accessing: Arc<Mutex<Vec<u64>>>,
    /// Threads that were started.
    pub threads: AtomicU32,
    /// More than one thread: generated code no longer counts, callbacks do.
    pub parallel: AtomicBool,
    /// Where instructions are looked into.
    pub factory: Mutex<InstructionInfoFactory>,
    /// The simulator of the caches, where that was asked for.
    pub pipeline: Option<Pipeline>,
    /// Where samples go.
    pub rows: Rows,
}

static STATE: OnceLock<State> = OnceLock::new();

/// Makes it the one that the callbacks find; false where there is one already.
pub fn set(state: State) -> bool {
    STATE.set(state).is_ok()
}

/// The run's.
pub fn state() -> &'static State {
    // Callbacks are registered after it was set.
    match STATE.get() {
        Some(state) => state,
        None => std::process::abort(),
    }
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
        let rows = Rows::create(request.samples.as_deref())?;
        let accessing = Arc::default();
        let pipeline = request.caches.then(|| Pipeline::start(Simulator::new(&request, Arc::clone(&accessing), rows.clone())));
        Ok(Self {
            sampled: request.sampling.map(|sampling| sampling.event).filter(|event| !event.needs_caches()),
            blocks: Mutex::default(),
            repeats: Mutex::default(),
            accessing,
            threads: AtomicU32::new(0),
            parallel: AtomicBool::new(false),
            factory: Mutex::new(InstructionInfoFactory::new()),
            pipeline,
            rows,
            request,
        })
    }

    /// Whether it matters which block follows which.
    pub fn watches_flow(&self) -> bool {
        matches!(self.sampled, Some(Event::TakenBranches | Event::Fetches))
    }

    /// Whether there is one thread only, so that passes are counted in the blocks.
    pub fn is_alone(&self) -> bool {
        !self.parallel.load(Ordering::Relaxed)
    }
}
