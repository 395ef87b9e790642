//! Keeping the slow messages alone, while recording: bounded memory, and next to nothing on disk.
//!
//! Everything passes through a tracker; of a message that turns out slow the rows of its threads are kept, from the beginning of the
//! message before it to the end of the one after it, and of threads that ended its waiting those of the message that they were at. Of all others there remain sums and histograms.

use std::collections::VecDeque;

use perftax_pmu::Result;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::blame::Usual;
use crate::distribution::{Distribution, Population};
use crate::executed::Reading;
use crate::kernel::{KernelEvent, What};
use crate::mark::{Kind, Mark};
use crate::message::{Message, Trouble};
use crate::record::Row;
use crate::store::Symbols;
use crate::tracker::{Record, Tracker};

/// The first messages are kept all: nobody knows yet what is slow.
const FIRST: u64 = 1000;
/// So many are kept in the end, the slowest of those that were watched, however few are beyond the quantile of all: where recording is on for a hundredth of the
/// time, a hundredth of the slow ones is.
const LEAST: u64 = 20;
/// The threshold is looked up anew when there are so many more messages, as a share.
const ANEW: f64 = 0.01;
/// Rows that are held, and staged, at most. What a message needs beyond that is not kept whole, and counted; what is staged then goes to
/// the disk, as far as it is slow by what is known then.
const MAX_ROWS: usize = 4_000_000;
/// A message that ended longer ago than this, ns, is no neighbour.
const LONG_AGO_NS: u64 = 20_000_000;
/// Rows of the message after a slow one that are kept at most.
const MAX_FOLLOWING: u32 = 10_000;
/// Messages of wakers that are kept with a slow one, how many rows before its end such a one may have begun, and how many are waited for at a time. Others are not kept, not even in part.
const MAX_WAKERS: usize = 4;
const MAX_BACK: usize = 1 << 14;
const MAX_AWAITED: usize = 32;

/// A row that waits for its message's end.
struct Held {
    row: Row,
    /// The latency of the slowest message that it is kept for; 0: of none so far.
    kept_for_ns: u64,
    /// Of a reading of a thread's counters: which of its readings it is.
    reading: u64,
}

/// A thread behind a slow message: the next one that it works on is kept, until the thread leaves it, be it for another thread to end.
#[derive(Clone, Copy, Default)]
struct Following {
    /// Rows that are kept yet at most; none once it has left.
    left: u32,
    /// The latency of the slow message, ns.
    latency_ns: u64,
    /// Whether it has come to the next one.
    has_come: bool,
    /// Whether it has left that one.
    has_left: bool,
    /// Its counters are yet to be read: only then is it known what it executed for the slow message.
    is_unread: bool,
}

impl Following {
    fn take(&mut self, row: &Row) {
        let leaves = match row {
            Row::Mark(mark) => match mark.kind {
                Kind::End => true,
                // It may begin one after the other, and leave each to whoever switches to it.
                Kind::Begin | Kind::Switch => self.has_come,
                Kind::Wake => false,
            },
            _ => false,
        };
        self.has_come |= matches!(row, Row::Mark(mark) if mark.id != 0 && mark.kind != Kind::Wake);
        self.has_left |= leaves;
        self.is_unread &= !matches!(row, Row::Executed(_));
        self.left = if self.has_left && !self.is_unread { 0 } else { self.left.saturating_sub(1) };
    }
}

/// A message that may be slow.
struct Candidate {
    threads: Vec<u32>,
    from_ns: u64,
    to_ns: u64,
    latency_ns: u64,
    /// Messages that those were at who ended its waiting.
    wakers: Vec<u64>,
}

/// Tells which messages are slow, and sums up all.
pub struct Judge {
    from: f64,
    /// All messages that ended.
    pub population: Population,
    /// Latencies of those that recording was on for.
    watched: Distribution,
    /// Those that were not slow; functions as numbers of addresses.
    usual: Usual,
    /// The beginning of the last message that each thread ended.
    last_begin_ns: FxHashMap<u32, u64>,
    threshold_ns: u64,
    /// How many there were, and how many of them were watched, when it was last looked up.
    looked_at: (u64, u64),
    /// Every message that took at least so long has been kept, ns.
    pub kept_from_ns: u64,
}

impl Judge {
    fn new(from: f64) -> Self {
        Self {
            from,
            population: Population::default(),
            watched: Distribution::default(),
            usual: Usual::default(),
            last_begin_ns: FxHashMap::default(),
            threshold_ns: 0,
            looked_at: (0, 0),
            kept_from_ns: 0,
        }
    }

