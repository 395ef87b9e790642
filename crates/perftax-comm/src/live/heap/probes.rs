//! Probes on an allocator's functions: at their first instruction, and where they return.
//!
//! They are defined through tracefs, so that however many threads inherit an event, the kernel has one probe for each place: through the PMU
//! `uprobe` every inherited event would be a probe of its own, registered when a thread begins and unregistered when it ends.
//!
//! Where two threads with the same inherited events follow each other on a CPU, the kernel swaps their events instead of switching them, and one
//! that ends may then take along what a probe is thought wanted for (kernel/events/core.c, `perf_event_context_sched_out`;
//! kernel/trace/trace_uprobe.c, `uprobe_perf_filter`). It does not swap where an inherited event reads counts into samples (Linux 6.12 on): the
//! event that tells of tasks asks for that, though it takes no samples.

use std::collections::HashMap;

use perf_event_open_sys::bindings::PERF_SAMPLE_READ;
use perftax_doc::steps::Setting;
use perftax_pmu::event::{Catalog, Event, parse_one};
use perftax_pmu::guard::{ProbeDefinition, ProbeDefinitions, raise_descriptor_limit};
use perftax_pmu::record::{Layout, Record, decode};
use perftax_pmu::sampler::{Clock, Payload, Sampling};
use perftax_pmu::sys::{OpenEvent, Ring, Target};
use perftax_pmu::{Error, Result};

use super::allocator::{Does, Function};

/// Bytes of the stack that are copied where a function is called: some ten frames of callers.
const STACK_BYTES: u32 = 1024;
/// Likewise where one returns that has stored an address in a variable of its caller's.
const VARIABLES_BYTES: u32 = 256;
/// Pages of each CPU's ring: a few milliseconds of a program that does nothing but allocate.
const RING_PAGES: usize = 1024;
/// Registers by their numbers in `asm/perf_regs.h`: those of results and arguments, rbp and rsp.
const REGISTERS: [u32; 6] = [AX, 3, 4, 5, BP, SP];
/// What a function returns.
pub const AX: u32 = 0;
/// The frame pointer, where it is one.
pub const BP: u32 = 6;
/// The stack pointer.
pub const SP: u32 = 7;

/// Which probe was hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// A function's first instruction; its number.
    Call(usize),
    /// Behind its call.
    Return(usize),
}

/// Probes, and the rings that they write into: of the threads that are followed, and of what they create.
pub struct Probes {
    /// What tells of tasks, of the first thread by CPU: the rings are theirs.
    owners: Vec<OpenEvent>,
    open: Vec<OpenEvent>,
    rings: Vec<Ring>,
    cpus: Vec<u32>,
    layout: Layout,
    tasks: (Event, Sampling),
    events: Vec<(Event, Sampling, At)>,
    at_of: HashMap<u64, At>,
    /// Whether the kernel leaves each thread its own events.
    pub is_whole: bool,
    /// What is probed.
    pub functions: Vec<Function>,
    /// Behind the events: they must be closed before the probes can go.
    _definitions: ProbeDefinitions,
}

