//! A thread that drains a sampler while a program runs, and accounts for every record.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use perf_event_open_sys::bindings as abi;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::LiveSampler;
use crate::error::{Error, Result};
use crate::record::Header;
use crate::sys::{OpenEvent, Reading, thread_cpu_ns};

/// What came out of the rings during a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// SAMPLE records, by target (ring).
    pub samples_by_target: Vec<u64>,
    /// Records lost, as the kernel's LOST and LOST_SAMPLES records and PERF_FORMAT_LOST say.
    pub lost: u64,
    /// THROTTLE records.
    pub throttled: u64,
    /// FORK records: threads and processes that were created.
    pub forks: u64,
    /// Those of them that are processes of their own.
    pub processes: u64,
    /// What each thread created, by FORK records: threads and processes together.
    pub created_by: BTreeMap<u32, u64>,
    /// COMM records of programs that were executed.
    pub execs: u64,
    /// READ records: what tasks that ended had counted ([`super::Sampling::task_counts`]), by target and in no order.
    pub ended: Vec<EndedTask>,
    /// How many samples each page of code had, by process and the page's number ([`ReaderThread::start_with_code`]); empty where nobody asked.
    pub code: BTreeMap<(u32, u64), u64>,
    /// All other records.
    pub others: u64,
    /// Bytes drained.
    pub bytes: u64,
    /// What each open event had counted at the end (nanoseconds for clocks), in the order of [`LiveSampler::events`].
    pub counted: Vec<u64>,
    /// What each open event says when it is read at the end, in the same order.
    pub readings: Vec<Reading>,
    /// CPU time that draining took.
    pub reader_cpu_ns: u64,
}

/// What a task that inherited an event had counted when it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedTask {
    /// The target (ring) that its record came from.
    pub target: usize,
    /// Its thread.
    pub tid: u32,
    /// The count.
    pub value: u64,
}

impl Delivered {
    /// SAMPLE records of all targets.
    pub fn samples(&self) -> u64 {
        self.samples_by_target.iter().sum()
    }

    /// Adds what another reader of the same targets delivered.
    pub fn merge(&mut self, other: &Self) {
        if self.samples_by_target.len() < other.samples_by_target.len() {
            self.samples_by_target.resize(other.samples_by_target.len(), 0);
        }
        for (sum, more) in self.samples_by_target.iter_mut().zip(&other.samples_by_target) {
            *sum += more;
        }
        self.lost += other.lost;
        self.throttled += other.throttled;
        self.forks += other.forks;
        self.processes += other.processes;
        other.created_by.iter().for_each(|(parent, created)| *self.created_by.entry(*parent).or_default() += created);
        self.execs += other.execs;
        other.code.iter().for_each(|(at, samples)| *self.code.entry(*at).or_default() += samples);
        self.ended.extend_from_slice(&other.ended);
        self.others += other.others;
        self.bytes += other.bytes;
        self.counted.extend_from_slice(&other.counted);
        self.readings.extend_from_slice(&other.readings);
        self.reader_cpu_ns += other.reader_cpu_ns;
    }

    /// Notes where a sample was: its address comes first, its process behind it (perf_event_open(2), PERF_RECORD_SAMPLE). An idle CPU goes through nobody's code.
    fn note_code(&mut self, body: &[u8]) {
        let word = |i: usize| body.get(i * 8..).and_then(<[u8]>::first_chunk).map(|b| u64::from_ne_bytes(*b));
        if let (Some(address), Some(pids)) = (word(0), word(1).filter(|pids| *pids as u32 != 0)) {
            *self.code.entry((pids as u32, address >> CODE_PAGE_SHIFT)).or_default() += 1;
        }
    }

    /// Accounts for one record.
    #[inline]
    pub fn count(&mut self, target: usize, header: Header, body: &[u8]) {
        let word = |i: usize| body.get(i * 8..).and_then(<[u8]>::first_chunk).map_or(0, |b| u64::from_ne_bytes(*b));
        match header.kind {
            abi::PERF_RECORD_SAMPLE => {
                if self.samples_by_target.len() <= target {
                    self.samples_by_target.resize(target + 1, 0);
                }
                self.samples_by_target[target] += 1;
            }
            abi::PERF_RECORD_LOST => self.lost += word(1),
            abi::PERF_RECORD_LOST_SAMPLES => self.lost += word(0),
            abi::PERF_RECORD_THROTTLE => self.throttled += 1,
            abi::PERF_RECORD_FORK => {
                self.forks += 1;
                // pid, its parent's, tid, its parent's: a thread is of its parent's process.
                let pids = word(0);
                self.processes += u64::from(pids as u32 != (pids >> 32) as u32);
                *self.created_by.entry((word(1) >> 32) as u32).or_default() += 1;
            }
            abi::PERF_RECORD_COMM if header.is_exec() => self.execs += 1,
            // pid and tid, the count, and what else is read with it.
            abi::PERF_RECORD_READ => self.ended.push(EndedTask { target, tid: (word(0) >> 32) as u32, value: word(1) }),
            _ => self.others += 1,
        }
    }
}