    /// The latency beyond which there are so many times as many messages as are to be kept, ns.
    fn slow_ns(&self, times: f64) -> u64 {
        let of_all = self.population.latency.quantile_ns(1.0 - times * (1.0 - self.from));
        let least = times * LEAST as f64 / self.watched.len().max(1) as f64;
        of_all.min(if least < 1.0 { self.watched.quantile_ns(1.0 - least) } else { 0 })
    }

    /// Counts a message, and says what is to be kept of it where it is slow.
    fn judge(&mut self, message: &Message) -> Option<Candidate> {
        let before = message.threads.first().and_then(|tid| self.last_begin_ns.get(tid)).copied();
        for tid in &message.threads {
            self.last_begin_ns.insert(*tid, message.begin_ns);
        }
        let latency_ns = message.latency_ns()?;
        if message.is_watched {
            self.population.add(latency_ns, &message.shares);
            self.watched.add(latency_ns);
        } else {
            self.population.latency.add(latency_ns);
        }
        let seen = self.population.latency.len();
        let has_grown = |now: u64, before: u64| now > before && now as f64 >= before as f64 * (1.0 + ANEW);
        let watched = self.watched.len();
        if seen > FIRST && (has_grown(seen, self.looked_at.0) || has_grown(watched, self.looked_at.1)) {
            self.looked_at = (seen, watched);
            // Twice as many as asked for: what is beyond the quantile in the end may have been below it for a while.
            self.threshold_ns = self.slow_ns(2.0);
            self.kept_from_ns = self.kept_from_ns.max(self.threshold_ns);
        }
        if !message.is_watched {
            return None;
        }
        if latency_ns < self.threshold_ns {
            self.usual.add(message);
            return None;
        }
        let is_near = |begin: &u64| *begin <= message.begin_ns && message.begin_ns - begin <= latency_ns.max(self.threshold_ns);
        let from_ns = before.filter(is_near).unwrap_or(message.begin_ns);
        let to_ns = message.begin_ns + latency_ns;
        // As long as nobody knows what is slow, all are kept anyhow.
        let wakers = if self.threshold_ns > 0 { wakers(message) } else { Vec::new() };
        Some(Candidate { threads: message.threads.clone(), from_ns, to_ns, latency_ns, wakers })
    }
}

/// Lets the slow messages' rows through.
pub struct KeepSlow {
    tracker: Tracker,
    /// What is slow.
    pub judge: Judge,
    held: VecDeque<Held>,
    /// Rows of messages that may turn out not to be slow when all are known; in order of time.
    staged: Vec<Held>,
    /// Latencies of the messages that are kept so far.
    latencies_ns: Vec<u64>,
    addresses: FxHashMap<(u32, u64), u32>,
    /// Threads whose next message is kept.
    following: FxHashMap<u32, Following>,
    /// Rows that are no longer held, and behind how many rows in all each message began of whose beginning is held.
    let_go: u64,
    begins: FxHashMap<u64, u64>,
    /// Messages of wakers that are not over yet, and the latency of the slow one that each is kept for, ns.
    awaited: Vec<(At, u64)>,
    /// Readings of counters so far, by thread, and which one was handed out last.
    readings: FxHashMap<u32, u64>,
    read: FxHashMap<u32, u64>,
    /// Messages that were kept for being slow; known in the end.
    pub kept: u64,
    /// Slow messages of which rows had been let go already.
    pub not_whole: u64,
}

impl KeepSlow {
    /// Keeps the messages beyond a quantile of latency, 0 to 1.
    pub fn new(from: f64) -> Self {
        Self {
            tracker: Tracker::default(),
            judge: Judge::new(from),
            held: VecDeque::new(),
            staged: Vec::new(),
            latencies_ns: Vec::new(),
            addresses: FxHashMap::default(),
            following: FxHashMap::default(),
            let_go: 0,
            begins: FxHashMap::default(),
            awaited: Vec::new(),
            readings: FxHashMap::default(),
            read: FxHashMap::default(),
            kept: 0,
            not_whole: 0,
        }
    }

