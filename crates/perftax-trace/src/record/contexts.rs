//! Whose context is watched: the threads of the processes that are recorded, as soon as each has the variable that tracing systems publish it by (`otel_thread_ctx_v1`).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use perftax_pmu::context_watch::{ContextWatch, WatchedPlace};
use perftax_pmu::event::Catalog;
use perftax_pmu::process::{Memory, ThreadVariable, mapped_file, maps, threads};
use perftax_pmu::sys::monotonic_raw_ns;
use perftax_pmu::{Error, Result};
use perftax_symbols::elf::Elf;
use perftax_symbols::{FileId, Mapping};

use super::Recording;
use super::row_queue::RowQueue;
use super::{Row, opening, source::Source};
use crate::contexts::{Context, ContextRecord, ContextSight, Contexts};

/// The variable (OTEP 4947, "Thread-Local Variable").
const VARIABLE: &str = "otel_thread_ctx_v1";
/// From one look at what a process has mapped to the next, while it has no such variable, ns: libraries are loaded while it runs.
const LOOK_FOR_VARIABLE_NS: u64 = 100_000_000;
/// From one look for new processes to the next, ns.
const LOOK_FOR_PROCESSES_NS: u64 = 100_000_000;

/// Rows between contexts.
pub(super) struct Held {
    pub contexts: Contexts,
    queue: RowQueue,
}

impl Held {
    pub fn new() -> Self {
        Self { contexts: Contexts::default(), queue: RowQueue::default() }
    }

    pub fn row(&mut self, row: Row) {
        self.queue.row(row);
    }

    pub fn context(&mut self, context: &Context) {
        let Self { contexts, queue } = self;
        contexts.take(context, &mut |mark| queue.mark(mark));
    }

    pub fn gone(&mut self, time_ns: u64, pid: u32, tid: u32) {
        let Self { contexts, queue } = self;
        contexts.gone(time_ns, pid, tid, &mut |mark| queue.mark(mark));
    }

    /// Nothing was heard for a while.
    pub fn forget(&mut self) {
        let Self { contexts, queue } = self;
        contexts.forget(&mut |mark| queue.mark(mark));
    }

    /// Hands out what is so old that no mark can come before it any more; time has come to `now_ns`, [`u64::MAX`]: to its end.
    pub fn release(&mut self, now_ns: u64, keep: &mut dyn FnMut(&Row) -> Result<()>) -> Result<u64> {
        let Self { contexts, queue } = self;
        contexts.lose_patience(now_ns, &mut |mark| queue.mark(mark));
        let until_ns = contexts.undecided_ns().unwrap_or(now_ns).min(now_ns);
        queue.hand_out(until_ns, keep).map(|()| until_ns)
    }
}

/// What is watched of threads.
pub(super) struct WatchedContexts {
    watch: ContextWatch,
    processes: BTreeMap<u32, Process>,
    threads: HashMap<u32, Thread>,
    /// Contexts that were read because nobody had written them since they were watched.
    read: Vec<Context>,
    looked_for_processes_ns: u64,
    /// Threads that were watched.
    watched: u64,
    unwatched: HashSet<u32>,
    /// All that were not, or not all of it.
    not_watched: u64,
    why: Option<String>,
    is_on: bool,
}

/// A process that is recorded.
#[derive(Default)]
struct Process {
    /// Its memory, which is another one when it executes another program, and where the variable lies.
    variable: Option<(Memory, ThreadVariable)>,
    /// Whether any thread has it.
    is_found: bool,
    /// Files that it has mapped which have no such variable.
    without: HashSet<(PathBuf, Option<FileId>)>,
    looked_ns: u64,
}

/// A thread's variable, and the record that it points to.
struct Thread {
    pid: u32,
    variable: WatchedPlace,
    record: Option<WatchedPlace>,
}

