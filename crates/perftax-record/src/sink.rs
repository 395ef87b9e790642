//! Records on their way from the rings to the file, looked at as they pass.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use perftax_perfdata::writing::Writer;
use perftax_pmu::record::{Encoder, FixedPlaces, Header, Layout, Mmap2, RawRecord, Record, Task, decode};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::build_ids::BuildIds;
use crate::callers::Walker;
use crate::kinds::{COMM, EXIT, FORK, LOST, LOST_SAMPLES, MMAP2, SAMPLE, THROTTLE};
use crate::round::{Members, Round};

/// `PERF_SAMPLE_IDENTIFIER`.
const PERF_SAMPLE_IDENTIFIER: u32 = 1 << 16;
/// `PERF_SAMPLE_STACK_USER`.
const PERF_SAMPLE_STACK_USER: u32 = 1 << 13;
const WORD: usize = 8;
/// Identities of events that are remembered.
const IDENTITIES: usize = 100_000;

/// What passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Samples.
    pub samples: u64,
    /// What they stand for, by their periods.
    pub weight: u64,
    /// Records lost, as records of the kernel's say.
    pub lost: u64,
    /// Times that the event was throttled.
    pub throttled: u64,
    /// Threads and processes created.
    pub created: u64,
    /// Programs executed.
    pub executed: u64,
}

/// Where records go.
pub struct Sink {
    writer: Writer,
    /// When the file was begun.
    began: Instant,
    layout: Layout,
    places: FixedPlaces,
    /// Where samples come with the identity of their event and not with a period: the period of each.
    periods: Option<FxHashMap<u64, u64>>,
    buffer: Vec<u8>,
    buffered_samples: u64,
    /// Since it was last asked.
    passed: Passed,
    /// Times of the first and last sample, ns of the event's clock.
    pub times_ns: Option<(u64, u64)>,
    /// Of files mapped as code.
    pub build_ids: BuildIds,
    /// Threads that came or went since this was last taken.
    pub came_and_went: u64,
    /// Threads that there are.
    pub alive: FxHashSet<Task>,
    /// Whose records go on, where they come from whole CPUs.
    members: Option<Members>,
    round: Round,
    /// Where copies of stacks come: what makes callers of them.
    walker: Option<Walker>,
    /// Bytes of the largest sample so far, as it came.
    pub largest_sample_bytes: u16,
    /// Samples of others.
    pub of_others: u64,
    /// Samples that could not be written, and why not.
    pub unwritten: u64,
    pub failure: Option<io::Error>,
}

impl Sink {
    /// Into a recording; records come in this layout. Where samples come with the identity of their event they go on with its period instead, and other records
    /// without any: the kernel takes a sample at every single event that it counts in software where samples are to carry a period
    /// (kernel/events/core.c, `perf_swevent_event`; Linux 6.18).
    pub fn new(writer: Writer, layout: &Layout) -> Self {
        let is_identified = layout.samples(PERF_SAMPLE_IDENTIFIER);
        Self {
            writer,
            began: Instant::now(),
            layout: *layout,
            places: layout.fixed_places(),
            periods: is_identified.then(FxHashMap::default),
            buffer: Vec::new(),
            buffered_samples: 0,
            passed: Passed::default(),
            times_ns: None,
            build_ids: BuildIds::default(),
            came_and_went: 0,
            alive: FxHashSet::default(),
            members: None,
            walker: layout.samples(PERF_SAMPLE_STACK_USER).then(Walker::default),
            round: Round::default(),
            largest_sample_bytes: 0,
            of_others: 0,
            unwritten: 0,
            failure: None,
        }
    }

    /// Events of these identities have these periods.
    pub fn weigh(&mut self, events: impl Iterator<Item = (u64, u64)>) {
        if let Some(periods) = &mut self.periods {
            // Those of long ago are in no ring any more.
            if periods.len() > IDENTITIES {
                periods.clear();
            }
            periods.extend(events);
        }
    }

    /// Takes a record as it lies in a ring.
    #[inline]
    pub fn take(&mut self, header: Header, body: &[u8]) {
        if header.kind == SAMPLE {
            self.largest_sample_bytes = self.largest_sample_bytes.max(header.size);
        }
        if self.members.is_some() || self.walker.is_some() {
            self.round.push(header, body);
        } else if header.kind == SAMPLE {
            self.take_sample(header, body);
        } else {
            self.take_other(header, body);
        }
    }