    /// Takes the next row, in order of time.
    pub fn take(&mut self, row: &Row) {
        let is_switch = matches!(row, Row::Kernel(event) if matches!(event.what, What::Paused | What::Blind | What::Resumed));
        let kept_for_ns = if is_switch { u64::MAX } else { self.follows(row).max(self.awaits(row)) };
        if let Row::Mark(Mark { id, kind: Kind::Begin, .. }) = row {
            self.begins.insert(*id, self.let_go + self.held.len() as u64);
        }
        let reading = match row {
            Row::Executed(reading) => {
                let readings = self.readings.entry(reading.tid).or_default();
                *readings += 1;
                *readings
            }
            _ => 0,
        };
        self.held.push_back(Held { row: *row, kept_for_ns, reading });
        let record = Record::of(row, |pid, ip| {
            let next = self.addresses.len() as u32 + 1;
            *self.addresses.entry(Symbols::address(pid, ip)).or_insert(next)
        });
        let mut candidates = Vec::new();
        self.tracker.take(&record, &mut |message| candidates.extend(self.judge.judge(message)));
        candidates.into_iter().for_each(|candidate| self.keep(&candidate));
    }

    /// Hands out what is kept of the rows that nobody waits for.
    ///
    /// # Errors
    /// What `each` says.
    pub fn flush(&mut self, each: &mut dyn FnMut(&Row) -> Result<()>) -> Result<()> {
        let under_way = self.tracker.oldest_ns().unwrap_or(u64::MAX);
        let now_ns = self.held.back().map_or(0, |held| held.row.time_ns());
        // The message before one that is under way is its neighbour; one that was long ago is nobody's.
        let long_ago = now_ns.min(under_way).saturating_sub(LONG_AGO_NS);
        let before = self.judge.last_begin_ns.values().copied().filter(|begin| *begin >= long_ago).min().unwrap_or(u64::MAX);
        let until_ns = under_way.min(before).min(now_ns);
        while self.held.len() > MAX_ROWS || self.held.front().is_some_and(|held| held.row.time_ns() < until_ns) {
            let Some(held) = self.held.pop_front() else { break };
            if let Row::Mark(Mark { id, kind: Kind::Begin, .. }) = held.row
                && self.begins.get(&id) == Some(&self.let_go)
            {
                self.begins.remove(&id);
            }
            self.let_go += 1;
            if held.kept_for_ns > 0 {
                self.staged.push(held);
            }
        }
        if self.staged.len() > MAX_ROWS { self.release(each) } else { Ok(()) }
    }

    /// Hands out what is staged, without what is known by now not to be slow.
    fn release(&mut self, each: &mut dyn FnMut(&Row) -> Result<()>) -> Result<()> {
        let slow_ns = self.judge.slow_ns(1.0);
        // Within the histogram's precision.
        let slow_ns = slow_ns - slow_ns / 500;
        self.judge.kept_from_ns = self.judge.kept_from_ns.max(slow_ns);
        self.latencies_ns.retain(|latency| *latency >= slow_ns);
        self.kept += std::mem::take(&mut self.latencies_ns).len() as u64;
        let read = &mut self.read;
        self.staged.drain(..).filter(|held| held.kept_for_ns >= slow_ns).try_for_each(|held| {
            if let Row::Executed(reading) = held.row {
                let before = read.insert(reading.tid, held.reading);
                // What was executed since the last one that is told was for others, too.
                if before.is_some_and(|before| before + 1 != held.reading) {
                    each(&Row::Executed(Reading { executed: None, ..reading }))?;
                }
            }
            each(&held.row)
        })
    }

    /// The end: hands out the rest.
    ///
    /// # Errors
    /// What `each` says.
    pub fn finish(&mut self, each: &mut dyn FnMut(&Row) -> Result<()>) -> Result<()> {
        let mut candidates = Vec::new();
        self.tracker.finish(&mut |message| candidates.extend(self.judge.judge(message)));
        candidates.into_iter().for_each(|candidate| self.keep(&candidate));
        let kept = self.held.drain(..).filter(|held| held.kept_for_ns > 0);
        self.staged.extend(kept);
        self.release(each)
    }

    /// What was odd about the marks of all messages.
    pub fn trouble(&self) -> Trouble {
        self.tracker.trouble
    }

    /// Rows that are held.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// What the messages that were not slow were like, with functions as `symbols` number them.
    pub fn usual(&self, symbols: &Symbols) -> Usual {
        let by_number: FxHashMap<u32, (u32, u64)> = self.addresses.iter().map(|(address, number)| (*number, *address)).collect();
        let mut usual = self.judge.usual.clone();
        usual.renumber(|number| by_number.get(&number).map_or(0, |(pid, ip)| symbols.function(*pid, *ip)));
        usual.latency_ns = self.judge.population.latency.quantile_ns(0.5);
        usual.shares = self.judge.population.usual();
        usual
    }