impl WatchedContexts {
    /// Opens where contexts are written to, and what reads them.
    ///
    /// # Errors
    /// Where the caller may not, or this is no x86-64.
    pub fn open(recording: &Recording, catalog: &Catalog) -> Result<(Self, Source)> {
        if !cfg!(target_arch = "x86_64") {
            return Err(Error::Unsupported {
                what: "tell messages by OpenTelemetry's thread contexts".into(),
                why: "where threads have their variables is known for x86-64 alone".into(),
                remedy: "marks, by perftax_tag.h or bindings".into(),
            });
        }
        let source = opening::open_contexts(recording, catalog)?;
        let outputs: Vec<_> = recording.cpus.iter().copied().zip(source.sampler.events()).collect();
        let watch = ContextWatch::new(ContextRecord::VALID_AT, &outputs)?;
        let watched = Self {
            watch,
            processes: BTreeMap::new(),
            threads: HashMap::new(),
            read: Vec::new(),
            looked_for_processes_ns: 0,
            watched: 0,
            unwatched: HashSet::new(),
            not_watched: 0,
            why: None,
            is_on: true,
        };
        Ok((watched, source))
    }

    /// Looks for new processes, variables and threads; hands out the contexts that threads have when they are found.
    pub fn look(&mut self, pids: impl FnOnce() -> Vec<u32>, catalog: &Catalog, found: &mut dyn FnMut(Context)) {
        if !self.is_on {
            return;
        }
        let now_ns = monotonic_raw_ns();
        let mut new = Vec::new();
        if now_ns > self.looked_for_processes_ns + LOOK_FOR_PROCESSES_NS {
            self.looked_for_processes_ns = now_ns;
            let there: HashSet<u32> = pids().into_iter().collect();
            self.processes.retain(|pid, _| there.contains(pid));
            for pid in there {
                self.processes.entry(pid).or_default();
            }
        }
        for (&pid, process) in &mut self.processes {
            // One that has executed another program has another memory: what was watched is of the one before.
            let is_of_before = |thread: &Thread| thread.pid == pid && process.read(thread.variable.address).is_none();
            if process.is_found && self.threads.values().any(is_of_before) {
                self.threads.retain(|_, thread| thread.pid != pid);
                *process = Process::default();
            }
            // Until a thread has it what was read may be of before the loader had come to it.
            if !process.is_found && now_ns > process.looked_ns + LOOK_FOR_VARIABLE_NS {
                process.looked_ns = now_ns;
                process.variable = variable(pid, &mut process.without);
            }
            let Process { variable: Some((memory, variable)), is_found, .. } = process else { continue };
            let all = threads(pid);
            for tid in all.iter().map(|tid| *tid as u32) {
                if self.threads.contains_key(&tid) || self.unwatched.contains(&tid) {
                    continue;
                }
                let Some(address) = memory.of_thread(*variable, tid) else { continue };
                *is_found = true;
                match self.watch.variable(tid as i32, address, catalog) {
                    Ok(place) => {
                        self.watched += 1;
                        let thread = Thread { pid, variable: place, record: None };
                        // What it had when it was found; whoever changes it from here on is seen.
                        if let Some(record) = memory.word(address).filter(|record| *record != 0) {
                            new.push((tid, record));
                        }
                        self.threads.insert(tid, thread);
                    }
                    // It has ended meanwhile.
                    Err(error) if is_gone(&error) || !is_there(tid) => {}
                    Err(error) => {
                        self.unwatched.insert(tid);
                        self.not_watched += 1;
                        self.why = Some(first_line(&error));
                    }
                }
            }
        }
        self.threads.retain(|tid, _| is_there(*tid));
        self.unwatched.retain(|tid| is_there(*tid));
        new.into_iter().for_each(|(tid, record)| self.follow(tid, record, catalog));
        self.read.drain(..).for_each(found);
    }