/// Bits of an address within a page of code: 4 KiB, whatever the kernel's pages are, so that machines compare.
pub const CODE_PAGE_SHIFT: u32 = 12;

/// When a reader looks, and what at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    WhenWoken,
    AtTheEnd,
    /// When woken, and at the code.
    AtCode,
}

/// The draining thread. Events must be closed or disabled by the caller's command ending; `finish` drains the rest.
pub struct ReaderThread {
    stop: Arc<OwnedFd>,
    thread_id: i32,
    thread: JoinHandle<Result<Delivered>>,
}

impl ReaderThread {
    /// Starts draining.
    ///
    /// # Errors
    /// Where no event descriptor can be had to stop the thread with.
    pub fn start(sampler: LiveSampler, targets: usize) -> Result<Self> {
        Self::start_looking(sampler, targets, Looks::WhenWoken)
    }

    /// As [`ReaderThread::start`], and notes which page of code each sample was in. Samples must carry what [`super::Payload::BASIC`] does.
    ///
    /// # Errors
    /// As [`ReaderThread::start`].
    pub fn start_with_code(sampler: LiveSampler, targets: usize) -> Result<Self> {
        Self::start_looking(sampler, targets, Looks::AtCode)
    }

    /// As [`ReaderThread::start`], but drains at the end alone: a reader that waits would be woken by every sample that is a wakeup. The ring
    /// must hold all of them.
    ///
    /// # Errors
    /// As [`ReaderThread::start`].
    pub fn start_for_the_end(sampler: LiveSampler, targets: usize) -> Result<Self> {
        Self::start_looking(sampler, targets, Looks::AtTheEnd)
    }

    fn start_looking(mut sampler: LiveSampler, targets: usize, looks: Looks) -> Result<Self> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let stop = Arc::new(stop.map_err(|e| Error::System { call: "eventfd".into(), source: e.into() })?);
        let told = Arc::clone(&stop);
        let (tell_id, id) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            tell_id.send(rustix::thread::gettid().as_raw_nonzero().get()).ok();
            let mut delivered = Delivered { samples_by_target: vec![0; targets], ..Delivered::default() };
            loop {
                // Asked before draining: what is written after the request is nobody's any more.
                let last = rustix::io::read(&*told, &mut [0u8; 8]).is_ok();
                delivered.bytes += sampler.drain_by_target(|target, header, body| {
                    delivered.count(target, header, body);
                    if looks == Looks::AtCode && header.kind == abi::PERF_RECORD_SAMPLE {
                        delivered.note_code(body);
                    }
                })?;
                if last {
                    break;
                }
                if looks != Looks::AtTheEnd {
                    sampler.wait(told.as_fd())?;
                } else {
                    // An interrupted call only looks once more.
                    poll(&mut [PollFd::new(&*told, PollFlags::IN)], None).ok();
                }
            }
            // LOST records are written only when there is room again; the counter knows of all (Linux 6.0 on).
            delivered.lost = delivered.lost.max(sampler.lost()?);
            delivered.readings = sampler.events().iter().map(OpenEvent::read).collect::<Result<_>>()?;
            delivered.counted = delivered.readings.iter().map(|reading| reading.value).collect();
            delivered.reader_cpu_ns = thread_cpu_ns();
            Ok(delivered)
        });
        let thread_id = id.recv().map_err(|_| ended_early())?;
        Ok(Self { stop, thread_id, thread })
    }

    /// The kernel's number of the thread.
    pub fn thread_id(&self) -> i32 {
        self.thread_id
    }

    /// Drains what is left and ends the thread.
    pub fn finish(self) -> Result<Delivered> {
        rustix::io::write(&*self.stop, &1u64.to_ne_bytes())
            .map_err(|e| Error::System { call: "write to the reader's stop".into(), source: e.into() })?;
        self.thread.join().unwrap_or_else(|_| Err(ended_early()))
    }
}

fn ended_early() -> Error {
    Error::System { call: "the ring's reader".into(), source: std::io::Error::other("ended early") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_noted_by_process_and_page_and_an_idle_cpu_has_none() {
        let mut delivered = Delivered::default();
        let body = |address: u64, pid: u64| [address, pid | (pid + 1) << 32, 7].map(u64::to_ne_bytes).concat();
        for (address, pid) in [(0x40_1234, 11), (0x40_1fff, 11), (0x40_2000, 11), (0x40_1234, 12), (0xffff_ffff_8100_0000, 0)] {
            delivered.note_code(&body(address, pid));
        }
        delivered.note_code(&[0; 8]);
        let found: Vec<_> = delivered.code.into_iter().collect();
        assert_eq!(found, [((11, 0x401), 2), ((11, 0x402), 1), ((12, 0x401), 1)]);
    }
}