    /// The latency of the slow message after which a row comes, within the next one of its thread; 0 where it does not.
    fn follows(&mut self, row: &Row) -> u64 {
        if self.following.is_empty() {
            return 0;
        }
        let mut follows = 0;
        for tid in tids(row) {
            if let Some(following) = self.following.get_mut(&tid) {
                follows = follows.max(following.latency_ns);
                following.take(row);
                if following.left == 0 {
                    self.following.remove(&tid);
                }
            }
        }
        follows
    }

    /// The latency of the slow message that a row is kept for since it is of the message of one of its wakers; 0 where it is not.
    fn awaits(&mut self, row: &Row) -> u64 {
        let mut latency_ns = 0;
        self.awaited.retain_mut(|(at, kept_for_ns)| {
            if at.take(row) {
                latency_ns = latency_ns.max(*kept_for_ns);
            }
            !at.is_over
        });
        latency_ns
    }

    /// Keeps what is held of a message and of the one before it, and has the one after it kept.
    fn keep(&mut self, candidate: &Candidate) {
        let Candidate { threads, from_ns, to_ns, latency_ns, wakers } = candidate;
        let latency_ns = (*latency_ns).max(1);
        self.latencies_ns.push(latency_ns);
        self.not_whole += u64::from(self.held.front().is_none_or(|held| held.row.time_ns() > *from_ns));
        let first = self.held.partition_point(|held| held.row.time_ns() < *from_ns);
        let end = self.held.partition_point(|held| held.row.time_ns() <= *to_ns);
        let threads: FxHashSet<u32> = threads.iter().copied().collect();
        // Who has a CPU while they wait for it: whoever comes there and leaves.
        let cpus: FxHashSet<u32> = self.held.range(first..end).filter_map(|held| waited_for(&held.row, &threads)).collect();
        let is_of_cpus =
            |row: &Row| matches!(row, Row::Kernel(KernelEvent { cpu, what: What::Switch { .. }, .. }) if cpus.contains(cpu));
        for held in self.held.range_mut(first..end) {
            if tids(&held.row).any(|tid| threads.contains(&tid)) || is_of_cpus(&held.row) {
                held.kept_for_ns = held.kept_for_ns.max(latency_ns);
            }
        }
        // Up to the end of the next message.
        for tid in threads {
            let is_unread = self.readings.contains_key(&tid);
            let next = Following { left: MAX_FOLLOWING, latency_ns, is_unread, ..Following::default() };
            self.follow(tid, end, next);
        }
        for id in wakers {
            self.keep_waker(*id, end, latency_ns);
        }
    }

    /// Keeps what a thread does next, as far as `next` goes. Part of it, from a place among the rows on, may have passed already.
    fn follow(&mut self, tid: u32, from: usize, mut next: Following) {
        for held in self.held.range_mut(from..).filter(|held| tids(&held.row).any(|other| other == tid)) {
            held.kept_for_ns = held.kept_for_ns.max(next.latency_ns);
            next.take(&held.row);
            if next.left == 0 {
                return;
            }
        }
        let known = self.following.entry(tid).or_default();
        next.latency_ns = next.latency_ns.max(known.latency_ns);
        *known = next;
    }

    /// Keeps a message at which a thread was that ended a slow one's waiting, whole: what all threads did that came to it, until they left it, and what marks say of it. Without its
    /// beginning, which may have been let go or is far back, nothing of it is kept, rather than a part.
    fn keep_waker(&mut self, id: u64, end: usize, latency_ns: u64) {
        let begin = self.begins.get(&id).and_then(|row| usize::try_from(row.checked_sub(self.let_go)?).ok());
        let Some(first) = begin.filter(|first| *first < end && end - first <= MAX_BACK) else { return };
        let mut at = At { id, tids: Vec::new(), is_over: false };
        for held in self.held.range_mut(first..) {
            if at.is_over {
                break;
            }
            if at.take(&held.row) {
                held.kept_for_ns = held.kept_for_ns.max(latency_ns);
            }
        }
        if !at.is_over && self.awaited.len() < MAX_AWAITED && !self.awaited.iter().any(|(other, _)| other.id == id) {
            self.awaited.push((at, latency_ns));
        }
    }
}

