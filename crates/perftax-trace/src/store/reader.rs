//! Reading a trace: its rows as one stream in order of time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel, sync_channel};

use perftax_pmu::{Error, Result};
use rustc_hash::{FxHashMap, FxHashSet};

use super::background::Background;
use super::merge::Merge;
use super::relations::Relations;
use super::table::{Function, TableReader, read_texts};
use super::{LABELS, MARKS, OBJECTS, SAMPLES, SYMBOLS, codes};
use crate::kernel::{KernelEvent, What};
use crate::kinds::Kinds;
use crate::label::Labels;
use crate::lock::Lock;
use crate::mark::{Kind, Mark};
use crate::tracker::Record;

/// Batches of rows that are read ahead.
const AHEAD: usize = 8;
/// Records that are merged ahead: as many as stay in a core's second-level cache.
const MERGED: usize = 1 << 12;
/// What an address that the trace has no symbol for is called.
const UNKNOWN: &str = "[unknown]";

/// What the addresses of a trace are called.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Symbols {
    functions: Vec<Function>,
    numbers: HashMap<Function, u32>,
    by_address: FxHashMap<(u32, u64), u32>,
}

impl Symbols {
    /// From addresses, by process (0: the kernel's).
    pub fn new(addresses: impl IntoIterator<Item = ((u32, u64), Function)>) -> Self {
        let unknown = Function { name: UNKNOWN.into(), module: String::new() };
        let numbers = HashMap::from([(unknown.clone(), 0)]);
        let mut symbols = Self { functions: vec![unknown], numbers, by_address: FxHashMap::default() };
        addresses.into_iter().for_each(|(address, function)| symbols.learn(address, function));
        symbols
    }

    /// One more address, by process (0: the kernel's).
    pub fn learn(&mut self, address: (u32, u64), function: Function) {
        let next = self.functions.len() as u32;
        let number = *self.numbers.entry(function.clone()).or_insert(next);
        if number == next {
            self.functions.push(function);
        }
        self.by_address.insert(address, number);
    }

    /// Whether an address is known, by process (0: the kernel's).
    pub fn knows(&self, address: (u32, u64)) -> bool {
        self.by_address.contains_key(&address)
    }

    /// Forgets which function is at which address; their numbers stay.
    pub fn forget_addresses(&mut self) {
        self.by_address.clear();
    }

    /// Addresses that are known.
    pub fn addresses(&self) -> usize {
        self.by_address.len()
    }

    /// The number of the function at an address; 0 where it is unknown.
    pub fn function(&self, pid: u32, ip: u64) -> u32 {
        self.by_address.get(&Self::address(pid, ip)).copied().unwrap_or(0)
    }

    /// An address with the process that it belongs to: 0 for the kernel's half.
    pub fn address(pid: u32, ip: u64) -> (u32, u64) {
        (if ip >> 63 == 1 { 0 } else { pid }, ip)
    }

    /// The number of a function by its name; 0 where no address of it is known.
    pub fn number(&self, function: &Function) -> u32 {
        self.numbers.get(function).copied().unwrap_or(0)
    }

    /// A function by its number.
    pub fn get(&self, number: u32) -> &Function {
        self.functions.get(number as usize).unwrap_or(&self.functions[0])
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Whether there is none but the unknown one.
    pub fn is_empty(&self) -> bool {
        self.functions.len() <= 1
    }
}

/// A trace's folder.
pub struct Store {
    pub(super) folder: PathBuf,
    /// What addresses are called.
    pub symbols: Symbols,
    /// What messages are labelled.
    pub labels: Labels,
    /// What else programs said of messages.
    pub relations: Relations,
    /// What messages and threads are called together; nothing where nobody asks by kind.
    pub kinds: Arc<Kinds>,
    /// What lies at the addresses of counted events, by number from 1.
    pub objects: Vec<String>,
    /// Of a trace that holds slow messages alone: what the others were like.
    pub background: Option<Background>,
    /// Locks that have names; the others are read as the system call that waits for them, so that many a one of a kind is one line.
    named_locks: FxHashSet<u32>,
}

impl Store {
    /// Opens a folder that `trace record` made.
    ///
    /// # Errors
    /// Where its symbols cannot be read.
    pub fn open(folder: &Path) -> Result<Self> {
        let symbols = read_texts(&folder.join(SYMBOLS), (["pid", "ip"], ["function", "module"]))?;
        let address = |([pid, ip], [name, module]): ([u64; 2], [String; 2])| ((pid as u32, ip), Function { name, module });
        let labels = folder.join(LABELS);
        let labels = if labels.exists() { read_texts(&labels, (["id"], ["text"]))? } else { Vec::new() };
        let mut labelled = Labels::default();
        labels.into_iter().for_each(|([id], [text])| labelled.add(id, &text));
        let symbols = Symbols::new(symbols.into_iter().map(address));
        let objects = folder.join(OBJECTS.0);
        let objects = if objects.exists() { read_texts(&objects, OBJECTS.1)? } else { Vec::new() };
        let mut objects: Vec<([u64; 1], [String; 1])> = objects;
        objects.sort_unstable();
        let objects: Vec<String> = objects.into_iter().map(|(_, [name])| name).collect();
        Ok(Self {
            folder: folder.into(),
            background: Background::read(folder, &symbols, &objects)?,
            symbols,
            kinds: Arc::default(),
            objects,
            labels: labelled,
            relations: Relations::read(folder)?,
            named_locks: FxHashSet::default(),
        })
    }