impl Probes {
    /// Defines probes on these functions; nobody's are on yet.
    ///
    /// # Errors
    /// Where the kernel cannot be told of probes.
    pub fn define(functions: Vec<Function>, cpus: &[u32], catalog: &Catalog) -> Result<Self> {
        if !cfg!(target_arch = "x86_64") {
            return Err(Error::Unsupported {
                what: format!("probe an allocator ({})", Setting::Heap),
                why: "only x86's arguments and frames are known".into(),
                remedy: format!("leave {} out", Setting::Heap),
            });
        }
        // A place takes two events on each CPU.
        raise_descriptor_limit();
        let tracefs = catalog.tracefs().ok_or_else(|| Error::Unsupported {
            what: format!("probe an allocator ({})", Setting::Heap),
            why: "tracefs is not mounted at /sys/kernel/tracing".into(),
            remedy: "sudo mount -t tracefs tracefs /sys/kernel/tracing".into(),
        })?;
        let mut definitions = Vec::new();
        let mut wanted = Vec::new();
        for (number, function) in functions.iter().enumerate() {
            let returns = (function.does != Does::Free).then_some(At::Return(number));
            for at in [Some(At::Call(number)), returns].into_iter().flatten() {
                let is_return = matches!(at, At::Return(_));
                let name = format!("heap_{number}_{}", if is_return { "return" } else { "call" });
                let path = function.path.clone();
                let (offset, semaphore, fetches) = (function.offset, None, Vec::new());
                definitions.push(ProbeDefinition { name: name.clone(), path, offset, is_return, semaphore, fetches });
                wanted.push((name, at));
            }
        }
        let definitions = ProbeDefinitions::define(tracefs, &definitions)?;
        let registers = REGISTERS.into_iter().fold(Payload::BASIC.with_place(), Payload::with_user_register);
        let payload = |at: At| {
            registers.with_stack_copy(match at {
                At::Call(number) if functions[number].does != Does::Free => STACK_BYTES,
                At::Return(number) if matches!(functions[number].does, Does::Store(_)) => VARIABLES_BYTES,
                At::Call(_) | At::Return(_) => 0,
            })
        };
        let every =
            Sampling { inherit: true, clock: Clock::MonotonicRaw, ..Sampling::every(1, RING_PAGES * rustix::param::page_size()) };
        let event = |text: &str| -> Result<Event> { parse_one(text, catalog) };
        let mut events = Vec::new();
        for (name, at) in wanted {
            events.push((event(&format!("{}:{name}", definitions.group()))?, every.carrying(payload(at)), at));
        }
        let reading = Payload { sample_type: registers.sample_type | u64::from(PERF_SAMPLE_READ), ..registers };
        let tasks = Sampling { task_records: true, ..every.carrying(reading) };
        Ok(Self {
            owners: Vec::new(),
            open: Vec::new(),
            rings: Vec::new(),
            cpus: cpus.to_vec(),
            layout: registers.with_stack_copy(0).layout(),
            tasks: (event("dummy:u")?, tasks),
            events,
            at_of: HashMap::new(),
            is_whole: true,
            functions,
            _definitions: definitions,
        })
    }

    /// A thread, and what it creates from now on, is probed. One that is gone is none.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn follow(&mut self, tid: i32) -> Result<()> {
        match self.open_all(tid) {
            Err(Error::System { source, .. }) if source.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            other => other,
        }
    }

    fn open_all(&mut self, tid: i32) -> Result<()> {
        for number in 0..self.cpus.len() {
            let tasks = self.open_tasks(Target::ThreadOnCpu(tid, self.cpus[number]))?;
            match self.owners.get(number) {
                Some(owner) => tasks.redirect_to(owner)?,
                None => self.rings.push(Ring::map(&tasks, RING_PAGES)?),
            }
            tasks.enable()?;
            if self.owners.len() > number { self.open.push(tasks) } else { self.owners.push(tasks) }
        }
        for (event, sampling, at) in &self.events {
            for (owner, &cpu) in self.owners.iter().zip(&self.cpus) {
                let open = OpenEvent::open(event, sampling, Target::ThreadOnCpu(tid, cpu), None)?;
                open.redirect_to(owner)?;
                self.at_of.insert(open.id()?, *at);
                open.enable()?;
                self.open.push(open);
            }
        }
        Ok(())
    }

    fn open_tasks(&mut self, target: Target) -> Result<OpenEvent> {
        match OpenEvent::open(&self.tasks.0, &self.tasks.1, target, None) {
            Err(Error::Unsupported { .. }) if self.is_whole => {
                // Before Linux 6.12 inherited events do not read counts into samples.
                self.is_whole = false;
                self.tasks.1.payload.sample_type &= !u64::from(PERF_SAMPLE_READ);
                OpenEvent::open(&self.tasks.0, &self.tasks.1, target, None)
            }
            other => other,
        }
    }

    /// Hands out every record that has come, those of one CPU in their order, and of a sample which probe it is of.
    ///
    /// # Errors
    /// Where a ring holds what is no record.
    pub fn drain(&mut self, mut each: impl FnMut(Record<'_>, Option<At>)) -> Result<()> {
        for ring in &mut self.rings {
            let mut broken = Ok(());
            let (layout, at_of) = (&self.layout, &self.at_of);
            ring.drain(|header, body| match decode(header, body, layout) {
                Ok(record) => {
                    let event = if let Record::Sample(sample) = &record { sample.identifier } else { None };
                    each(record, event.and_then(|event| at_of.get(&event)).copied());
                }
                Err(error) => broken = Err(error),
            })?;
            broken?;
        }
        Ok(())
    }

    /// Hits that the kernel could not write, as it counts them (Linux 6.0 on).
    pub fn lost(&self) -> u64 {
        self.open.iter().filter_map(|open| open.read().ok()).map(|reading| reading.lost).sum()
    }
}