/// Who is at a message.
struct At {
    id: u64,
    tids: Vec<u32>,
    is_over: bool,
}

impl At {
    /// Takes the next row; whether it is of the message: it says something of it, or is about a thread that is at it.
    fn take(&mut self, row: &Row) -> bool {
        let is_at = tids(row).any(|tid| self.tids.contains(&tid));
        let Row::Mark(mark) = row else { return is_at };
        let is_its = mark.id == self.id;
        match mark.kind {
            Kind::Begin | Kind::Switch if is_its => {
                // One that begins again is another.
                self.is_over |= mark.kind == Kind::Begin && !self.tids.is_empty();
                if !self.tids.contains(&mark.tid) {
                    self.tids.push(mark.tid);
                }
            }
            Kind::Switch => self.tids.retain(|tid| *tid != mark.tid),
            Kind::End => self.is_over |= is_its,
            Kind::Begin | Kind::Wake => {}
        }
        is_at || is_its
    }
}

/// The messages that those were at who ended a message's waiting.
fn wakers(message: &Message) -> Vec<u64> {
    let mut wakers: Vec<u64> = Vec::new();
    for id in message.wakings.iter().filter_map(|waking| waking.by.id) {
        if id != message.id && !wakers.contains(&id) && wakers.len() < MAX_WAKERS {
            wakers.push(id);
        }
    }
    wakers
}

/// The threads that a row is about.
/// CPUs that one of these threads leaves, comes to or is moved to.
fn waited_for(row: &Row, threads: &FxHashSet<u32>) -> Option<u32> {
    let Row::Kernel(event) = row else { return None };
    match event.what {
        What::Switch { next, .. } => Some(event.cpu).filter(|_| threads.contains(&event.tid) || threads.contains(&next)),
        What::Migrate { tid, to } => to.filter(|_| threads.contains(&tid)),
        _ => None,
    }
}