    /// These locks have names.
    pub fn name_locks(&mut self, named: impl Iterator<Item = u32>) {
        self.named_locks = named.collect();
        if let Some(background) = &mut self.background {
            background
                .usual
                .merge_calls(|number| if self.named_locks.contains(&number) { number } else { Lock::or_call(number) });
        }
    }

    /// Every mark, in order of time.
    ///
    /// # Errors
    /// Where the table cannot be read, or holds what is no mark.
    pub fn marks(&self, mut each: impl FnMut(&Mark)) -> Result<()> {
        for batch in read_ahead(TableReader::open(&self.folder, MARKS.0, MARKS.1)?) {
            let batch = batch?;
            for row in 0..batch[0].len() {
                each(&mark(&batch, row).ok_or_else(|| self.odd(MARKS.0, batch.iter().map(|column| column[row])))?);
            }
        }
        Ok(())
    }

    /// Every message that ended, by its marks alone: its number, when it began and when it ended; in order of their ends.
    ///
    /// # Errors
    /// As [`Store::marks`].
    pub fn spans(&self, mut each: impl FnMut(u64, (u64, u64))) -> Result<()> {
        let (mut under_way, mut last_ns) = (FxHashMap::default(), 0);
        self.marks(|mark| {
            // As the tracker has it: what comes late counts as of then.
            last_ns = mark.time_ns.max(last_ns);
            match mark.kind {
                Kind::Begin => drop(under_way.insert(mark.id, last_ns)),
                Kind::End => under_way.remove(&mark.id).into_iter().for_each(|begin_ns| each(mark.id, (begin_ns, last_ns))),
                Kind::Switch | Kind::Wake => {}
            }
        })
    }

    /// Every sample of which a column may be needed that [`Store::records`] leaves out: time, CPU, process, thread, instruction, tag.
    ///
    /// # Errors
    /// Where the table cannot be read.
    pub fn samples(&self, mut each: impl FnMut(&super::SampleRow)) -> Result<()> {
        for batch in read_ahead(TableReader::open(&self.folder, SAMPLES.0, SAMPLES.1)?) {
            let [time_ns, cpu, pid, tid, ip, tag] = batch?;
            for row in 0..time_ns.len() {
                each(&super::SampleRow {
                    time_ns: time_ns[row] as u64,
                    cpu: cpu[row] as u32,
                    pid: pid[row] as u32,
                    tid: tid[row] as u32,
                    ip: ip[row] as u64,
                    tag: tag[row] as u64,
                });
            }
        }
        Ok(())
    }

    /// Every row of the trace, in order of time; at one time the kernel's before samples before marks.
    ///
    /// # Errors
    /// Where a table cannot be read, or holds what it cannot.
    pub fn records(&self, mut each: impl FnMut(&Record)) -> Result<()> {
        let mut merge = Merge::of(self)?;
        std::thread::scope(|scope| {
            let (to, from) = sync_channel::<Vec<Record>>(AHEAD);
            let (back, used) = channel::<Vec<Record>>();
            let merging = scope.spawn(move || {
                loop {
                    let mut records = used.try_recv().unwrap_or_else(|_| Vec::with_capacity(MERGED));
                    let outcome = merge.next(&mut records, MERGED);
                    if records.is_empty() || to.send(records).is_err() || outcome.is_err() {
                        return outcome;
                    }
                }
            });
            for mut records in from {
                for record in &mut records {
                    if let Record::Kernel(KernelEvent { what: What::SyscallEnter(number), .. }) = record
                        && Lock::is_one(*number)
                        && !self.named_locks.contains(number)
                    {
                        *number = Lock::or_call(*number);
                    }
                    each(record);
                }
                records.clear();
                // Whoever merged may have come to the end.
                let _ = back.send(records);
            }
            merging.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    pub(super) fn odd(&self, table: &str, cells: impl Iterator<Item = i64>) -> Error {
        let cells: Vec<String> = cells.map(|cell| cell.to_string()).collect();
        let what = self.folder.join(table).display().to_string();
        Error::Malformed { what, offset: 0, why: format!("a row holds what it cannot: {}", cells.join(", ")) }
    }
}

pub(super) fn mark(batch: &[Vec<i64>; 4], row: usize) -> Option<Mark> {
    let [time_ns, tid, id, kind] = batch;
    let kind = codes::kind(u64::try_from(kind[row]).ok()?)?;
    Some(Mark { time_ns: time_ns[row] as u64, tid: tid[row] as u32, id: id[row] as u64, kind })
}

pub(super) type Batches<const N: usize> = Receiver<Result<[Vec<i64>; N]>>;

/// Reads batches in a thread of their own. It ends with the table, or when nobody wants more.
pub(super) fn read_ahead<const N: usize>(mut table: TableReader<N>) -> Batches<N> {
    let (to, from) = sync_channel(AHEAD);
    std::thread::spawn(move || {
        loop {
            // A decoder that a torn file makes panic must not look like the table's end.
            let next = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| table.next()));
            let Some(batch) = next.unwrap_or_else(|_| Some(Err(table.malformed("the decoder failed".into())))) else { return };
            let is_over = batch.is_err();
            if to.send(batch).is_err() || is_over {
                return;
            }
        }
    });
    from
}