    /// All rings were looked at: what had to wait for that.
    fn settle(&mut self) {
        let settled = self.round.settle(self.members.as_mut(), self.places.sample.task);
        self.of_others += settled.of_others;
        for pid in &settled.strangers {
            self.alive.retain(|task| task.pid != *pid);
        }
        // Rings stand one after another: what each record finds is what came before it in time.
        let mut records: Vec<(u64, RawRecord<'_>)> = settled.records().map(|raw| (self.time_of(&raw), raw)).collect();
        records.sort_by_key(|(time_ns, _)| *time_ns);
        for (_, raw) in records {
            match raw.header.kind {
                SAMPLE => self.take_sample(raw.header, raw.body),
                _ => self.take_other(raw.header, raw.body),
            }
        }
    }

    /// When a record was written, ns of the event's clock.
    fn time_of(&self, raw: &RawRecord<'_>) -> u64 {
        let at = match raw.header.kind {
            SAMPLE => self.places.sample.time,
            _ => self.places.trailer.time.and_then(|at| Some(raw.body.len().checked_sub(self.places.trailer.bytes)? + at)),
        };
        at.and_then(|at| raw.body.get(at..)?.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
    }

    /// Nothing was told for a while: nobody knows any more who there is, and what each has mapped. Of whole CPUs these processes' records go on from here.
    pub fn forget(&mut self, chosen: Option<&BTreeSet<u32>>) {
        self.alive.clear();
        if let Some(walker) = &mut self.walker {
            walker.forget_all();
        }
        self.members = chosen.map(|pids| {
            let mut members = Members::default();
            pids.iter().for_each(|pid| members.add(*pid, 0));
            members
        });
    }

    fn take_sample(&mut self, header: Header, body: &[u8]) {
        let word = |at: Option<usize>| at.and_then(|at| body.get(at..)?.first_chunk()).map(|word| u64::from_le_bytes(*word));
        let period = match &self.periods {
            None => word(self.places.sample.period).unwrap_or(0),
            Some(periods) => word(self.places.sample.id).and_then(|id| periods.get(&id).copied()).unwrap_or(0),
        };
        self.passed.samples += 1;
        self.buffered_samples += 1;
        self.passed.weight += period;
        if let Some(time_ns) = word(self.places.sample.time) {
            let (first, last) = self.times_ns.get_or_insert((time_ns, time_ns));
            *first = time_ns.min(*first);
            *last = time_ns.max(*last);
        }
        let Some(walker) = &mut self.walker else {
            self.buffer.extend_from_slice(&header.bytes());
            let (front, rest) = body.split_at_checked(self.places.sample.bytes).unwrap_or((body, &[]));
            put_front(&mut self.buffer, front, self.periods.is_some().then_some(period));
            self.buffer.extend_from_slice(rest);
            return;
        };
        // One that cannot be read has no callers.
        let chain = match decode(header, body, &self.layout) {
            Ok(Record::Sample(sample)) => walker.chain(&sample),
            _ => &[],
        };
        let front = body.get(..self.places.sample.bytes).unwrap_or(body);
        let size = Header::BYTES + front.len() + WORD * (1 + chain.len());
        self.buffer.extend_from_slice(&Header { size: size as u16, ..header }.bytes());
        put_front(&mut self.buffer, front, self.periods.is_some().then_some(period));
        self.buffer.extend_from_slice(&(chain.len() as u64).to_le_bytes());
        chain.iter().for_each(|address| self.buffer.extend_from_slice(&address.to_le_bytes()));
    }

    /// Samples whose copy of the stack ended before their callers did.
    pub fn cut(&self) -> u64 {
        self.walker.as_ref().map_or(0, |walker| walker.cut)
    }

    fn take_other(&mut self, header: Header, body: &[u8]) {
        self.look(header, body);
        // The identity is the last word of all that do not sample.
        let cut = if self.periods.is_some() && self.places.trailer.id.is_some() { WORD } else { 0 };
        let kept = body.len().saturating_sub(cut);
        self.buffer.extend_from_slice(&Header { size: header.size - (body.len() - kept) as u16, ..header }.bytes());
        self.buffer.extend_from_slice(&body[..kept]);
    }

    /// Takes records of our own making, which say what was before.
    pub fn know(&mut self, records: &[u8]) {
        let (created, came_and_went) = (self.passed.created, self.came_and_went);
        for raw in perftax_pmu::record::stream(records).flatten() {
            // Of the layout that the recording has.
            self.look_as(raw.header, raw.body, false);
        }
        // Nobody created these while we looked.
        (self.passed.created, self.came_and_went) = (created, came_and_went);
        self.buffer.extend_from_slice(records);
    }

    fn look(&mut self, header: Header, body: &[u8]) {
        self.look_as(header, body, self.periods.is_some());
    }

    fn look_as(&mut self, header: Header, body: &[u8], is_identified: bool) {
        if !matches!(header.kind, LOST | COMM | EXIT | THROTTLE | FORK | MMAP2 | LOST_SAMPLES) {
            return;
        }
        // One that cannot be read is written all the same: whoever reads the recording will say so.
        let without = self.layout.sample_type & !u64::from(PERF_SAMPLE_IDENTIFIER);
        let layout = if is_identified { self.layout } else { Layout { sample_type: without, ..self.layout } };
        let Ok(record) = decode(header, body, &layout) else { return };
        match record {
            Record::Lost(lost) => self.passed.lost += lost.lost,
            Record::LostSamples(lost) => self.passed.lost += lost.lost,
            Record::Throttle(_) => self.passed.throttled += 1,
            Record::Comm(comm) => {
                if comm.by_exec {
                    self.executed(comm.task);
                }
                self.born(comm.task);
            }
            Record::Fork(fork) => {
                self.passed.created += 1;
                self.came_and_went += 1;
                if let Some(walker) = &mut self.walker {
                    walker.forked(fork.task.pid, fork.parent.pid);
                }
                self.born(fork.task);
            }
            Record::Exit(exit) => {
                self.came_and_went += 1;
                if let Some(walker) = &mut self.walker
                    && !self.alive.iter().any(|task| task.pid == exit.task.pid && *task != exit.task)
                {
                    walker.forget(exit.task.pid);
                }
                if self.alive.remove(&exit.task)
                    && let Some(members) = &mut self.members
                {
                    members.died(exit.task.pid);
                }
            }
            Record::Mmap2(map) => self.mapped(&map),
            _ => {}
        }
    }

    fn mapped(&mut self, map: &Mmap2<'_>) {
        if let Some(walker) = &mut self.walker {
            walker.mapped(map);
        }
        self.build_ids.mapped(map.mapping.task.pid, &map.into());
    }

    /// A process is another program now, of this thread alone, whichever of its threads executed it.
    fn executed(&mut self, task: Task) {
        self.passed.executed += 1;
        if let Some(walker) = &mut self.walker {
            walker.forget(task.pid);
        }
        if self.members.is_none() && self.walker.is_none() {
            // Nothing is in order of time: threads that it has by now may be told of already.
            return;
        }
        let others = self.alive.len();
        self.alive.retain(|other| other.pid != task.pid || *other == task);
        if let Some(members) = self.members.as_mut().filter(|members| members.has(task.pid)) {
            members.add(task.pid, usize::from(self.alive.contains(&task)));
        }
        // Those had come and are gone.
        self.came_and_went += (others - self.alive.len()) as u64;
    }

    fn born(&mut self, task: Task) {
        if self.alive.insert(task)
            && let Some(members) = &mut self.members
        {
            members.born(task.pid);
        }
    }

    /// All that came in a look at all rings is there: writes it. What cannot be written, even where room can be made, is counted.
    pub fn finish_round(&mut self, make_room: &mut dyn FnMut() -> bool) {
        self.settle();
        if self.buffer.is_empty() {
            return;
        }
        self.buffer.extend_from_slice(&Encoder::finished_round());
        while let Err(failure) = self.writer.write(&self.buffer) {
            let is_full = matches!(failure.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
            if !is_full || !make_room() {
                // The next round may find room again.
                self.unwritten += self.buffered_samples;
                self.failure.get_or_insert(failure);
                break;
            }
        }
        self.buffer.clear();
        self.buffered_samples = 0;
    }

    /// How much is in the file, and for how long it has been written.
    pub fn extent(&self) -> (u64, Duration) {
        (self.writer.data_bytes(), self.began.elapsed())
    }

    /// From here on records go into another recording. Returns the one that is complete but for what is said behind the records.
    pub fn switch(&mut self, writer: Writer) -> Writer {
        self.began = Instant::now();
        self.times_ns = None;
        std::mem::replace(&mut self.writer, writer)
    }

    /// What passed since this was last asked.
    pub fn passed(&mut self) -> Passed {
        std::mem::take(&mut self.passed)
    }

    /// The recording so far.
    pub fn into_writer(self) -> Writer {
        self.writer
    }
}

/// The fields of a sample in front. Where it comes with the identity of its event it goes on with as many words: without the first, and with the period where it
/// stands in a sample, behind the CPU.
fn put_front(buffer: &mut Vec<u8>, front: &[u8], period: Option<u64>) {
    match (period, front.get(WORD..)) {
        (Some(period), Some(front)) => {
            buffer.extend_from_slice(front);
            buffer.extend_from_slice(&period.to_le_bytes());
        }
        _ => buffer.extend_from_slice(front),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use perftax_perfdata::writing::{Destination, EventDescription, Features};
    use perftax_pmu::sampler::Payload;

    use super::*;

    /// A record of process 20 with the trailer that says when.
    fn record(kind: u32, misc: u16, body: &[&[u8]], time_ns: u64) -> (Header, Vec<u8>) {
        let mut body = body.concat();
        // TID, TIME, CPU.
        body.extend([20u64 | 20 << 32, time_ns, 0].iter().flat_map(|word| word.to_le_bytes()));
        (Header { kind, misc, size: (Header::BYTES + body.len()) as u16 }, body)
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// A child that executes a program on another CPU than its parent's, whose ring is read first: its parent's code is not its own, whatever is read when.
    #[test]
    fn what_a_child_executed_is_its_code_in_whatever_order_rings_tell() {
        const BY_EXEC: u16 = 1 << 13;
        let layout = Payload::BASIC.with_cpu().with_period().with_stack_to_unwind(64).layout();
        let event = EventDescription { name: "cpu-clock".into(), attribute: vec![0; 128], ids: Vec::new() };
        let to = Destination::File(tempfile::tempfile().unwrap());
        let writer = Writer::create(to, std::slice::from_ref(&event), &Features::default()).unwrap();
        let mut sink = Sink::new(writer, &layout);
        let mapped = |pid: u32, path: &[u8; 8], time_ns| {
            let place = [0x1000u64, 0x1000, 0].iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
            record(MMAP2, 0, &[&words(&[pid, pid]), &place, &[0; 32], path], time_ns)
        };
        for (header, body) in [
            mapped(10, b"/parent\0", 1),
            record(COMM, BY_EXEC, &[&words(&[20, 20]), b"child\0\0\0"], 5),
            mapped(20, b"/child\0\0", 6),
            record(FORK, 0, &[&words(&[20, 10, 20, 10]), &[0; 8]], 3),
        ] {
            sink.take(header, &body);
        }
        sink.finish_round(&mut || false);
        let paths = |sink: &Sink, pid| {
            let walker = sink.walker.as_ref().unwrap();
            walker.code().of(pid).iter().map(|map| map.path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!((paths(&sink, 20), paths(&sink, 10)), (vec!["/child".to_string()], vec!["/parent".to_string()]));
        assert_eq!((sink.passed.created, sink.passed.executed), (1, 1));
        let (header, body) = record(EXIT, 0, &[&words(&[20, 10, 20, 10]), &[0; 8]], 9);
        sink.take(header, &body);
        sink.finish_round(&mut || false);
        assert!(paths(&sink, 20).is_empty() && sink.alive.is_empty() && sink.failure.is_none());
        // What is told of before does not undo what was counted.
        sink.know(&Encoder::new(&layout).fork(Task { pid: 30, tid: 31 }, Task { pid: 30, tid: 30 }));
        assert_eq!(sink.passed.created, 1);
    }
}