    /// A thread's variable points to this record: it may be changed in place.
    pub fn follow(&mut self, tid: u32, record: u64, catalog: &Catalog) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        if record == 0 || thread.record.as_ref().is_some_and(|known| known.address == record) {
            return;
        }
        // Of those that have debug registers four the second is for this; without it the first still sees what is swapped.
        thread.record = None;
        match self.watch.record(tid as i32, record, catalog) {
            Ok(place) => thread.record = Some(place),
            Err(error) if is_gone(&error) || !is_there(tid) => return,
            Err(error) => {
                self.not_watched += u64::from(self.unwatched.insert(tid));
                self.why = Some(first_line(&error));
            }
        }
        // It may have been changed before it was watched.
        self.read.extend(self.context(tid));
    }

    /// What a thread has now, read while it may run: what is written from here on is told by itself.
    fn context(&self, tid: u32) -> Option<Context> {
        let thread = self.threads.get(&tid)?;
        let process = self.processes.get(&thread.pid)?;
        let (time_ns, record) = (monotonic_raw_ns(), process.read(thread.variable.address)?);
        let (memory, _) = process.variable.as_ref()?;
        let bytes = memory.bytes::<{ ContextRecord::BYTES }>(record).filter(|_| record != 0);
        let identity = bytes.and_then(|bytes| ContextRecord(bytes).identity());
        Some(Context { time_ns, pid: thread.pid, tid, record, is_in_place: false, identity })
    }

    /// What all threads have now, that nobody has heard of for a while.
    pub fn all(&self, found: &mut dyn FnMut(Context)) {
        self.threads.keys().filter_map(|tid| self.context(*tid)).for_each(found);
    }

    /// Watches nothing for a while.
    ///
    /// # Errors
    /// The kernel's.
    pub fn off(&mut self) -> Result<()> {
        self.is_on = false;
        self.places().try_for_each(WatchedPlace::disable)
    }

    /// Watches everything again.
    ///
    /// # Errors
    /// The kernel's.
    pub fn on(&mut self) -> Result<()> {
        self.is_on = true;
        self.places().try_for_each(WatchedPlace::enable)
    }

    fn places(&self) -> impl Iterator<Item = &WatchedPlace> {
        self.threads.values().flat_map(|thread| std::iter::once(&thread.variable).chain(&thread.record))
    }

    /// Adds how many threads were watched.
    pub fn describe(self, sight: &mut ContextSight) {
        (sight.threads, sight.unwatched, sight.why) = (self.watched, self.not_watched, self.why);
    }
}

impl Process {
    /// A word of its memory; none where that is another one by now.
    fn read(&self, address: u64) -> Option<u64> {
        self.variable.as_ref().and_then(|(memory, _)| memory.word(address))
    }
}

/// Whether the kernel says of a thread that it ends.
fn is_gone(error: &Error) -> bool {
    matches!(error, Error::System { source, .. } if source.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()))
}

/// Whether a thread has not ended: /proc has each, though it lists those that lead a process alone.
fn is_there(tid: u32) -> bool {
    Path::new("/proc").join(tid.to_string()).exists()
}

/// What an error says, without what it points at.
fn first_line(error: &Error) -> String {
    error.to_string().lines().next().unwrap_or_default().into()
}

/// Where the variable lies, by the first of the process's files that has it; those that have none are not looked at again.
fn variable(pid: u32, without: &mut HashSet<(PathBuf, Option<FileId>)>) -> Option<(Memory, ThreadVariable)> {
    let memory = Memory::open(pid).ok()?;
    let maps: Vec<Mapping> = maps(pid).ok()?;
    // A file's first mapping holds its header.
    let files = maps.iter().filter(|map| map.file_offset == 0 && map.path.is_absolute());
    let found = files.into_iter().find_map(|map| {
        let key = (map.path.clone(), map.file_id);
        if without.contains(&key) {
            return None;
        }
        let elf = mapped_file(pid, map).and_then(|file| Elf::open(&file).ok());
        let Some((elf, local)) = elf.and_then(|elf| elf.thread_local(VARIABLE).map(|local| (elf, local))) else {
            without.insert(key);
            return None;
        };
        memory.variable(local, elf.segments().bias_of_first(map.from))
    });
    Some((memory, found?))
}