fn tids(row: &Row) -> impl Iterator<Item = u32> + use<> {
    let (tid, other) = match row {
        Row::Mark(mark) => (mark.tid, 0),
        Row::Sample(sample) => (sample.tid, 0),
        Row::Event(event) => (event.tid, 0),
        Row::Executed(reading) => (reading.tid, 0),
        Row::Kernel(event) => match event.what {
            What::Switch { next: other, .. } | What::Wakeup { tid: other } | What::Migrate { tid: other, .. } => {
                (event.tid, other)
            }
            _ => (event.tid, 0),
        },
    };
    [tid, other].into_iter().filter(|tid| *tid != 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use crate::cause::Cause;
    use crate::spot::Spot;
    use crate::store::SampleRow;
    use crate::tracker::{Counted, Sampled};

    /// Messages of two threads in turn, of some 2 µs, every thousandth of 50; with a sample and a system call each.
    fn rows(messages: u64) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut now_ns = 1_000_000;
        for id in 1..=messages {
            let tid = 10 + (id % 2) as u32;
            let kernel = |time_ns, what| Row::Kernel(KernelEvent { time_ns, cpu: 0, tid, what });
            let latency = if id % 1000 == 999 { 50_000 + id } else { 2000 + id * 7919 % 1000 };
            rows.push(Row::Mark(Mark { time_ns: now_ns, tid, id, kind: Kind::Begin }));
            rows.push(kernel(now_ns + 10, What::SyscallEnter(1)));
            rows.push(kernel(now_ns + 20, What::SyscallExit(1)));
            rows.push(Row::Sample(SampleRow { time_ns: now_ns + 500, cpu: 0, pid: 10, tid, ip: 0x1000 + id % 2, tag: 0 }));
            now_ns += latency;
            rows.push(Row::Mark(Mark { time_ns: now_ns, tid, id, kind: Kind::End }));
            now_ns += 100;
        }
        rows
    }

    #[test]
    fn slow_messages_are_kept_whole_with_their_neighbours_and_little_else() {
        let all = rows(200_000);
        let mut keep = KeepSlow::new(0.999);
        let mut kept = Vec::new();
        let mut most_held = 0;
        for (at, row) in all.iter().enumerate() {
            keep.take(row);
            if at % 1000 == 0 {
                keep.flush(&mut |row| {
                    kept.push(*row);
                    Ok(())
                })
                .unwrap();
                most_held = most_held.max(keep.held());
            }
        }
        keep.finish(&mut |row| {
            kept.push(*row);
            Ok(())
        })
        .unwrap();
        assert_eq!(keep.judge.population.latency.len(), 200_000);
        assert_eq!(keep.not_whole, 0);
        assert!(most_held < 20_000, "{most_held}");
        assert!(kept.windows(2).all(|two| two[0].time_ns() <= two[1].time_ns()));
        // Three messages for each slow one; where the quantile lies, many are alike.
        assert!(kept.len() * 50 < all.len(), "{} of {}", kept.len(), all.len());
        let mut tracker = Tracker::default();
        let mut messages: FxHashMap<u64, Message> = FxHashMap::default();
        for row in &kept {
            let record = match row {
                Row::Mark(mark) => Record::Mark(*mark),
                Row::Kernel(event) => Record::Kernel(*event),
                Row::Sample(sample) => Record::Sample(Sampled { time_ns: sample.time_ns, tid: sample.tid, function: 0 }),
                Row::Event(row) => Record::Counted(Counted { time_ns: row.time_ns, tid: row.tid, spot: Spot::default() }),
                Row::Executed(reading) => Record::Executed(*reading),
            };
            tracker.take(&record, &mut |message| drop(messages.insert(message.id, message.clone())));
        }
        assert_eq!(tracker.trouble, Trouble::default());
        for id in (999..200_000u64).step_by(1000) {
            let message = &messages[&id];
            assert!(message.latency_ns() == Some(50_000 + id) && message.hits.len() == 1, "{message:?}");
            assert_eq!(message.shares.of(Cause::Syscall), 10);
            // Of the same thread, before and after.
            let after = id + 2;
            assert!(messages.contains_key(&(id - 2)) && (after > 200_000 || messages.contains_key(&after)), "{id}");
        }
        let usual = keep.usual(&Symbols::default());
        assert!(usual.messages > 198_000 && (2490..=2510).contains(&usual.latency_ns), "{usual:?}");
        assert_eq!(usual.shares.of(Cause::Syscall), 10);
    }

    fn kept(from: f64, rows: impl Iterator<Item = Row>) -> (KeepSlow, Vec<Row>) {
        let (mut keep, mut kept) = (KeepSlow::new(from), Vec::new());
        let mut each = |row: &Row| {
            kept.push(*row);
            Ok(())
        };
        for (at, row) in rows.enumerate() {
            keep.take(&row);
            if at % 1000 == 999 {
                keep.flush(&mut each).unwrap();
            }
        }
        keep.finish(&mut each).unwrap();
        (keep, kept)
    }

    /// Of a slow message it is told who had the CPU while its thread waited for it, also whom no row of its thread's names; and what it executed, by readings as its thread leaves the CPU,
    /// or nothing, but never what others executed of which nothing is kept.
    #[test]
    fn waiting_and_instructions_of_what_is_kept_are_those_of_all() {
        use crate::executed::{Executed, ReadBy};
        const MESSAGES: u64 = 20_000;
        let instructions = |id: u64| 1000 + id % 100;
        let mut executed = 0;
        let rows: Vec<Row> = (1..=MESSAGES)
            .flat_map(|id| {
                let (now_ns, is_slow) = (1_000_000 + id * 100_000, id % 1000 == 500);
                let switch = |time_ns, tid, next, is_runnable| {
                    Row::Kernel(KernelEvent { time_ns, cpu: 0, tid, what: What::Switch { is_runnable, next } })
                };
                let mark = |time_ns, kind| Row::Mark(Mark { time_ns, tid: 10, id, kind });
                let mut read = |time_ns, some| {
                    executed += some;
                    let executed = Some(Executed { instructions: executed, cycles: executed });
                    Row::Executed(Reading { time_ns, tid: 10, executed, by: ReadBy::UsAsItLeaves })
                };
                let mut rows = vec![switch(now_ns, 0, 10, false), mark(now_ns + 10, Kind::Begin)];
                if is_slow {
                    rows.extend([read(now_ns + 499, instructions(id)), switch(now_ns + 500, 10, 20, true)]);
                    rows.extend([
                        switch(now_ns + 600, 20, 30, true),
                        switch(now_ns + 40_000, 30, 20, false),
                        switch(now_ns + 40_100, 20, 10, false),
                    ]);
                    rows.push(mark(now_ns + 40_200, Kind::End));
                } else {
                    rows.push(mark(now_ns + 2000 + id % 50, Kind::End));
                }
                let rest = if is_slow { 7 } else { instructions(id) };
                rows.extend([read(now_ns + 50_000, rest), switch(now_ns + 50_001, 10, 0, false)]);
                rows
            })
            .collect();
        let messages = |rows: &[Row]| {
            let (mut tracker, mut messages) = (Tracker::default(), FxHashMap::default());
            let mut out = |message: &Message| drop(messages.insert(message.id, message.clone()));
            rows.iter().for_each(|row| tracker.take(&Record::of(row, |_, _| 0), &mut out));
            tracker.finish(&mut out);
            messages
        };
        let all: FxHashMap<u64, Message> = messages(&rows);
        let (keep, kept) = kept(0.999, rows.into_iter());
        let kept: FxHashMap<u64, Message> = messages(&kept);
        // Of those that are alike at the quantile some are kept, too.
        assert!(keep.kept >= 20 && kept.len() < 2000, "{} {}", keep.kept, kept.len());
        for id in (500..MESSAGES).step_by(1000) {
            let (is, whole) = (&kept[&id], &all[&id]);
            assert!(is.pieces == whole.pieces && is.pieces.iter().any(|piece| piece.which == 30), "{is:?}");
            assert_eq!(is.executed, whole.executed, "{id}");
            assert!(is.executed.is_known() && is.executed.high.instructions >= instructions(id), "{:?}", is.executed);
        }
        for (id, message) in &kept {
            let known = message.executed.known().map(|executed| executed.high.instructions);
            assert!(known.is_none_or(|most| most < 3000), "{id}: {known:?}");
        }
    }

    /// One thread takes messages in, another ends them: none is missing in either, and no more than a slow one's neighbours are kept.
    #[test]
    fn messages_that_are_handed_on_are_kept_whole_with_their_neighbours() {
        const MESSAGES: u64 = 50_000;
        let rows = (1..=MESSAGES).flat_map(|id| {
            let from_ns = 1_000_000 + id * 10_000;
            let took_ns = if id % 1000 == 999 { 7000 } else { 2000 + id * 7919 % 1000 };
            let mark = |time_ns, tid, id, kind| Row::Mark(Mark { time_ns, tid, id, kind });
            [
                mark(from_ns, 10, id, Kind::Begin),
                mark(from_ns + 300, 10, 0, Kind::Switch),
                mark(from_ns + 600, 11, id, Kind::Switch),
                mark(from_ns + took_ns, 11, id, Kind::End),
            ]
        });
        let (keep, kept) = kept(0.9995, rows);
        assert_eq!((keep.trouble(), keep.kept, keep.not_whole), (Trouble::default(), MESSAGES / 1000, 0));
        // The slow one, the one before and the one or two after, four marks each.
        assert!(kept.len() as u64 <= 4 * 4 * keep.kept, "{} rows of {} messages", kept.len(), keep.kept);
        let mut tracker = Tracker::default();
        let mut whole = FxHashMap::default();
        for row in &kept {
            let Row::Mark(mark) = row else { continue };
            tracker.take(&Record::Mark(*mark), &mut |message| {
                whole.insert(message.id, message.latency_ns());
            });
        }
        for id in (999..MESSAGES).step_by(1000) {
            assert_eq!(whole.get(&id), Some(&Some(7000)), "{id}");
        }
    }

    /// Recording is on for a hundredth of the time: the slowest of what was seen is kept, though hardly any of it is among the slowest of all.
    #[test]
    fn the_slowest_of_few_that_were_watched_are_kept() {
        let rows = (1..=20_000u64).flat_map(|id| {
            let from_ns = 1_000_000 + id * 10_000;
            let event = |time_ns, what| Row::Kernel(KernelEvent { time_ns, cpu: 0, tid: 0, what });
            let switch = match id % 10_000 {
                0 => Some(event(from_ns - 100, What::Resumed)),
                100 => Some(event(from_ns - 100, What::Paused)),
                _ if id == 1 => Some(event(from_ns - 100, What::Paused)),
                _ => None,
            };
            let took_ns = 2000 + id * 7919 % 1000 + if id % 500 == 499 { 5000 } else { 0 };
            let mark = |time_ns, kind| Row::Mark(Mark { time_ns, tid: 10, id, kind });
            switch.into_iter().chain([mark(from_ns, Kind::Begin), mark(from_ns + took_ns, Kind::End)])
        });
        let (keep, kept) = kept(0.999, rows);
        let watched = keep.judge.population.watched;
        assert!((90..=110).contains(&watched) && keep.judge.population.latency.len() == 20_000, "{watched}");
        assert!((LEAST..=LEAST + 5).contains(&keep.kept), "{} kept of {watched}", keep.kept);
        assert!(keep.judge.kept_from_ns > 2500 && kept.len() >= 2 * LEAST as usize, "{}", keep.judge.kept_from_ns);
    }

    /// Every thousandth message waits until another thread's, which is itself not slow, is done with what it waits for: that one is kept with it.
    #[test]
    fn what_a_waker_was_at_is_kept_with_the_message_that_waited() {
        const MESSAGES: u64 = 20_000;
        let rows = (1..=MESSAGES).flat_map(|id| {
            let from_ns = 1_000_000 + id * 20_000;
            let mark = |time_ns, tid, id, kind| Row::Mark(Mark { time_ns, tid, id, kind });
            let kernel = |time_ns, tid, what| Row::Kernel(KernelEvent { time_ns, cpu: 0, tid, what });
            let (other, waits) = (MESSAGES + id, id % 1000 == 999);
            let took_ns = if waits { 9000 } else { 2000 + id * 7919 % 1000 };
            let waiting = [
                kernel(from_ns + 100, 10, What::Switch { is_runnable: false, next: 0 }),
                kernel(from_ns + 7000, 11, What::Wakeup { tid: 10 }),
                kernel(from_ns + 7100, 0, What::Switch { is_runnable: false, next: 10 }),
            ];
            let mut rows = vec![mark(from_ns, 10, id, Kind::Begin), mark(from_ns + took_ns, 10, id, Kind::End)];
            rows.extend(waiting.into_iter().filter(|_| waits));
            // Another thread began it, and a third one ends it when the slow one is over.
            rows.push(mark(from_ns + 6800, 12, other, Kind::Begin));
            rows.push(mark(from_ns + 6850, 12, 0, Kind::Switch));
            rows.push(mark(from_ns + 6900, 11, other, Kind::Switch));
            rows.push(mark(from_ns + 9300, 11, 0, Kind::Switch));
            rows.push(mark(from_ns + 9400, 13, other, Kind::Switch));
            rows.push(mark(from_ns + 9500, 13, other, Kind::End));
            rows.sort_by_key(Row::time_ns);
            rows
        });
        let (keep, kept) = kept(0.9995, rows);
        assert!(keep.not_whole == 0 && kept.len() < 12_000, "{} rows", kept.len());
        let (mut tracker, mut whole) = (Tracker::default(), FxHashMap::default());
        for row in &kept {
            let record = match row {
                Row::Mark(mark) => Record::Mark(*mark),
                Row::Kernel(event) => Record::Kernel(*event),
                _ => continue,
            };
            tracker.take(&record, &mut |message| drop(whole.insert(message.id, message.clone())));
        }
        assert_eq!(tracker.trouble, Trouble::default());
        for id in (999..MESSAGES).step_by(1000) {
            let by = whole[&id].wakings[0].by;
            assert_eq!((by.tid, by.id), (11, Some(MESSAGES + id)));
            let its = &whole[&(MESSAGES + id)];
            assert_eq!((its.latency_ns(), its.threads.as_slice()), (Some(2700), &[12, 11, 13][..]), "the waker's, whole");
            assert_eq!(its.shares.of(Cause::Unattended), 150);
        }
    }

    #[test]
    fn memory_is_bounded_where_a_message_never_ends() {
        let mut keep = KeepSlow::new(0.999);
        keep.take(&Row::Mark(Mark { time_ns: 1, tid: 5, id: u64::MAX >> 2, kind: Kind::Begin }));
        let sample = SampleRow { time_ns: 0, cpu: 0, pid: 5, tid: 6, ip: 1, tag: 0 };
        for time_ns in 2..MAX_ROWS as u64 + 1000 {
            keep.take(&Row::Sample(SampleRow { time_ns, ..sample }));
        }
        keep.flush(&mut |_| Ok(())).unwrap();
        assert_eq!(keep.held(), MAX_ROWS);

        keep.take(&Row::Mark(Mark { time_ns: 1 << 40, tid: 5, id: u64::MAX >> 2, kind: Kind::End }));
        keep.finish(&mut |_| Ok(())).unwrap();
        assert_eq!((keep.kept, keep.not_whole), (1, 1));
    }
}
